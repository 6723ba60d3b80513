"""A call's origin, for the sidecar's requests during the call."""

from __future__ import annotations

import contextvars
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallOrigin:
    """The agent and the call in the current task."""

    agent_id: str = ""
    call_id: str = ""


current_origin: contextvars.ContextVar[CallOrigin] = contextvars.ContextVar("planck_sidecar_call")

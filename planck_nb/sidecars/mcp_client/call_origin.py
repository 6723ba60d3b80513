"""Who made a call to a sidecar, for the requests that the sidecar makes during it."""

from __future__ import annotations

import contextvars
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallOrigin:
    """Who made the call that runs in the current task."""

    agent_id: str = ""
    call_id: str = ""


current_origin: contextvars.ContextVar[CallOrigin] = contextvars.ContextVar("planck_sidecar_call")

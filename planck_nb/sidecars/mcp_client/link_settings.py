"""The timing and the callbacks of a link."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias

from planck_nb.sidecars.mcp_client.definitions import ToolDefinition
from planck_nb.sidecars.mcp_client.questions import DEADLINE, Ask
from planck_nb.sidecars.mcp_client.sampling import Sample
from planck_nb.sidecars.mcp_client.sidecar_spec import SidecarSpec
from planck_nb.sidecars.mcp_client.status import SidecarEvent


@dataclass(frozen=True, slots=True)
class LinkTiming:
    """The times of a link, in seconds.

    Args:
        start: How long a sidecar may take until it has listed its tools.
        first_delay: The pause before a lost sidecar is started again.
        longest_delay: The pause doubles up to this one.
        steady: After being connected for this long, the pauses start over.
        attempts: How many starts in a row may fail before the link gives up.
        stop_grace: How long a stopped sidecar has to end before it is killed.
        question: How long a person has to answer a question.
    """

    start: float = 60.0
    first_delay: float = 0.5
    longest_delay: float = 30.0
    steady: float = 30.0
    attempts: int = 5
    stop_grace: float = 1.0
    question: float = DEADLINE


Accept: TypeAlias = Callable[[SidecarSpec, str, tuple[ToolDefinition, ...]], bool | Awaitable[bool]]
"""Decides whether what a sidecar offers may be used, given its fingerprint and its tools."""


Build: TypeAlias = Callable[[Callable[[str], None]], Coroutine[Any, Any, None]]
"""Builds what a sidecar needs to start, and passes lines about it to its argument."""


@dataclass(frozen=True, slots=True)
class LinkCallbacks:
    """The callbacks of a link.

    Args:
        ask: Shows a question of the sidecar to a person; None declines all questions.
        sample: Has a model reply, after approval; None refuses all requests. Only called if the spec allows sampling.
        accept: Called with each new fingerprint of the sidecar; None accepts all.
        on_event: Called with each event, on the event loop of the link.
        on_tools: Called when the tools may have changed.
    """

    ask: Ask | None = None
    sample: Sample | None = None
    accept: Accept | None = None
    on_event: Callable[[SidecarEvent], None] | None = None
    on_tools: Callable[[], None] | None = None

"""A link's timing and callbacks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias

from planck_nb.sidecars.mcp_client.link.questions import DEADLINE, Ask
from planck_nb.sidecars.mcp_client.link.sampling import Sample
from planck_nb.sidecars.mcp_client.link.status import SidecarEvent
from planck_nb.sidecars.mcp_client.offers.definitions import ToolDefinition
from planck_nb.sidecars.mcp_client.sidecar_spec import SidecarSpec


@dataclass(frozen=True, slots=True)
class LinkTiming:
    """A link's times, in seconds.

    Args:
        start: Time for a sidecar until it has listed its tools.
        first_delay: The pause before a lost sidecar is started again.
        longest_delay: Limit up to which the pause doubles.
        steady: After being connected for this long, the pauses start over.
        attempts: Largest number of failed starts in a row before the link gives up.
        stop_grace: Time for a stopped sidecar to end before it is killed.
        question: Time for a person to answer a question.
    """

    start: float = 60.0
    first_delay: float = 0.5
    longest_delay: float = 30.0
    steady: float = 30.0
    attempts: int = 5
    stop_grace: float = 1.0
    question: float = DEADLINE


Accept: TypeAlias = Callable[[SidecarSpec, str, tuple[ToolDefinition, ...]], bool | Awaitable[bool]]
"""Decision about a sidecar's offers, by fingerprint and tools."""


Refusal: TypeAlias = Callable[[SidecarSpec], str]
"""The reason against starting a sidecar now; empty to allow it."""

Build: TypeAlias = Callable[[Callable[[str], None]], Coroutine[Any, Any, None]]
"""Builder for a sidecar's needs, which passes lines about it on."""


@dataclass(frozen=True, slots=True)
class LinkCallbacks:
    """A link's callbacks.

    Args:
        ask: Shows the sidecar's question to a person; None declines all questions.
        sample: Has a model reply, after approval; None refuses all requests. Only called if the spec allows sampling.
        refusal: Called before each start, also after a loss; None allows all.
        accept: Called with each new fingerprint of the sidecar; None accepts all.
        on_event: Called with each event, on the link's event loop.
        on_tools: Called when the tools may have changed.
    """

    ask: Ask | None = None
    sample: Sample | None = None
    refusal: Refusal | None = None
    accept: Accept | None = None
    on_event: Callable[[SidecarEvent], None] | None = None
    on_tools: Callable[[], None] | None = None

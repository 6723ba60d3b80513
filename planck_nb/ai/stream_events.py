"""What a provider's stream says, in provider-neutral words.

A part has an `index` that no other part of the message shares; its deltas may interleave with those of others.
`PartEnd` is the only event that carries the provider's opaque state. Exactly one `Finish` ends a stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, TypeAlias

from planck_nb.ai.messages import StopReason, Usage
from planck_nb.base.json_types import JsonObject


@dataclass(slots=True)
class TextChunk:
    """More text of the text part `index`."""

    index: int
    text: str
    type: Literal["text_delta"] = "text_delta"


@dataclass(slots=True)
class ThinkingChunk:
    """More text of the thinking part `index`."""

    index: int
    text: str
    type: Literal["thinking_delta"] = "thinking_delta"


@dataclass(slots=True)
class ToolCallStart:
    """A tool call begins. `id` is unique within the message; providers that send none get one made."""

    index: int
    id: str
    name: str
    type: Literal["tool_call_start"] = "tool_call_start"


@dataclass(slots=True)
class ToolArgsChunk:
    """More JSON text of the arguments of the call `index`."""

    index: int
    text: str
    type: Literal["tool_args_delta"] = "tool_args_delta"


@dataclass(slots=True)
class PartEnd:
    """The part `index` is complete. `provider_state` is what this provider wants echoed with it."""

    index: int
    provider_state: JsonObject | None = None
    type: Literal["part_end"] = "part_end"


@dataclass(slots=True)
class UsageUpdate:
    """Token counts so far; each update replaces the one before."""

    usage: Usage
    type: Literal["usage"] = "usage"


@dataclass(slots=True)
class StreamRetry:
    """The request failed before any content and is sent again in `delay` seconds."""

    attempt: int
    delay: float
    reason: str
    type: Literal["retry"] = "retry"


@dataclass(slots=True)
class StreamWarning:
    """Something was not sent as asked, or not understood; the reply goes on without it. `text` is one sentence."""

    text: str
    type: Literal["warning"] = "warning"


@dataclass(slots=True)
class Finish:
    """The provider's own end of the message."""

    stop_reason: StopReason
    type: Literal["finish"] = "finish"


StreamEvent: TypeAlias = (
    TextChunk
    | ThinkingChunk
    | ToolCallStart
    | ToolArgsChunk
    | PartEnd
    | UsageUpdate
    | StreamRetry
    | StreamWarning
    | Finish
)
"""Any event of a stream."""


def joined(events: Sequence[StreamEvent]) -> Sequence[StreamEvent]:
    """The events, with deltas that follow one another in the same part as one."""
    return events if len(events) == 1 else [_join(list(group)) for _, group in groupby(events, key=_place)]


def _place(event: StreamEvent) -> object:
    """What neighbours that become one have in common; nothing else is like anything."""
    return (event.type, event.index) if isinstance(event, _DELTAS) else object()


def _join(group: list[StreamEvent]) -> StreamEvent:
    first = group[0]
    if len(group) == 1 or not isinstance(first, _DELTAS):
        return first
    return type(first)(first.index, "".join(event.text for event in group if isinstance(event, _DELTAS)))


_DELTAS = (TextChunk, ThinkingChunk, ToolArgsChunk)

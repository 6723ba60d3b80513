"""The events of an answer's stream, the same for every provider.

A part has an `index` that no other part of the message shares; its chunks may interleave with those of others.
`PartEnd` is the only event that carries the provider's opaque state. Exactly one `Finish` ends a stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, TypeAlias, cast

from planck_nb.ai.messages import StopReason, Usage
from planck_nb.base.json_types import JsonObject


@dataclass(slots=True)
class TextChunk:
    """More text of a text part.

    Args:
        index: The index of the part in the message.
        text: The text that follows what came before.
    """

    index: int
    text: str
    type: Literal["text_delta"] = "text_delta"


@dataclass(slots=True)
class ThinkingChunk:
    """More text of a thinking part.

    Args:
        index: The index of the part in the message.
        text: The text that follows what came before.
    """

    index: int
    text: str
    type: Literal["thinking_delta"] = "thinking_delta"


@dataclass(slots=True)
class ToolCallStart:
    """A tool call begins.

    Args:
        index: The index of the part in the message.
        id: The id of the call, unique within the message; it is generated if the provider sends none.
        name: The name of the tool.
    """

    index: int
    id: str
    name: str
    type: Literal["tool_call_start"] = "tool_call_start"


@dataclass(slots=True)
class ToolArgsChunk:
    """More JSON text of the arguments of a call.

    Args:
        index: The index of the part in the message.
        text: The text that follows what came before.
    """

    index: int
    text: str
    type: Literal["tool_args_delta"] = "tool_args_delta"


@dataclass(slots=True)
class PartEnd:
    """A part is complete.

    Args:
        index: The index of the part in the message.
        provider_state: Opaque data that goes back to this provider with the part.
        text: The whole text of the part if it is not that of its chunks; None if it is.
    """

    index: int
    provider_state: JsonObject | None = None
    type: Literal["part_end"] = "part_end"
    text: str | None = None


@dataclass(slots=True)
class UsageUpdate:
    """Token counts so far.

    Args:
        usage: The counts, which replace those of the update before.
        is_known: False if the server sent counts that cannot be right; `usage` is then empty.
        cost: The answer's price so far in US dollars, as its server reports it; None otherwise.
    """

    usage: Usage
    type: Literal["usage"] = "usage"
    is_known: bool = True
    cost: float | None = None


@dataclass(slots=True)
class StreamRetry:
    """The request failed before any content and is sent again.

    Args:
        attempt: The number of the attempt that failed, from 1.
        delay: Seconds until the next attempt.
        reason: One sentence about the failure.
    """

    attempt: int
    delay: float
    reason: str
    type: Literal["retry"] = "retry"


@dataclass(slots=True)
class StreamWarning:
    """An option was not sent, or something was not understood; the reply goes on without it.

    Args:
        text: One sentence.
        about: What is wrong with the reply, if the sentence says why: the model refused to answer, or it was cut off.
    """

    text: str
    type: Literal["warning"] = "warning"
    about: Literal["", "refused", "cut_off"] = ""


@dataclass(slots=True)
class Finish:
    """The provider's own end of the message.

    Args:
        stop_reason: Why the message ended.
    """

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

Delta: TypeAlias = TextChunk | ThinkingChunk | ToolArgsChunk
"""More text of a part."""


def joined(events: Sequence[StreamEvent]) -> Sequence[StreamEvent]:
    """Return the events, with consecutive chunks of the same part joined to one."""
    found: list[StreamEvent] = []
    for part, group in groupby(events, _part):
        if part is None:
            found.extend(group)
        else:
            kind, index = part
            found.append(kind(index, "".join([event.text for event in cast("Iterator[Delta]", group)])))
    return found


def _part(event: StreamEvent) -> tuple[type[Delta], int] | None:
    """What the chunks of one part have in common; None for events that are not chunks."""
    return (type(event), event.index) if isinstance(event, _DELTAS) else None


_DELTAS = (TextChunk, ThinkingChunk, ToolArgsChunk)

"""What of a conversation a model is sent, and where it may be cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from planck_nb.agent.context.tokens import estimate
from planck_nb.agent.state import Entry
from planck_nb.ai.messages import Message, ToolResultMessage, ToolResultPart
from planck_nb.base.text import head_and_tail

EXCERPT = 2_000
"""Characters that stay of each of the newest tool outputs where even they do not fit."""


def sent(entries: Sequence[Entry]) -> list[Entry]:
    """What a model is sent: the latest summary, the entries that it keeps, and all that follows it.

    Without a summary that is everything.
    """
    for place in range(len(entries) - 1, -1, -1):
        entry = entries[place]
        if entry.message.type == "summary":
            return [entry, *_kept(entries[:place], entry.message.kept), *entries[place + 1 :]]
    return list(entries)


def _kept(earlier: Sequence[Entry], ids: Iterable[int]) -> list[Entry]:
    kept = set(ids)
    return [entry for entry in earlier if entry.id in kept] if kept else []


def cuts(messages: Sequence[Message]) -> list[int]:
    """The places where the conversation may be cut in two: before the message of each of these indices.

    No cut separates a tool call from its result, nor a reply from results that are still to come. 0 is among them, and
    the length where nothing is to come.
    """
    found: list[int] = []
    waiting: set[str] = set()
    for place, message in enumerate(messages):
        if message.type == "assistant":  # calls that have no result by now will never have one
            waiting = set()
        if not waiting and message.type != "tool_result":
            found.append(place)
        if message.type == "assistant":
            waiting = {call.id for call in message.tool_calls}
        elif message.type == "tool_result":
            waiting -= {result.id for result in message.content}
    if not waiting:
        found.append(len(messages))
    return found


def pairs(messages: Sequence[Message]) -> list[tuple[int, int]]:
    """The indices of each reply that calls tools and of each message with results for it."""
    found: list[tuple[int, int]] = []
    reply, ids = 0, set[str]()
    for place, message in enumerate(messages):
        if message.type == "assistant":
            reply, ids = place, {call.id for call in message.tool_calls}
        elif message.type == "tool_result" and any(result.id in ids for result in message.content):
            found.append((reply, place))
    return found


def places(chosen: Sequence[Message], messages: Sequence[Message]) -> list[int] | None:
    """The index in `messages` of each chosen one, ascending; None where they are not among them in this order.

    The very same values count before equal ones, and later ones before earlier ones.
    """
    return _places(chosen, messages, same=True) or _places(chosen, messages, same=False)


def _places(chosen: Sequence[Message], messages: Sequence[Message], *, same: bool) -> list[int] | None:
    found: list[int] = []
    place = len(messages)
    for message in reversed(chosen):
        place -= 1
        while place >= 0 and not (messages[place] is message if same else messages[place] == message):
            place -= 1
        if place < 0:
            return None
        found.append(place)
    return found[::-1]


def without_old_outputs(messages: Sequence[Message], tokens: int) -> list[Message]:
    """The messages with as many tool outputs left out, oldest first, as it takes to fit into `tokens`, estimated.

    A note stands where an output was, so that calls and results stay paired; of the newest outputs the beginning and
    the end stay, or the model would ask for them again for ever. Where that is not enough the result is the least that
    can be reached, and where everything fits nothing changes.
    """
    fitting = list(messages)
    excess = sum(map(estimate, messages)) - tokens
    results = [(place, message) for place, message in enumerate(messages) if message.type == "tool_result"]
    for place, message in results:
        parts: list[ToolResultPart] = []
        for part in message.content:
            less = _excerpt(part) if place == results[-1][0] else _note(part)
            saved = _size(part) - _size(less)
            if excess > 0 and saved > 0:
                excess -= saved
                parts.append(less)
            else:
                parts.append(part)
        fitting[place] = replace(message, content=tuple(parts))
    return fitting


def _note(part: ToolResultPart) -> ToolResultPart:
    text = (
        f"[The output of {part.name}, {len(part.text):,} characters, was left out to make room; "
        "call the tool again if you need it.]"
    )
    return replace(part, text=text, images=())


def _excerpt(part: ToolResultPart) -> ToolResultPart:
    return replace(part, text=head_and_tail(part.text, characters=EXCERPT, lines=EXCERPT), images=())


def _size(part: ToolResultPart) -> int:
    return estimate(ToolResultMessage((part,)))

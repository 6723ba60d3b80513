"""Which part of a conversation a model is sent, and where it may be cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from planck_nb.agent.state import Entry
from planck_nb.agent.tokens import estimate
from planck_nb.ai.messages import Message, ToolResultMessage, ToolResultPart
from planck_nb.base.text import head_and_tail

EXCERPT = 2_000
"""How many characters are kept of each of the newest tool outputs if even these do not fit."""


def sent(entries: Sequence[Entry]) -> list[Entry]:
    """The entries that a model is sent: the latest summary, the entries that it keeps, and all later ones.

    Without a summary these are all entries. Prompts that were set aside are not sent.
    """
    aside: set[int] = set()
    found = list(entries)
    for index in range(len(entries) - 1, -1, -1):
        entry = entries[index]
        if entry.message.type == "summary":
            found = [entry, *_kept(entries[:index], entry.message.kept), *entries[index + 1 :]]
            break
        if entry.message.type == "assistant" and entry.message.set_aside:
            aside.update(entry.message.set_aside, (entry.id,))
    return [entry for entry in found if entry.id not in aside] if aside else found


def _kept(earlier: Sequence[Entry], ids: Iterable[int]) -> list[Entry]:
    kept = set(ids)
    return [entry for entry in earlier if entry.id in kept] if kept else []


def cuts(messages: Sequence[Message]) -> list[int]:
    """The indices of the messages before which the conversation may be cut in two, ascending.

    A cut never separates a tool call from its result, nor a reply from results that are still missing. The indices
    include 0 and, if no result is missing, the number of messages.
    """
    found: list[int] = []
    missing: set[str] = set()
    for index, message in enumerate(messages):
        if message.type == "assistant":  # calls that have no result by now will never have one
            missing = set()
        if not missing and message.type != "tool_result":
            found.append(index)
        if message.type == "assistant":
            missing = {call.id for call in message.tool_calls}
        elif message.type == "tool_result":
            missing -= {result.id for result in message.content}
    if not missing:
        found.append(len(messages))
    return found


def pairs(messages: Sequence[Message]) -> list[tuple[int, int]]:
    """The indices of each message with tool results and, before it, of the reply that called the tools."""
    found: list[tuple[int, int]] = []
    reply, ids = 0, set[str]()
    for index, message in enumerate(messages):
        if message.type == "assistant":
            reply, ids = index, {call.id for call in message.tool_calls}
        elif message.type == "tool_result" and any(result.id in ids for result in message.content):
            found.append((reply, index))
    return found


def places(chosen: Sequence[Message], messages: Sequence[Message]) -> list[int] | None:
    """The index in `messages` of each chosen message, ascending; None if they are not among them in this order.

    Identical objects are preferred to equal ones, and later messages to earlier ones.
    """
    return _places(chosen, messages, same=True) or _places(chosen, messages, same=False)


def _places(chosen: Sequence[Message], messages: Sequence[Message], *, same: bool) -> list[int] | None:
    found: list[int] = []
    index = len(messages)
    for message in reversed(chosen):
        index -= 1
        while index >= 0 and not (messages[index] is message if same else messages[index] == message):
            index -= 1
        if index < 0:
            return None
        found.append(index)
    return found[::-1]


def without_old_outputs(messages: Sequence[Message], tokens: int) -> list[Message]:
    """The messages with tool outputs left out, oldest first, until they fit into an estimated number of tokens.

    A note replaces each output, so that calls and results stay paired. The newest outputs keep their beginning and end,
    because otherwise the model would call the same tools again and again. Messages that fit already do not change, and
    messages that cannot fit become as short as this can make them.
    """
    fitting = list(messages)
    excess = sum(map(estimate, messages)) - tokens
    results = [(index, message) for index, message in enumerate(messages) if message.type == "tool_result"]
    for index, message in results:
        parts: list[ToolResultPart] = []
        for part in message.content:
            shorter = _excerpt(part) if index == results[-1][0] else _note(part)
            saved = _size(part) - _size(shorter)
            if excess > 0 and saved > 0:
                excess -= saved
                parts.append(shorter)
            else:
                parts.append(part)
        fitting[index] = replace(message, content=tuple(parts))
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

"""Makes a conversation valid for the model that is asked next, whoever wrote it and however it was interrupted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from planck_nb.ai.messages import (
    AssistantMessage,
    AssistantPart,
    Message,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
)
from planck_nb.ai.models import Model

INTERRUPTED = "The call was interrupted before it returned."
"""The result that stands in for one that never came."""

_FOREIGN_TO_SOME = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_ID = 64


def prepare(messages: Sequence[Message], model: Model) -> list[Message]:
    """The messages as they can be sent to `model`.

    What another model sealed (signatures, reasoning) is left out, replies without content are skipped, and every tool
    call is followed by exactly one result: results without a call are dropped, missing ones are supplied. Call ids are
    unique in the whole conversation.
    """
    prepared: list[Message] = []
    used: set[str] = set()
    for position, message in enumerate(messages):
        if message.type == "user":
            if message.content:
                prepared.append(message)
        elif message.type == "assistant":
            own = message.provider == model.provider and message.model == model.id
            content = message.content if own else tuple(_portable(message.content))
            renamed = {call.id: _free_id(call.id, own=own, used=used) for call in message.tool_calls}
            if any(old != new for old, new in renamed.items()):
                content = tuple(_rename(part, renamed) for part in content)
            if not content:
                continue
            prepared.append(message if content is message.content else replace(message, content=content))
            if renamed:
                prepared.append(_results(message, messages[position + 1 :], renamed))
    return prepared


def _portable(content: Iterable[AssistantPart]) -> Iterable[AssistantPart]:
    for part in content:
        if part.type == "text":
            if part.text:
                yield TextPart(part.text)
        elif part.type == "tool_call":
            yield replace(part, provider_state=None)


def _rename(part: AssistantPart, renamed: dict[str, str]) -> AssistantPart:
    return replace(part, id=renamed[part.id]) if isinstance(part, ToolCallPart) else part


def _free_id(call_id: str, *, own: bool, used: set[str]) -> str:
    """The id, in letters that every vendor takes if it is another's, and different from all before it."""
    stem = call_id if own else _FOREIGN_TO_SOME.sub("_", call_id)[:_LONGEST_ID]
    free, number = stem, 2
    while free in used:
        free = f"{stem[: _LONGEST_ID - 8]}_{number}"
        number += 1
    used.add(free)
    return free


def _results(message: AssistantMessage, later: Iterable[Message], renamed: dict[str, str]) -> ToolResultMessage:
    found: dict[str, ToolResultPart] = {}
    for other in later:
        if other.type == "assistant":
            break
        if other.type == "tool_result":
            for part in other.content:
                found.setdefault(part.id, part)
    results = []
    for call in message.tool_calls:
        result = found.get(call.id) or ToolResultPart(call.id, call.name, INTERRUPTED, is_error=True)
        results.append(replace(result, id=renamed[call.id]))
    return ToolResultMessage(tuple(results))

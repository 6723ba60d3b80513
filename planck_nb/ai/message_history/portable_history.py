"""Makes a conversation valid for the next model, whatever wrote it and however it was interrupted."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from types import MappingProxyType
from typing import TypeAlias

from planck_nb.ai.messages import (
    AssistantMessage,
    AssistantPart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
    UserMessage,
)
from planck_nb.ai.models import Model
from planck_nb.ai.providers import rules_of
from planck_nb.ai.schemas.fitted_tools import FittedTool

INTERRUPTED = "The call was interrupted before it returned."
"""The result of a call that never returned."""

PreparedMessage: TypeAlias = UserMessage | AssistantMessage | ToolResultMessage
"""A message as it is sent: a summary has become a user's message."""

_SEAL = "planck_prefix"
"""The key of a signed part's state that holds the digest of what preceded it; never sent."""

IN_TEXT = "planck_in_text"
"""Marks a call's state if the model wrote the call as text; never sent."""

_SIGNATURES = frozenset({"signature", "thoughtSignature", "thought_signature", "fields"})


class Prefix:
    """A running digest of what a model is sent: two are equal when everything added to them was.

    A vendor that signs thinking signs it together with what precedes it; the digest shows whether that is unchanged.
    """

    def __init__(self, *values: object) -> None:
        self._hash = blake2b(digest_size=12)
        self.add(*values)

    def add(self, *values: object) -> None:
        """Add more values, whose `repr` must be complete."""
        for value in values:
            self._hash.update(repr(value).encode("utf-8", "backslashreplace"))
            self._hash.update(b"\n")

    def copy(self) -> Prefix:
        """A digest of the same values, to which other values can be added."""
        copy = Prefix()
        copy._hash = self._hash.copy()
        return copy

    @property
    def digest(self) -> str:
        """The digest of all that was added so far."""
        return self._hash.hexdigest()


class Preparation:
    """Makes messages valid for one model, in the order of the conversation.

    Args:
        model: The model that they are sent to.
        prefix: Stands for what is sent before the messages, and is added to; see `prepare`.
        fitted_tools: The tools whose arguments are sent under other names, by name.
    """

    def __init__(
        self,
        model: Model,
        prefix: Prefix | None = None,
        fitted_tools: Mapping[str, FittedTool] = MappingProxyType({}),
    ) -> None:
        self.prefix = prefix
        self._fitted_tools = fitted_tools
        self._model = model
        self._call_ids = rules_of(model).call_ids
        self._used: set[str] = set()
        self._numbers: dict[str, int] = {}
        """The next number to try for an id that is used already: some servers give every call the same one."""

    def copy(self) -> Preparation:
        """A preparation that continues from here without changing this one."""
        copy = Preparation(self._model, None if self.prefix is None else self.prefix.copy(), self._fitted_tools)
        copy._used, copy._numbers = set(self._used), dict(self._numbers)
        return copy

    def add(self, messages: Sequence[Message], start: int, end: int) -> list[PreparedMessage]:
        """The messages from `start` to before `end` as they can be sent.

        The results of calls are searched for up to the next reply, even after `end`.
        """
        prepared: list[PreparedMessage] = []
        for position in range(start, end):
            message = _as_sent(messages[position])
            if message.type == "user":
                if message.content:
                    prepared.append(self._added_to_prefix(message))
            elif message.type == "assistant":
                own = _is_own(message, self._model)
                content = tuple(_own_parts(message.content, self.prefix) if own else _portable(message.content))
                ids = [self._free_id(call.id, own=own) for call in message.tool_calls]
                content = tuple(_renamed(content, ids)) if ids else content
                if not content:
                    continue
                reply = message if content == message.content else replace(message, content=content)
                prepared.append(self._with_sent_names(self._added_to_prefix(reply)))
                if ids:
                    prepared.append(self._added_to_prefix(_results(message, messages, position + 1, ids)))
        return prepared

    def _free_id(self, call_id: str, *, own: bool) -> str:
        """An unused id which the server accepts."""
        shape = self._call_ids
        fits = shape.accepts(call_id) or (own and bool(call_id) and not shape.exact)
        free = call_id if fits else shape.fitted(call_id, 1)
        if free in self._used:
            stem = free
            number = self._numbers.get(stem, 2)
            while (free := shape.fitted(stem, number)) in self._used:
                number += 1
            self._numbers[stem] = number + 1
        self._used.add(free)
        return free

    def _with_sent_names(self, message: PreparedMessage) -> PreparedMessage:
        """Rename arguments in calls to the names the model knows."""
        if not self._fitted_tools or message.type != "assistant":
            return message
        content = [
            replace(part, args=tool.sent(part.args))
            if part.type == "tool_call" and (tool := self._fitted_tools.get(part.name))
            else part
            for part in message.content
        ]
        return replace(message, content=tuple(content))

    def _added_to_prefix(self, message: PreparedMessage) -> PreparedMessage:
        if self.prefix is not None:
            self.prefix.add(message.type, *message.content)
        return message


def prepare(messages: Sequence[Message], model: Model, prefix: Prefix | None = None) -> list[Message]:
    """The messages as they can be sent to `model`.

    What another model or wire format signed or encrypted (signatures, reasoning) is left out, replies without content
    are skipped, and every tool call is followed by exactly one result: results without a call are dropped, missing
    ones are supplied. Call ids are unique in the whole conversation. A summary becomes a user's message.

    Args:
        messages: The conversation.
        model: The model that it is sent to.
        prefix: Stands for what is sent before the messages, and in the end for all that is sent. With it, signed
            thinking whose own prefix was edited since it was made is left out.

    Returns:
        The messages to encode.
    """
    return [*Preparation(model, prefix).add(messages, 0, len(messages))]


def seal(content: Iterable[AssistantPart], prefix: str) -> tuple[AssistantPart, ...]:
    """A new reply's parts, in which each signed thinking part carries the digest of what preceded it.

    `prefix` is the digest of the request that the reply answers.
    """
    running = Prefix(prefix)
    signed: list[AssistantPart] = []
    for part in content:
        if isinstance(part, ThinkingPart) and part.provider_state is not None:
            signed.append(replace(part, provider_state={**part.provider_state, _SEAL: running.digest}))
        else:
            signed.append(part)
        running.add(part)
    return tuple(signed)


def without_signatures(
    messages: Sequence[Message], only: Container[str] | None = None
) -> tuple[list[Message], frozenset[str]]:
    """The messages without thinking and signatures, and the digests of the parts that lost theirs.

    `only` limits this to the parts with these digests.
    """
    found: set[str] = set()

    def unsigned(part: AssistantPart) -> AssistantPart | None:
        state = part.provider_state
        signed = part.type == "thinking" or (state is not None and not _SIGNATURES.isdisjoint(state))
        digest = Prefix(part).digest if signed else ""
        if not signed or (only is not None and digest not in only):
            return part
        found.add(digest)
        rest = {name: value for name, value in (state or {}).items() if name not in _SIGNATURES}
        return None if part.type == "thinking" else replace(part, provider_state=rest or None)

    kept: list[Message] = []
    for message in messages:
        if message.type == "assistant":
            content = tuple(part for old in message.content if (part := unsigned(old)) is not None)
            kept.append(replace(message, content=content))
        else:
            kept.append(message)
    return kept, frozenset(found)


def _as_sent(message: Message) -> PreparedMessage:
    return message.as_user_message() if message.type == "summary" else message


def _is_own(message: AssistantMessage, model: Model) -> bool:
    """Whether this model wrote the message, in the wire format that it is asked in now."""
    return (message.provider, message.model) == (model.provider, model.id) and message.api in ("", model.api)


def _own_parts(content: Iterable[AssistantPart], prefix: Prefix | None) -> Iterable[AssistantPart]:
    """The parts of a model's own reply, without thinking that was signed for anything but what now precedes it."""
    running = Prefix(prefix.digest) if prefix is not None else None
    for part in content:
        kept_part = part
        if isinstance(part, ThinkingPart) and part.provider_state and _SEAL in part.provider_state:
            if running is not None and part.provider_state[_SEAL] != running.digest:
                continue
            state = {name: value for name, value in part.provider_state.items() if name != _SEAL}
            kept_part = replace(part, provider_state=state)
        elif part.type == "tool_call" and part.provider_state and IN_TEXT in part.provider_state:
            kept_part = replace(part, provider_state=None)
        if running is not None:
            running.add(kept_part)
        yield kept_part


def _portable(content: Iterable[AssistantPart]) -> Iterable[AssistantPart]:
    for part in content:
        if part.type == "text":
            if part.text:
                yield TextPart(part.text)
        elif part.type == "tool_call":
            yield replace(part, provider_state=None)


def _renamed(content: Iterable[AssistantPart], ids: Iterable[str]) -> Iterable[AssistantPart]:
    """The parts, where the calls have these ids in turn."""
    names = iter(ids)
    for part in content:
        if isinstance(part, ToolCallPart) and part.id != (name := next(names)):
            yield replace(part, id=name)
        else:
            yield part


def _results(
    message: AssistantMessage, messages: Sequence[Message], start: int, ids: Sequence[str]
) -> ToolResultMessage:
    """One result for each call, under its new id; calls of one id have their results in turn.

    The results are in the messages from `start` to the next reply.
    """
    found: dict[str, list[ToolResultPart]] = {}
    for position in range(start, len(messages)):
        other = messages[position]
        if other.type == "assistant":
            break
        if other.type == "tool_result":
            for part in other.content:
                found.setdefault(part.id, []).append(part)
    results = []
    for call, name in zip(message.tool_calls, ids, strict=True):
        waiting = found.get(call.id)
        result = waiting.pop(0) if waiting else ToolResultPart(call.id, call.name, INTERRUPTED, is_error=True)
        results.append(result if result.id == name else replace(result, id=name))
    return ToolResultMessage(tuple(results))

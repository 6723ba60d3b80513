"""Builds a message from the events of a stream."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from time import monotonic
from typing import Any

from pydantic_core import from_json

from planck_nb.ai.message_history import portable_history as history
from planck_nb.ai.messages import (
    AssistantMessage,
    AssistantPart,
    StopReason,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    Usage,
)
from planck_nb.ai.models import Model
from planck_nb.ai.numbers import are_counts, usage_counts
from planck_nb.ai.reply_text import ReplyText
from planck_nb.ai.schemas.fitted_output import FittedOutput
from planck_nb.ai.schemas.fitted_tools import FittedTool
from planck_nb.ai.stream_events import (
    Finish,
    PartEnd,
    StreamEvent,
    StreamRetry,
    TextChunk,
    ThinkingChunk,
    ToolArgsChunk,
    ToolCallStart,
    UsageUpdate,
)
from planck_nb.base.json_types import JsonObject, without_lone_surrogates


class MessageBuilder:
    """Collects the events of one reply; joins chunks when the message is built.

    `usage` is the last count reported, `stop_reason` the provider's own, None until it arrives. `prefix` is the digest
    of the request that is answered, if its provider binds signatures to it. `tools` and `output` convert what the model
    writes for schemas in another form, and `text` removes thinking and calls from text parts. `is_sent` says whether a
    request was sent that a server may have begun to answer. `worker` is the answer's worker in the engine. `api` is the
    wire format for the reply's provider state.
    """

    def __init__(self, model: Model) -> None:
        self.usage: Usage | None = None
        self.stop_reason: StopReason | None = None
        self.prefix: str | None = None
        self.tools: Mapping[str, FittedTool] = {}
        self.output: FittedOutput | None = None
        self.text: ReplyText | None = None
        self.api = model.api
        self.is_sent = False
        self.worker = ""
        self._model = model
        self._parts: dict[int, _Draft] = {}
        self._ids: set[str] = set()
        self._earlier = 0
        self._offset = 0
        self._usage_before: Usage | None = None
        self._cost_before: float | None = 0.0
        self._latest: Usage | None = None
        self._reported_cost: float | None = None
        """The current answer's price, as its server reports it."""
        self._sent_at: float | None = None
        self._first_at: float | None = None

    def sending(self, *, measured: bool = True) -> None:
        """Note that a request is being sent. If `measured`, the reply is timed from the first such call on."""
        self.is_sent = True
        if measured and self._sent_at is None:
            self._sent_at = monotonic()

    @property
    def has_content(self) -> bool:
        """Whether the answer to the current request has any content yet."""
        return len(self._parts) > self._earlier

    def written_text(self) -> str:
        """All that the model has written so far, including calls that are not complete."""
        return "\n".join("".join([draft.name, *draft.chunks]) for draft in self._parts.values())

    def resume(self) -> None:
        """Continue the same message with the answer to a further request."""
        self._usage_before, self._cost_before, self._latest = self.usage, self._cost(), None
        self._reported_cost = None
        self._earlier = len(self._parts)
        self._offset = max(self._parts, default=-1) + 1

    def feed(self, events: list[StreamEvent]) -> list[StreamEvent]:
        """Add events. Returns those to show.

        The id of a `ToolCallStart` that is missing or not unique is replaced in the event itself. In a message that was
        resumed, so are indexes and usage.
        """
        if self.text is not None:
            events = self.text.feed(events)
        if self._earlier:
            self._shift(events)
        parts = self._parts
        for event in events:
            if isinstance(event, _DELTAS):
                draft = parts.get(event.index)
                if draft is None:
                    draft = parts[event.index] = _Draft(_KIND[type(event)])
                draft.chunks.append(event.text)
            else:
                self._feed_other(event)
        if parts and self._first_at is None:
            self._first_at = monotonic()
        return events

    def _shift(self, events: Sequence[StreamEvent]) -> None:
        for event in events:
            match event:
                case TextChunk() | ThinkingChunk() | ToolArgsChunk() | ToolCallStart() | PartEnd():
                    event.index += self._offset
                case UsageUpdate():
                    _check_usage(event)
                    self._latest = event.usage if event.is_known else None
                    event.usage += self._usage_before or Usage()
                case _:
                    pass

    def _feed_other(self, event: StreamEvent) -> None:
        match event:
            case ToolCallStart():
                event.id, event.name = self._unique(call_id(event.id)), tool_name(event.name)
                draft = self._parts.setdefault(event.index, _Draft("tool_call"))
                draft.id, draft.name = event.id, event.name
            case PartEnd():
                draft = self._parts.setdefault(event.index, _Draft("text"))
                draft.complete = True
                if event.text is not None:
                    draft.chunks = [event.text]
                draft.state = None if event.provider_state is None else _without_infinities(event.provider_state)
            case Finish():
                self.stop_reason = event.stop_reason
            case UsageUpdate():
                _check_usage(event)
                self.usage = event.usage if event.is_known else None
                if event.cost is not None:
                    self._reported_cost = event.cost
            case StreamRetry():
                self.usage, self._latest, self._reported_cost = self._usage_before, None, None

    def build(self, stop_reason: StopReason | None = None, error: str | None = None) -> AssistantMessage:
        """The message as far as it was received.

        Without `stop_reason` it is the provider's. In a message that was "aborted" or ended in an "error", text and
        thinking stay and only complete tool calls are kept. In one that a limit or a refusal ended, a last call without
        arguments may have lost them, and is marked as invalid.
        """
        reason = stop_reason or self.stop_reason or "stop"
        interrupted = reason in {"aborted", "error"}
        held_texts = {} if self.text is None else self.text.held()
        held_drafts = {index + self._offset: _Draft("text", [text]) for index, text in held_texts.items()}
        for index, draft in held_drafts.items():
            if (part := self._parts.get(index)) is not None:
                draft.chunks, draft.state = [*part.chunks, *draft.chunks], part.state
        drafts = [
            draft
            for _, draft in sorted({**self._parts, **held_drafts}.items())
            if not draft.is_empty and not (interrupted and draft.is_unfinished_call)
        ]
        cut = drafts[-1] if drafts and reason in {"length", "refusal"} else None
        content = tuple(draft.part(is_cut=draft is cut) for draft in drafts)
        if self.tools or self.output is not None:
            content = tuple(map(self._original, content))
        if self.prefix is not None:
            content = history.seal(content, self.prefix)
        if reason in {"stop", "tool_use"}:
            reason = "tool_use" if any(part.type == "tool_call" for part in content) else "stop"
        return AssistantMessage(
            content=content,
            stop_reason=reason,
            usage=self.usage,
            cost=self._cost(),
            provider=self._model.provider,
            model=self._model.id,
            error=error,
            api=self.api,
            ttft_s=self._seconds_to(self._first_at),
            latency_s=self._seconds_to(monotonic()),
        )

    def _original(self, part: AssistantPart) -> AssistantPart:
        """A part as the schemas describe it that the caller gave."""
        if part.type == "tool_call" and part.invalid is None and (tool := self.tools.get(part.name)):
            return replace(part, args=tool.original(part.args))
        if part.type == "text" and part.text and self.output is not None and self.output.read is not None:
            return replace(part, text=self.output.read(part.text))
        return part

    def _seconds_to(self, time: float | None) -> float | None:
        """The seconds since the request was sent, to a tenth of a millisecond."""
        return None if time is None or self._sent_at is None else round(time - self._sent_at, 4)

    def _cost(self) -> float | None:
        """The cost, request by request, because rates may depend on the length of each."""
        cost = self._model.cost(self._latest if self._earlier else self.usage)
        latest = self._reported_cost if cost is None else cost
        if not self._earlier:
            return latest
        return None if latest is None or self._cost_before is None else self._cost_before + latest

    def _unique(self, given: str) -> str:
        """The id itself, or one that depends only on the calls before it."""
        number = len(self._ids) + 1
        unique = given or f"call_{number}"
        while unique in self._ids:
            unique = f"{given or 'call'}_{number}"
            number += 1
        self._ids.add(unique)
        return unique


_DELTAS = (TextChunk, ThinkingChunk, ToolArgsChunk)
_COUNTS = tuple(each.name for each in fields(Usage))
MAX_ID_LENGTH = 512
_MAX_NAME_LENGTH = 128
_KIND = {TextChunk: "text", ThinkingChunk: "thinking", ToolArgsChunk: "tool_call"}


class _Draft:
    """A part that is being written."""

    __slots__ = ("chunks", "complete", "id", "kind", "name", "state")

    def __init__(self, kind: str, chunks: list[str] | None = None) -> None:
        self.kind = kind
        self.chunks = [] if chunks is None else chunks
        self.complete = False
        self.state: JsonObject | None = None
        self.id = ""
        self.name = ""

    @property
    def is_empty(self) -> bool:
        return self.kind != "tool_call" and self.state is None and not any(self.chunks)

    @property
    def is_unfinished_call(self) -> bool:
        return self.kind == "tool_call" and not self.complete

    def part(self, *, is_cut: bool) -> AssistantPart:
        text = "".join(self.chunks)
        if self.kind == "text":
            return TextPart(text, self.state)
        if self.kind == "thinking":
            return ThinkingPart(text, self.state)
        args = None if is_cut and not text.strip() else parse_arguments(text)
        return ToolCallPart(self.id, self.name, args or {}, text if args is None else None, self.state)


def _check_usage(event: UsageUpdate) -> None:
    """Mark counts that cannot be right as unknown. A dialect of another package may have passed them on."""
    usage = event.usage
    cached = (usage.cache_read_tokens, usage.cache_write_tokens)
    valid = are_counts(usage.input_tokens, usage.output_tokens, *cached, usage.thinking_tokens)
    if valid and sum(cached) <= usage.input_tokens:  # as nearly always
        return
    counts = usage_counts({name: getattr(usage, name) for name in _COUNTS})
    if counts is None:
        event.usage, event.is_known = Usage(), False
    else:
        event.usage = Usage(**counts)


def call_id(given: object) -> str:
    """The id of a call as the server sent it; empty if it is not usable, so that one is generated."""
    usable = isinstance(given, str) and len(given) <= MAX_ID_LENGTH and given.isprintable()
    return given if usable and isinstance(given, str) else ""


def tool_name(given: object) -> str:
    """The name of a tool as the server sent it; if not usable, cut and with unprintable characters replaced."""
    if not isinstance(given, str):
        return ""
    if len(given) <= _MAX_NAME_LENGTH and given.isprintable():
        return given
    return "".join(each if each.isprintable() else "\ufffd" for each in given[:_MAX_NAME_LENGTH])


def parse_arguments(text: str) -> JsonObject | None:
    """A call's arguments; None if the text is not a JSON object.

    An empty text and null mean an empty object. An object may be in a fenced block or in a JSON text, and an empty one
    may precede it. Both halves in a surrogate pair are joined; a lone half is replaced. A number such as 1e999 is not a
    JSON number.
    """
    if not text.strip():
        return {}
    args = _parsed(text)
    if not isinstance(args, dict):
        args = _unwrapped(text if args is _INVALID else args)
    return args if isinstance(args, dict) and _without_infinities(args) == args else None


_INVALID = object()
_FENCE = re.compile(r"```\w*\s*(.*?)\s*(```)?", re.DOTALL)
_MAX_WRAPS = 3


def _unwrapped(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Take the object out of a text or block around it."""
    for _ in range(_MAX_WRAPS):
        if value is None:
            return {}
        if isinstance(value, str):
            text = value.strip()
            if block := _FENCE.fullmatch(text):
                text = block[1]
            # An empty object first, then the whole one: https://github.com/BerriAI/litellm/issues/4537
            value = _parsed(text.removeprefix("{}") or "{}")
    return value


def _parsed(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """Parse a JSON text; `_INVALID` if it is not one."""
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        pass
    try:  # half a pair, written as an escape
        return without_lone_surrogates(json.loads(text, parse_constant=_refuse))
    except (ValueError, RecursionError):
        return _INVALID


def _refuse(constant: str) -> object:
    raise ValueError(constant)


def _without_infinities(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """The value with None instead of infinite numbers, which no journal and no request can hold."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _without_infinities(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_infinities(item) for item in value]
    return value

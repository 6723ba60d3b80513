"""Anthropic Messages.

Blocks are told apart by their index alone: servers interleave them. What a block carries beside its text goes back as
it came, in the part's `provider_state`, which is the block without its text. Blocks of unknown kinds become text parts
without text, so that they keep their place among the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from planck_nb.ai.assemble import parse_arguments
from planck_nb.ai.context import Context, Options
from planck_nb.ai.events import (
    Finish,
    PartEnd,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolArgsDelta,
    ToolCallStart,
    UsageUpdate,
)
from planck_nb.ai.failures import body_error, status_error, words_and_kind
from planck_nb.ai.history import prepare
from planck_nb.ai.messages import Message, Part, StopReason, Usage
from planck_nb.ai.models import Model
from planck_nb.ai.provider import Decoder, WireRequest
from planck_nb.ai.providers import base_url_of, is_first_party
from planck_nb.ai.providers.wire import read_object, write_json
from planck_nb.base.errors import ProviderError, StreamTruncated
from planck_nb.base.json import JsonObject

VERSION = "2023-06-01"
"""The version of the API that is spoken."""

_DEFAULT_MAX_TOKENS = 8192
"""For models that the catalogue does not know; the API has no default of its own."""

_STOP_REASONS: Mapping[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_use",
    "refusal": "refusal",
}

_STATUS_OF_ERROR = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}

_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384}
_SMALLEST_BUDGET = 1024


class Messages:
    """The Messages dialect."""

    framing: Literal["sse", "ndjson"] = "sse"

    def request(self, model: Model, context: Context, options: Options, key: str | None) -> WireRequest:
        """The request for one streamed reply."""
        body: JsonObject = {
            "model": model.id,
            "max_tokens": options.max_tokens or model.max_output or _DEFAULT_MAX_TOKENS,
            "messages": _messages(prepare(context.messages, model)),
            "stream": True,
        }
        if context.system:
            body["system"] = context.system
        if context.tools:
            body["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
                for tool in context.tools
            ]
        if model.provider == "anthropic" and is_first_party(model):
            body["cache_control"] = {"type": "ephemeral"}
        _add_options(body, model, options)
        headers = {"anthropic-version": VERSION}
        if key:
            headers["x-api-key"] = key
        return WireRequest(f"{base_url_of(model)}/messages", body, headers)

    def decoder(self, model: Model) -> Decoder:
        """A decoder for one reply."""
        return MessagesDecoder(model)

    def error(self, model: Model, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """What an HTTP error means."""
        return body_error(model, status, headers, body)


DIALECT = Messages()


def _messages(messages: Iterable[Message]) -> list[JsonObject]:
    """The messages with roles that alternate: results and the prompt that follows them are one user message."""
    wire: list[JsonObject] = []
    for message in messages:
        role = "assistant" if message.type == "assistant" else "user"
        content = [block for part in message.content if (block := _block(part)) is not None]
        if not content:
            continue
        if wire and wire[-1]["role"] == role:
            wire[-1]["content"].extend(content)
        else:
            wire.append({"role": role, "content": content})
    return wire


def _block(part: Part) -> JsonObject | None:
    """A part as a block; None for one that the API would refuse."""
    match part.type:
        case "tool_result":
            block = {"type": "tool_result", "tool_use_id": part.id, "content": part.text}
            return {**block, "is_error": True} if part.is_error else block
        case "tool_call":
            return {
                "type": "tool_use",
                **(part.provider_state or {}),
                "id": part.id,
                "name": part.name,
                "input": part.args,
            }
        case "thinking":
            # Only signed thinking is taken back; what was interrupted before its signature is not.
            state = part.provider_state
            return {**state, "thinking": part.text} if state and state["type"] == "thinking" else state
        case "text":
            state = part.provider_state or {"type": "text"}
            if state["type"] != "text":
                return state
            return {**state, "text": part.text} if part.text.strip() else None


def _add_options(body: JsonObject, model: Model, options: Options) -> None:
    thinks = options.thinking is not None and options.thinking != "off" and _add_thinking(body, model, options.thinking)
    # With thinking on, and for newer models altogether, the API refuses sampling options.
    if not thinks and model.settings.get("temperature", True):
        if options.temperature is not None:
            body["temperature"] = options.temperature
        if options.top_p is not None:
            body["top_p"] = options.top_p
    if options.stop:
        body["stop_sequences"] = list(options.stop)
    body.update(options.extra)


def _add_thinking(body: JsonObject, model: Model, level: str) -> bool:
    """Ask for thinking in the model's own way. Whether it will think."""
    if model.context_window is not None and not model.thinking:
        return False
    if model.settings.get("thinking", "adaptive") == "adaptive":
        body["thinking"] = {"type": "adaptive", "display": "summarized"}
        levels = model.settings.get("levels")
        effort = "low" if level == "minimal" else level
        if isinstance(levels, Mapping):
            effort = levels.get(level) or effort
        body["output_config"] = {"effort": effort}
        return True
    budget = min(_BUDGETS.get(level, _BUDGETS["high"]), body["max_tokens"] - _SMALLEST_BUDGET)
    if budget < _SMALLEST_BUDGET:
        return False
    body["thinking"] = {"type": "enabled", "budget_tokens": budget}
    return True


class _Block:
    """A block that is being written: everything but its text, and pieces of JSON where it has an input."""

    __slots__ = ("ended", "pieces", "state")

    def __init__(self, state: JsonObject) -> None:
        self.state = state
        self.pieces: list[str] = []
        self.ended = False


class MessagesDecoder:
    """Decodes one streamed reply."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._blocks: dict[int, _Block] = {}
        self._usage: JsonObject = {}
        self._reason: StopReason = "stop"
        self._finished = False

    def feed(self, data: bytes) -> Iterable[StreamEvent]:
        """The events of one of the API's events."""
        if self._finished:
            return ()
        event = read_object(data, self._model)
        kind = event.get("type")
        if kind == "content_block_delta":
            delta = event["delta"]
            if delta.get("type") == "text_delta":  # the hot path
                return (TextDelta(event["index"], delta["text"]),)
            return self._delta(event["index"], delta)
        return self._border(kind, event)

    def _border(self, kind: object, event: JsonObject) -> Iterable[StreamEvent]:
        """What begins and ends blocks and the message; an event of a kind that came later than this is skipped."""
        events: Iterable[StreamEvent] = ()
        match kind:
            case "content_block_start":
                events = self._start(event["index"], event["content_block"])
            case "content_block_stop":
                events = self._stop(event["index"])
            case "message_start":
                events = self._count(event["message"].get("usage"))
            case "message_delta":
                if reason := (event.get("delta") or {}).get("stop_reason"):
                    self._reason = _STOP_REASONS.get(reason, "stop")
                events = self._count(event.get("usage"))
            case "message_stop":
                self._finished = True
                events = (*self._stop_all(), Finish(self._reason))
            case _ if kind == "error" or "error" in event or ("code" in event and "message" in event):
                raise self._failure(event)
        return events

    def end(self) -> Iterable[StreamEvent]:
        """Nothing more to come. Raises `StreamTruncated` when the message was not stopped."""
        if not self._finished:
            raise StreamTruncated(
                f"The answer of {self._model} ended before it was complete; ask again.",
                provider=self._model.provider,
                model=self._model.id,
            )
        return ()

    def _start(self, index: int, block: JsonObject) -> Iterable[StreamEvent]:
        state = dict(block)
        self._blocks[index] = _Block(state)
        match block.get("type"):
            case "text":
                return (TextDelta(index, state.pop("text", "")),)
            case "thinking":
                return (ThinkingDelta(index, state.pop("thinking", "")),)
            case "redacted_thinking":
                return (ThinkingDelta(index, ""),)
            case "tool_use":
                given = state.pop("input", None)
                start = ToolCallStart(index, state.pop("id", ""), state.pop("name", ""))
                return (start, ToolArgsDelta(index, write_json(given).decode())) if given else (start,)
        return (TextDelta(index, ""),)

    def _delta(self, index: int, delta: JsonObject) -> Iterable[StreamEvent]:
        block = self._blocks.setdefault(index, _Block({}))
        match delta.get("type"):
            case "thinking_delta":
                return (ThinkingDelta(index, delta["thinking"]),)
            case "input_json_delta":
                text = delta["partial_json"]
                if block.state.get("type") == "tool_use":
                    return (ToolArgsDelta(index, text),) if text else ()
                block.pieces.append(text)
            case "citations_delta":
                block.state["citations"] = [*(block.state.get("citations") or ()), delta["citation"]]
            case _:
                for name, value in delta.items():
                    if name != "type":
                        known = block.state.get(name)
                        block.state[name] = (
                            known + value if isinstance(known, str) and isinstance(value, str) else value
                        )
        # A signature may arrive after the end of its block.
        return (PartEnd(index, _state(block)),) if block.ended else ()

    def _stop(self, index: int) -> Iterable[StreamEvent]:
        block = self._blocks.setdefault(index, _Block({}))
        block.ended = True
        if block.pieces:
            text = "".join(block.pieces)
            args = parse_arguments(text)
            block.state["input"] = text if args is None else args
        return (PartEnd(index, _state(block)),)

    def _stop_all(self) -> Iterable[StreamEvent]:
        for index, block in self._blocks.items():
            if not block.ended:
                yield from self._stop(index)

    def _count(self, usage: JsonObject | None) -> Iterable[StreamEvent]:
        """Counts are cumulative: a later one replaces an earlier one, a missing one changes nothing."""
        if not usage:
            return ()
        self._usage.update((name, value) for name, value in usage.items() if value is not None)
        return (UsageUpdate(_usage(self._usage)),)

    def _failure(self, event: JsonObject) -> ProviderError:
        words, kind = words_and_kind(event)
        error = event.get("error")
        inner = error if isinstance(error, dict) else event
        code = inner.get("code")
        status = code if isinstance(code, int) else _STATUS_OF_ERROR.get(str(inner.get("type")), 500)
        failure = status_error(self._model, status, words, kind=kind)
        failure.request_id = event.get("request_id")
        return failure


def _state(block: _Block) -> JsonObject | None:
    """What to echo. Plain text and plain calls need nothing; an unsigned thought is of no use to the API."""
    state = block.state
    if state.get("type") == "thinking":
        return state if state.get("signature") else None
    if state.get("type") == "text":
        return state if state.get("citations") else None
    if state.get("type") == "tool_use":
        return {name: value for name, value in state.items() if name != "type"} or None
    return state or None


def _usage(usage: JsonObject) -> Usage:
    read = usage.get("cache_read_input_tokens") or 0
    written = usage.get("cache_creation_input_tokens") or 0
    details = usage.get("output_tokens_details") or {}
    return Usage(
        input_tokens=(usage.get("input_tokens") or 0) + read + written,
        output_tokens=usage.get("output_tokens") or 0,
        cache_read_tokens=read,
        cache_write_tokens=written,
        thinking_tokens=details.get("thinking_tokens") or 0,
    )

"""Anthropic Messages.

Blocks are identified by their index alone, because servers interleave them. The fields of a block other than its text
are sent back unchanged; they are the part's `provider_state`. Blocks of unknown kinds become text parts without text,
so that they keep their position among the others.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from planck_nb.ai.dialect import Decoder, Pause, WireRequest
from planck_nb.ai.dialects.anthropic_options import (
    OUTPUT_SCHEMAS,
    TOOL_SCHEMAS,
    add_options,
    binds_to_tools,
    version_for,
)
from planck_nb.ai.dialects.json_wire import index_of, read_object, text_of, write_json
from planck_nb.ai.dialects.request_checks import check_media, no_video, unreadable
from planck_nb.ai.dialects.token_counts import TokenCounts, as_object
from planck_nb.ai.dialects.tool_fields import fit_context, wire_tools
from planck_nb.ai.message_builder import parse_arguments
from planck_nb.ai.message_history.encoded_history import encode_history
from planck_nb.ai.message_history.portable_history import Prefix, PreparedMessage
from planck_nb.ai.messages import (
    FilePart,
    ImagePart,
    Part,
    StopReason,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from planck_nb.ai.models import Model
from planck_nb.ai.numbers import http_status
from planck_nb.ai.providers import base_url_of, rules_of
from planck_nb.ai.request import Context, Options
from planck_nb.ai.schemas.fitted_output import fit_output
from planck_nb.ai.status_errors import (
    body_error,
    cut_off,
    error_in,
    quoted,
    status_error,
    truncated,
    words_and_kind,
)
from planck_nb.ai.stream_events import (
    Finish,
    PartEnd,
    StreamEvent,
    StreamWarning,
    TextChunk,
    ThinkingChunk,
    ToolArgsChunk,
    ToolCallStart,
)
from planck_nb.base.errors import ProviderError, UnsupportedFeatureError
from planck_nb.base.json_types import JsonObject

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

_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_FAILED = "The call failed and said nothing."
"""Stands for the missing text of a tool error, which the API requires."""


_SERVER_TOOLS: Mapping[str, JsonObject] = {
    "web_search": {"type": "web_search_20250305", "name": "web_search"},
    "web_fetch": {"type": "web_fetch_20250910", "name": "web_fetch"},
    "code_execution": {"type": "code_execution_20250825", "name": "code_execution"},
}
"""The first version of each that needs no beta header (platform.claude.com, "Tool reference")."""


class Messages:
    """The Messages dialect.

    Anthropic signs thinking together with everything before it. A request keeps a digest of that, and thinking that was
    produced after something else is not sent.
    """

    framing: Literal["sse", "ndjson"] = "sse"

    def request(self, model: Model, context: Context, options: Options, key: str | None) -> WireRequest:
        """Build the request for one streamed reply."""
        context, fitted_tools = fit_context(model, context, TOOL_SCHEMAS)
        history = encode_history(context, model, _blocks, prefix_of(model, context), fitted_tools)
        body: JsonObject = {
            "model": model.id,
            "max_tokens": options.max_tokens or model.max_output or _DEFAULT_MAX_TOKENS,
            "messages": _alternating(history.wire),
            "stream": True,
        }
        if context.system:
            body["system"] = context.system
        if context.tools:
            body["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
                for tool in context.tools
            ]
        if context.server_tools:
            body["tools"] = [*body.get("tools", ()), *wire_tools(model, context.server_tools, _SERVER_TOOLS)]
        if rules_of(model).is_vendor:
            body["cache_control"] = {"type": "ephemeral"}
        output = None if options.output is None else fit_output(options.output, OUTPUT_SCHEMAS)
        warnings = [*_unseen(context, model), *add_options(body, model, context, options, output)]
        headers = {"anthropic-version": version_for(model, body)}
        if key:
            headers["x-api-key"] = key
        return WireRequest(
            f"{base_url_of(model)}/messages", body, headers, tuple(warnings), history.digest, fitted_tools, output
        )

    def decoder(self, model: Model) -> Decoder:
        """Create a decoder for one reply."""
        return MessagesDecoder(model)

    def error(self, model: Model, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """Convert an HTTP error response to an error."""
        return body_error(model, status, headers, body)


DIALECT = Messages()


def prefix_of(model: Model, context: Context) -> Prefix:
    """The system prompt and tools, if the model signs its thinking together with them."""
    return Prefix(context.system, *context.tools, *context.server_tools) if binds_to_tools(model) else Prefix()


def _blocks(
    model: Model, message: PreparedMessage, _before: PreparedMessage | None, _warnings: list[str]
) -> tuple[str, list[JsonObject]]:
    """The role and the blocks of a message."""
    role = "assistant" if message.type == "assistant" else "user"
    return role, [block for part in message.content if (block := _block(part, model)) is not None]


def _alternating(messages: Sequence[tuple[str, list[JsonObject]]]) -> list[JsonObject]:
    """The messages with alternating roles: results and the prompt that follows them are one user message."""
    wire: list[JsonObject] = []
    for number, (role, blocks) in enumerate(messages, 1):
        content = list(blocks)
        # A message that was interrupted after thinking: the API accepts it only as the last one, which it continues.
        may_end_with_thinking = role == "user" or number == len(messages)
        while not may_end_with_thinking and content and content[-1]["type"].endswith("thinking"):
            content.pop()
        if not content:
            continue
        if wire and wire[-1]["role"] == role:
            wire[-1]["content"].extend(content)
        else:
            wire.append({"role": role, "content": content})
    return wire


def _block(part: Part, model: Model) -> JsonObject | None:
    """A part as a block; None if the API would refuse it."""
    match part.type:
        case "image":
            return _image(part, model)
        case "video":
            raise no_video(model)
        case "file":
            return _document(part, model)
        case "tool_result":
            return _result(part, model)
        case _:
            return _said(part)


def _said(part: TextPart | ThinkingPart | ToolCallPart) -> JsonObject | None:
    """A text, thinking or call as a block, with the fields that it was received with."""
    state = part.provider_state
    if part.type == "tool_call":
        return {"type": "tool_use", **(state or {}), "id": part.id, "name": part.name, "input": part.args}
    if part.type == "thinking":
        # The API accepts only signed thinking; thinking that was interrupted has no signature yet.
        return {**state, "thinking": part.text} if state and state.get("type") == "thinking" else state
    if state is not None and state.get("type") != "text":
        return state
    return {"type": "text", **(state or {}), "text": part.text} if part.text.strip() else None


def _image(part: ImagePart, model: Model) -> JsonObject:
    check_media(model, part)
    if part.mime not in _IMAGES and part.data is not None:
        raise UnsupportedFeatureError(
            f"{model} cannot look at {part.mime}; convert the image to image/png.", about_media=True
        )
    return {"type": "image", "source": _source(part)}


def _document(part: FilePart, model: Model) -> JsonObject:
    """A document block: a PDF, or a text whose bytes are given."""
    check_media(model, part)
    if part.mime.startswith("text/") and part.data is not None:
        text = base64.b64decode(part.data).decode("utf-8", "replace")
        source = {"type": "text", "media_type": "text/plain", "data": text}
    elif part.mime != "application/pdf":
        raise unreadable(model, part)
    else:
        source = _source(part)
    return {"type": "document", "source": source, "title": part.name}


def _source(part: ImagePart | FilePart) -> JsonObject:
    if part.data is not None:
        return {"type": "base64", "media_type": part.mime, "data": part.data}
    return {"type": "url", "url": part.url}


def _unseen(context: Context, model: Model) -> Iterable[str]:
    """A warning about images in tool results that the model cannot read. A tool does not know the model."""
    results = (part for message in context.messages if message.type == "tool_result" for part in message.content)
    if not model.takes("image") and any(part.images for part in results):
        yield f"{model} cannot look at images, so those that tools returned were not sent."


def _result(part: ToolResultPart, model: Model) -> JsonObject:
    text = part.text if part.text.strip() or not part.is_error else _FAILED
    content: str | list[JsonObject] = text
    if part.images and model.takes("image"):
        images = [_image(image, model) for image in part.images]
        content = [{"type": "text", "text": text}, *images] if text.strip() else images
    block = {"type": "tool_result", "tool_use_id": part.id, "content": content}
    return {**block, "is_error": True} if part.is_error else block


class _ContentBlock:
    """A block that is being received: all its fields except the text, and the chunks of its JSON input."""

    __slots__ = ("ended", "pieces", "state")

    def __init__(self, state: JsonObject) -> None:
        self.state = state
        self.pieces: list[str] = []
        self.ended = False


class MessagesDecoder:
    """Decodes one streamed reply."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._blocks: dict[int, _ContentBlock] = {}
        self._usage: JsonObject = {}
        self._counts = TokenCounts(model)
        self._reason = ""
        self._details: JsonObject = {}
        self._finished = False

    def feed(self, data: bytes) -> Iterable[StreamEvent | Pause]:
        """The events for one event of the API."""
        if self._finished:
            return ()
        event = read_object(data, self._model)
        kind = event.get("type")
        if kind == "content_block_delta":
            delta = event["delta"]
            index = event["index"]
            if delta.get("type") == "text_delta":  # the hot path
                text = delta["text"]
                if isinstance(text, str) and isinstance(index, int):
                    return (TextChunk(index, text),)
                raise TypeError(f"a text of type {type(text).__name__} at {index!r:.40}")
            return self._delta(index_of(index), delta)
        return self._boundary(kind, event)

    def _boundary(self, kind: object, event: JsonObject) -> Iterable[StreamEvent | Pause]:
        """Handle the start and end of blocks and of the message. Events of unknown kinds are skipped."""
        events: Iterable[StreamEvent | Pause] = ()
        match kind:
            case "content_block_start":
                events = self._start(index_of(event["index"]), event["content_block"])
            case "content_block_stop":
                events = self._stop(index_of(event["index"]))
            case "message_start":
                events = self._count(event["message"].get("usage"))
            case "message_delta":
                delta = event.get("delta") or {}
                self._reason = text_of(delta.get("stop_reason")) or self._reason
                self._details = as_object(delta.get("stop_details")) or self._details
                events = self._count(event.get("usage"))
            case "message_stop":
                self._finished = True
                events = (*self._stop_all(), *self._finish())
            case _ if kind == "error" or "error" in event or ("code" in event and "message" in event):
                raise self._failure(event)
            case None if error_in(event) is not None:
                raise self._failure(event)
        return events

    def _finish(self) -> Iterable[StreamEvent | Pause]:
        if self._reason == "refusal":
            category = quoted(str(self._details.get("category") or ""))
            words = quoted(str(self._details.get("explanation") or "it gave no reason"))
            yield StreamWarning(
                f"{self._model} refused to continue{f' ({category})' if category else ''}: {words}; "
                "rewind and rephrase the prompt, or choose another model.",
                about="refused",
            )
        calls = any(block.state.get("type") == "tool_use" for block in self._blocks.values())
        paused = self._reason == "pause_turn" and bool(self._blocks) and not calls
        if self._reason and self._reason not in _STOP_REASONS:
            yield cut_off(self._model, self._reason)
        reason = _STOP_REASONS.get(self._reason, "length" if self._reason else "stop")
        yield Pause() if paused else Finish(reason)

    def end(self) -> Iterable[StreamEvent]:
        """Check that the message is complete. Raises `StreamTruncated` if its end is missing."""
        if not self._finished:
            raise truncated(self._model)
        return ()

    def _start(self, index: int, block: JsonObject) -> Iterable[StreamEvent]:
        state = dict(block)
        self._blocks[index] = _ContentBlock(state)
        match block.get("type"):
            case "text":
                return (TextChunk(index, text_of(state.pop("text", ""))),)
            case "thinking":
                return (ThinkingChunk(index, text_of(state.pop("thinking", ""))),)
            case "redacted_thinking":
                return (ThinkingChunk(index, ""),)
            case "tool_use":
                arguments = state.pop("input", None)
                start = ToolCallStart(index, state.pop("id", ""), state.pop("name", ""))
                return (start, ToolArgsChunk(index, write_json(arguments).decode())) if arguments else (start,)
        return (TextChunk(index, ""),)

    def _delta(self, index: int, delta: JsonObject) -> Iterable[StreamEvent]:
        block = self._blocks.setdefault(index, _ContentBlock({}))
        match delta.get("type"):
            case "thinking_delta":
                return (ThinkingChunk(index, text_of(delta["thinking"])),)
            case "input_json_delta":
                text = text_of(delta["partial_json"])
                if block.state.get("type") == "tool_use":
                    return (ToolArgsChunk(index, text),) if text else ()
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
        block = self._blocks.setdefault(index, _ContentBlock({}))
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

    def _count(self, usage: Any) -> Iterable[StreamEvent]:  # noqa: ANN401 - any JSON value
        """Counts are cumulative: a later one replaces an earlier one, a missing one changes nothing."""
        if not usage:
            return ()
        if not isinstance(usage, dict):
            return self._counts.unreadable(usage)
        counts = self._usage
        counts.update((name, value) for name, value in usage.items() if value is not None)
        cache_reads, cache_writes = counts.get("cache_read_input_tokens"), counts.get("cache_creation_input_tokens")
        return self._counts.update(
            read=(counts.get("input_tokens"), cache_reads, cache_writes),
            written=(counts.get("output_tokens"),),
            cache_read=cache_reads,
            cache_write=cache_writes,
            thinking=as_object(counts.get("output_tokens_details")).get("thinking_tokens"),
        )

    def _failure(self, event: JsonObject) -> ProviderError:
        words, kind = words_and_kind(event)
        error = event.get("error")
        inner = error if isinstance(error, dict) else event
        status = http_status(inner.get("code")) or _STATUS_OF_ERROR.get(str(inner.get("type")), 500)
        failure = status_error(self._model, status, words, kind=kind)
        request_id = event.get("request_id")
        failure.request_id = request_id if isinstance(request_id, str) else None
        return failure


def _state(block: _ContentBlock) -> JsonObject | None:
    """The state to send back. Plain text and plain calls have none, and the API does not accept unsigned thinking."""
    state = block.state
    if state.get("type") == "thinking":
        return state if state.get("signature") else None
    if state.get("type") == "text":
        return state if any(value for name, value in state.items() if name != "type") else None
    if state.get("type") == "tool_use":
        return {name: value for name, value in state.items() if name != "type"} or None
    return state or None

"""Ollama's own format, `/api/chat`: one JSON object per line.

Unlike Ollama's Chat Completions API, it has a parameter for the context length, whose default is so small that the
server silently drops the beginning of a conversation. Tool calls are not streamed in chunks, and their stop reason is
"stop".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Literal

from planck_nb.ai.dialect import Decoder, WireRequest
from planck_nb.ai.dialects.json_wire import read_object, text_of, write_json
from planck_nb.ai.dialects.request_checks import no_video
from planck_nb.ai.dialects.token_counts import TokenCounts
from planck_nb.ai.dialects.tool_fields import add_extra, fit_context, wire_tools
from planck_nb.ai.message_history.encoded_history import encode_history
from planck_nb.ai.message_history.portable_history import PreparedMessage
from planck_nb.ai.messages import ImagePart, StopReason, ToolResultPart, UserMessage
from planck_nb.ai.models import Model
from planck_nb.ai.numbers import http_status
from planck_nb.ai.providers import base_url_of
from planck_nb.ai.request import Context, Options
from planck_nb.ai.schemas.schema_rules import SchemaRules
from planck_nb.ai.status_errors import body_error, cut_off, error_in, status_error, truncated, words_and_kind
from planck_nb.ai.stream_events import (
    Finish,
    PartEnd,
    StreamEvent,
    TextChunk,
    ThinkingChunk,
    ToolArgsChunk,
    ToolCallStart,
)
from planck_nb.base.errors import ProviderError, UnsupportedFeatureError
from planck_nb.base.json_types import JsonObject

_STOP_REASONS: Mapping[str, StopReason] = {
    "": "stop",
    "stop": "stop",
    "load": "stop",
    "unload": "stop",
    "length": "length",
}

_SCHEMAS = SchemaRules(properties=False, only_any_of=True, references=False, recursion=False)
"""The server reads properties with type, items, anyOf, enum and description, and drops other keywords."""

_EFFORTS = {
    "off": "low",
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}
"""Thinking levels of the models that accept only levels and cannot turn thinking off."""


class Ollama:
    """The dialect of `/api/chat`."""

    framing: Literal["sse", "ndjson"] = "ndjson"

    def request(self, model: Model, context: Context, options: Options, key: str | None) -> WireRequest:
        """Build the request for one streamed reply."""
        context, fitted_tools = fit_context(model, context, _SCHEMAS)
        messages: list[JsonObject] = [{"role": "system", "content": context.system}] if context.system else []
        history = encode_history(context, model, _messages, fitted_tools=fitted_tools)
        messages.extend(chain.from_iterable(history.wire))
        body: JsonObject = {"model": model.id, "messages": messages, "stream": True}
        if context.tools and options.tool_choice != "none":
            body["tools"] = [
                {
                    "type": "function",
                    "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
                }
                for tool in context.tools
            ]
        if options.output is not None:
            body["format"] = options.output
        warnings = [*_add_thinking(body, model, options.thinking), *_about_tools(model, options.tool_choice)]
        body["options"] = _parameters(model, options)
        _add_extra(body, options.extra)
        wire_tools(model, context.server_tools, {})  # its server lacks them
        return WireRequest(
            url=f"{base_url_of(model)}/api/chat",
            body=body,
            headers={"authorization": f"Bearer {key}"} if key else {},
            warnings=tuple(warnings),
            tools=fitted_tools,
        )

    def decoder(self, model: Model) -> Decoder:
        """Create a decoder for one reply."""
        return OllamaDecoder(model)

    def error(self, model: Model, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """Convert an HTTP error response to an error."""
        return body_error(model, status, headers, body)


DIALECT = Ollama()

_PARAMETERS = frozenset(
    "top_k min_p typical_p seed repeat_penalty repeat_last_n presence_penalty frequency_penalty num_ctx".split()
)
"""Model parameters: https://docs.ollama.com/modelfile#valid-parameters-and-values"""


def _messages(
    model: Model, message: PreparedMessage, _before: PreparedMessage | None, _warnings: list[str]
) -> list[JsonObject]:
    match message.type:
        case "user":
            return [_user(message, model)]
        case "assistant":
            wire: JsonObject = {"role": "assistant", "content": message.text}
            if thinking := "".join(part.text for part in message.content if part.type == "thinking"):
                wire["thinking"] = thinking
            if message.tool_calls:
                wire["tool_calls"] = [
                    {"id": call.id, "function": {"index": index, "name": call.name, "arguments": call.args}}
                    for index, call in enumerate(message.tool_calls)
                ]
            # A reply that was stopped while the model was thinking says nothing.
            return [wire] if message.text or message.tool_calls else []
        case "tool_result":
            return [_result(part, model) for part in message.content]


def _user(message: UserMessage, model: Model) -> JsonObject:
    images: list[ImagePart] = []
    for part in message.content:
        if part.type == "video":
            raise no_video(model)
        if part.type == "file":
            raise UnsupportedFeatureError(
                f"Ollama does not accept files, so {part.name} cannot be sent to {model}; send its text instead.",
                about_media=True,
            )
        if part.type == "image":
            images.append(part)
    wire: JsonObject = {"role": "user", "content": message.text}
    return {**wire, "images": _images(images, model)} if images else wire


def _result(part: ToolResultPart, model: Model) -> JsonObject:
    wire: JsonObject = {"role": "tool", "tool_name": part.name, "tool_call_id": part.id, "content": part.text}
    # A tool does not know whether the model accepts images; otherwise only its text is sent.
    return {**wire, "images": _images(part.images, model)} if part.images and model.takes("image") else wire


def _images(images: Sequence[ImagePart], model: Model) -> list[str]:
    if not model.takes("image"):
        raise UnsupportedFeatureError(
            f"{model} cannot see images; choose a model that can, or leave the image out.", about_media=True
        )
    found = [image.data for image in images if image.data is not None]
    if len(found) < len(images):
        raise UnsupportedFeatureError(
            "Ollama does not fetch images from a URL; read the image and pass its bytes as `data`.",
            about_media=True,
        )
    return found


def _add_thinking(body: JsonObject, model: Model, level: str | None) -> Iterable[str]:
    """Add the thinking parameters that the model has. Returns warnings."""
    if level is None:
        return ()
    if "gpt-oss" in model.id:
        body["think"] = _EFFORTS.get(level, level)
        return (f"{model} cannot turn thinking off; it thinks as little as possible.",) if level == "off" else ()
    if model.thinking_levels is not None and not model.thinking:
        return () if level == "off" else (f"{model} does not think, so thinking={level!r} was not sent.",)
    body["think"] = level != "off"
    return ()


def _about_tools(model: Model, choice: str | None) -> Iterable[str]:
    if choice in {None, "auto", "none"}:
        return ()
    return (f"Ollama cannot make {model} call a tool, so tool_choice={choice!r} was not sent.",)


def _parameters(model: Model, options: Options) -> JsonObject:
    found: JsonObject = {
        "num_ctx": model.context_window,
        "num_predict": options.max_tokens,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "stop": list(options.stop) or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _add_extra(body: JsonObject, extra: Mapping[str, object]) -> None:
    """Add the caller's fields, with model parameters among the `options`."""
    parameters = extra.get("options")
    options = {**body["options"], **{name: extra[name] for name in _PARAMETERS & extra.keys()}}
    options = {**options, **parameters} if isinstance(parameters, Mapping) else options
    add_extra(body, {name: value for name, value in extra.items() if name not in _PARAMETERS})
    body["options"] = options
    if not options:
        del body["options"]


class OllamaDecoder:
    """Decodes one streamed reply."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._parts = 0
        self._open: Literal["text", "thinking"] | None = None
        self._called = False
        self._finished = False

    def feed(self, data: bytes) -> Iterable[StreamEvent]:
        """The events of one line."""
        if self._finished:
            return ()
        line = read_object(data, self._model)
        message = line.get("message") or {}
        # The hot path: a line that continues the text.
        if self._open == "text" and len(message) == 2 and not line.get("done") and "error" not in line:  # noqa: PLR2004
            text = message.get("content")
            if text and "role" in message and isinstance(text, str):
                return (TextChunk(self._parts - 1, text),)
        return self._line(line, message)

    def end(self) -> Iterable[StreamEvent]:
        """Check that the reply is complete. Raises `StreamTruncated` if its last line is missing."""
        if not self._finished:
            raise truncated(self._model)
        return ()

    def _line(self, line: JsonObject, message: JsonObject) -> Iterable[StreamEvent]:
        if "error" in line or (not message and "done" not in line and error_in(line) is not None):
            words, kind = words_and_kind({"error": error_in(line) or line["error"]})
            raise status_error(self._model, _status(line), words, kind=kind)
        if thought := text_of(message.get("thinking")):
            yield from self._turn_to("thinking")
            yield ThinkingChunk(self._parts - 1, thought)
        if text := text_of(message.get("content")):
            yield from self._turn_to("text")
            yield TextChunk(self._parts - 1, text)
        for call in message.get("tool_calls") or ():
            yield from self._call(call)
        if line.get("done"):
            yield from self._turn_to(None)
            yield from self._usage(line)
            self._finished = True
            word = str(line.get("done_reason") or "")
            if word not in _STOP_REASONS:
                yield cut_off(self._model, word)
            reason = _STOP_REASONS.get(word, "length")
            yield Finish("tool_use" if self._called and reason == "stop" else reason)

    def _usage(self, line: JsonObject) -> Iterable[StreamEvent]:
        """The usage, if there are counts. The server leaves them out for a prompt that is completely cached."""
        read, written = line.get("prompt_eval_count"), line.get("eval_count")
        if read is None and written is None:
            return ()
        return TokenCounts(self._model).update(read=(read,), written=(written,))

    def _turn_to(self, kind: Literal["text", "thinking"] | None) -> Iterable[StreamEvent]:
        """End the open part unless it is of this kind, and start a new one."""
        if kind == self._open:
            return
        if self._open is not None:
            yield PartEnd(self._parts - 1)
        if kind is not None:
            self._parts += 1
        self._open = kind

    def _call(self, call: JsonObject) -> Iterable[StreamEvent]:
        yield from self._turn_to(None)
        self._called = True
        index, self._parts = self._parts, self._parts + 1
        function = call["function"]
        yield ToolCallStart(index, call.get("id") or "", function["name"])
        arguments = function.get("arguments")
        if arguments:
            text = arguments if isinstance(arguments, str) else write_json(arguments).decode()
            yield ToolArgsChunk(index, text)
        yield PartEnd(index)


def _status(line: JsonObject) -> int:
    """The HTTP status for an error inside the stream, 500 if it names none."""
    return http_status(line.get("status_code") or line.get("status")) or 500

"""OpenAI Chat Completions, the format that most servers of other makers speak too.

Its stream says little: parts have no borders, so all of them end with the message, and a reply is complete when a
finish reason or `[DONE]` has come. Servers differ in where they put reasoning and in what they leave out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

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
from planck_nb.ai.messages import AssistantMessage, Message, StopReason, Usage
from planck_nb.ai.models import Model
from planck_nb.ai.provider import Decoder, WireRequest
from planck_nb.ai.providers import base_url_of, is_first_party
from planck_nb.ai.providers.wire import read_object, write_json
from planck_nb.base.errors import ProviderError, StreamTruncated
from planck_nb.base.json import JsonObject

_STOP_REASONS: Mapping[str, StopReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}

_REASONING_FIELDS = ("reasoning_content", "reasoning")


class Chat:
    """The Chat Completions dialect."""

    framing: Literal["sse", "ndjson"] = "sse"

    def request(self, model: Model, context: Context, options: Options, key: str | None) -> WireRequest:
        """The request for one streamed reply."""
        messages: list[JsonObject] = [{"role": "system", "content": context.system}] if context.system else []
        for message in prepare(context.messages, model):
            messages.extend(_messages(message))
        body: JsonObject = {
            "model": model.id,
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if context.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
                }
                for tool in context.tools
            ]
        _add_options(body, model, options)
        return WireRequest(
            url=f"{base_url_of(model)}/chat/completions",
            body=body,
            headers={"authorization": f"Bearer {key}"} if key else {},
        )

    def decoder(self, model: Model) -> Decoder:
        """A decoder for one reply."""
        return ChatDecoder(model)

    def error(self, model: Model, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """What an HTTP error means."""
        return body_error(model, status, headers, body)


DIALECT = Chat()


def _messages(message: Message) -> Iterable[JsonObject]:
    match message.type:
        case "user":
            if len(message.content) == 1:
                yield {"role": "user", "content": message.content[0].text}
            else:
                yield {"role": "user", "content": [{"type": "text", "text": part.text} for part in message.content]}
        case "assistant":
            yield _assistant(message)
        case "tool_result":
            for part in message.content:
                yield {"role": "tool", "tool_call_id": part.id, "content": part.text}


def _assistant(message: AssistantMessage) -> JsonObject:
    wire: JsonObject = {"role": "assistant", "content": message.text or None}
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": write_json(call.args).decode()},
        }
        for call in message.tool_calls
    ]
    if calls:
        wire["tool_calls"] = calls
    elif wire["content"] is None:
        wire["content"] = ""
    for part in message.content:
        # Reasoning goes back under the name it came with; templates of interleaved models need it.
        if part.type == "thinking" and part.provider_state:
            field = part.provider_state["field"]
            wire[field] = wire.get(field, "") + part.text
    return wire


def _add_options(body: JsonObject, model: Model, options: Options) -> None:
    vendor = model.provider == "openai" and is_first_party(model)
    if options.max_tokens is not None:
        body["max_completion_tokens" if vendor else "max_tokens"] = options.max_tokens
    if options.temperature is not None and model.settings.get("temperature", True):
        body["temperature"] = options.temperature
    if options.top_p is not None:
        body["top_p"] = options.top_p
    if options.stop:
        body["stop"] = list(options.stop)
    if options.thinking is not None:
        _add_thinking(body, model, options.thinking)
    body.update(options.extra)


def _add_thinking(body: JsonObject, model: Model, level: str) -> None:
    if model.provider == "llama_cpp":
        body["chat_template_kwargs"] = {"enable_thinking": level != "off"}
        return
    levels = model.settings.get("levels")
    effort = {"off": "none"}.get(level, level)
    if isinstance(levels, Mapping):
        effort = levels.get(level, effort)
    if effort is not None and (model.thinking or model.context_window is None):
        body["reasoning_effort"] = effort


class ChatDecoder:
    """Decodes one streamed reply."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._parts = 0
        self._text: int | None = None
        self._thinking: int | None = None
        self._reasoning_field = ""
        self._calls: dict[int, tuple[int, str]] = {}
        self._reason: StopReason | None = None
        self._finished = False

    def feed(self, data: bytes) -> Iterable[StreamEvent]:
        """The events of one chunk."""
        if self._finished:
            return ()
        if data == b"[DONE]":
            return self._finish()
        chunk = read_object(data, self._model)
        choices = chunk.get("choices")
        if not choices:
            return self._rest(chunk)
        choice = choices[0]
        if choice.get("index"):
            return ()  # a second answer that nobody asked for
        delta = choice.get("delta") or {}
        text = delta.get("content")
        # The hot path: a chunk that carries text and nothing else, or beside it the role once more.
        if (
            text
            and self._text is not None
            and isinstance(text, str)
            and len(delta) <= 1 + ("role" in delta)
            and not choice.get("finish_reason")
        ):
            event = TextDelta(self._text, text)
            return (event, *self._rest(chunk)) if chunk.get("usage") else (event,)
        return self._mixed(chunk, choice, delta)

    def end(self) -> Iterable[StreamEvent]:
        """The last events. Raises `StreamTruncated` when neither a finish reason nor `[DONE]` came."""
        if self._finished:
            return ()
        if self._reason is None:
            raise StreamTruncated(
                f"The answer of {self._model} ended before it was complete; ask again.",
                provider=self._model.provider,
                model=self._model.id,
            )
        return self._finish()

    def _mixed(self, chunk: JsonObject, choice: JsonObject, delta: JsonObject) -> Iterable[StreamEvent]:
        if thought := next((delta[field] for field in _REASONING_FIELDS if isinstance(delta.get(field), str)), ""):
            if self._thinking is None:
                self._thinking = self._next()
                self._reasoning_field = next(field for field in _REASONING_FIELDS if delta.get(field) == thought)
            yield ThinkingDelta(self._thinking, thought)
        refusal = _text(delta.get("refusal"))
        if text := _text(delta.get("content")) + refusal:
            if self._text is None:
                self._text = self._next()
            yield TextDelta(self._text, text)
        for position, call in enumerate(delta.get("tool_calls") or ()):
            yield from self._call(call, position)
        if refusal:
            self._reason = "refusal"
        elif (reason := choice.get("finish_reason")) and self._reason != "refusal":
            if reason == "error":
                raise self._failure(choice.get("error") or chunk.get("error") or "the server gave no reason")
            self._reason = _STOP_REASONS.get(reason, "stop")
        yield from self._rest(chunk)

    def _call(self, call: JsonObject, position: int) -> Iterable[StreamEvent]:
        key = call.get("index", position)
        call_id = call.get("id") or ""
        function = call.get("function") or {}
        known = self._calls.get(key)
        if known is None or (call_id and call_id != known[1]):
            known = self._calls[key] = (self._next(), call_id)
            yield ToolCallStart(known[0], call_id, function.get("name") or "")
        arguments = function.get("arguments")
        if arguments:
            text = arguments if isinstance(arguments, str) else write_json(arguments).decode()
            yield ToolArgsDelta(known[0], text)

    def _rest(self, chunk: JsonObject) -> Iterable[StreamEvent]:
        """What a chunk may carry beside choices."""
        if error := chunk.get("error"):
            raise self._failure(error)
        usage = chunk.get("usage")
        return (UsageUpdate(_usage(usage)),) if usage else ()

    def _finish(self) -> Iterable[StreamEvent]:
        self._finished = True
        events: list[StreamEvent] = []
        for index in range(self._parts):
            state = {"field": self._reasoning_field} if index == self._thinking else None
            events.append(PartEnd(index, state))
        return (*events, Finish(self._reason or "stop"))

    def _next(self) -> int:
        self._parts += 1
        return self._parts - 1

    def _failure(self, error: Any) -> ProviderError:  # noqa: ANN401 - any JSON value
        words, kind = words_and_kind({"error": error})
        code = error.get("code") if isinstance(error, dict) else None
        return status_error(self._model, _status(code, kind), words, kind=kind)


def _status(code: object, kind: str) -> int:
    """The HTTP status that an error inside a stream stands for; 500 where it gives no hint."""
    if isinstance(code, str) and code.isdigit():
        code = int(code)
    if isinstance(code, int) and 400 <= code <= 599:  # noqa: PLR2004
        return code
    if "rate_limit" in kind or "insufficient_quota" in kind:
        return 429
    if "authentication" in kind or "invalid_api_key" in kind:
        return 401
    return 400 if "invalid_request" in kind or "context_length" in kind else 500


def _text(content: Any) -> str:  # noqa: ANN401 - any JSON value
    """The text of a content field, which some servers send as a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return ""


def _usage(usage: JsonObject) -> Usage:
    prompt = usage.get("prompt_tokens_details") or {}
    completion = usage.get("completion_tokens_details") or {}
    return Usage(
        input_tokens=usage.get("prompt_tokens") or 0,
        output_tokens=usage.get("completion_tokens") or 0,
        cache_read_tokens=prompt.get("cached_tokens") or 0,
        cache_write_tokens=prompt.get("cache_write_tokens") or 0,
        thinking_tokens=completion.get("reasoning_tokens") or 0,
    )

"""OpenAI Chat Completions, the format that most other servers support, too.

Its stream does not mark the end of parts, so all of them end with the message. A reply is complete after a finish
reason or `[DONE]`. Servers differ in the field for reasoning and in the fields that they leave out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Literal

from planck_nb.ai.dialect import Decoder, WireRequest
from planck_nb.ai.dialects.chat_messages import arrange, encode_message, with_system
from planck_nb.ai.dialects.chat_options import add_options
from planck_nb.ai.dialects.json_wire import read_object, text_of, write_json
from planck_nb.ai.dialects.openai_common import (
    SCHEMAS,
    failure_of,
    offered_tools,
)
from planck_nb.ai.dialects.request_checks import output_prompt
from planck_nb.ai.dialects.token_counts import TokenCounts, as_object
from planck_nb.ai.dialects.tool_fields import fit_context, wire_tools
from planck_nb.ai.message_history.encoded_history import encode_history
from planck_nb.ai.messages import (
    StopReason,
)
from planck_nb.ai.models import Model
from planck_nb.ai.providers import base_url_of, rules_of
from planck_nb.ai.request import Context, Options
from planck_nb.ai.server_rules import Path
from planck_nb.ai.status_errors import body_error, truncated
from planck_nb.ai.stream_events import (
    Finish,
    PartEnd,
    StreamEvent,
    TextChunk,
    ThinkingChunk,
    ToolArgsChunk,
    ToolCallStart,
)
from planck_nb.base.errors import ProviderError
from planck_nb.base.json_types import JsonObject

_STOP_REASONS: Mapping[str, StopReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}

_CACHED = ("cached_tokens", "prompt_cache_hit_tokens", "cached_tokens")
"""The count of cached tokens: OpenAI's is in the details of the prompt, DeepSeek's and Moonshot's are beside them.

https://api-docs.deepseek.com/guides/kv_cache, https://platform.moonshot.ai/docs/api/chat
"""

_REASONING_FIELDS = ("reasoning_content", "reasoning")


class Chat:
    """The Chat Completions dialect."""

    framing: Literal["sse", "ndjson"] = "sse"

    def request(self, model: Model, context: Context, options: Options, key: str | None) -> WireRequest:
        """Build the request for one streamed reply."""
        context, changed = fit_context(model, context, SCHEMAS)
        history = encode_history(context, model, encode_message, changed=changed)
        messages = arrange(chain.from_iterable(history.wire), rules_of(model))
        if system := "\n\n".join(filter(None, (context.system, output_prompt(rules_of(model), options)))):
            messages = with_system(messages, system, rules_of(model))
        body: JsonObject = {
            "model": model.id,
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        warnings = history.warnings
        _add_tools(body, model, context, options, warnings)
        wire_tools(model, context.server_tools, {})  # this format has none
        body = add_options(body, model, options, warnings)
        return WireRequest(
            url=f"{base_url_of(model)}/chat/completions",
            body=body,
            headers={"authorization": f"Bearer {key}"} if key else {},
            warnings=tuple(warnings),
            tools=changed,
        )

    def decoder(self, model: Model) -> Decoder:
        """Create a decoder for one reply."""
        return ChatDecoder(model)

    def error(self, model: Model, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """Convert an HTTP error response to an error."""
        return body_error(model, status, headers, body)


DIALECT = Chat()


def _add_tools(body: JsonObject, model: Model, context: Context, options: Options, warnings: list[str]) -> None:
    tools, choice = offered_tools(model, context, options, warnings)
    if tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
            for tool in tools
        ]
    if choice is not None:
        by_name = any(tool.name == choice for tool in tools)
        body["tool_choice"] = {"type": "function", "function": {"name": choice}} if by_name else choice


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
        self._counts = TokenCounts(model)
        self._rules = rules_of(model)
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
            return ()  # an alternative answer
        # Some servers send the whole message instead of deltas; after deltas it only repeats them.
        delta = choice.get("delta") or (not self._parts and choice.get("message")) or {}
        text = delta.get("content")
        # The hot path: a chunk that contains only text, or text and the role.
        if (
            text
            and self._text is not None
            and isinstance(text, str)
            and len(delta) <= 1 + ("role" in delta)
            and not choice.get("finish_reason")
        ):
            event = TextChunk(self._text, text)
            return (event, *self._rest(chunk)) if chunk.get("usage") else (event,)
        return self._mixed(chunk, choice, delta)

    def end(self) -> Iterable[StreamEvent]:
        """The last events. Raises `StreamTruncated` if neither a finish reason nor `[DONE]` was received."""
        if self._finished:
            return ()
        if self._reason is None:
            raise truncated(self._model)
        return self._finish()

    def _mixed(self, chunk: JsonObject, choice: JsonObject, delta: JsonObject) -> Iterable[StreamEvent]:
        field, thought = _reasoning(delta)
        if thought:
            if self._thinking is None:
                self._thinking, self._reasoning_field = self._next(), field
            yield ThinkingChunk(self._thinking, thought)
        refusal = _text(delta.get("refusal"))
        if text := _text(delta.get("content")) + refusal:
            if self._text is None:
                self._text = self._next()
            yield TextChunk(self._text, text)
        for position, call in enumerate(delta.get("tool_calls") or ()):
            yield from self._call(call, position)
        if refusal:
            self._reason = "refusal"
        elif (reason := choice.get("finish_reason")) and self._reason != "refusal":
            if reason == "error":
                raise failure_of(self._model, choice.get("error") or chunk.get("error") or "the server gave no reason")
            self._reason = _STOP_REASONS.get(reason, "stop")
        yield from self._rest(chunk)

    def _call(self, call: JsonObject, position: int) -> Iterable[StreamEvent]:
        index = call.get("index")
        key = position if index is None else index
        call_id = call.get("id") or ""
        function = call.get("function") or {}
        known = self._calls.get(key)
        if known is None or (call_id and known[1] and call_id != known[1]):
            known = self._calls[key] = (self._next(), call_id)
            yield ToolCallStart(known[0], call_id, function.get("name") or "")
        elif call_id:  # some servers send it late; the call keeps the id that was generated for it
            self._calls[key] = (known[0], call_id)
        arguments = function.get("arguments")
        if arguments:
            text = arguments if isinstance(arguments, str) else write_json(arguments).decode()
            yield ToolArgsChunk(known[0], text)

    def _rest(self, chunk: JsonObject) -> Iterable[StreamEvent]:
        """Handle the fields of a chunk other than choices."""
        if error := chunk.get("error"):
            raise failure_of(self._model, error)
        for path in self._rules.usage_places:
            if usage := _at(chunk, path):
                return self._count(usage)
        return ()

    def _count(self, usage: Any) -> Iterable[StreamEvent]:  # noqa: ANN401 - any JSON value
        if not isinstance(usage, dict):
            return self._counts.unreadable(usage)
        prompt = as_object(usage.get("prompt_tokens_details"))
        completion = as_object(usage.get("completion_tokens_details"))
        cached = (source.get(name) for source, name in zip((prompt, usage, usage), _CACHED, strict=True))
        return self._counts.update(
            read=(usage.get("prompt_tokens"),),
            written=(usage.get("completion_tokens"),),
            cache_read=next((count for count in cached if count is not None), None),
            cache_write=prompt.get("cache_write_tokens"),
            thinking=completion.get("reasoning_tokens"),
            total=usage.get("total_tokens"),
            cost=self._counts.price(usage),
        )

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


def _reasoning(delta: JsonObject) -> tuple[str, str]:
    """The field of a delta that contains reasoning, and its text; both are empty if there is none."""
    for field in _REASONING_FIELDS:
        if isinstance(text := delta.get(field), str):
            return field, text
    return "", ""


def _at(value: Any, path: Path) -> Any:  # noqa: ANN401 - any JSON value
    """The value at a place in a chunk, None if there is none."""
    for step in path:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _text(content: Any) -> str:  # noqa: ANN401 - any JSON value
    """The text of a content field, which some servers send as a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(text_of(part.get("text")) for part in content if isinstance(part, dict))
    return ""

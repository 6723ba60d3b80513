"""OpenAI Chat Completions, the format that most other servers support, too.

Its stream does not mark the end of parts, so all of them end with the message. A reply is complete after a finish
reason or `[DONE]`. Servers differ in the field for reasoning and in the fields that they leave out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import Any, Literal

from planck_nb.ai.dialect import Decoder, WireRequest
from planck_nb.ai.dialects.chat_calls import StreamedCalls, merged_details
from planck_nb.ai.dialects.chat_messages import are_neighbours, arrange, encode_message, endpoint_of, with_system
from planck_nb.ai.dialects.chat_options import add_options
from planck_nb.ai.dialects.json_wire import read_object, text_of
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
from planck_nb.ai.status_errors import body_error, cut_off, error_in, truncated
from planck_nb.ai.stream_events import (
    Finish,
    PartEnd,
    StreamEvent,
    TextChunk,
    ThinkingChunk,
)
from planck_nb.base.errors import ProviderError
from planck_nb.base.json_types import JsonObject

_CACHED = ("cached_tokens", "prompt_cache_hit_tokens", "cached_tokens")
"""Names for cached tokens: OpenAI's among the prompt's details, then DeepSeek's and Moonshot's.

https://api-docs.deepseek.com/guides/kv_cache, https://platform.moonshot.ai/docs/api/chat
"""

_REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")

_THOUGHTS = frozenset({"thinking", "reasoning"})
"""Types for thinking among the parts in a content."""


class Chat:
    """The Chat Completions dialect."""

    framing: Literal["sse", "ndjson"] = "sse"

    def request(self, model: Model, context: Context, options: Options, key: str | None) -> WireRequest:
        """Build the request for one streamed reply."""
        context, fitted_tools = fit_context(model, context, SCHEMAS)
        rules = rules_of(model)
        history = encode_history(context, model, encode_message, fitted_tools=fitted_tools, neighbours=are_neighbours)
        messages = [*chain.from_iterable(history.wire)]
        if history.has_neighbours or rules.alternates:
            messages = arrange(messages, rules)
        if system := "\n\n".join(filter(None, (context.system, output_prompt(rules, options)))):
            messages = with_system(messages, system, rules)
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
            tools=fitted_tools,
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
        self._opaque: JsonObject = {}
        self._reason: StopReason | None = None
        self._unknown_reason = ""
        self._counts = TokenCounts(model)
        self._rules = rules_of(model)
        self._usage_word = _usage_word(self._rules.usage_places)
        self._calls = StreamedCalls(self._rules.opaque_fields)
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
            return self._rest(chunk, has_usage=True)
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
            return (event, *self._rest(chunk, has_usage=True)) if chunk.get("usage") else (event,)
        return self._mixed(chunk, choice, delta, has_usage=self._usage_word in data)

    def end(self) -> Iterable[StreamEvent]:
        """The last events. Raises `StreamTruncated` if neither a finish reason nor `[DONE]` was received."""
        if self._finished:
            return ()
        if self._reason is None:
            raise truncated(self._model)
        return self._finish()

    def _mixed(
        self, chunk: JsonObject, choice: JsonObject, delta: JsonObject, *, has_usage: bool
    ) -> Iterable[StreamEvent]:
        refusal = ""
        if delta and not ("tool_calls" in delta and len(delta) == 1):
            refusal = _text(delta.get("refusal"))
            yield from self._words(delta, refusal)
        if "tool_calls" in delta or "function_call" in delta:
            yield from self._feed_calls(delta)
        if refusal:
            self._reason = "refusal"
        elif (reason := choice.get("finish_reason")) and self._reason != "refusal":
            if reason == "error":
                raise failure_of(self._model, choice.get("error") or chunk.get("error") or "the server gave no reason")
            self._end_for(str(reason))
        yield from self._rest(chunk, has_usage=has_usage)

    def _words(self, delta: JsonObject, refusal: str) -> Iterable[StreamEvent]:
        """Decode a delta apart from calls."""
        field, thought = _reasoning(delta)
        if thought:
            if self._thinking is None:
                self._thinking, self._reasoning_field = self._next(), field
            yield ThinkingChunk(self._thinking, thought)
        if not self._rules.opaque_fields.isdisjoint(delta):
            self._keep_opaque(delta)
        if text := _text(delta.get("content")) + refusal:
            if self._text is None:
                self._text = self._next()
            yield TextChunk(self._text, text)

    def _keep_opaque(self, delta: JsonObject) -> None:
        for name, value in delta.items():
            if name in self._rules.opaque_fields and value:
                self._opaque[name] = _more_of(self._opaque.get(name), value)

    def _feed_calls(self, delta: JsonObject) -> list[StreamEvent]:
        calls = delta.get("tool_calls") or ()
        events: list[StreamEvent] = []
        for position, call in enumerate(calls):
            index = call.get("index")
            place = (None if len(calls) == 1 else position) if index is None else index
            events += self._calls.feed(call, place, self._next)
        if isinstance(function := delta.get("function_call"), dict):  # as it was before there were several
            events += self._calls.feed({"function": function}, "function_call", self._next)
        return events

    def _end_for(self, word: str) -> None:
        """Note the finish reason; an unknown word cuts the reply off."""
        known = self._rules.finish_reasons
        reason = known.get(word) or known.get(word.lower())
        self._reason = reason or "length"
        self._unknown_reason = "" if reason else word

    def _rest(self, chunk: JsonObject, *, has_usage: bool) -> Iterable[StreamEvent]:
        """Handle the fields of a chunk other than choices."""
        if ("error" in chunk or not chunk.get("choices")) and (error := error_in(chunk)) is not None:
            raise failure_of(self._model, error)
        if has_usage:
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
        events = [*self._calls.end()]
        states = self._calls.states()
        endpoint = endpoint_of(self._model) if states or self._opaque else ""
        for state in states.values():
            state["endpoint"] = endpoint
        if self._thinking is not None:
            states[self._thinking] = {"field": self._reasoning_field}
        if self._opaque:
            index = self._thinking if self._thinking is not None else self._text
            if index is None:
                index = self._next()
                events.append(ThinkingChunk(index, ""))
            states[index] = {**states.get(index, {}), "fields": self._opaque, "endpoint": endpoint}
        events += [PartEnd(index, states.get(index)) for index in range(self._parts)]
        if self._unknown_reason:
            events.append(cut_off(self._model, self._unknown_reason))
        return (*events, Finish(self._reason or "stop"))

    def _next(self) -> int:
        self._parts += 1
        return self._parts - 1


@lru_cache
def _usage_word(places: tuple[Path, ...]) -> bytes:
    """The bytes in every chunk with token counts."""
    words = {str(path[-1]) for path in places}
    return words.pop().encode() if len(words) == 1 else b""


def _reasoning(delta: JsonObject) -> tuple[str, str]:
    """Find reasoning in a delta: its field and text, or empty texts."""
    for field in _REASONING_FIELDS:
        if isinstance(text := delta.get(field), str) and text:
            return field, text
    if isinstance(content := delta.get("content"), list):
        return "", "".join(_thought(part) for part in content if isinstance(part, dict))
    if isinstance(details := delta.get("reasoning_details"), list):
        return "", "".join(_text([detail]) for detail in details if isinstance(detail, dict))
    return "", ""


def _thought(part: JsonObject) -> str:
    """Thinking in a content part, in Magistral's form: https://docs.mistral.ai/capabilities/reasoning."""
    if part.get("type") not in _THOUGHTS:
        return ""
    for name in ("thinking", "reasoning", "text"):
        if isinstance(value := part.get(name), str):
            return value
        if isinstance(value, list):
            return _text(value)
    return ""


def _more_of(known: Any, value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Join an opaque field's value so far with another delta's."""
    if isinstance(value, list):
        return merged_details(known if isinstance(known, list) else (), value)
    return {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value


def _at(value: Any, path: Path) -> Any:  # noqa: ANN401 - any JSON value
    """The value at a place in a chunk, None without one."""
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
        texts = (
            part for part in content if isinstance(part, dict) and part.get("type") not in {"thinking", "reasoning"}
        )
        return "".join(text_of(part.get("text")) for part in texts)
    return ""

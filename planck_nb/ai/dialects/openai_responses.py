"""OpenAI Responses, used without server-side state: nothing is stored there, and reasoning is encrypted.

A reply is a list of items, identified by their id or, if a server leaves the id out or changes it, by their position.
An item becomes one part for each of its texts. `provider_state` contains what is sent back unchanged: "item" the item,
"content" the content object that contained the text, "after" the id of the reasoning before it. Items of unknown kinds,
such as calls of the vendor's own tools, are text parts without text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Literal, TypeAlias

from planck_nb.ai.dialect import Decoder, WireRequest
from planck_nb.ai.dialects.json_wire import read_object, write_json
from planck_nb.ai.dialects.openai_common import (
    SCHEMAS,
    add_sampling,
    add_template_switch,
    address,
    effort,
    failure_of,
    images_of,
    offered_tools,
    output_format,
    reasons,
)
from planck_nb.ai.dialects.request_checks import no_video
from planck_nb.ai.dialects.token_counts import TokenCounts, as_object
from planck_nb.ai.dialects.tool_fields import add_extra, fit_context, wire_tools
from planck_nb.ai.message_builder import parse_arguments
from planck_nb.ai.message_history.encoded_history import encode_history
from planck_nb.ai.message_history.portable_history import PreparedMessage
from planck_nb.ai.messages import (
    AssistantMessage,
    StopReason,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UserMessage,
    UserPart,
)
from planck_nb.ai.models import Model
from planck_nb.ai.providers import base_url_of, rules_of
from planck_nb.ai.request import Context, Options
from planck_nb.ai.status_errors import body_error, cut_off, error_in, truncated
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

_MIN_OUTPUT_TOKENS = 16
"""The smallest `max_output_tokens` that OpenAI accepts."""

_STRIDE = 1_000_000
"""Distance between two items' part indices, which keeps parts in their items' order."""


_SERVER_TOOLS: Mapping[str, JsonObject] = {
    "web_search": {"type": "web_search"},
    "code_execution": {"type": "code_interpreter", "container": {"type": "auto"}},
}
_RESULTS = {"web_search": "web_search_call.action.sources", "code_execution": "code_interpreter_call.outputs"}
"""The results of server tools, which a reply contains only if they are requested."""


class Responses:
    """The Responses dialect."""

    framing: Literal["sse", "ndjson"] = "sse"

    def request(self, model: Model, context: Context, options: Options, key: str | None) -> WireRequest:
        """Build the request for one streamed reply."""
        context, fitted_tools = fit_context(model, context, SCHEMAS)
        history = encode_history(context, model, _items, fitted_tools=fitted_tools)
        warnings = history.warnings
        items = list(chain.from_iterable(history.wire))
        body: JsonObject = {"model": model.id, "input": items, "stream": True, "store": False}
        if context.system:
            body["instructions"] = context.system
        if rules_of(model).is_vendor:
            body["stream_options"] = {"include_obfuscation": False}
        if reasons(model):
            body["include"] = ["reasoning.encrypted_content"]
        _add_tools(body, model, context, options, warnings)
        _add_options(body, model, options, warnings)
        return WireRequest(
            url=f"{base_url_of(model)}/responses",
            body=body,
            headers={"authorization": f"Bearer {key}"} if key else {},
            warnings=tuple(warnings),
            tools=fitted_tools,
        )

    def decoder(self, model: Model) -> Decoder:
        """Create a decoder for one reply."""
        return ResponsesDecoder(model)

    def error(self, model: Model, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """Convert an HTTP error response to an error."""
        return body_error(model, status, headers, body)


DIALECT = Responses()


def _items(
    model: Model, message: PreparedMessage, _before: PreparedMessage | None, warnings: list[str]
) -> list[JsonObject]:
    match message.type:
        case "user":
            return [_asked(model, message)]
        case "assistant":
            return _said(message)
        case "tool_result":
            return [_returned(model, part, warnings) for part in message.content]


def _asked(model: Model, message: UserMessage) -> JsonObject:
    content = message.content
    if len(content) == 1 and content[0].type == "text":
        return {"role": "user", "content": content[0].text}
    return {"role": "user", "content": [_input(model, part) for part in content]}


def _input(model: Model, part: UserPart) -> JsonObject:
    match part.type:
        case "text":
            return {"type": "input_text", "text": part.text}
        case "image":
            return {"type": "input_image", "image_url": address(model, part), "detail": "auto"}
        case "video":
            raise no_video(model)
        case "file" if part.url:
            return {"type": "input_file", "file_url": address(model, part)}
        case "file":
            return {"type": "input_file", "filename": part.name, "file_data": address(model, part)}


def _returned(model: Model, result: ToolResultPart, warnings: list[str]) -> JsonObject:
    output: str | list[JsonObject] = result.text
    if images := images_of(model, result, warnings):
        shown: list[UserPart] = [TextPart(result.text), *images] if result.text else [*images]
        output = [_input(model, part) for part in shown]
    return {"type": "function_call_output", "call_id": result.id, "output": output}


def _said(message: AssistantMessage) -> list[JsonObject]:
    """The items of a model's message, with the fields that they were received with."""
    items: list[JsonObject] = []
    led_by: set[str] = set()
    for part in message.content:
        state = part.provider_state or {}
        item = state.get("item")
        if "after" in state:
            led_by.add(state["after"])
        if part.type == "tool_call":
            items.append(_call(part, item or {}))
        elif part.type == "text" and (item is None or "content" in state):
            piece = _piece(part, state)
            if items and item is not None and items[-1].get("id") == item.get("id") is not None:
                items[-1]["content"].extend(piece["content"])
            elif part.text or item is not None:
                items.append(piece)
        elif item is not None:
            items.append(item)
    return _with_whole_reasoning(items, led_by)


def _piece(part: TextPart, state: JsonObject) -> JsonObject:
    """A text of the model's message as an item: with its original id, or as plain text."""
    item = state.get("item")
    if item is None:
        return {"type": "message", "role": "assistant", "content": part.text}
    content = state["content"]
    return {**item, "content": [{**content, _text_field(content): part.text}]}


def _text_field(content: Mapping[str, Any]) -> str:
    return "refusal" if content.get("type") == "refusal" else "text"


def _call(part: ToolCallPart, item: JsonObject) -> JsonObject:
    written = item.get("arguments")
    if not written or parse_arguments(written) != part.args:
        written = write_json(part.args).decode()
    return {**item, "type": "function_call", "call_id": part.id, "name": part.name, "arguments": written}


def _with_whole_reasoning(items: list[JsonObject], led_by: set[str]) -> list[JsonObject]:
    """The items without reasoning that the API would refuse.

    The API accepts reasoning only with content, encrypted or plain, and with an item after it. An item with an id is
    accepted only together with the reasoning before it, whose ids are `led_by`; an item without an id always is.
    """
    while items and _is_reasoning(items[-1]):
        items.pop()
    whole = [item for item in items if not _is_reasoning(item) or item.get("encrypted_content") or item.get("content")]
    if led_by <= {str(item.get("id")) for item in whole}:
        return whole
    return [_anonymous(item) for item in whole]


def _is_reasoning(item: JsonObject) -> bool:
    return bool(item.get("type") == "reasoning")


def _anonymous(item: JsonObject) -> JsonObject:
    match item.get("type"):
        case "message" if isinstance(item["content"], list):
            text = "".join(str(content[_text_field(content)]) for content in item["content"])
            kept: JsonObject = {name: item[name] for name in ("type", "role", "phase") if name in item}
            return {**kept, "content": text}
        case "function_call":
            return {name: value for name, value in item.items() if name != "id"}
    return item


def _add_tools(body: JsonObject, model: Model, context: Context, options: Options, warnings: list[str]) -> None:
    tools, choice = offered_tools(model, context, options, warnings)
    if tools:
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": False,  # the default here is True, which refuses most schemas
            }
            for tool in tools
        ]
    if choice is not None:
        by_name = any(tool.name == choice for tool in tools)
        body["tool_choice"] = {"type": "function", "name": choice} if by_name else choice
    if context.server_tools:
        body["tools"] = [*body.get("tools", ()), *wire_tools(model, context.server_tools, _SERVER_TOOLS)]
        if rules_of(model).is_vendor:
            wanted = [_RESULTS[tool.name] for tool in context.server_tools]
            body["include"] = [*body.get("include", ()), *wanted]


def _add_options(body: JsonObject, model: Model, options: Options, warnings: list[str]) -> None:
    if (limit := options.max_tokens) is not None:
        if rules_of(model).is_vendor and limit < _MIN_OUTPUT_TOKENS:
            warnings.append(
                f"{model} does not accept max_tokens below {_MIN_OUTPUT_TOKENS}; {_MIN_OUTPUT_TOKENS} was sent."
            )
            limit = _MIN_OUTPUT_TOKENS
        body["max_output_tokens"] = limit
    if options.stop and rules_of(model).stop_in_responses:
        body["stop"] = list(options.stop)
    elif options.stop:
        warnings.append("The Responses format has no stop sequences, so they were not sent.")
    if (word := effort(model, options, warnings)) is not None:
        body["reasoning"] = {"effort": word} if word == "none" else {"effort": word, "summary": "auto"}
    add_template_switch(body, model, options)
    add_sampling(body, model, options, word, warnings)
    if options.output is not None:
        body["text"] = {"format": {"type": "json_schema", **output_format(options.output)}}
    add_extra(body, options.extra)


_Delta: TypeAlias = type[TextChunk] | type[ThinkingChunk] | type[ToolArgsChunk]

_DELTAS: Mapping[object, tuple[str, str, _Delta]] = {
    "response.output_text.delta": ("message", "content_index", TextChunk),
    "response.refusal.delta": ("message", "content_index", TextChunk),
    "response.reasoning_summary_text.delta": ("reasoning", "summary_index", ThinkingChunk),
    "response.reasoning_text.delta": ("reasoning", "content_index", ThinkingChunk),
    "response.function_call_arguments.delta": ("function_call", "", ToolArgsChunk),
}
"""For each kind of delta the kind of its item, the field that identifies a text in the item, and the event."""

_TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})


class _TextItem:
    """A text in an item being received."""

    __slots__ = ("chunks", "index")

    def __init__(self, index: int) -> None:
        self.index = index
        self.chunks: list[str] = []


class _Item:
    """An item being received, with its texts by field and position."""

    __slots__ = ("ended", "kind", "slot", "texts")

    def __init__(self, kind: str, slot: int) -> None:
        self.kind = kind
        self.slot = slot
        self.ended = False
        self.texts: dict[tuple[str, int], _TextItem] = {}

    def text(self, field: str, at: int) -> _TextItem:
        known = self.texts.get((field, at))
        if known is None:
            known = self.texts[field, at] = _TextItem(self.slot * _STRIDE + len(self.texts))
        return known


class ResponsesDecoder:
    """Decodes one streamed reply."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._items: list[_Item] = []
        self._by_id: dict[str, _Item] = {}
        self._by_position: dict[int, _Item] = {}
        self._current: tuple[tuple[object, ...], _TextItem] | None = None
        self._led_by: JsonObject = {}
        self._refused = False
        self._finished = False

    def feed(self, data: bytes) -> Iterable[StreamEvent]:
        """The events for one event of the API."""
        if self._finished or data == b"[DONE]":  # some gateways add [DONE]
            return ()
        event = read_object(data, self._model)
        kind = event.get("type")
        shape = _DELTAS.get(kind)
        if shape is None:
            return self._boundary(kind, event)
        # The hot path: a chunk of the same text as the previous one.
        item_kind, field, delta = shape
        address = (kind, event.get("item_id"), event.get("output_index"), event.get(field))
        if self._current is not None and self._current[0] == address:
            text = self._current[1]
        else:
            item = self._find(item_kind, event) or (None if item_kind == "function_call" else self._add(item_kind))
            if item is None or item.ended:
                return ()  # the end of a call repeats it; an item that has ended is not changed
            text = item.text(field, event.get(field) or 0)
            self._current = (address, text)
            self._refused |= kind == "response.refusal.delta"
        words = event["delta"]
        if not isinstance(words, str):
            raise TypeError(f"a delta of {type(words).__name__}")
        text.chunks.append(words)
        return (delta(text.index, words),)

    def end(self) -> Iterable[StreamEvent]:
        """Check that the reply is complete. Raises `StreamTruncated` if its end is missing."""
        if not self._finished:
            raise truncated(self._model)
        return ()

    def _boundary(self, kind: object, event: JsonObject) -> Iterable[StreamEvent]:
        """Handle the start and end of items and of the response. All other events repeat deltas or whole items."""
        if kind == "response.output_item.added" and event.get("item"):
            self._current = None
            return self._start(event["item"], event.get("output_index"))
        if kind == "response.output_item.done" and event.get("item"):
            self._current = None
            return self._done(event["item"], event.get("output_index"))
        if kind in _TERMINAL:
            return self._terminal(str(kind).removeprefix("response."), event["response"])
        if kind == "error" or (kind is None and error_in(event) is not None):
            raise failure_of(self._model, error_in(event) or event)
        return ()

    def _find(self, kind: str, event: Mapping[str, Any]) -> _Item | None:
        """The item of an event: by its id, by its position, or the last open one of its kind."""
        item = self._by_id.get(event.get("item_id") or "")
        if item is None or item.kind != kind:
            item = self._by_position.get(event.get("output_index", -1))
        if item is None or item.kind != kind:
            item = next((known for known in reversed(self._items) if known.kind == kind and not known.ended), None)
        return item

    def _add(self, kind: str, item_id: str | None = None, place: int | None = None) -> _Item:
        item = _Item(kind, len(self._items))
        self._items.append(item)
        if item_id:
            self._by_id[item_id] = item
        if place is not None:
            self._by_position[place] = item
        return item

    def _start(self, wire: JsonObject, place: int | None) -> Iterable[StreamEvent]:
        item = self._add(wire["type"], wire.get("id"), place)
        if item.kind == "function_call":
            yield ToolCallStart(item.text("", 0).index, wire.get("call_id") or wire.get("id") or "", wire["name"])

    def _done(self, wire: JsonObject, place: int | None) -> Iterable[StreamEvent]:
        item = self._find(wire["type"], {"item_id": wire.get("id"), "output_index": place})
        if item is None or item.ended:
            yield from self._start(wire, place)
            item = self._items[-1]
        yield from self._finish(item, wire)

    def _finish(self, item: _Item, wire: JsonObject) -> Iterable[StreamEvent]:
        """End an item: add the text that its deltas left out, and the state to send back."""
        item.ended = True
        match item.kind:
            case "function_call":
                yield from self._finish_call(item, wire)
            case "message" if wire.get("content"):
                rest = {name: value for name, value in wire.items() if name != "content"}
                for at, content in enumerate(wire["content"]):
                    field = _text_field(content)
                    self._refused |= field == "refusal"
                    text = item.text("content_index", at)
                    missing, whole = _missing_text(text, content.get(field))
                    if missing:
                        yield TextChunk(text.index, missing)
                    piece = {name: value for name, value in content.items() if name != field}
                    yield PartEnd(text.index, {"item": rest, "content": piece, **self._led_by}, text=whole)
            case "reasoning":
                yield from self._finish_reasoning(item, wire)
            case _:
                yield PartEnd(item.text("", 0).index, {"item": wire})

    def _finish_call(self, item: _Item, wire: JsonObject) -> Iterable[StreamEvent]:
        text = item.text("", 0)
        written = wire.get("arguments") or ""
        if not isinstance(written, str):
            written = write_json(written).decode()
        missing, whole = _missing_text(text, written)
        if missing:
            yield ToolArgsChunk(text.index, missing)
        if whole is not None and parse_arguments(whole) is None:
            whole = None
        rest = {name: value for name, value in wire.items() if name not in {"type", "call_id", "name", "arguments"}}
        args = parse_arguments(written)
        if args is not None and write_json(args).decode() != written:
            rest["arguments"] = written
        yield PartEnd(text.index, {"item": rest, **self._led_by}, text=whole)

    def _finish_reasoning(self, item: _Item, wire: JsonObject) -> Iterable[StreamEvent]:
        """End a reasoning item. Its first part contains the whole item, which is sent back as a whole."""
        wholes: dict[int, str | None] = {}
        for field, contents in (("summary_index", wire.get("summary")), ("content_index", wire.get("content"))):
            for at, content in enumerate(contents or ()):
                text = item.text(field, at)
                missing, wholes[text.index] = _missing_text(text, content.get("text"))
                if missing:
                    yield ThinkingChunk(text.index, missing)
        if wire.get("id"):
            self._led_by = {"after": wire["id"]}
        if not item.texts:
            yield ThinkingChunk(item.text("summary_index", 0).index, "")
        for at, text in enumerate(item.texts.values()):
            yield PartEnd(text.index, None if at else {"item": wire}, text=wholes.get(text.index))

    def _terminal(self, ended: str, response: JsonObject) -> Iterable[StreamEvent]:
        """Handle the end of the response, which repeats its items and may contain items that were not streamed."""
        self._finished = True
        for at, wire in enumerate(response.get("output") or ()):
            same = self._by_id.get(wire.get("id") or "")
            known = same or (self._items[at] if at < len(self._items) else None)
            if known is None:
                yield from self._done(wire, at)
            elif known.kind == wire.get("type") and (not known.ended or (same is not None and _adds_to(known, wire))):
                yield from self._finish(known, wire)
        for item in self._items:
            if not item.ended:
                yield from (PartEnd(text.index) for text in item.texts.values())
        if usage := response.get("usage"):
            yield from self._count(usage)
        if ended == "failed":
            raise failure_of(self._model, response.get("error") or "the server gave no reason")
        yield from self._end(ended, response)

    def _count(self, usage: Any) -> Iterable[StreamEvent]:  # noqa: ANN401 - any JSON value
        counts = TokenCounts(self._model)
        if not isinstance(usage, dict):
            return counts.unreadable(usage)
        read, written = as_object(usage.get("input_tokens_details")), as_object(usage.get("output_tokens_details"))
        return counts.update(
            read=(usage.get("input_tokens"),),
            written=(usage.get("output_tokens"),),
            cache_read=read.get("cached_tokens"),
            cache_write=read.get("cache_write_tokens"),
            thinking=written.get("reasoning_tokens"),
            total=usage.get("total_tokens"),
            cost=counts.price(usage),
        )

    def _end(self, ended: str, response: JsonObject) -> Iterable[StreamEvent]:
        """End the message; the API lacks a field with the reason."""
        reason: StopReason = "stop"
        if ended == "incomplete":
            word = str((response.get("incomplete_details") or {}).get("reason") or "")
            reason = "refusal" if word == "content_filter" else "length"
            if word not in {"", "content_filter", "max_output_tokens", "max_tokens", "length"}:
                yield cut_off(self._model, word)
        elif self._refused:
            reason = "refusal"
        elif any(item.kind == "function_call" for item in self._items):
            reason = "tool_use"
        yield Finish(reason)


def _missing_text(text: _TextItem, whole: str | None) -> tuple[str, str | None]:
    """The end of the whole text that the deltas left out; or the whole text, if the deltas differ from it."""
    said = "".join(text.chunks)
    if whole is None or not _adds(said, whole):
        return "", None
    text.chunks = [whole]
    return (whole[len(said) :], None) if whole.startswith(said) else ("", whole)


def _adds(said: str, whole: object) -> bool:
    """Whether the final text counts: it has more than the deltas or differs from them. A part of them does not."""
    return isinstance(whole, str) and not said.startswith(whole)


def _adds_to(item: _Item, wire: JsonObject) -> bool:
    """Whether the item in the final response has more than the item had when it ended."""
    wholes: dict[tuple[str, int], object] = {("", 0): wire.get("arguments")} if item.kind == "function_call" else {}
    for field in ("content", "summary"):
        for at, content in enumerate(wire.get(field) or ()):
            wholes[f"{field}_index", at] = content.get(_text_field(content))
    return any(
        _adds("".join(item.texts[key].chunks) if key in item.texts else "", whole) for key, whole in wholes.items()
    )

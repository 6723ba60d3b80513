"""OpenAI Responses, spoken statelessly: nothing is stored there, reasoning travels encrypted.

A reply is a list of items, told apart by their id, or where a server leaves that out or changes it on the way, by their
place. An item becomes one part for each of its texts. What is to go back unchanged stays in `provider_state`: under
"item" the item, under "content" the piece of a message that the text stood in, under "after" the id of the reasoning
that led to it. Items of kinds that are not ours to
understand, such as the calls of the vendor's own tools, are text parts without text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from planck_nb.ai.dialect import Decoder, WireRequest
from planck_nb.ai.dialects.json_wire import read_object, write_json
from planck_nb.ai.dialects.openai_common import (
    add_sampling,
    add_template_switch,
    address,
    effort,
    failure_of,
    images_of,
    is_vendor,
    offered_tools,
    output_format,
    reasons,
)
from planck_nb.ai.message_builder import parse_arguments
from planck_nb.ai.messages import (
    AssistantMessage,
    StopReason,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
    UserMessage,
    UserPart,
)
from planck_nb.ai.models import Model
from planck_nb.ai.portable_history import prepare
from planck_nb.ai.providers import base_url_of
from planck_nb.ai.request import Context, Options
from planck_nb.ai.status_errors import body_error, truncated
from planck_nb.ai.stream_events import (
    Finish,
    PartEnd,
    StreamEvent,
    TextChunk,
    ThinkingChunk,
    ToolArgsChunk,
    ToolCallStart,
    UsageUpdate,
)
from planck_nb.base.errors import ProviderError
from planck_nb.base.json_types import JsonObject

_SMALLEST_MAX = 16
"""Tokens that OpenAI lets a reply be limited to at least."""

_STRIDE = 1_000_000
"""Distance between the indices of two items' parts: a later item's first part follows an earlier one's last."""


class Responses:
    """The Responses dialect."""

    framing: Literal["sse", "ndjson"] = "sse"

    def request(self, model: Model, context: Context, options: Options, key: str | None) -> WireRequest:
        """The request for one streamed reply."""
        warnings: list[str] = []
        items: list[JsonObject] = []
        for message in prepare(context.messages, model):
            match message.type:
                case "user":
                    items.append(_asked(model, message))
                case "assistant":
                    items.extend(_said(message))
                case "tool_result":
                    items.extend(_returned(model, part, warnings) for part in message.content)
        body: JsonObject = {"model": model.id, "input": items, "stream": True, "store": False}
        if context.system:
            body["instructions"] = context.system
        if is_vendor(model):
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
        )

    def decoder(self, model: Model) -> Decoder:
        """A decoder for one reply."""
        return ResponsesDecoder(model)

    def error(self, model: Model, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """What an HTTP error means."""
        return body_error(model, status, headers, body)


DIALECT = Responses()


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
    """The items of a model's message, each as it came."""
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
    """A text of the model's message as an item: with the id it came with, or as plain text."""
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

    It wants reasoning to be sealed or in plain words, and followed by what it led to. An item that names its id may not
    stand without the reasoning that led to it, of which `led_by` are the ids; without its id it may.
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


def _add_options(body: JsonObject, model: Model, options: Options, warnings: list[str]) -> None:
    if (limit := options.max_tokens) is not None:
        if is_vendor(model) and limit < _SMALLEST_MAX:
            warnings.append(f"{model} takes no max_tokens below {_SMALLEST_MAX}; {_SMALLEST_MAX} was sent.")
            limit = _SMALLEST_MAX
        body["max_output_tokens"] = limit
    if options.stop and model.provider == "llama_cpp":
        body["stop"] = list(options.stop)
    elif options.stop:
        warnings.append("The Responses format has no stop sequences, so they were not sent.")
    if (word := effort(model, options, warnings)) is not None:
        body["reasoning"] = {"effort": word} if word == "none" else {"effort": word, "summary": "auto"}
    add_template_switch(body, model, options)
    add_sampling(body, model, options, word, warnings)
    if options.output is not None:
        body["text"] = {"format": {"type": "json_schema", **output_format(options.output)}}
    body.update(options.extra)


_Delta: TypeAlias = type[TextChunk] | type[ThinkingChunk] | type[ToolArgsChunk]

_DELTAS: Mapping[object, tuple[str, str, _Delta]] = {
    "response.output_text.delta": ("message", "content_index", TextChunk),
    "response.refusal.delta": ("message", "content_index", TextChunk),
    "response.reasoning_summary_text.delta": ("reasoning", "summary_index", ThinkingChunk),
    "response.reasoning_text.delta": ("reasoning", "content_index", ThinkingChunk),
    "response.function_call_arguments.delta": ("function_call", "", ToolArgsChunk),
}
"""For each kind of delta the kind of its item, the field that tells the item's texts apart, and our event."""

_TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})


class _TextItem:
    """A text of an item that is being written."""

    __slots__ = ("chunks", "index")

    def __init__(self, index: int) -> None:
        self.index = index
        self.chunks: list[str] = []


class _Item:
    """An item that is being written, with its texts by field and place."""

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
        self._by_place: dict[int, _Item] = {}
        self._current: tuple[tuple[object, ...], _TextItem] | None = None
        self._led_by: JsonObject = {}
        self._refused = False
        self._finished = False

    def feed(self, data: bytes) -> Iterable[StreamEvent]:
        """The events of one of the API's events."""
        if self._finished or data == b"[DONE]":  # which some gateways add
            return ()
        event = read_object(data, self._model)
        kind = event.get("type")
        shape = _DELTAS.get(kind)
        if shape is None:
            return self._border(kind, event)
        # The hot path: one more piece of the text that the last piece was of.
        item_kind, field, delta = shape
        address = (kind, event.get("item_id"), event.get("output_index"), event.get(field))
        if self._current is not None and self._current[0] == address:
            text = self._current[1]
        else:
            item = self._find(item_kind, event) or (None if item_kind == "function_call" else self._add(item_kind))
            if item is None or item.ended:
                return ()  # a call comes whole at its end; what has ended stays as it is
            text = item.text(field, event.get(field) or 0)
            self._current = (address, text)
            self._refused |= kind == "response.refusal.delta"
        words = event["delta"]
        if not isinstance(words, str):
            raise TypeError(f"a delta of {type(words).__name__}")
        text.chunks.append(words)
        return (delta(text.index, words),)

    def end(self) -> Iterable[StreamEvent]:
        """Nothing more to come. Raises `StreamTruncated` when the response did not end."""
        if not self._finished:
            raise truncated(self._model)
        return ()

    def _border(self, kind: object, event: JsonObject) -> Iterable[StreamEvent]:
        """What begins and ends items and the response. All else repeats what deltas and whole items say."""
        if kind == "response.output_item.added" and event.get("item"):
            self._current = None
            return self._start(event["item"], event.get("output_index"))
        if kind == "response.output_item.done" and event.get("item"):
            self._current = None
            return self._done(event["item"], event.get("output_index"))
        if kind in _TERMINAL:
            return self._terminal(str(kind).removeprefix("response."), event["response"])
        if kind == "error" or (kind is None and "error" in event):
            raise failure_of(self._model, event.get("error") or event)
        return ()

    def _find(self, kind: str, event: Mapping[str, Any]) -> _Item | None:
        """The item that an event speaks of: by its id, by its place, or the last open one of its kind."""
        item = self._by_id.get(event.get("item_id") or "")
        if item is None or item.kind != kind:
            item = self._by_place.get(event.get("output_index", -1))
        if item is None or item.kind != kind:
            item = next((known for known in reversed(self._items) if known.kind == kind and not known.ended), None)
        return item

    def _add(self, kind: str, item_id: str | None = None, place: int | None = None) -> _Item:
        item = _Item(kind, len(self._items))
        self._items.append(item)
        if item_id:
            self._by_id[item_id] = item
        if place is not None:
            self._by_place[place] = item
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
        """The end of an item: what its deltas left out, and what is to be echoed."""
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
                    if missing := _unsaid(text, content.get(field)):
                        yield TextChunk(text.index, missing)
                    piece = {name: value for name, value in content.items() if name != field}
                    yield PartEnd(text.index, {"item": rest, "content": piece, **self._led_by})
            case "reasoning":
                yield from self._finish_reasoning(item, wire)
            case _:
                yield PartEnd(item.text("", 0).index, {"item": wire})

    def _finish_call(self, item: _Item, wire: JsonObject) -> Iterable[StreamEvent]:
        text = item.text("", 0)
        written = wire.get("arguments") or ""
        if not isinstance(written, str):
            written = write_json(written).decode()
        if missing := _unsaid(text, written):
            yield ToolArgsChunk(text.index, missing)
        rest = {name: value for name, value in wire.items() if name not in {"type", "call_id", "name", "arguments"}}
        args = parse_arguments(written)
        if args is not None and write_json(args).decode() != written:
            rest["arguments"] = written
        yield PartEnd(text.index, {"item": rest, **self._led_by})

    def _finish_reasoning(self, item: _Item, wire: JsonObject) -> Iterable[StreamEvent]:
        """Its first part holds the whole item, for it goes back as a whole."""
        for field, contents in (("summary_index", wire.get("summary")), ("content_index", wire.get("content"))):
            for at, content in enumerate(contents or ()):
                text = item.text(field, at)
                if missing := _unsaid(text, content.get("text")):
                    yield ThinkingChunk(text.index, missing)
        if wire.get("id"):
            self._led_by = {"after": wire["id"]}
        if not item.texts:
            yield ThinkingChunk(item.text("summary_index", 0).index, "")
        for at, text in enumerate(item.texts.values()):
            yield PartEnd(text.index, None if at else {"item": wire})

    def _terminal(self, ended: str, response: JsonObject) -> Iterable[StreamEvent]:
        """The end of the response, which repeats its items and may hold some that were not streamed."""
        self._finished = True
        for at, wire in enumerate(response.get("output") or ()):
            known = self._by_id.get(wire.get("id") or "") or (self._items[at] if at < len(self._items) else None)
            if known is None:
                yield from self._done(wire, at)
            elif not known.ended and known.kind == wire.get("type"):
                yield from self._finish(known, wire)
        for item in self._items:
            if not item.ended:
                yield from (PartEnd(text.index) for text in item.texts.values())
        if usage := response.get("usage"):
            yield UsageUpdate(_usage(usage))
        if ended == "failed":
            raise failure_of(self._model, response.get("error") or "the server gave no reason")
        yield Finish(self._stop_reason(ended, response))

    def _stop_reason(self, ended: str, response: JsonObject) -> StopReason:
        """Why it ended, which the API does not say in one word."""
        if ended == "incomplete":
            why = (response.get("incomplete_details") or {}).get("reason")
            return "refusal" if why == "content_filter" else "length"
        if self._refused:
            return "refusal"
        return "tool_use" if any(item.kind == "function_call" for item in self._items) else "stop"


def _unsaid(text: _TextItem, whole: str | None) -> str:
    """What of the whole text its deltas have not said."""
    said = "".join(text.chunks)
    if whole is None or not whole.startswith(said):
        return ""
    text.chunks.append(whole[len(said) :])
    return whole[len(said) :]


def _usage(usage: JsonObject) -> Usage:
    read = usage.get("input_tokens_details") or {}
    written = usage.get("output_tokens_details") or {}
    return Usage(
        input_tokens=usage.get("input_tokens") or 0,
        output_tokens=usage.get("output_tokens") or 0,
        cache_read_tokens=read.get("cached_tokens") or 0,
        cache_write_tokens=read.get("cache_write_tokens") or 0,
        thinking_tokens=written.get("reasoning_tokens") or 0,
    )

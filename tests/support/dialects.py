"""What each wire format makes of the same reply. A new format joins the contract by one entry in `WIRES`.

An entry writes its format from the vendor's documentation; it shares no code with the decoder that reads it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from support.wire import sse

from planck_nb import ai


@dataclass(frozen=True)
class Say:
    """Visible text, in pieces."""

    pieces: tuple[str, ...]


@dataclass(frozen=True)
class Think:
    """Thinking, in pieces."""

    pieces: tuple[str, ...]


@dataclass(frozen=True)
class Call:
    """A tool call, its arguments as JSON text in pieces. The id may be missing."""

    name: str
    pieces: tuple[str, ...] = ("{}",)
    id: str = ""


Piece: TypeAlias = Say | Think | Call


@dataclass(frozen=True)
class Reply:
    """What a model says, whatever it is written in. `usage` is input and output tokens."""

    parts: tuple[Piece, ...] = ()
    usage: tuple[int, int] | None = (12, 5)
    length: bool = False


@dataclass(frozen=True)
class Wire:
    """One format. `write` gives one chunk per event; the last `optional` of them may be missing from a whole answer.

    `failure` is an event by which a server that is overloaded ends its stream, `unknown` are events that nobody knows
    yet. `together` is an answer whose two texts are written in turns, and what they say, where the format has that.
    """

    model: ai.Model
    write: Callable[[Reply], list[bytes]]
    failure: bytes
    unknown: list[bytes] = field(default_factory=list)
    optional: int = 0
    kind: str = "text/event-stream"
    together: tuple[list[bytes], tuple[str, ...]] | None = None


def _model(provider: str, api: str) -> ai.Model:
    return ai.get_model(provider, "some-model", base_url="http://127.0.0.1:9", api=api, api_key="sk-secret")


def _named(events: list[dict[str, Any]]) -> list[bytes]:
    """Server-sent events with their type in a line of its own, as Anthropic and OpenAI write them."""
    return [
        b"event: %s\n%s" % (event["type"].encode(), chunk) for event, chunk in zip(events, sse(*events), strict=True)
    ]


def _block(index: int, part: Piece) -> list[dict[str, Any]]:
    start: dict[str, Any]
    match part:
        case Say():
            start, kind, field = {"type": "text", "text": ""}, "text_delta", "text"
        case Think():
            start, kind, field = {"type": "thinking", "thinking": "", "signature": ""}, "thinking_delta", "thinking"
        case Call():
            start = {"type": "tool_use", "id": part.id, "name": part.name, "input": {}}
            kind, field = "input_json_delta", "partial_json"
    deltas = [{"type": kind, field: piece} for piece in part.pieces]
    if isinstance(part, Think):
        deltas.append({"type": "signature_delta", "signature": "c2ln"})
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def _messages(reply: Reply, blocks: list[dict[str, Any]] | None = None) -> list[bytes]:
    if blocks is None:
        blocks = [event for index, part in enumerate(reply.parts) for event in _block(index, part)]
    calls = any(isinstance(part, Call) for part in reply.parts)
    reason = "max_tokens" if reply.length else "tool_use" if calls else "end_turn"
    start: dict[str, Any] = {"type": "message_start", "message": {"role": "assistant", "content": []}}
    end: dict[str, Any] = {"type": "message_delta", "delta": {"stop_reason": reason}}
    if reply.usage:
        start["message"]["usage"] = {"input_tokens": reply.usage[0], "output_tokens": 1}
        end["usage"] = {"output_tokens": reply.usage[1]}
    return _named([start, {"type": "ping"}, *blocks, end, {"type": "message_stop"}])


def _in_turns(first: list[Any], second: list[Any]) -> list[Any]:
    return [event for pair in zip(first, second, strict=True) for event in pair]


def _chat(reply: Reply) -> list[bytes]:
    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None}

    chunks = [chunk({"role": "assistant", "content": None})]
    calls = 0
    for part in reply.parts:
        match part:
            case Say():
                chunks += [chunk({"content": piece}) for piece in part.pieces]
            case Think():
                chunks += [chunk({"reasoning_content": piece}) for piece in part.pieces]
            case Call():
                head = {"index": calls, "type": "function", "function": {"name": part.name, "arguments": ""}}
                chunks.append(chunk({"tool_calls": [{**head, "id": part.id} if part.id else head]}))
                for piece in part.pieces:
                    chunks.append(chunk({"tool_calls": [{"index": calls, "function": {"arguments": piece}}]}))
                calls += 1
    chunks.append(chunk({}, "length" if reply.length else "tool_calls" if calls else "stop"))
    counts: dict[str, Any] = {"id": "c", "choices": []}
    if reply.usage:
        counts["usage"] = {"prompt_tokens": reply.usage[0], "completion_tokens": reply.usage[1]}
    return sse(*chunks, counts, "[DONE]")


def _item(index: int, part: Piece) -> list[dict[str, Any]]:
    text = "".join(part.pieces)
    address: dict[str, Any] = {"item_id": f"i{index}", "output_index": index}
    empty: dict[str, Any]
    match part:
        case Say():
            content = {"type": "output_text", "text": text, "annotations": []}
            item: dict[str, Any] = {"type": "message", "role": "assistant", "content": [content]}
            kind, empty = "response.output_text.delta", {"content": []}
            address["content_index"] = 0
        case Think():
            item = {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": text}],
                "encrypted_content": "eA==",
            }
            kind, empty = "response.reasoning_summary_text.delta", {"summary": [], "encrypted_content": None}
            address["summary_index"] = 0
        case Call():
            item = {"type": "function_call", "name": part.name, "arguments": text, "call_id": part.id}
            kind, empty = "response.function_call_arguments.delta", {"arguments": ""}
    item["id"] = address["item_id"]
    return [
        {"type": "response.output_item.added", "output_index": index, "item": {**item, **empty}},
        *({"type": kind, **address, "delta": piece} for piece in part.pieces),
        {"type": "response.output_item.done", "output_index": index, "item": {**item, "status": "completed"}},
    ]


def _responses(reply: Reply, items: list[dict[str, Any]] | None = None) -> list[bytes]:
    if items is None:
        items = [event for index, part in enumerate(reply.parts) for event in _item(index, part)]
    status = "incomplete" if reply.length else "completed"
    output = [event["item"] for event in items if event["type"] == "response.output_item.done"]
    response: dict[str, Any] = {"id": "r", "status": status, "output": output, "usage": None}
    if reply.length:
        response["incomplete_details"] = {"reason": "max_output_tokens"}
    if reply.usage:
        response["usage"] = {"input_tokens": reply.usage[0], "output_tokens": reply.usage[1]}
    begun = {"id": "r", "status": "in_progress", "output": []}
    first = [{"type": f"response.{word}", "response": begun} for word in ("created", "in_progress")]
    return _named([*first, *items, {"type": f"response.{status}", "response": response}])


def _value(part: Call) -> object:
    """The arguments as formats have them that give the object itself; what is none is given as it is."""
    text = "".join(part.pieces)
    try:
        return json.loads(text, parse_constant=int)
    except ValueError:
        return text


def _generate_content(reply: Reply) -> list[bytes]:
    parts: list[dict[str, Any]] = []
    for part in reply.parts:
        match part:
            case Say():
                parts += [{"text": piece} for piece in part.pieces]
            case Think():
                parts += [{"text": piece, "thought": True} for piece in part.pieces]
            case Call():
                call = {"name": part.name, "args": _value(part)}
                parts.append({"functionCall": {**call, "id": part.id} if part.id else call})
    candidates: list[dict[str, Any]] = [{"index": 0, "content": {"role": "model", "parts": [part]}} for part in parts]
    candidates.append({"index": 0, "finishReason": "MAX_TOKENS" if reply.length else "STOP"})
    pieces: list[dict[str, Any]] = [{"candidates": [candidate], "modelVersion": "m"} for candidate in candidates]
    if reply.usage:
        for piece in pieces:
            piece["usageMetadata"] = {"promptTokenCount": reply.usage[0], "candidatesTokenCount": reply.usage[1]}
    return sse(*pieces)


def _step(index: int, part: Piece) -> list[dict[str, Any]]:
    match part:
        case Say():
            step: dict[str, Any] = {"type": "model_output"}
            deltas: list[dict[str, Any]] = [{"type": "text", "text": piece} for piece in part.pieces]
        case Think():
            step = {"type": "thought"}
            deltas = [{"type": "thought_summary", "content": {"type": "text", "text": piece}} for piece in part.pieces]
            deltas.append({"type": "thought_signature", "signature": "c2ln"})
        case Call():
            step = {"type": "function_call", "id": part.id, "name": part.name, "arguments": {}}
            deltas = [{"type": "arguments_delta", "arguments": piece} for piece in part.pieces]
    return [
        {"event_type": "step.start", "index": index, "step": step},
        *({"event_type": "step.delta", "index": index, "delta": delta} for delta in deltas),
        {"event_type": "step.stop", "index": index},
    ]


def _interactions(reply: Reply, steps: list[dict[str, Any]] | None = None) -> list[bytes]:
    if steps is None:
        steps = [event for index, part in enumerate(reply.parts) for event in _step(index, part)]
    calls = any(isinstance(part, Call) for part in reply.parts)
    status = "incomplete" if reply.length else "requires_action" if calls else "completed"
    interaction: dict[str, Any] = {"id": "v1", "status": status}
    if reply.usage:
        interaction["usage"] = {"total_input_tokens": reply.usage[0], "total_output_tokens": reply.usage[1]}
    begun = {"event_type": "interaction.created", "interaction": {"id": "v1", "status": "in_progress"}}
    return sse(begun, *steps, {"event_type": "interaction.completed", "interaction": interaction})


def _ollama(reply: Reply) -> list[bytes]:
    messages: list[dict[str, Any]] = []
    for part in reply.parts:
        match part:
            case Say():
                messages += [{"role": "assistant", "content": piece} for piece in part.pieces]
            case Think():
                messages += [{"role": "assistant", "content": "", "thinking": piece} for piece in part.pieces]
            case Call():
                call: dict[str, Any] = {"function": {"name": part.name, "arguments": _value(part)}}
                if part.id:
                    call["id"] = part.id
                messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
    lines: list[dict[str, Any]] = [{"model": "m", "message": message, "done": False} for message in messages]
    end = {"model": "m", "message": {"role": "assistant", "content": ""}, "done": True}
    end["done_reason"] = "length" if reply.length else "stop"
    if reply.usage:
        end |= {"prompt_eval_count": reply.usage[0], "eval_count": reply.usage[1]}
    return [json.dumps(line).encode() + b"\n" for line in [*lines, end]]


TURNS = Say(("one ", "and ", "half")), Say(("two ", "and ", "more"))
_SAID = ("one and half", "two and more")

WIRES = {
    "messages": Wire(
        model=_model("anthropic", "messages"),
        write=_messages,
        failure=_named([{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded, come back"}}])[
            0
        ],
        unknown=_named([{"type": "message_mood", "mood": "good"}, {"type": "content_block_hint", "index": 0}]),
        together=(_messages(Reply(), _in_turns(_block(0, TURNS[0]), _block(1, TURNS[1]))), _SAID),
    ),
    "chat": Wire(
        model=_model("openai", "chat"),
        write=_chat,
        failure=sse({"error": {"message": "Overloaded, come back", "type": "server_error", "code": 503}})[0],
        unknown=sse({"object": "mood", "mood": "good"}, {"choices": []}),
        optional=2,
    ),
    "responses": Wire(
        model=_model("openai", "responses"),
        write=_responses,
        failure=_named([{"type": "error", "code": "server_error", "message": "Overloaded, come back"}])[0],
        unknown=_named([{"type": "response.mood", "mood": "good"}, {"type": "keepalive"}]),
        together=(_responses(Reply(), _in_turns(_item(0, TURNS[0]), _item(1, TURNS[1]))), _SAID),
    ),
    "generate_content": Wire(
        model=_model("google", "generate_content"),
        write=_generate_content,
        failure=sse({"error": {"code": 503, "message": "Overloaded, come back", "status": "UNAVAILABLE"}})[0],
        unknown=sse({"mood": "good"}, {"candidates": []}),
    ),
    "interactions": Wire(
        model=_model("google", "interactions"),
        write=_interactions,
        failure=sse({"event_type": "error", "error": {"code": 503, "message": "Overloaded, come back"}})[0],
        unknown=sse({"event_type": "interaction.mood", "mood": "good"}),
        together=(_interactions(Reply(), _in_turns(_step(0, TURNS[0]), _step(1, TURNS[1]))), _SAID),
    ),
    "ollama": Wire(
        model=_model("ollama", "ollama"),
        write=_ollama,
        failure=b'{"error": "Overloaded, come back"}\n',
        unknown=[b'{"model": "m", "mood": "good", "done": false}\n'],
        kind="application/x-ndjson",
    ),
}

"""Streams as bytes, and clients that read them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from typing import Any

import httpx

from planck_nb import ai
from planck_nb.ai.framing import splitter
from planck_nb.ai.models import Model
from planck_nb.ai.providers import dialect
from planck_nb.ai.stream_events import StreamEvent

CHAT = ai.get_model("openai", "some-model", base_url="http://127.0.0.1:9/v1")
MESSAGES = ai.get_model("anthropic", "some-model", base_url="http://127.0.0.1:9")
ASK = ai.Context(messages=[ai.UserMessage("hi")])


def sse(*payloads: object) -> list[bytes]:
    """One server-sent event for each payload."""
    return [
        b"data: %s\n\n" % (payload.encode() if isinstance(payload, str) else json.dumps(payload).encode())
        for payload in payloads
    ]


def chat_chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
    """A Chat Completions chunk."""
    return {"choices": [{"index": 0, "delta": dict(delta), "finish_reason": finish}]}


CHAT_HELLO = sse(
    chat_chunk({"role": "assistant", "content": ""}),
    chat_chunk({"content": "Hel"}),
    chat_chunk({"content": "lo"}),
    chat_chunk({}, "stop"),
    {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
    "[DONE]",
)

CHAT_TOOLS = sse(
    chat_chunk({"role": "assistant", "content": None, "reasoning_content": "Let me"}),
    chat_chunk({"reasoning_content": " see."}),
    chat_chunk({"content": "Asking\u2028both"}),
    chat_chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "get_weather", "arguments": ""}}]}),
    chat_chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"city": "Zür'}}]}),
    chat_chunk({"tool_calls": [{"index": 0, "function": {"arguments": 'ich"}'}}]}),
    chat_chunk({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "get_time", "arguments": "{}"}}]}),
    chat_chunk({}, "tool_calls"),
    {"choices": [], "usage": {"prompt_tokens": 50, "completion_tokens": 20}},
    "[DONE]",
)

MESSAGES_TOOLS = [
    b"event: %s\n%s" % (json.loads(event[6:])["type"].encode(), event)
    for event in sse(
        {"type": "message_start", "message": {"usage": {"input_tokens": 7, "cache_read_input_tokens": 3}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "ping"},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm\u2028m."}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "redacted_thinking", "data": "eHl6"}},
        {"type": "content_block_stop", "index": 1},
        {"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": "Asking \U0001f600."}},
        {"type": "content_block_stop", "index": 2},
        {
            "type": "content_block_start",
            "index": 3,
            "content_block": {"type": "tool_use", "id": "toolu_1", "name": "get_time", "input": {}},
        },
        {"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": ""}},
        {"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": '{"a": '}},
        {"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": "1}"}},
        {"type": "content_block_stop", "index": 3},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 30}},
        {"type": "message_stop"},
    )
]

SAMPLES = [(CHAT, CHAT_HELLO), (CHAT, CHAT_TOOLS), (MESSAGES, MESSAGES_TOOLS)]


def decode(model: Model, chunks: Iterable[bytes]) -> list[StreamEvent]:
    """The events that the chunks of a whole stream stand for."""
    wire = dialect(model)
    frames, decoder = splitter(wire.framing), wire.decoder(model)
    events: list[StreamEvent] = []
    for chunk in chunks:
        for data in frames.feed(chunk):
            events.extend(event for event in decoder.feed(data) if event.type != "pause")
    for data in frames.end():
        events.extend(event for event in decoder.feed(data) if event.type != "pause")
    events.extend(decoder.end())
    return events


def unsealed(message: ai.AssistantMessage) -> tuple[ai.AssistantPart, ...]:
    """The parts as the server made them, without the digests of what they were made for."""
    return tuple(
        replace(part, provider_state={name: value for name, value in state.items() if name != "planck_prefix"})
        if (state := part.provider_state)
        else part
        for part in message.content
    )


def replying(
    chunks: Iterable[bytes], status: int = 200, kind: str = "text/event-stream", seen: list[Any] | None = None
) -> httpx.MockTransport:
    """A transport that answers every request with these chunks; request bodies go to `seen`."""

    async def body() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    def handle(request: httpx.Request) -> httpx.Response:
        if seen is not None:
            seen.append(json.loads(request.content))
        return httpx.Response(status, headers={"content-type": kind}, content=body())

    return httpx.MockTransport(handle)


def client(transport: httpx.AsyncBaseTransport | None = None, *, retries: int = 0) -> ai.Client:
    """A client with keys for the vendors that waits for nothing."""
    return ai.Client(
        credentials={"OPENAI_API_KEY": "sk-open-1", "ANTHROPIC_API_KEY": "sk-ant-1"},
        transport=transport,
        retries=ai.RetryPolicy(retries=retries, base=0.001),
        timeouts=ai.Timeouts(connect=2, first_byte=0.5, idle=0.3),
    )

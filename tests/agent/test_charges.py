"""Replies outside a conversation, read within limits, and what is charged for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

import httpx
import pytest
from support.wire import MESSAGES, client, sse

from planck_nb.agent.charges import charged, read_within_limits, unlimited
from planck_nb.ai.client import Stream
from planck_nb.ai.messages import Usage, UserMessage
from planck_nb.ai.models import Pricing
from planck_nb.ai.request import Context, Options
from planck_nb.base.json_types import JsonObject

PRICED = replace(MESSAGES, pricing=Pricing(input=1_000_000.0, output=1_000_000.0))
"""A dollar a token."""

REQUEST = Usage(input_tokens=7)
TEXT = {"type": "text", "text": ""}
THINKING = {"type": "thinking", "thinking": ""}
CALL = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
DELTAS: dict[str, tuple[JsonObject, Callable[[str], JsonObject]]] = {
    "text": (TEXT, lambda text: {"type": "text_delta", "text": text}),
    "thinking": (THINKING, lambda text: {"type": "thinking_delta", "thinking": text}),
    "call": (CALL, lambda text: {"type": "input_json_delta", "partial_json": text}),
}


class Events(httpx.AsyncBaseTransport):
    """Answers with these events, each in a piece of its own but the last three."""

    def __init__(self, events: Sequence[JsonObject]) -> None:
        self._events = events

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=self._pieces())

    async def _pieces(self) -> AsyncIterator[bytes]:
        for event in self._events[:-3]:
            yield sse(event)[0]
        yield b"".join(sse(*self._events[-3:]))


def started(**usage: int) -> list[JsonObject]:
    return [{"type": "message_start", "message": {"usage": usage} if usage else {}}]


def written(kind: str, lengths: Sequence[int]) -> list[JsonObject]:
    block, delta = DELTAS[kind]
    begin = {"type": "content_block_start", "index": 0, "content_block": block}
    deltas = [{"type": "content_block_delta", "index": 0, "delta": delta("x" * length)} for length in lengths]
    return [begin, *deltas]


def ended(**usage: int) -> list[JsonObject]:
    end: JsonObject = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    return [
        {"type": "content_block_stop", "index": 0},
        {**end, **({"usage": usage} if usage else {})},
        {"type": "message_stop"},
    ]


def stream_of(*events: JsonObject) -> Stream:
    context = Context(messages=(UserMessage("go"),))
    return client(Events(events)).stream(PRICED, context, Options())


class Limit:
    """Notes what it is asked, and is reached at these tokens."""

    def __init__(self, reached_at: int | None = None) -> None:
        self.asked: list[tuple[int, float | None]] = []
        self._reached_at = reached_at

    def __call__(self, tokens: int = 0, cost: float | None = 0.0) -> str:
        self.asked.append((tokens, cost))
        return "Enough." if self._reached_at is not None and tokens >= self._reached_at else ""


@pytest.mark.parametrize("kind", ["text", "thinking", "call"])
async def test_a_limit_is_asked_every_400_characters(kind: str) -> None:
    limit = Limit()
    async with stream_of(*started(), *written(kind, [100] * 11), *ended()) as stream:
        assert await read_within_limits(stream, REQUEST, limit) == ""
    assert limit.asked == [(7 + 100, 107.0), (7 + 200, 207.0)]


async def test_a_limit_is_asked_as_soon_as_tokens_are_reported_and_once_for_that() -> None:
    limit = Limit()
    async with stream_of(*started(input_tokens=50, output_tokens=1), *written("text", [100] * 9), *ended()) as stream:
        assert await read_within_limits(stream, REQUEST, limit) == ""
    assert limit.asked == [(51, 51.0), (50 + 100, 150.0), (50 + 200, 250.0)]


async def test_reading_ends_at_a_limit() -> None:
    limit = Limit(reached_at=207)
    async with stream_of(*started(), *written("text", [100] * 40), *ended()) as stream:
        assert await read_within_limits(stream, REQUEST, limit) == "Enough."
        assert len(stream.written_text()) == 800
    assert len(limit.asked) == 2


async def test_a_message_that_is_complete_is_not_cut() -> None:
    limit = Limit(reached_at=0)
    events = [*started(), *written("text", [100] * 3), *ended(input_tokens=5, output_tokens=75)]
    async with stream_of(*events) as stream:
        assert await read_within_limits(stream, REQUEST, limit) == ""
    assert limit.asked == []
    assert charged(stream, REQUEST) == stream.message


def test_without_limits_none_is_reached() -> None:
    assert unlimited(10**12, 1e12) == ""


async def test_a_reply_that_was_not_sent_costs_nothing() -> None:
    stream = stream_of(*started())
    await stream.aclose()
    assert charged(stream, REQUEST) == stream.message
    assert stream.message.usage is None


async def test_a_reply_that_broke_off_is_charged_as_reported_and_estimated() -> None:
    events = [*started(input_tokens=50, output_tokens=1), *written("text", [100] * 8)]
    async with stream_of(*events) as stream:
        await read_within_limits(stream, REQUEST, Limit(reached_at=250))
    message = charged(stream, REQUEST)
    assert message.usage == Usage(input_tokens=50, output_tokens=200)
    assert message.cost == 250.0
    assert message.estimated


async def test_a_reply_without_reported_tokens_is_charged_by_an_estimate() -> None:
    async with stream_of(*started(), *written("text", [100] * 8), *ended()) as stream:
        await read_within_limits(stream, REQUEST, unlimited)
    assert stream.message.usage is None
    message = charged(stream, REQUEST)
    assert message.usage == Usage(input_tokens=7, output_tokens=200)
    assert message.estimated


async def test_a_complete_reply_is_charged_as_reported() -> None:
    events = [*started(input_tokens=50), *written("text", [100] * 8), *ended(output_tokens=3)]
    async with stream_of(*events) as stream:
        await read_within_limits(stream, REQUEST, unlimited)
    message = charged(stream, REQUEST)
    assert message.usage == Usage(input_tokens=50, output_tokens=3)
    assert not message.estimated

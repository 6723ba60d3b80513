"""Replies that are stopped are paid for: limits and totals count what was reported, and an estimate of the rest."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest
from support.wire import MESSAGES, client, sse

from planck_nb import Agent
from planck_nb.agent.limits import Limits, SessionSpend
from planck_nb.ai.messages import AssistantMessage
from planck_nb.ai.models import Pricing
from planck_nb.base.errors import LimitError

PRICED = replace(MESSAGES, pricing=Pricing(input=3.0, output=15.0))
INPUT = 45_000
REQUEST = INPUT * 3.0 / 1_000_000


class Server(httpx.AsyncBaseTransport):
    """Reports what it read, then writes a call for ever."""

    def __init__(self) -> None:
        self.requests = 0
        self.written = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=self._stream())

    async def _stream(self) -> AsyncIterator[bytes]:
        call = {"type": "tool_use", "id": "a", "name": "write", "input": {}}
        for event in (
            {"type": "message_start", "message": {"usage": {"input_tokens": INPUT, "output_tokens": 1}}},
            {"type": "content_block_start", "index": 0, "content_block": call},
        ):
            yield sse(event)[0]
        while True:
            delta = {"type": "input_json_delta", "partial_json": "word " * 20}
            yield sse({"type": "content_block_delta", "index": 0, "delta": delta})[0]
            self.written.set()
            await asyncio.sleep(0)


async def test_a_reply_that_is_stopped_while_a_call_is_written_is_charged() -> None:
    server, spend = Server(), SessionSpend()
    agent = Agent(model=PRICED, client=client(server), session_spend=spend)
    run = agent.prompt("go")
    await server.written.wait()
    await agent.abort()
    await run.wait()
    assert spend.cost > REQUEST
    assert agent.state.cost == pytest.approx(spend.cost)
    reply = agent.state.messages[-1].message
    assert isinstance(reply, AssistantMessage)
    assert reply.estimated
    assert reply.usage is not None
    assert reply.usage.input_tokens == INPUT
    assert reply.usage.output_tokens > 1
    assert [event.estimated async for event in run if event.type == "usage_delta"] == [True]


async def test_a_session_is_never_over_its_limit_by_more_than_one_request() -> None:
    server, spend, dice = Server(), SessionSpend(), random.Random(1)
    agent = Agent(model=PRICED, client=client(server), session_spend=spend, limits=Limits(session_cost=0.2))
    refused = 0
    for _ in range(10):
        run = agent.prompt("go")
        for _ in range(dice.randint(1, 60)):
            await asyncio.sleep(0)
        await agent.abort()
        try:
            await run
        except LimitError as error:
            assert "`session_cost`" in str(error)  # noqa: PT017 - it depends on chance which runs are refused
            refused += 1
    assert refused
    assert server.requests * REQUEST <= 0.2 + REQUEST


async def test_a_running_reply_is_stopped_when_its_estimated_cost_crosses_the_limit() -> None:
    server, spend = Server(), SessionSpend()
    agent = Agent(model=PRICED, client=client(server), session_spend=spend, limits=Limits(session_cost=0.14))
    result = await agent.prompt("go")
    assert "US dollars" in result.limit
    assert REQUEST < spend.cost < 0.15


async def test_a_compactor_has_no_more_time_than_its_turn() -> None:
    async def endless(messages: object) -> None:
        await asyncio.Event().wait()

    agent = Agent(model=PRICED, client=client(Server()), on_compact=endless, limits=Limits(seconds=0.05))
    with pytest.raises(LimitError, match="seconds"):
        await agent.prompt("go")

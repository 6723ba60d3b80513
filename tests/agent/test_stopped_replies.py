"""Replies that are stopped are paid for: limits and totals count what was reported, and an estimate of the rest."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest
from support.wire import CHAT, MESSAGES, chat_chunk, client, sse

from planck_nb import Agent, Compactor, ai
from planck_nb.agent.agent_access import complete_for
from planck_nb.agent.limits import Limits, SessionSpend
from planck_nb.ai.messages import AssistantMessage, TextPart, UserMessage
from planck_nb.ai.models import Pricing
from planck_nb.base.errors import AgentError, LimitError

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


class Writer(httpx.AsyncBaseTransport):
    """Writes many words, and reports no usage."""

    def __init__(self, pieces: int) -> None:
        self.pieces, self.requests = pieces, 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=self._stream())

    async def _stream(self) -> AsyncIterator[bytes]:
        for _ in range(self.pieces):
            yield sse(chat_chunk({"content": "word " * 20}))[0]
            await asyncio.sleep(0)
        for chunk in sse(chat_chunk({}, "stop"), "[DONE]"):
            yield chunk


async def talked(server: httpx.AsyncBaseTransport, model: ai.Model, limits: Limits) -> tuple[Agent, SessionSpend]:
    """An agent whose conversation fills its window, and what its session has spent."""
    spend = SessionSpend()
    model = replace(model, pricing=PRICED.pricing, context_window=20_000)
    agent = Agent(model=model, client=client(server), session_spend=spend, limits=limits, on_compact=Compactor.build())
    for _ in range(20):
        await agent._recorder.append(UserMessage("word " * 800))
        await agent._recorder.append(AssistantMessage((TextPart("text " * 200),)))
    return agent, spend


@pytest.mark.parametrize(("server", "model"), [(Server(), MESSAGES), (Writer(3_000), CHAT)])
@pytest.mark.parametrize("explicit", [True, False])
async def test_a_summary_is_stopped_when_its_estimated_cost_crosses_the_limit(
    server: httpx.AsyncBaseTransport, model: ai.Model, *, explicit: bool
) -> None:
    agent, spend = await talked(server, model, Limits(session_cost=0.15))
    if explicit:
        await agent.compact()
    else:
        with pytest.raises(LimitError, match="US dollars"):
            await agent.prompt("go")
    assert all(entry.message.type != "summary" for entry in agent.state.messages)
    assert 0.15 <= spend.cost < 0.16
    assert agent.state.cost == pytest.approx(spend.cost)


@pytest.mark.parametrize("explicit", [True, False])
async def test_a_summary_whose_request_alone_would_reach_a_limit_is_not_requested(*, explicit: bool) -> None:
    server = Writer(20)
    agent, spend = await talked(server, CHAT, Limits(session_cost=0.02))
    if explicit:
        await agent.compact()
    else:
        with pytest.raises(LimitError, match="`session_cost`"):
            await agent.prompt("go")
    assert (server.requests, spend.cost) == (0, 0.0)
    told = await anext(event async for event in agent.subscribe(since=0) if event.type == "compacted")
    assert told.summary_id is None
    assert "its request of about" in told.reason
    assert "`session_cost`" in told.reason
    agent.limits = Limits(session_cost=1.0)
    if compaction := agent._runner.window.compaction:  # in the background, after the turn
        await asyncio.wait([compaction])
    await agent.compact()
    assert any(entry.message.type == "summary" for entry in agent.state.messages)


async def test_a_reply_outside_the_conversation_whose_request_would_reach_a_limit_is_not_requested() -> None:
    server = Writer(20)
    agent, spend = await talked(server, CHAT, Limits(session_cost=0.02))
    with pytest.raises(AgentError, match="`session_cost`"):
        await complete_for(agent, ai.Context("", [UserMessage("word " * 20_000)]), ai.Options())
    assert (server.requests, spend.cost) == (0, 0.0)


async def test_what_a_server_does_not_count_is_estimated_outside_the_conversation_too() -> None:
    agent, spend = await talked(Writer(20), CHAT, Limits())
    assert await agent.compact()
    assert spend.tokens > 10_000  # the conversation, and 400 words
    summarised = spend.cost
    context = ai.Context("", [UserMessage("go")])
    reply = await complete_for(agent, context, ai.Options())
    assert reply.estimated
    assert spend.cost > summarised + 400 * 15.0 / 1_000_000

    server = Writer(3_000)
    agent, spend = await talked(server, CHAT, Limits(session_cost=0.05))
    with pytest.raises(AgentError, match="US dollars"):
        await complete_for(agent, context, ai.Options())
    assert 0.05 <= spend.cost < 0.06
    with pytest.raises(AgentError, match="US dollars"):
        await complete_for(agent, context, ai.Options())
    assert server.requests == 1

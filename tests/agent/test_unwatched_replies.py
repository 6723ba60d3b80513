"""An agent without deltas: the same conversation, its replies as whole messages only."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from support.loopback import Exchange, serving
from support.wire import CHAT, chat_chunk, sse

from planck_nb import Agent, Tool
from planck_nb.ai.messages import AssistantMessage
from planck_nb.base.errors import ProviderConnectionError
from planck_nb.testing import scripted_model

WORDS = [f"word {number} " for number in range(200)]


async def test_its_events_are_those_of_others_without_deltas() -> None:
    model = scripted_model([{"text": "I add.", "calls": [{"name": "add", "arguments": {}}]}, "Done."])
    tool = Tool(name="add", description="Add.", execute_fn=lambda _: "3")
    kinds: list[list[str]] = []
    for deltas in (True, False):
        async with Agent(model=model, tools=[tool], deltas=deltas) as agent:
            kinds.append([event.type async for event in agent.prompt("hi")])
            assert len(agent.state.messages) == 4
    seen, unseen = kinds
    streamed = {"text_delta", "thinking_delta", "tool_args_delta"}
    assert streamed & set(seen)
    assert unseen == [kind for kind in seen if kind not in streamed]


@pytest.mark.timeout(60)
async def test_a_long_reply_in_small_pieces_is_whole() -> None:
    async def reply(exchange: Exchange) -> None:
        await exchange.head()
        for word in WORDS:
            [chunk] = sse(chat_chunk({"content": word}))
            await exchange.send(chunk)
            await asyncio.sleep(0)
        for chunk in sse(chat_chunk({}, "stop"), "[DONE]"):
            await exchange.send(chunk)
        await exchange.end()

    async with serving(reply) as server, Agent(model=replace(CHAT, base_url=f"{server.url}/v1"), deltas=False) as agent:
        assert (await agent.prompt("hi")).text == "".join(WORDS)


@pytest.mark.timeout(60)
async def test_one_that_breaks_off_keeps_its_partial_text() -> None:
    async def reply(exchange: Exchange) -> None:
        await exchange.head()
        for chunk in sse(chat_chunk({"content": "half"})):
            await exchange.send(chunk)
        exchange.writer.close()

    async with serving(reply) as server, Agent(model=replace(CHAT, base_url=f"{server.url}/v1"), deltas=False) as agent:
        with pytest.raises(ProviderConnectionError):
            await agent.prompt("hi")
        last = agent.state.messages[-1].message
        assert isinstance(last, AssistantMessage)
        assert (last.text, last.stop_reason) == ("half", "error")

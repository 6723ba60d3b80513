"""One more turn of a long conversation, compared with bare httpx, which encodes and sends the same messages.

    python tests/benchmarks/bench_long.py [--messages 5000] [--rounds 15]

Both run in this process, in turns, against one server in another process. Prints medians of CPU milliseconds, the
ratio, and the memory that an agent keeps so that it does not encode everything again.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import httpx_aiohttp

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.benchmark import compare, server

from planck_nb import Agent, ai
from planck_nb.agent.message_log import MemoryLog
from planck_nb.ai.providers import dialect
from planck_nb.ai.request import HistoryCache

TEXT = "the quick brown fox jumps over the lazy dog and reads a file of numbers " * 2
GOAL = 1.3
"""12 ms on top of the floor's 9 ms."""


class Stored:
    """A store whose agent begins with these messages."""

    id = "stored"

    def __init__(self, messages: Sequence[ai.Message]) -> None:
        self._messages = messages

    def log(self, agent_id: str) -> MemoryLog:
        """A log that has the messages already."""
        return _Log(self._messages)


class _Log(MemoryLog):
    def __init__(self, messages: Sequence[ai.Message]) -> None:
        super().__init__()
        self._messages = list(enumerate(messages, 1))
        self._next_id = len(messages) + 1


def conversation(count: int) -> list[ai.Message]:
    """So many messages, prompts and replies in turn."""
    return [
        ai.AssistantMessage((ai.TextPart(f"{number} {TEXT}"),), provider="openai", model="m", api="chat")
        if number % 2
        else ai.UserMessage(f"{number} {TEXT}")
        for number in range(count)
    ]


async def run(url: str, count: int, rounds: int) -> None:
    messages = conversation(count)
    body: dict[str, Any] = {
        "model": "m",
        "messages": [
            {"role": "assistant" if number % 2 else "user", "content": f"{number} {TEXT}"} for number in range(count)
        ],
        "stream": True,
    }
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    async with (
        httpx.AsyncClient(timeout=60, transport=httpx_aiohttp.AiohttpTransport(client=session)) as bare,
        ai.Client(credentials={}) as client,
    ):
        model = ai.get_model("openai", "m", base_url=f"{url}/n=20", has_api_key=False)
        agent = Agent(id="long", model=model, client=client, session=Stored(messages))

        async def floor() -> None:
            async with bare.stream("POST", f"{url}/n=20/chat/completions", json=body) as response:
                async for _ in response.aiter_raw():
                    pass

        async def ours() -> None:
            await agent.prompt("hi")

        name = f"one more turn at {count:,} messages"
        await compare(name, floor, ours, rounds=rounds, unit="ms", scale=1e3, held_to=GOAL)
    cache = HistoryCache()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    dialect(model).request(model, ai.Context(messages=messages, cache=cache), ai.Options(), None)
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    print(f"kept for the next request: {kept / count:.0f} bytes a message besides its text")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with server() as address:
        asyncio.run(run(address, options.messages, options.rounds))

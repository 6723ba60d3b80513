"""What an agent costs compared with the floor: the same work with bare httpx over aiohttp and json.

    python tests/benchmarks/bench_agent.py [--rounds 9]

Both sides run in this process, in turns, against one server in another process; CPU is this process's alone. Prints
medians, and the median of the rounds' ratios, which a busy machine disturbs least. Wall times and the time to stop are
worth something on an idle machine only.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import httpx_aiohttp

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.benchmark import compare, server

from planck_nb import Agent, Tool, ai, tool

SYSTEM = "You are a helpful assistant."
DELTAS = 20_000
SLOW = 1_000
LOOPS = 50
PACED = "n=100000,pace=200"
AGENTS = 200


def add(x: int, y: int) -> int:
    """Add two numbers."""
    return x + y


SPEC = {
    "type": "function",
    "function": {"name": "add", "description": "Add two numbers.", "parameters": tool(add).parameters},
}


class Floor:
    """A conversation with nothing around it: post, split lines, parse, call the tool, post again."""

    def __init__(self, client: httpx.AsyncClient, url: str) -> None:
        self.client = client
        self.url = f"{url}/chat/completions"
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}]

    async def lines(self, body: dict[str, Any]) -> AsyncIterator[str]:
        async with self.client.stream("POST", self.url, json=body) as response:
            rest = b""
            async for chunk in response.aiter_raw():
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    yield line.decode()

    async def prompt(self, text: str) -> int:
        self.messages.append({"role": "user", "content": text})
        while True:
            said: list[str] = []
            arguments: list[str] = []
            body = {"model": "m", "messages": self.messages, "tools": [SPEC], "stream": True}
            async for line in self.lines(body):
                if not line.startswith("data: {"):
                    continue
                for choice in json.loads(line[6:])["choices"]:
                    if choice["delta"].get("content"):
                        said.append(choice["delta"]["content"])
                    calls = choice["delta"].get("tool_calls", ())
                    arguments += [call["function"]["arguments"] for call in calls]
            if not arguments:
                answer = "".join(said)
                self.messages.append({"role": "assistant", "content": answer})
                return len(answer)
            call = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": "".join(arguments)}}
            self.messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            result = str(add(**json.loads("".join(arguments))))
            self.messages.append({"role": "tool", "tool_call_id": "call_1", "content": result})


class Ours:
    """The same through an agent, its events consumed as a view would."""

    def __init__(self, client: ai.Client, model: ai.Model, shared: Tool) -> None:
        self.agent = Agent(model=model, system_prompt=SYSTEM, tools=[shared], client=client)

    async def prompt(self, text: str) -> int:
        size = 0
        async for event in self.agent.prompt(text):
            if event.type == "text_delta":
                size += len(event.text)
        return size


async def run(base: str, rounds: int) -> None:
    shared = tool(add)
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    async with (
        httpx.AsyncClient(timeout=60, transport=httpx_aiohttp.AiohttpTransport(client=session)) as bare,
        ai.Client(credentials={}) as client,
    ):

        async def stream(make: Callable[[], Floor | Ours], deltas: int = DELTAS) -> None:
            assert await make().prompt("hi") == 6 * deltas

        async def loops(make: Callable[[], Floor | Ours]) -> None:
            for _ in range(LOOPS):
                assert await make().prompt("TOOL add 20 and 22") == 120

        async def fleet(make: Callable[[], Floor | Ours]) -> None:
            async def one() -> None:
                side = make()
                for text in ("hi", "TOOL add 20 and 22", "thanks"):
                    assert await side.prompt(text) == 120

            await asyncio.gather(*(one() for _ in range(AGENTS)))

        def bare_at(path: str) -> Callable[[], Floor]:
            return lambda: Floor(bare, f"{base}/{path}")

        def ours_at(path: str) -> Callable[[], Ours]:
            model = ai.get_model("openai", "m", base_url=f"{base}/{path}", has_api_key=False)
            return lambda: Ours(client, model, shared)

        paced = partial(stream, deltas=SLOW)
        print(f"{'CPU':<34} {'floor':>9} {'ours':>9}")
        for name, path, work, unit, scale, held_to in (
            ("a streamed delta, as agent events", f"n={DELTAS}", stream, "µs", 1e6 / DELTAS, 0.9),
            ("a delta that comes 1 ms after the last", f"n={SLOW},pace=1000", paced, "µs", 1e6 / SLOW, 1.2),
            ("a two-step tool loop", "n=20", loops, "ms", 1e3 / LOOPS, 1.2),
            (f"{AGENTS} agents x 3 prompts, 50 ms each", "n=20,lat=50", fleet, "s", 1, 1.2),
        ):
            floor, ours = partial(work, bare_at(path)), partial(work, ours_at(path))
            # Between paced deltas other programs use the caches: one round differs from the next by a tenth.
            times = rounds * 3 if work is paced else rounds
            await compare(name, floor, ours, rounds=times, unit=unit, scale=scale, held_to=held_to)
        await stopping(base, bare, ours_at(PACED))
        memory(ours_at("n=20"))


async def stopping(base: str, bare: httpx.AsyncClient, make: Callable[[], Ours]) -> None:
    """Time until the server sees a connection closed: after `abort` and the end of the run, and after a bare close."""
    times: dict[str, list[float]] = {"floor": [], "ours": []}

    async def until_closed(began: float) -> float:
        while (await bare.get(f"{base}/stats")).text != "0":
            pass
        return time.perf_counter() - began

    body = {"messages": [{"role": "user", "content": "hi"}]}
    for _ in range(30):
        async with bare.stream("POST", f"{base}/{PACED}/chat/completions", json=body) as response:
            await anext(response.aiter_raw())
            began = time.perf_counter()
        times["floor"].append(await until_closed(began))
        ours = make()
        async for event in ours.agent.prompt("hi"):
            if event.type == "text_delta":
                break
        began = time.perf_counter()
        await ours.agent.abort()
        times["ours"].append(await until_closed(began))
    floor, our = (statistics.median(found) * 1e3 for found in times.values())
    print(f"{'abort to closed connection, p50':<36} {floor:9.1f} {our:9.1f} ms  (held to 5 ms on an idle machine)")


def memory(make: Callable[[], Ours]) -> None:
    """Heap of an idle agent."""
    make()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = [make() for _ in range(200)]
    gc.collect()
    size = (tracemalloc.get_traced_memory()[0] - before) / len(kept) / 1024
    tracemalloc.stop()
    print(f"heap of an idle agent: {size:.1f} KiB (held to 20)")


def importing(rounds: int) -> None:
    """Seconds that importing takes in a fresh interpreter, compared with httpx alone."""
    code = "import time; began = time.perf_counter(); {}; print(time.perf_counter() - began)"
    for statement in ("import httpx", "import planck_nb", "from planck_nb import Agent, ai, tool"):
        command = [sys.executable, "-c", code.format(statement)]
        times = [float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(rounds + 1)]
        print(f"{statement:<40} {statistics.median(times[1:]):.3f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    importing(options.rounds)
    with server() as url:
        asyncio.run(run(url, options.rounds))

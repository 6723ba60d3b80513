"""What a reply costs that nobody watches, compared with its events, and an item of a map with a stored agent.

    python tests/benchmarks/bench_map.py [--rounds 9]

Both sides run in this process, in turns, against one server in another process; CPU is this process's alone.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.benchmark import compare, server

from planck_nb import Agent, Config, Workspace, ai

DELTAS = 20_000
SLOW = 1_000
ITEMS = 1_000
CONCURRENCY = 8


async def run(base: str, rounds: int) -> None:
    async with ai.Client(credentials={}) as client:

        async def reply(path: str, *, deltas: bool) -> None:
            model = ai.get_model("openai", "m", base_url=f"{base}/{path}", has_api_key=False)
            async with Agent(model=model, client=client, deltas=deltas) as agent:
                assert (await agent.prompt("hi")).text

        print(f"{'CPU':<34} {'events':>9} {'unseen':>9}")
        for name, path, scale, held_to in (
            ("a streamed delta", f"n={DELTAS}", 1e6 / DELTAS, 1.05),
            ("a delta that comes 1 ms after the last", f"n={SLOW},pace=1000", 1e6 / SLOW, 0.7),
        ):
            seen, unseen = partial(reply, path, deltas=True), partial(reply, path, deltas=False)
            await compare(name, seen, unseen, rounds=rounds, unit="µs", scale=scale, held_to=held_to)
    await items(base, rounds)


async def items(base: str, rounds: int) -> None:
    """Compare the items of a map with as many new agents in a session, each with one turn."""
    model = ai.get_model("openai", "m", base_url=f"{base}/n=20", has_api_key=False)

    async def one(workspace: Workspace, name: str, slots: asyncio.Semaphore) -> None:
        async with slots:
            await workspace.add_agent(name, model=model).prompt(name)
            await workspace.remove_agent(name)

    async def agents() -> None:
        async with new_workspace() as workspace:
            slots = asyncio.Semaphore(CONCURRENCY)
            await asyncio.gather(*(one(workspace, f"agent {number}", slots) for number in range(ITEMS)))

    async def mapped() -> None:
        async with new_workspace() as workspace:
            prompts = [f"item {number}" for number in range(ITEMS)]
            run = await workspace.map(prompts, model=model, concurrency=CONCURRENCY)
            assert (run.asked, run.failed) == (ITEMS, 0)

    print(f"{'CPU':<34} {'agents':>9} {'items':>9}")
    await compare("an item", agents, mapped, rounds=rounds, unit="ms", scale=1e3 / ITEMS, held_to=1.2)


@asynccontextmanager
async def new_workspace() -> AsyncIterator[Workspace]:
    with tempfile.TemporaryDirectory() as folder:
        async with Workspace(Config.load(environment={}, directory=Path(folder), home=Path(folder))) as workspace:
            yield workspace


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with server() as url:
        asyncio.run(run(url, options.rounds))

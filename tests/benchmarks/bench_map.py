"""What a reply costs that nobody watches, compared with its events, and an item of a map with a stored agent.

    python tests/benchmarks/bench_map.py [--rounds 9]
    python tests/benchmarks/bench_map.py --long 100000

Both sides run in this process, in turns, against one server in another process; CPU is this process's alone. A long map
prints when its first row could be read, then the CPU and memory for each tenth.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.benchmark import compare, server
from support.mapping import resident_megabytes

from planck_nb import Agent, Config, Workspace, ai

DELTAS = 20_000
SLOW = 1_000
ITEMS = 1_000
CONCURRENCY = 8
STOPPED = 64


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
    await stop(base)


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


async def long_map(base: str, count: int) -> None:
    """Print how a map grows, from a list and with nothing loaded, as in a fresh kernel."""
    model = ai.get_model("openai", "m", base_url=f"{base}/n=20", has_api_key=False)
    async with new_workspace() as workspace:
        began, cpu = time.perf_counter(), time.process_time()
        run = workspace.map([f"item {number}" for number in range(count)], model=model, concurrency=CONCURRENCY)
        async for _ in run.as_finished():
            seconds = f"{time.perf_counter() - began:.2f} s, {time.process_time() - cpu:.2f} s of CPU"
            print(f"the first row of {count:,} after {seconds}")
            break
        for part in range(10):
            cpu, before = time.process_time(), run.progress.finished
            megabytes: list[float] = []  # DuckDB takes some while it copies rows
            while run.progress.finished < count * (part + 1) // 10 and not run.done:
                megabytes.append(resident_megabytes())
                await run.wait(0.05)
            finished = run.progress.finished
            each = (time.process_time() - cpu) / max(1, finished - before) * 1e3
            print(
                f"{finished:>9,} items {each:6.2f} ms of CPU each, {statistics.median(megabytes):5.0f} MB", flush=True
            )
        assert (run.asked, run.failed) == (count, 0)


async def stop(base: str) -> None:
    """Print how soon a map with slow replies has stopped, and what it has kept."""
    model = ai.get_model("openai", "m", base_url=f"{base}/n=200,pace=5000", has_api_key=False)
    async with new_workspace() as workspace:
        run = workspace.map([f"item {number}" for number in range(1_000)], model=model, concurrency=STOPPED)
        async for _ in run.as_finished():
            break
        finished, began = run.progress.finished, time.perf_counter()
        run.stop()
        await run
        seconds = time.perf_counter() - began
        print(f"a stop with {STOPPED} items in flight ends after {seconds:.2f} s")
        assert len(await run.frame()) >= finished


@asynccontextmanager
async def new_workspace() -> AsyncIterator[Workspace]:
    with tempfile.TemporaryDirectory() as folder:
        async with Workspace(Config.load(environment={}, directory=Path(folder), home=Path(folder))) as workspace:
            yield workspace


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--long", type=int, metavar="ITEMS")
    options = parser.parse_args()
    with server() as url:
        if options.long:
            asyncio.run(long_map(url, options.long))
        else:
            asyncio.run(run(url, options.rounds))

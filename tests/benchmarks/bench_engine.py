"""What an agent's turn costs the kernel if Dask's workers send the requests, compared with the kernel's own sending.

    python tests/benchmarks/bench_engine.py [--agents 400] [--rounds 3] [--deltas 200] [--pace 5000] [--growth]

Both sides run in this process, in turns, each against a server in a process of its own, with durable sessions; CPU is
this process's alone, the workers' is not counted. Each agent has one prompt a round, answered by 200 deltas, 5,000 µs
apart. With `--growth`, 10,000 agents follow 2,000 on the workers alone, at the same pace; this takes five minutes, and
`ulimit -n 20000` for the server.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.benchmark import compare, measure, server

from planck_nb import Agent, Config, Run, Workspace
from planck_nb.ai.engine import Engine
from planck_nb.ai.models import Model, as_found
from planck_nb.engines import DaskEngine

WORKERS = 2
AT_ONCE = 500
"""Agents that begin in one moment; 2,000 begin in a second, since a server's queue for new connections is short."""
HELD_TO = 0.33
FEW, MANY, GROWTH_PACE, GROWTH_HELD_TO = 2_000, 10_000, 300_000, 1.3


async def prompt_all(agents: list[Agent]) -> None:
    runs: list[Run] = []
    for start in range(0, len(agents), AT_ONCE):
        runs += [agent.prompt("Write.") for agent in agents[start : start + AT_ONCE]]
        await asyncio.sleep(AT_ONCE / 2000)
    results = await asyncio.gather(*runs)
    assert all(result.text for result in results)


def agents_of(workspace: Workspace, url: str, count: int) -> list[Agent]:
    model = Model(provider="openai", id="m", api="chat", base_url=url, api_key="key")
    return [workspace.add_agent(f"agent{number}", model=as_found(model)) for number in range(count)]


def workspace_in(folder: str, engine: Engine | None) -> Workspace:
    Path(folder).mkdir(exist_ok=True)
    return Workspace(Config.load(environment={}, directory=Path(folder), home=Path(folder)), engine=engine)


async def cpu_of(count: int, deltas: int, engine: DaskEngine) -> float:
    """CPU seconds of a turn, while so many agents have one each."""
    path = f"n={deltas},pace={GROWTH_PACE}"
    with server() as address, tempfile.TemporaryDirectory() as folder:
        async with workspace_in(folder, engine) as workspace:
            agents = agents_of(workspace, f"{address}/{path}", count)
            cpu, _ = await measure(partial(prompt_all, agents))
            return cpu / count


async def grow(deltas: int) -> None:
    async with DaskEngine(workers=WORKERS) as engine:
        await cpu_of(10, 1, engine)  # loads what is loaded once
        few, many = [await cpu_of(count, deltas, engine) for count in (FEW, MANY)]
    ratio = many / few
    missed = "" if ratio <= GROWTH_HELD_TO else ", MISSED"
    name = f"{MANY:,} agents after {FEW:,}"
    print(f"{name:<36} {few * 1000:9.2f} {many * 1000:9.2f} ms  {ratio:5.2f}x (held to {GROWTH_HELD_TO}x{missed})")


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--agents", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--deltas", type=int, default=200)
    parser.add_argument("--pace", type=int, default=5_000)
    parser.add_argument("--growth", action="store_true")
    options = parser.parse_args()
    if options.growth:
        await grow(options.deltas)
        return
    with server() as first, server() as second, tempfile.TemporaryDirectory() as folder:
        path = f"n={options.deltas},pace={options.pace}"
        async with (
            DaskEngine(workers=WORKERS) as engine,
            workspace_in(f"{folder}/local", None) as local,
            workspace_in(f"{folder}/dask", engine) as remote,
        ):
            own = agents_of(local, f"{first}/{path}", options.agents)
            others = agents_of(remote, f"{second}/{path}", options.agents)
            await compare(
                f"{options.agents} agents, {options.deltas} deltas",
                partial(prompt_all, own),
                partial(prompt_all, others),
                rounds=options.rounds,
                unit="ms",
                scale=1000 / options.agents,
                held_to=HELD_TO,
            )
            for worker in engine.workers():
                print(f"  {worker.worker}: {worker.answered} answered, {worker.failed} failed")


if __name__ == "__main__":
    asyncio.run(main())

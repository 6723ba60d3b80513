"""What a large team costs: a fan-out to many workers, idle members, and many tasks for one worker.

    python tests/benchmarks/bench_team.py [--rounds 5]

The workers' models are behind a server in another process that answers after 50 ms. Wall times are worth something on
an idle machine only; the CPU of this process stands beside them.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import sys
import tempfile
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.benchmark import measure, server
from support.teams import HandMade, calls, team_from

from planck_nb import AgentSpec, Config, Team, Workspace, ai
from planck_nb.teams import TeamResult, TeamTemplate
from planck_nb.testing import scripted_model

WORKERS = 200
IDLE = 1_000
TASKS = 2_000


async def fan_out(base: str, client: ai.Client, tool: str, workers: int = WORKERS) -> None:
    """One orchestrator gives every worker something to do, at once."""
    key = "question" if tool == "ask_agent" else "task"
    each = calls(*((tool, {"agent_id": f"w{number}", key: "hi"}) for number in range(workers)))
    lead = replace(scripted_model([each, *["read"] * (workers + 1)]), alias="lead")
    model = replace(ai.get_model("openai", "m", base_url=f"{base}/n=20,lat=50", has_api_key=False), alias="w")
    specs = [AgentSpec("orchestrator", "demo", "lead", name="lead")]
    specs += [AgentSpec("worker", "openai", "w", name=f"w{number}") for number in range(workers)]
    async with Team.from_specs(specs, available_models=[lead, model], client=client) as team:
        began = time.perf_counter()
        result = await team.prompt("go")
        elapsed.append(time.perf_counter() - began)
        assert result.text == "read"
        assert isinstance(result, TeamResult)
        assert len(result.turns) >= workers + 1


elapsed: list[float] = []
"""Wall seconds of the runs, without making the agents."""


async def one_worker(tasks: int) -> None:
    """An orchestrator gives one worker many tasks in one turn."""
    each = calls(*(("delegate_task", {"agent_id": "ann", "task": f"{number}"}) for number in range(tasks)))
    team = team_from([each, *["read"] * (tasks + 1)], ann=["ok"] * tasks)
    async with team:
        await team.prompt("go")


async def run(base: str, rounds: int) -> None:
    async with ai.Client(credentials={}) as client:
        for tool, held_to in (("delegate_task", 1.0), ("ask_agent", 1.0)):
            rows = []
            for number in range(rounds + 1):
                elapsed.clear()
                cpu, _ = await measure(lambda tool=tool: fan_out(base, client, tool))  # type: ignore[misc]
                rows += [(cpu, elapsed[0])] if number else []
            cpu, wall = map(statistics.median, zip(*rows, strict=True))
            verdict = "" if wall <= held_to else ", MISSED"
            print(f"{WORKERS} workers, {tool:<14} CPU {cpu:.2f} s, wall {wall:.2f} s (held to {held_to} s{verdict})")
    for tasks in (TASKS // 4, TASKS):
        cpu, _ = await measure(lambda tasks=tasks: one_worker(tasks))  # type: ignore[misc]
        print(f"{tasks} tasks for one worker: CPU {cpu / tasks * 1e3:.2f} ms each")


async def stopped(teams: int) -> None:
    """Start, prompt and stop teams in one workspace."""
    with tempfile.TemporaryDirectory() as folder:
        async with Workspace(Config.load(environment={}, directory=Path(folder))) as workspace:
            specs = [AgentSpec(kind, "demo", "demo", name=kind) for kind in ("orchestrator", "worker")]
            template = TeamTemplate.from_specs(specs, name="crew")
            tracemalloc.start()
            spent, before = 0.0, 0
            for number in range(1, teams + 1):
                began = time.thread_time()
                team = await workspace.start_team(template, name="crew")
                await team.prompt("hello")
                await workspace.stop_team("crew")
                spent += time.thread_time() - began
                if number % (teams // 5) == 0:
                    gc.collect()
                    size = tracemalloc.get_traced_memory()[0]
                    kept = f", each left {(size - before) / (teams // 5) / 1024:.1f} KiB (held to 10)" if before else ""
                    print(f"team {number}: {spent / (teams // 5) * 1e3:.1f} ms on the loop under tracemalloc{kept}")
                    spent, before = 0.0, size
            tracemalloc.stop()


def memory() -> None:
    """Heap of idle members."""
    model = scripted_model([])
    warm = HandMade()
    kept = [warm.lead([], model=model), warm.worker("ann", model=model)]
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    team = HandMade()
    kept.append(team.lead([], model=model))
    began = time.process_time()
    kept += [team.worker(f"w{number}", model=model) for number in range(IDLE)]
    spent = time.process_time() - began
    gc.collect()
    size = (tracemalloc.get_traced_memory()[0] - before) / 1e6
    if SHOW:
        for line in tracemalloc.take_snapshot().statistics("lineno")[:25]:
            print(line)
    tracemalloc.stop()
    print(f"{IDLE} idle members: {size:.1f} MB (held to 10 MB), made in {spent:.2f} s under tracemalloc")


SHOW = "--show" in sys.argv

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    memory()
    asyncio.run(stopped(500))
    with server() as url:
        asyncio.run(run(url, options.rounds))

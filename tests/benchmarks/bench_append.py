"""How long a durable append takes beside sqlite's, one after the other in the same run.

    python tests/benchmarks/bench_append.py [appends]

Prints medians in microseconds and their ratios; the target is at most 1.0. sqlite is timed as it comes, blocking the
event loop, and on a thread of its own, which is what a kernel could afford. While the disk is fast, ours blocks the
loop too and is compared with the former; while it is slow, ours must not, and is compared with the latter. Then fifty
agents append at once. At last one agent appends two hundred messages a second for some seconds, alone and beside 10,000
events a second: how long its appends take, and how late the event loop is.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice, permutations
from pathlib import Path

from planck_nb.agent import events
from planck_nb.ai.messages import AssistantMessage, TextPart, Usage, encode_message
from planck_nb.sessions import Session

MESSAGE = AssistantMessage((TextPart("x" * 800),), "stop", Usage(1000, 200), 0.001, "demo", "demo")
AGENTS = 50
EVENTS = 10_000
SECONDS = 8


async def measure(directory: Path, count: int) -> tuple[dict[str, list[float]], list[bool]]:
    """The seconds of each append, and of each of ours, whether the disk was held for fast."""
    database = sqlite3.connect(directory / "peer.db", isolation_level=None, check_same_thread=False)
    database.execute("pragma journal_mode = wal")
    database.execute("pragma synchronous = full")
    database.execute("create table messages (id integer primary key, agent_id text, data text, ts real)")
    times: dict[str, list[float]] = {"ours": [], "sqlite": [], "sqlite on a thread": [], f"ours, {AGENTS} agents": []}

    def insert() -> None:
        data = json.dumps(encode_message(MESSAGE))
        database.execute("insert into messages (agent_id, data, ts) values (?, ?, ?)", ("agent", data, time.time()))

    loop = asyncio.get_running_loop()
    fast: list[bool] = []
    with ThreadPoolExecutor(1) as executor, Session.create(directory / "sessions") as session:
        log = session.log("agent")

        async def append() -> None:
            fast.append(session._writer._pace.fast)
            await log.append(MESSAGE, turn=0, time=time.time())

        async def block() -> None:
            insert()

        async def thread() -> None:
            await loop.run_in_executor(executor, insert)

        # In every order, because what follows an idle moment finds cold caches and what follows its like warm ones.
        orders = cycle(permutations({"ours": append, "sqlite": block, "sqlite on a thread": thread}.items()))
        for order in islice(orders, count):
            for name, write in order:
                await asyncio.sleep(0)
                start = time.perf_counter()
                await write()
                times[name].append(time.perf_counter() - start)
        for _ in range(max(1, count // AGENTS)):
            start = time.perf_counter()
            await asyncio.gather(*(log.append(MESSAGE, turn=0, time=time.time()) for _ in range(AGENTS)))
            times[f"ours, {AGENTS} agents"].append((time.perf_counter() - start) / AGENTS)
    database.close()
    return times, fast


async def sustain(directory: Path, events_per_second: int) -> tuple[list[float], list[float], int]:
    """The seconds that appends took and that the loop was late, and how many events were stored."""
    appends: list[float] = []
    late: list[float] = []
    recorded = 0
    with Session.create(directory) as session:
        log = session.log("agent")
        end = time.perf_counter() + SECONDS

        async def record() -> None:
            nonlocal recorded
            start = due = time.perf_counter()
            while due < end:
                due += 0.005
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                late.append(max(0.0, time.perf_counter() - due))
                while recorded < events_per_second * (due - start):
                    recorded += 1
                    args = {"path": "src/main.py"}
                    log.record(events.ToolStart("agent", session.id, 0, recorded, time.time(), "1", "read", args))

        async def append() -> None:
            while (start := time.perf_counter()) < end:
                await log.append(MESSAGE, turn=0, time=time.time())
                appends.append(time.perf_counter() - start)
                await asyncio.sleep(0.005)

        await asyncio.gather(record(), append())
        assert len(session.events()) == recorded + len(appends)
    return appends, late, recorded


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:
        times, fast = asyncio.run(measure(Path(directory), count))
        medians = {name: statistics.median(values) * 1e6 for name, values in times.items()}
        for name, median in medians.items():
            print(f"{name:>20}: {_percentiles(times[name])}, {median / medians['sqlite']:.2f}x sqlite")
        for verdict, peer in ((True, "sqlite"), (False, "sqlite on a thread")):
            both = zip(times["ours"], times[peer], fast, strict=True)
            chosen = [(ours, theirs) for ours, theirs, was in both if was is verdict]
            if chosen:
                ours, theirs = map(statistics.median, zip(*chosen, strict=True))
                disk = "fast" if verdict else "slow"
                print(f"{disk} disk, {len(chosen)} appends: {ours / theirs:.2f}x {peer}")
        for rate in (0, EVENTS):
            appends, late, recorded = asyncio.run(sustain(Path(directory), rate))
            print(
                f"{recorded / SECONDS:>6.0f} events a second: append {_percentiles(appends)}; late {_percentiles(late)}"
            )


def _percentiles(seconds: list[float]) -> str:
    return (
        f"p50 {statistics.median(seconds) * 1e6:5.0f} µs, p99 {sorted(seconds)[int(len(seconds) * 0.99)] * 1e6:5.0f} µs"
    )


if __name__ == "__main__":
    main()

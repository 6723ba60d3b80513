"""The time of a durable append compared with aiosqlite's, with the event loop free during both.

    python tests/benchmarks/bench_append.py [appends per round]

aiosqlite commits each row with WAL and synchronous=FULL, on its own thread: in the usual way, `execute` and `commit`,
and in autocommit mode, which takes one change of thread less. All are measured in turn within each of several rounds.
The target is a ratio of at most 1.0 of the medians to the usual way; autocommit mode is shown for comparison. Then
fifty agents append at once. Finally one
agent appends two hundred messages a second for some seconds, alone and with 10,000 events a second: how long its
appends take, and how late the event loop runs its timers.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from itertools import cycle, islice, permutations
from pathlib import Path
from typing import Literal

import aiosqlite

from planck_nb.agent import events
from planck_nb.ai.messages import AssistantMessage, TextPart, Usage, encode_message
from planck_nb.sessions import Session

MESSAGE = AssistantMessage((TextPart("x" * 800),), "stop", Usage(1000, 200), 0.001, "demo", "demo")
ROUNDS = 7
AGENTS = 50
EVENTS = 10_000
SECONDS = 8


async def compare(directory: Path, count: int) -> None:
    """Print the median of each round and the ratios to it."""
    usual = await _connect(directory / "usual.db", "DEFERRED")
    autocommit = await _connect(directory / "autocommit.db", None)
    with Session.create(directory / "sessions") as session:
        log = session.log("agent")

        async def append() -> None:
            await log.append(MESSAGE, turn=0, time=time.time())

        async def insert(database: aiosqlite.Connection) -> None:
            data = json.dumps(encode_message(MESSAGE))
            await database.execute(
                "insert into messages (agent_id, data, ts) values (?, ?, ?)", ("agent", data, time.time())
            )

        async def insert_and_commit() -> None:
            await insert(usual)
            await usual.commit()

        writers = {
            "append": append,
            "aiosqlite, commit": insert_and_commit,
            "aiosqlite, autocommit": lambda: insert(autocommit),
        }
        await measure_in_turn(writers, count // 2)  # warm caches
        ratios: dict[str, list[float]] = {name: [] for name in writers}
        for number in range(1, ROUNDS + 1):
            times = await measure_in_turn(writers, count)
            ours = statistics.median(times["append"])
            for name, seconds in times.items():
                ratios[name].append(ours / statistics.median(seconds))
            print(f"round {number}: " + "; ".join(f"{name} {_percentiles(times[name])}" for name in writers))
        for name, held_to in (("aiosqlite, commit", "; at most 1.0"), ("aiosqlite, autocommit", "")):
            found = ratios[name]
            print(f"{statistics.median(found):.2f}x {name} ({min(found):.2f}x to {max(found):.2f}x{held_to})")
        for name, write in (("append", append), ("aiosqlite, autocommit", writers["aiosqlite, autocommit"])):
            each = []
            for _ in range(20):
                start = time.perf_counter()
                await asyncio.gather(*(write() for _ in range(AGENTS)))
                each.append((time.perf_counter() - start) / AGENTS)
            print(f"{AGENTS} at once, each: {name} {_percentiles(each)}")
    await usual.close()
    await autocommit.close()


async def _connect(path: Path, isolation_level: Literal["DEFERRED"] | None) -> aiosqlite.Connection:
    database = await aiosqlite.connect(path, isolation_level=isolation_level)
    await database.execute("pragma journal_mode = wal")
    await database.execute("pragma synchronous = full")
    await database.execute("create table messages (id integer primary key, agent_id text, data text, ts real)")
    await database.commit()
    return database


async def measure_in_turn(writers: Mapping[str, Callable[[], Awaitable[None]]], count: int) -> dict[str, list[float]]:
    """The seconds of each call. The order changes, because each runs with the caches that the one before leaves."""
    times: dict[str, list[float]] = {name: [] for name in writers}
    for order in islice(cycle(permutations(writers.items())), count):
        for name, write in order:
            await asyncio.sleep(0)
            start = time.perf_counter()
            await write()
            times[name].append(time.perf_counter() - start)
    return times


async def sustain(directory: Path, events_per_second: int) -> tuple[list[float], list[float], int]:
    """The seconds that appends took and that the loop was late, and the number of events stored."""
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
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:
        asyncio.run(compare(Path(directory), count))
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

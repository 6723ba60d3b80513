"""How long a durable append takes beside sqlite's, one after the other in the same run.

    python tests/benchmarks/bench_append.py [appends]

Prints the medians in microseconds and the ratio; the target is at most 1.0.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path

from planck_nb.ai.messages import AssistantMessage, TextPart, Usage, encode_message
from planck_nb.sessions import Session

MESSAGE = AssistantMessage((TextPart("x" * 800),), "stop", Usage(1000, 200), 0.001, "demo", "demo")


async def measure(directory: Path, count: int) -> tuple[list[float], list[float]]:
    database = sqlite3.connect(directory / "peer.db", isolation_level=None)
    database.execute("pragma journal_mode = wal")
    database.execute("pragma synchronous = full")
    database.execute("create table messages (id integer primary key, agent_id text, data text, ts real)")
    ours: list[float] = []
    sqlite: list[float] = []
    with Session.create(directory / "sessions") as session:
        log = session.log("agent")
        for _ in range(count):
            start = time.perf_counter()
            await log.append(MESSAGE, turn=0, time=time.time())
            ours.append(time.perf_counter() - start)
            start = time.perf_counter()
            data = json.dumps(encode_message(MESSAGE))
            database.execute("insert into messages (agent_id, data, ts) values (?, ?, ?)", ("agent", data, time.time()))
            sqlite.append(time.perf_counter() - start)
    database.close()
    return ours, sqlite


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:
        ours, sqlite = asyncio.run(measure(Path(directory), count))
    medians = [statistics.median(times) * 1e6 for times in (ours, sqlite)]
    p99 = [sorted(times)[int(len(times) * 0.99)] * 1e6 for times in (ours, sqlite)]
    print(f"durable append, {count} times: p50 {medians[0]:.0f} µs, p99 {p99[0]:.0f} µs")
    print(f"sqlite, WAL and synchronous=FULL: p50 {medians[1]:.0f} µs, p99 {p99[1]:.0f} µs")
    print(f"ratio of the medians: {medians[0] / medians[1]:.2f}x (target at most 1.0)")


if __name__ == "__main__":
    main()

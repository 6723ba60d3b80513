from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from planck_nb.ai.messages import TextPart, UserMessage
from planck_nb.sessions import Session, find_session, query
from planck_nb.sessions.journal.segments import START, read_rows

pytestmark = pytest.mark.process

TESTS = Path(__file__).parents[1]
WRITE = """
import sys
sys.path.insert(0, sys.argv[3])
from support.stored import write_forever
write_forever(sys.argv[1], sys.argv[2], float(sys.argv[4]))
"""
COUNTS = """
select session_name, count(*) as n, count(distinct id) as ids, max(turn) as last from messages group by all
"""
SUMS = "select agent_id, count(*), sum(output_tokens) from messages group by 1"
SOAK = bool(os.environ.get("PLANCK_NB_SOAK"))
SECONDS, QUERIES = (600, 1000) if SOAK else (3, 6)
RATE = 300
LOOKS, LINES = 500, 1500
LONGEST = 100
"""Seconds after which looking ends; on an idle computer it takes two."""


def start_writer(directory: Path, name: str, rate: float = float("inf")) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITE, str(directory), name, str(TESTS), str(rate)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def kill(writer: subprocess.Popen[str]) -> list[int]:
    """Kill the writer and give the ids that it saw acknowledged and that have not been read from it."""
    writer.send_signal(signal.SIGKILL)
    rest, _ = writer.communicate()
    return [int(line.split()[0]) for line in rest.splitlines(keepends=True) if line.endswith("\n")]


@pytest.mark.skipif(sys.platform == "win32", reason="kills with SIGKILL")
@pytest.mark.parametrize("acknowledged", [1, 150, 1500])
def test_no_acknowledged_message_is_lost_when_the_process_is_killed(tmp_path: Path, acknowledged: int) -> None:
    writer = start_writer(tmp_path, "killed")
    assert writer.stdout is not None
    ids = [int(writer.stdout.readline().split()[0]) for _ in range(acknowledged)]
    ids += kill(writer)
    seen = query(tmp_path, "select id, text from messages order by id")
    assert set(ids) <= set(seen.id)
    assert list(seen.text) == [f"message {number}" for number in range(1, len(seen) + 1)]
    with Session.open(tmp_path, "killed") as session:
        assert [row.db_id for row in session.messages()] == list(seen.id)
        new = asyncio.run(session.log("writer").append(UserMessage("alive"), turn=0, time=0))
        assert new > seen.id.max()
        session.materialize()
    assert list(query(tmp_path, "select id from messages order by id").id) == [*seen.id, new]
    records = [json.loads(line) for line in session.path.read_bytes().splitlines()]
    assert [record["id"] for record in records] == sorted({record["id"] for record in records})


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.skipif(sys.platform == "win32", reason="kills with SIGKILL")
def test_sessions_are_queried_from_another_process_while_they_are_written(tmp_path: Path) -> None:
    acknowledged: dict[str, int] = {}
    started = threading.Barrier(4)
    writers = [start_writer(tmp_path, name, RATE) for name in ("one", "two", "three")]
    followers = [
        threading.Thread(target=follow, args=(writer, name, acknowledged, started))
        for writer, name in zip(writers, ("one", "two", "three"), strict=True)
    ]
    for follower in followers:
        follower.start()
    durations: list[float] = []
    try:
        started.wait()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end or len(durations) < QUERIES:
            look(tmp_path, dict(acknowledged))
            start = time.perf_counter()
            query(tmp_path, SUMS)
            durations.append(time.perf_counter() - start)
    finally:
        for writer in writers:
            writer.kill()
        for follower in followers:
            follower.join()
        for writer in writers:
            writer.communicate()
    median, slow = statistics.median(durations), statistics.quantiles(durations, n=100)[-1]
    print(
        f"{len(durations)} queries, median {median * 1e3:.0f} ms, 99 of 100 within {slow * 1e3:.0f} ms,"
        f" longest {max(durations) * 1e3:.0f} ms; {acknowledged}"
    )
    assert (median <= 0.3 and slow <= 1) or not SOAK
    for name, number in acknowledged.items():
        with Session.open(tmp_path, name) as session:
            texts = [row.message.content[0] for row in session.messages()]
            assert texts == [TextPart(f"message {n}") for n in range(1, len(texts) + 1)]
            assert len(texts) >= number


@pytest.mark.skipif(sys.platform == "win32", reason="kills with SIGKILL")
def test_a_reader_never_sees_a_line_without_those_before_it(tmp_path: Path) -> None:
    writer = start_writer(tmp_path, "busy")
    try:
        assert writer.stdout is not None
        writer.stdout.readline()
        draining = threading.Thread(target=writer.stdout.read)
        draining.start()
        path = find_session(tmp_path, "busy").path
        # Each look begins where the last one ended, so that it takes as long however far the writer has come.
        count, looks, start = 0, 0, START
        end = time.monotonic() + LONGEST
        while (looks < LOOKS or count <= LINES) and time.monotonic() < end:
            looks += 1
            for lines, reached in read_rows(path, start=start):
                for line in lines:
                    assert line.startswith(b'{"v":1,"id":%d,' % count)
                    count += 1
                start = reached
        assert looks >= LOOKS
        assert count > LINES
        writer.kill()
        draining.join()
    finally:
        writer.kill()
        writer.communicate()


def follow(writer: subprocess.Popen[str], name: str, acknowledged: dict[str, int], started: threading.Barrier) -> None:
    """Keep up with what a writer prints; the barrier is for its first line."""
    assert writer.stdout is not None
    for line in writer.stdout:
        first = name not in acknowledged
        if line.endswith("\n"):
            acknowledged[name] = int(line.split()[1])
        if first:
            started.wait()


def look(directory: Path, acknowledged: dict[str, int]) -> None:
    """Check that a query sees what was acknowledged before, without a hole."""
    counts = query(directory, COUNTS).set_index("session_name")
    for name, number in acknowledged.items():
        row = counts.loc[name]
        assert row.n == row.ids == row["last"], "no row is missing or doubled"
        assert row.n >= number, "what was acknowledged before the query is in it"


def test_a_process_that_uses_the_store_leaves_the_event_loop_free(tmp_path: Path) -> None:
    async def run() -> int:
        session = Session.create(tmp_path)
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.ensure_future(tick())
        for _ in range(50):
            await session.log("a").append(UserMessage("x" * 1000), turn=0, time=0)
        ticking.cancel()
        session.close()
        return ticks

    assert asyncio.run(run()) >= 20  # while the disk is fast, every other append lets others run

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from planck_nb import Agent
from planck_nb.agent import events
from planck_nb.ai.messages import UserMessage
from planck_nb.base.errors import SessionError
from planck_nb.sessions import Session
from planck_nb.sessions.journal import journal_file
from planck_nb.sessions.journal.journal_writer import Writer
from planck_nb.sessions.session import SessionLog
from planck_nb.testing import scripted_model


class Disk:
    """Counts syncs, notes the thread that waits for each, and can make them wait."""

    def __init__(self) -> None:
        self.threads: list[int] = []
        self.threads_of_directories: list[int] = []
        self.free = threading.Event()
        self.free.set()

    def sync(self, _descriptor: int) -> None:
        self.threads.append(threading.get_ident())
        self.free.wait()

    def sync_directory(self, _directory: Path) -> None:
        self.threads_of_directories.append(threading.get_ident())

    def syncs(self) -> int:
        """The number of syncs since the last call."""
        count = len(self.threads)
        self.threads.clear()
        return count

    @contextmanager
    def stuck(self) -> Iterator[None]:
        """Let no sync return before the end of the block."""
        self.free.clear()
        try:
            yield
        finally:
            self.free.set()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(journal_file, "_sync", disk.sync)
    monkeypatch.setattr(journal_file, "sync_directory", disk.sync_directory)
    return disk


async def append(log: SessionLog, times: int) -> None:
    for _ in range(times):
        await log.append(UserMessage("x"), turn=0, time=0)


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)


async def test_no_sync_runs_on_the_event_loop(tmp_path: Path, disk: Disk) -> None:
    with Session.create(tmp_path) as session:
        assert disk.syncs() == 0
        await append(session.log("a"), 30)
        assert len(disk.threads_of_directories) == 1, "the new name is on disk before the first line is acknowledged"
        await session.save_metadata({"key": 1})
        await session.truncate_after(20)
        await session.flush()
        assert len(disk.threads) == 32
        assert len(disk.threads_of_directories) == 1
        assert threading.get_ident() not in {*disk.threads, *disk.threads_of_directories}


async def test_opening_a_session_does_not_wait_for_the_disk(tmp_path: Path, disk: Disk) -> None:
    with Session.create(tmp_path, name="one") as session:
        await append(session.log("a"), 1)
    disk.syncs()
    with Session.open(tmp_path, "one") as session:
        await append(session.log("a"), 1)
        assert len(disk.threads) == 1
        assert threading.get_ident() not in disk.threads


async def test_the_header_of_a_segment_is_on_disk_before_the_segment_has_its_name(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(
        journal_file, "_sync", lambda descriptor: synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().suffix)
    )
    with Session.create(tmp_path) as session:
        await append(session.log("a"), 1)
        synced.clear()
        session._writer.start_segment()
        assert synced == [".next"]


async def test_the_event_loop_goes_on_while_the_disk_is_waited_for(tmp_path: Path, disk: Disk) -> None:
    with Session.create(tmp_path) as session:
        with disk.stuck():
            appending = asyncio.create_task(append(session.log("a"), 1))
            await until(lambda: len(disk.threads) == 1)
            assert not appending.done()
        await appending


async def test_what_waits_during_a_sync_shares_the_next(tmp_path: Path, disk: Disk) -> None:
    with Session.create(tmp_path) as session:
        with disk.stuck():
            first = asyncio.create_task(append(session.log("a"), 1))
            await until(lambda: len(disk.threads) == 1)
            disk.syncs()
            others = [asyncio.create_task(append(session.log(f"agent {number}"), 1)) for number in range(50)]
            await asyncio.sleep(0)
        await asyncio.gather(first, *others)
        assert disk.syncs() == 1
        assert [row.db_id for row in session.messages()] == list(range(1, 52))


async def test_an_event_is_not_synced_and_goes_before_the_next_message(tmp_path: Path, disk: Disk) -> None:
    with Session.create(tmp_path) as session:
        log = session.log("a")
        await append(log, 1)
        disk.syncs()
        for number in range(100):
            log.record(events.Queued("a", session.id, 0, 0, 0.0, prompt_id=str(number), text="x"))
        assert [event.type for event in session.events()] == ["message"] + ["queued"] * 100
        assert disk.syncs() == 0, "reading does not need the disk"
        await append(log, 1)
        assert disk.syncs() == 1
        assert [event.type for event in session.events()][1:] == ["queued"] * 100 + ["message"]


async def test_an_event_that_nothing_follows_is_written_soon(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        session.log("a").record(events.Aborted("a", session.id, 0, 0, 0.0))
        await until(lambda: b'"aborted"' in session.path.read_bytes())


async def test_many_events_are_written_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[int] = []
    real = Writer._write

    def write(writer: Writer, batch: list[Any]) -> None:
        writes.append(len(batch))
        real(writer, batch)

    monkeypatch.setattr(Writer, "_write", write)
    with Session.create(tmp_path) as session:
        for number in range(1000):
            session.log("a").record(events.Queued("a", session.id, 0, 0, 0.0, prompt_id=str(number), text="x"))
        await session.flush()
        assert len(writes) <= 10, "the first wakes the thread, which then waits for more"


async def test_a_cancelled_append_is_kept(tmp_path: Path, disk: Disk) -> None:
    with Session.create(tmp_path) as session:
        with disk.stuck():
            appending = asyncio.create_task(session.append("a", UserMessage("x")))
            await until(lambda: len(disk.threads) == 1)
            appending.cancel()
            appending.cancel()
            await asyncio.sleep(0)
            assert not appending.done(), "the line can no longer be taken back"
        with pytest.raises(asyncio.CancelledError):
            await appending
        assert [row.db_id for row in session.messages()] == [1]


async def test_a_stop_while_a_slow_disk_is_waited_for_leaves_the_next_prompt_alone(tmp_path: Path, disk: Disk) -> None:
    with Session.create(tmp_path) as session:
        with disk.stuck():
            agent = Agent(model=scripted_model(["one", "two"]), session=session)
            first, second = agent.prompt("A"), agent.prompt("B")
            await until(lambda: len(disk.threads) == 1)
            first.abort()
        assert (await first).aborted
        assert not (await second).aborted
        await agent.stop()


def test_loops_in_several_threads_write_one_session(tmp_path: Path, disk: Disk) -> None:
    with Session.create(tmp_path) as session:
        threads = [
            threading.Thread(target=lambda name: asyncio.run(append(session.log(name), 200)), args=(name,))
            for name in "abc"
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [row.db_id for row in session.messages()] == list(range(1, 601))


def test_a_loop_that_ends_before_its_append_does_no_harm(tmp_path: Path, disk: Disk) -> None:
    with Session.create(tmp_path) as session:
        loop = asyncio.new_event_loop()
        with disk.stuck():
            appending = loop.create_task(append(session.log("a"), 1))
            loop.run_until_complete(until(lambda: len(disk.threads) == 1))
            del appending
            loop.close()
        asyncio.run(append(session.log("a"), 1))
        assert [row.db_id for row in session.messages()] == [1, 2]


async def test_a_closed_writer_refuses_lines(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        pass
    for use in (session._writer.sync, session._writer.write, session._writer.start_segment):
        with pytest.raises(SessionError, match="closed"):
            use()


FORK = """
import asyncio, os, sys
from pathlib import Path
from planck_nb.ai.messages import UserMessage
from planck_nb.base.errors import SessionError
from planck_nb.sessions import Session

session = Session.create(Path(sys.argv[1]), name="forked")
asyncio.run(session.append("a", UserMessage("before")))
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    os.read(reader, 1)
    try:
        asyncio.run(session.flush())
    except SessionError as error:
        print(error, [row.db_id for row in session.messages()], flush=True)
    session.close()
    sys.exit()  # runs what is registered to run at the exit
asyncio.run(session.append("a", UserMessage("after")))
os.write(writer, b"x")
os.waitpid(child, 0)
print([row.db_id for row in session.messages()])
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_leaves_the_session_alone(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    theirs, mine = done.stdout.splitlines()
    assert theirs == "Session 'forked' is open in the parent process; only that process can write it. [1, 2]"
    assert mine == "[1, 2]"

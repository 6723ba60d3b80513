from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from planck_nb import Agent
from planck_nb.agent import events
from planck_nb.ai.messages import UserMessage
from planck_nb.base.aio import run_in_thread
from planck_nb.sessions import Session, journal, pace
from planck_nb.sessions.journal import JournalFile
from planck_nb.sessions.session import SessionLog
from planck_nb.testing import scripted_model


class Disk:
    """A disk whose syncs take as long as it is told, by its own clock, and that notes which thread waits for each."""

    def __init__(self) -> None:
        self.seconds: Callable[[int], float] = lambda _: 0.0001
        self.threads: list[int] = []
        self.clock = 0.0

    def sync(self, _descriptor: int) -> None:
        self.threads.append(threading.get_ident())
        self.clock += self.seconds(len(self.threads))

    def here(self) -> int:
        """How often the calling thread waited since it was last asked."""
        count = self.threads.count(threading.get_ident())
        self.threads.clear()
        return count


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(journal, "_sync", disk.sync)
    monkeypatch.setattr(pace, "now", lambda: disk.clock)
    return disk


async def append(log: SessionLog, times: int) -> None:
    for _ in range(times):
        await log.append(UserMessage("x"), turn=0, time=0)


async def test_a_disk_that_proved_fast_is_waited_for_on_the_loop(tmp_path: Path, disk: Disk) -> None:
    with Session.create(tmp_path) as session:
        disk.here()
        await append(session.log("a"), 1)
        assert disk.here() == 0, "it has not proved fast yet"
        await append(session.log("a"), 30)
        disk.here()
        await append(session.log("a"), 30)
        assert disk.here() == 30
        assert [row.db_id for row in session.messages()] == list(range(1, 62))


async def test_a_disk_that_turns_slow_holds_up_the_loop_once(tmp_path: Path, disk: Disk) -> None:
    with Session.create(tmp_path) as session:
        await append(session.log("a"), 40)
        disk.here()
        disk.seconds = lambda _: 0.02
        await append(session.log("a"), 100)
        assert disk.here() == 1
        disk.seconds = lambda _: 0.0001
        await append(session.log("a"), 40)
        disk.here()
        await append(session.log("a"), 10)
        assert disk.here() == 10, "it has proved fast again"


async def test_a_disk_that_is_slow_now_and_then_holds_up_the_loop_seldom(tmp_path: Path, disk: Disk) -> None:
    with Session.create(tmp_path) as session:
        await append(session.log("a"), 40)
        held_up = 0
        began = disk.clock
        for number in range(2000):
            disk.threads.clear()
            disk.seconds = lambda _, number=number: 0.02 if number % 50 == 0 else 0.0001  # type: ignore[misc]
            await append(session.log("a"), 1)
            held_up += disk.here() and number % 50 == 0
        assert 0.05 < held_up * 0.02 <= 0.05 + 0.02 + (disk.clock - began) / 100


async def test_agents_that_append_at_once_share_a_sync_also_on_the_loop(tmp_path: Path, disk: Disk) -> None:
    with Session.create(tmp_path) as session:
        logs = [session.log(f"agent {number}") for number in range(50)]
        await append(logs[0], 40)
        disk.here()
        await asyncio.gather(*(append(log, 4) for log in logs))
        assert disk.here() <= 8
        assert [row.db_id for row in session.messages()] == list(range(1, 241))


async def test_an_append_on_the_loop_lets_others_run(tmp_path: Path, disk: Disk) -> None:
    with Session.create(tmp_path) as session:
        await append(session.log("a"), 40)
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.ensure_future(tick())
        await append(session.log("a"), 40)
        ticking.cancel()
        assert ticks >= 20


async def test_an_event_is_not_synced_and_goes_before_the_next_message(tmp_path: Path, disk: Disk) -> None:
    with Session.create(tmp_path) as session:
        log = session.log("a")
        await append(log, 40)
        disk.here()
        for number in range(100):
            log.record(events.Queued("a", session.id, 0, 0, 0.0, prompt_id=str(number), text="x"))
        assert disk.threads == []
        await append(log, 1)
        assert disk.here() == 1
        assert [event.type for event in session.events()][-101:] == ["queued"] * 100 + ["message"]


async def test_an_event_that_nothing_follows_is_written_soon(tmp_path: Path, disk: Disk) -> None:
    with Session.create(tmp_path) as session:
        session.log("a").record(events.Aborted("a", session.id, 0, 0, 0.0))
        deadline = time.monotonic() + 10
        while b'"aborted"' not in session.path.read_bytes():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)


async def test_a_large_message_is_not_written_on_the_loop(tmp_path: Path, disk: Disk) -> None:
    with Session.create(tmp_path) as session:
        await append(session.log("a"), 40)
        disk.here()
        await session.append("a", UserMessage("x" * 1_000_000))
        assert disk.here() == 0


async def test_what_is_cancelled_on_the_loop_is_kept(tmp_path: Path, disk: Disk) -> None:
    with Session.create(tmp_path) as session:
        log = session.log("a")
        await append(log, 40)
        appending = [asyncio.ensure_future(append(log, 1)) for _ in range(3)]
        asyncio.get_running_loop().call_soon(appending[2].cancel)
        ended = await asyncio.gather(*appending, return_exceptions=True)
        assert ended[:2] == [None, None]
        assert isinstance(ended[2], asyncio.CancelledError)
        await append(log, 1)
        assert [row.db_id for row in session.messages()] == list(range(1, len(session.messages()) + 1))


@pytest.mark.parametrize("method", ["_write", "append"])
def test_a_ctrl_c_while_the_loop_writes_loses_and_doubles_nothing(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    real = getattr(JournalFile, method)

    def interrupted(*args: object, **options: object) -> None:
        real(*args, **options)
        if threading.current_thread() is threading.main_thread():
            monkeypatch.undo()
            raise KeyboardInterrupt

    with Session.create(tmp_path) as session:
        asyncio.run(append(session.log("a"), 40))
        monkeypatch.setattr(JournalFile, method, interrupted)
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(append(session.log("a"), 1))
        asyncio.run(append(session.log("a"), 2))
        assert [row.db_id for row in session.messages()] == list(range(1, 44))


async def test_a_stop_while_a_slow_disk_is_waited_for_leaves_the_next_prompt_alone(tmp_path: Path, disk: Disk) -> None:
    syncing, over = threading.Event(), threading.Event()

    def hang(_: int) -> float:
        syncing.set()
        over.wait()
        return 1.0

    with Session.create(tmp_path) as session:
        disk.seconds = hang
        agent = Agent(model=scripted_model(["one", "two"]), session=session)
        first, second = agent.prompt("A"), agent.prompt("B")
        await run_in_thread(syncing.wait)
        first.abort()
        over.set()
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


def test_a_disk_is_fast_while_its_average_is_and_slow_syncs_are_few(disk: Disk) -> None:
    speed = pace.Pace()
    verdicts = [speed.fast]
    for syncs in ([0.0002] * 20, [0.004], [0.0002] * 30, [0.03, *[0.0002] * 100], [0.03, *[0.0002] * 100]):
        for seconds in syncs:
            speed.note(seconds, held_up=True)
        verdicts.append(speed.fast)
    disk.clock += 1.1
    verdicts.append(speed.fast)
    for seconds in (2.0, *[0.0002] * 200):
        speed.note(seconds, held_up=False)
    assert [*verdicts, speed.fast] == [False, True, False, True, True, False, True, True]

"""Copying a long session takes seconds, during which the notebook goes on and may stop the copying."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from planck_nb import Config, Session, Workspace
from planck_nb.sessions.journal.journal_file import JournalFile
from planck_nb.testing import scripted_model


class SlowCopy:
    """Lets the copying of a journal wait until it is released."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.begun = asyncio.Event()
        self.released = threading.Event()
        self._loop = loop

    def wait(self) -> None:
        self._loop.call_soon_threadsafe(self.begun.set)
        assert self.released.wait(60)


@pytest.fixture
async def slow_copy(monkeypatch: pytest.MonkeyPatch) -> SlowCopy:
    slow, original = SlowCopy(asyncio.get_running_loop()), JournalFile.create_with_content

    def create(*arguments: object) -> JournalFile:
        slow.wait()
        return original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(JournalFile, "create_with_content", create)
    return slow


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(Config.load(environment={}, directory=tmp_path))


@pytest.mark.slow
async def test_other_tasks_run_while_a_session_is_copied(workspace: Workspace, slow_copy: SlowCopy) -> None:
    async with workspace:
        await workspace.add_agent("ann", model=scripted_model(["hello"])).prompt("one")
        forking = asyncio.create_task(workspace.fork("copy"))
        await slow_copy.begun.wait()
        slow_copy.released.set()
        await forking
        assert workspace.session.name == "copy"


async def test_a_stop_while_a_session_is_copied_leaves_the_old_one_open(
    workspace: Workspace, slow_copy: SlowCopy
) -> None:
    async with workspace:
        ann = workspace.add_agent("ann", model=scripted_model(["hello", "again"]))
        await ann.prompt("one")
        before = workspace.session
        forking = asyncio.create_task(workspace.fork("copy"))
        await slow_copy.begun.wait()
        forking.cancel()
        slow_copy.released.set()
        with pytest.raises(asyncio.CancelledError):
            await forking
        assert workspace.session is before
        assert (await ann.prompt("two")).text == "again"
        with Session.open(workspace.sessions_dir, "copy") as copy:
            assert [message.type for _, message in copy.log(ann.id).messages()] == ["user", "assistant"]

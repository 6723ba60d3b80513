"""Files of a session that are deleted or replaced while it is open."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.open_files import open_files
from support.stored import with_updates

from planck_nb.ai.messages import UserMessage, text_of
from planck_nb.base.errors import SessionError, SessionLockedError
from planck_nb.sessions import ExportFormat, Session, delete_session, export_session, query, session_files
from planck_nb.sessions.journal import journal_file
from planck_nb.sessions.journal.codec import Header
from planck_nb.sessions.journal.journal_file import JournalFile
from planck_nb.sessions.journal.segments import old_segments

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows deletes no open file")


def remove_journal(session: Session) -> None:
    session.path.unlink()


def remove_all(session: Session) -> None:
    shutil.rmtree(session.directory)


def rename_over(session: Session) -> None:
    other = session.directory / "other"
    other.write_bytes(session.path.read_bytes()[:200] + b"\n")
    os.replace(other, session.path)  # noqa: PTH105 - as git and editors do


def rename_away(session: Session) -> None:
    session.path.rename(session.directory / "elsewhere")


@pytest.mark.parametrize("harm", [remove_journal, remove_all, rename_over, rename_away], ids=lambda harm: harm.__name__)
async def test_what_is_acknowledged_is_on_disk_after_the_files_were_deleted(
    tmp_path: Path, harm: Callable[[Session], None], caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "sessions"
    with Session.create(directory, name="mine") as session:
        for number in range(3):
            await session.append("a", UserMessage(f"message {number}"))
        for harmed in (3, 5):
            harm(session)
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                await session.append("a", UserMessage(f"message {harmed}"))
            expected = [f"message {number}" for number in range(harmed + 1)]
            with Session.read(directory, "mine") as reader:
                assert [text_of(row.message.content) for row in reader.messages()] == expected
            assert [record.getMessage() for record in caplog.records if "written again" in record.getMessage()]
            await session.append("a", UserMessage(f"message {harmed + 1}"))
        harm(session)
    assert list(query(directory, "select text from messages order by id").text) == [f"message {n}" for n in range(7)]
    if harm is rename_over:
        assert len(list(directory.glob("*.replaced-*"))) == 3
    with Session.open(directory, "mine") as again:
        assert len(again.messages()) == 7


@pytest.mark.parametrize("form", ["jsonl", "markdown", "html", "ipynb"])
async def test_an_open_session_whose_files_were_deleted_is_exported(tmp_path: Path, form: ExportFormat) -> None:
    directory = tmp_path / "sessions"
    with Session.create(directory, name="mine") as session:
        await session.append("a", UserMessage("message 1"))
        expected = session.export(form)
        remove_all(session)
        assert session.export(form) == expected
        assert "message 1" in expected
        remove_all(session)
        await session.flush()
        assert export_session(session.info, form) == expected


@pytest.mark.parametrize("code", [errno.ESTALE, errno.EIO, errno.EACCES, errno.ETIMEDOUT])
async def test_a_file_system_that_is_out_of_reach_for_a_moment_ends_nothing(
    tmp_path: Path, code: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with with_updates(Session.create(tmp_path, name="mine"), segment_bytes=500) as session:
        await session.append("a", UserMessage("x" * 600))
        session.materialize()
        stat = os.stat
        paths = {session.path, *old_segments(session.path)}

        def failing(path: Any, *args: Any, **options: Any) -> os.stat_result:
            if path in paths:
                raise OSError(code, os.strerror(code))
            return stat(path, *args, **options)

        with monkeypatch.context() as patched:
            patched.setattr(os, "stat", failing)
            await session.append("a", UserMessage("meanwhile"))
            await session.flush()
        await session.append("a", UserMessage("after"))
        assert [text_of(row.message.content) for row in session.messages()][1:] == ["meanwhile", "after"]
    assert not caplog.records
    assert not [path for path in session_files(session.info) if ".replaced-" in path.name]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux lists the open files of a process")
def test_a_file_that_is_locked_before_it_is_used_leaves_no_open_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = JournalFile.create(tmp_path / "a.jsonl", Header("0" * 16, "a", datetime.now(UTC)))
    opened = open_files(tmp_path)

    def locked(descriptor: int, path: Path) -> None:
        raise SessionLockedError(f"{path.name} is open in another process ({descriptor}).")

    monkeypatch.setattr(journal_file, "lock_file", locked)
    journal.path.unlink()
    with pytest.raises(SessionLockedError):
        journal.append(b"", sync=True)
    assert open_files(tmp_path) == opened
    journal.close()


def remove(segment: Path) -> None:
    segment.unlink()


def overwrite(segment: Path) -> None:
    other = segment.with_name("other")
    other.write_bytes(segment.read_bytes()[:300])
    os.replace(other, segment)  # noqa: PTH105 - as above


def remove_folder(segment: Path) -> None:
    shutil.rmtree(segment.parent)


Read = Callable[[Session], object]


@pytest.mark.slow
@pytest.mark.parametrize("harm", [remove, overwrite, remove_folder], ids=lambda harm: harm.__name__)
@pytest.mark.parametrize(
    "read", [Session.messages, lambda session: session.export("jsonl"), Session.materialize, Session.close]
)
async def test_earlier_segments_that_are_deleted_while_it_is_open_are_written_again(
    tmp_path: Path,
    harm: Callable[[Path], None],
    read: Read,
    caplog: pytest.LogCaptureFixture,
) -> None:
    directory = tmp_path / "sessions"
    session = with_updates(Session.create(directory, name="mine"), segment_bytes=500)
    for number in range(4):
        await session.append("a", UserMessage(f"message {number} {'x' * 300}"))
        session.materialize()
    session.close()
    session = with_updates(Session.open(directory, "mine"), segment_bytes=500)
    await session.append("a", UserMessage(f"message 4 {'x' * 300}"))
    session.materialize()
    earlier = old_segments(session.path)
    assert len(earlier) >= 4
    before = {path: path.read_bytes() for path in earlier}
    harm(earlier[0])
    if harm is not remove_folder:
        harm(earlier[-1])
    caplog.clear()
    read(session)
    assert {path: path.read_bytes() for path in earlier} == before
    said = [record.getMessage() for record in caplog.records if "has been written again" in record.getMessage()]
    assert len([sentence for sentence in said if "The earlier part" in sentence]) == (
        len(earlier) if harm is remove_folder else 2
    )
    session.close()
    assert len(query(directory, "from messages")) == 5
    if harm is overwrite:
        assert len(list(directory.glob("*.replaced-1"))) == 2


async def test_a_segment_that_is_put_back_as_it_was_is_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with with_updates(Session.create(tmp_path, name="mine"), segment_bytes=500) as session:
        await session.append("a", UserMessage("x" * 600))
        session.materialize()
        (earlier,) = old_segments(session.path)
        shutil.copy(earlier, tmp_path / "other")
        (tmp_path / "other").replace(earlier)
        assert len(session.messages()) == 1
        assert not [path for path in session_files(session.info) if ".replaced-" in path.name]


async def test_a_second_writer_is_refused_also_without_the_lock_file(tmp_path: Path) -> None:
    with Session.create(tmp_path, name="mine") as session:
        first = await session.append("a", UserMessage("first"))
        session.info.lock.unlink()
        with pytest.raises(SessionLockedError, match="is open in another process"):
            Session.open(tmp_path, "mine")
        session.info.lock.unlink(missing_ok=True)
        with pytest.raises(SessionLockedError, match="is open in another process"):
            delete_session(session.info, confirm="mine")
        assert await session.append("a", UserMessage("second")) == first + 1
    assert len(query(tmp_path, "from messages")) == 2


async def test_a_file_in_its_place_that_another_process_writes_is_left_alone(tmp_path: Path) -> None:
    session = Session.create(tmp_path, name="mine")
    await session.append("a", UserMessage("first"))
    copy = session.path.read_bytes().rstrip() + b"\n"
    session.path.unlink()
    session.info.lock.unlink()
    session.path.write_bytes(copy)
    with Session.open(tmp_path, "mine") as other:
        with pytest.raises(SessionLockedError, match="is open in another process now; what was stored here is in"):
            await session.append("a", UserMessage("not acknowledged"))
        await other.append("a", UserMessage("second"))
    with pytest.raises(SessionError, match="open it again"):
        session.close()
    assert list(query(tmp_path, "select text from messages order by id").text) == ["first", "second"]
    assert [path.name for path in session_files(session.info) if path.name.endswith(".replaced-1")]

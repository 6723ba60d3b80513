from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path

import filelock
import pandas as pd
import pytest
from support.history import write_history
from support.stored import converse

from planck_nb.ai.messages import UserMessage
from planck_nb.sessions import VIEWS, Session, compact_store, delete_session, find_session, list_sessions, query
from planck_nb.sessions.database import session_catalogue
from planck_nb.sessions.database.instance import shared_connection
from planck_nb.sessions.database.session_catalogue import (
    FOLDER,
    MAX_ADDED,
    MIN_MISSING,
    catalogued_rows,
    update_catalogue,
)
from planck_nb.sessions.journal.journal_file import JournalFile
from planck_nb.sessions.journal.segments import compress_segment, old_segments, start_segment

MANY = MIN_MISSING + 2
COUNTS = "select session_name, count(*) as n, sum(cost_usd) as usd from messages group by all order by all"


def age(directory: Path) -> None:
    """Make the journals look as if they had not been written for a while, as far as that is possible."""
    for session in list_sessions(directory):
        os.utime(session.path, (time.time() - 60, time.time() - 60))
        os.utime(session.database)


def updated(directory: Path, *, min_missing: int = MIN_MISSING, max_sessions: int = MAX_ADDED) -> int:
    """Update the catalogue of journals that may have been written just now; a copy has a new change time."""
    return update_catalogue(directory, min_missing=min_missing, max_sessions=max_sessions, quiet_seconds=-1)


def files(directory: Path) -> list[Path]:
    return sorted((directory / FOLDER).glob("*.duckdb"))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sessions of which a rewind has hidden some rows in two."""
    directory = tmp_path_factory.mktemp("written")
    write_history(directory, MANY, 8)

    async def rewind() -> None:
        for name in ("session-3", "session-4"):
            with Session.open(directory, name) as session:
                await converse(session, "a1", turn=7)
                await session.truncate_after(session.messages()[5].db_id)

    asyncio.run(rewind())
    return directory


@pytest.fixture
def many(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the sessions; none is in a catalogue."""
    monkeypatch.setattr(session_catalogue._CatalogueUpdates, "start", lambda *_: None)
    directory = tmp_path / "sessions"
    shutil.copytree(written, directory)
    age(directory)
    return directory


@pytest.mark.slow
def test_a_catalogue_changes_no_answer(many: Path) -> None:
    statements = [f"select * from {view} order by all" for view in VIEWS]
    before = [query(many, statement) for statement in statements]
    assert updated(many) == MANY
    assert len(files(many)) == 1
    for statement, frame in zip(statements, before, strict=True):
        pd.testing.assert_frame_equal(query(many, statement), frame, obj=statement)
    for session in list_sessions(many):
        session.database.unlink()
    pd.testing.assert_frame_equal(query(many, statements[0]), before[0])


@pytest.mark.slow
def test_sessions_that_were_changed_or_deleted_since(many: Path) -> None:
    updated(many)
    before = query(many, COUNTS).set_index("session_name").n
    with Session.open(many, "session-1") as session:
        asyncio.run(session.append("a1", UserMessage("new")))
        assert query(many, COUNTS).set_index("session_name").n["session-1"] == before["session-1"] + 1
    delete_session(find_session(many, "session-2"), confirm="session-2")
    found = query(many, COUNTS).set_index("session_name").n
    assert found["session-1"] == before["session-1"] + 1
    assert "session-2" not in found.index
    assert found.drop("session-1").equals(before.drop(["session-1", "session-2"]))
    assert updated(many, min_missing=1) == 1
    assert query(many, COUNTS).set_index("session_name").n.equals(found)


def test_a_query_reads_sessions_from_the_catalogue(many: Path) -> None:
    updated(many)
    sessions = list_sessions(many)
    with shared_connection() as connection:
        [rows] = catalogued_rows(connection, many, sessions)
        assert rows.sessions == {session.id for session in sessions}
        assert catalogued_rows(connection, many, [replace(session, state=None) for session in sessions]) == []


def test_a_file_gives_way_once_most_of_its_sessions_are_elsewhere(many: Path) -> None:
    updated(many)
    query(many, COUNTS)
    for number, count in ((MANY // 2 - 1, 2), (MANY // 2 + 2, 1)):
        for session in list_sessions(many)[:number]:
            os.utime(session.path, (time.time() - 30, time.time() - 30))
        assert updated(many, min_missing=1) == number
        assert len(files(many)) == count


def interrupt() -> bool:
    raise KeyboardInterrupt


def test_an_update_that_is_stopped_leaves_the_catalogue_as_it_was(many: Path) -> None:
    updated(many, max_sessions=2)
    before = sorted((many / FOLDER).iterdir())
    assert update_catalogue(many, min_missing=1, quiet_seconds=-1, stopped=lambda: True) == 0
    assert sorted((many / FOLDER).iterdir()) == before
    with pytest.raises(KeyboardInterrupt):
        update_catalogue(many, min_missing=1, quiet_seconds=-1, stopped=interrupt)
    assert sorted((many / FOLDER).iterdir()) == before


def test_what_a_killed_update_left_is_removed(many: Path) -> None:
    updated(many)
    before = sorted((many / FOLDER).iterdir())
    (many / FOLDER / "0.tmp.spilled").mkdir()
    (many / FOLDER / "0.tmp.spilled" / "block").touch()
    (many / FOLDER / "1.tmp").touch()
    assert updated(many) == 0
    assert sorted((many / FOLDER).iterdir()) == before


def test_an_update_goes_on_where_the_one_before_ended(many: Path) -> None:
    added = [updated(many, min_missing=1, max_sessions=7) for _ in range(4)]
    assert added == [7, 7, MANY - 14, 0]


@pytest.mark.parametrize(("sessions", "starts"), [(15, False), (16, True)])
def test_an_update_is_started_if_there_are_many_sessions(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, sessions: int, starts: bool
) -> None:
    started: list[Path] = []
    monkeypatch.setattr(session_catalogue._CatalogueUpdates, "start", lambda _, directory: started.append(directory))
    for session in list_sessions(written)[:sessions]:
        shutil.copy(session.path, tmp_path)
    session_catalogue.start_update(tmp_path)
    assert started == [tmp_path] * starts


def test_a_query_starts_an_update_if_many_sessions_are_missing(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Path] = []
    monkeypatch.setattr(session_catalogue._CatalogueUpdates, "start", lambda _, directory: started.append(directory))
    query(many, COUNTS)
    assert started == [many]
    updated(many, max_sessions=MANY - MIN_MISSING + 1)
    query(many, COUNTS)
    assert started == [many]


def test_an_update_runs_on_a_thread_until_the_process_ends(tmp_path: Path) -> None:
    updates = session_catalogue._CatalogueUpdates()
    before = set(threading.enumerate())
    for _ in range(2):
        updates.start(tmp_path)
        assert [thread.name for thread in threading.enumerate() if thread not in before] == ["planck-catalogue"]
    updates.close()
    assert set(threading.enumerate()) <= before
    updates.start(tmp_path)
    assert set(threading.enumerate()) <= before


def test_a_damaged_catalogue_does_not_matter(many: Path) -> None:
    updated(many)
    before = query(many, COUNTS)
    [file] = files(many)
    copy = file.with_name("0" * 16 + ".duckdb")
    copy.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    file.unlink()
    pd.testing.assert_frame_equal(query(many, COUNTS), before)
    assert updated(many) == MANY
    assert copy not in files(many)
    pd.testing.assert_frame_equal(query(many, COUNTS), before)


@pytest.mark.slow
def test_compressed_sessions_are_added_too(many: Path) -> None:
    before = query(many, COUNTS)
    for session in list_sessions(many):
        start_segment(JournalFile.open(session.path)).close()
    compact_store(many)
    assert len(list(many.glob("*.gz"))) == MANY
    missing = find_session(many, "session-1").path.with_suffix(".1.jsonl.gz")
    missing.unlink()
    find_session(many, "session-2").database.unlink()
    assert updated(many) == MANY - 1, "that a part is missing is found by reading the session's own files"
    pd.testing.assert_frame_equal(query(many, COUNTS), before)


@pytest.mark.slow
def test_many_sessions_are_added_some_at_a_time(many: Path) -> None:
    before = query(many, COUNTS)
    added = [updated(many, min_missing=1, max_sessions=2)]
    while added[-1]:
        pd.testing.assert_frame_equal(query(many, COUNTS), before)
        assert len(files(many)) <= 6
        added.append(updated(many, min_missing=1, max_sessions=2))
    assert added == [2] * (MANY // 2) + [0]


def test_only_one_update_at_a_time(many: Path) -> None:
    assert updated(many, max_sessions=2) == 2
    with filelock.FileLock(many / FOLDER / "lock"):
        assert updated(many, min_missing=1) == 0
    assert updated(many, min_missing=1) == MANY - 2


def test_a_damaged_journal_stays_out(many: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name, changed in (("session-1", b'"kind":"mes'), ("session-5", b'"role"')):
        journal = find_session(many, name).path
        journal.write_bytes(journal.read_bytes().replace(changed, b"#" * len(changed), 1))
    assert updated(many) == MANY - 2
    assert updated(many, min_missing=1) == 0
    query(many, COUNTS)
    assert {name for name in ("session-1", "session-5") if f"journal of {name} is damaged" in caplog.text} == {
        "session-1",
        "session-5",
    }


def test_a_session_with_an_unreadable_part_stays_out(many: Path) -> None:
    session = find_session(many, "session-1")
    start_segment(JournalFile.open(session.path)).close()
    compress_segment(old_segments(session.path)[0])
    [part] = old_segments(session.path)
    part.write_bytes(b"XX" + part.read_bytes()[2:])
    session.database.unlink()
    assert updated(many) == MANY - 1


@pytest.mark.parametrize("removed", ["database", "last_line", "nothing"])
def test_only_whole_databases_are_copied(many: Path, removed: str) -> None:
    """The rows of other journals are decoded again."""
    session = find_session(many, "session-2")
    if removed == "database":
        session.database.unlink()
    elif removed == "last_line":
        session.path.write_bytes(b"".join(session.path.read_bytes().splitlines(keepends=True)[:-1]))
    lines = session.path.read_bytes().count(b"\n") - 1
    updated(many)
    rows = "select (select count(*) from messages where {0}) + (select count(*) from events where {0}) as n"
    assert query(many, rows.format("session_name = 'session-2'")).n.tolist() == [lines]


def test_a_journal_that_was_written_just_now_stays_out(many: Path) -> None:
    journals = [session.path for session in list_sessions(many)]
    for journal in journals:
        os.utime(journal, (0, 0))
    assert update_catalogue(many, quiet_seconds=3600) == 0, "they were copied just now, though written long ago"
    for journal in journals:
        os.utime(journal, (time.time() + 60, time.time() + 60))  # no machine is so slow that this is long ago
    assert update_catalogue(many) == 0
    assert updated(many) == 0
    os.utime(journals[0], (0, 0))
    assert updated(many, min_missing=1) == 1


def test_few_sessions_have_no_catalogue(tmp_path: Path) -> None:
    write_history(tmp_path, 2, 4)
    assert updated(tmp_path) == 0
    assert not (tmp_path / FOLDER).exists()

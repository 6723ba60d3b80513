"""A session without its DuckDB file is decoded by the first query, and not by the next ones."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from support.memory_of_verbs import write_session

from planck_nb.ai.messages import UserMessage
from planck_nb.sessions import Query, Session, find_session, query, reading_reports
from planck_nb.sessions.database.duckdb import connect, sql_literal
from planck_nb.sessions.lock import lock_session

SIZE = 1_500_000
SQL = (
    "select session_id, count(*) as n, sum(length(text)) as texts, max(id) as last from messages group by 1 order by 1"
)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("written")
    write_session(directory, "00000000000000aa", "first", SIZE)
    write_session(directory, "00000000000000ab", "second", SIZE)
    return directory


@pytest.fixture
def copied(written: Path, tmp_path: Path) -> Path:
    """Two sessions which were copied here without their DuckDB files."""
    return Path(shutil.copytree(written, tmp_path / "sessions"))


@pytest.fixture
def expected(written: Path, tmp_path: Path) -> pd.DataFrame:
    """What the sessions answer when their writers have made the files."""
    directory = Path(shutil.copytree(written, tmp_path / "opened"))
    for name in ("first", "second"):
        Session.open(directory, name).close()
    return query(directory, SQL)


def reports_of(directory: Path, sql: str = SQL) -> tuple[pd.DataFrame, list[tuple[int, int]]]:
    """The rows, and what was reported of reading."""
    found: list[tuple[int, int]] = []
    with reading_reports(lambda done, total: found.append((done, total))):
        running = Query(directory, sql)
        return running.run(), found


def others(directory: Path) -> set[str]:
    """The files in a folder that are no part of a session."""
    return {path.name for path in directory.iterdir() if not path.name.startswith("00000000000000a")}


def test_only_the_first_query_decodes(copied: Path, expected: pd.DataFrame) -> None:
    rows, reported = reports_of(copied)
    assert rows.equals(expected)
    total = sum(path.stat().st_size for path in copied.glob("*.jsonl"))
    assert reported[-1] == (total, total)
    assert reported == sorted(reported)
    again, later = reports_of(copied)
    assert again.equals(expected)
    assert later == []
    assert others(copied) == set()


def test_a_file_of_an_earlier_version_is_made_again(copied: Path, expected: pd.DataFrame) -> None:
    query(copied, SQL)
    old = find_session(copied, "first").database
    with connect(threads=1) as connection:
        connection.execute(f"attach {sql_literal(old)} as old")
        connection.execute("update old.meta set value = '1' where key = 'format'")
        connection.execute("detach old")
    rows, reported = reports_of(copied)
    assert rows.equals(expected)
    assert reported
    assert reports_of(copied)[1] == []


def test_what_the_first_query_made_is_what_a_writer_goes_on_with(copied: Path) -> None:
    before = query(copied, SQL)
    with Session.open(copied, "first") as session:
        asyncio.run(session.append("agent", UserMessage("new")))
        after = query(copied, SQL)
    assert after.n.tolist() == [before.n[0] + 1, before.n[1]]
    assert not list(copied.glob("*.bad"))


def test_an_open_session_is_left_to_its_writer(copied: Path, expected: pd.DataFrame) -> None:
    lock = lock_session(find_session(copied, "first"), "a test")
    try:
        rows, _ = reports_of(copied)
    finally:
        lock.release()
    assert rows.equals(expected)
    assert not find_session(copied, "first").database.exists()
    assert find_session(copied, "second").database.exists()


def test_damaged_lines_are_left_out_as_by_every_reader(copied: Path) -> None:
    journal = find_session(copied, "first").path
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[5] = lines[5][:-40] + b"\n"
    lines[9], lines[10] = lines[10], lines[9]
    lines.insert(20, lines[19])
    journal.write_bytes(b"".join(lines))
    first, reported = reports_of(copied)
    assert reported
    assert first.equals(query(copied, SQL))
    messages = Session.read(copied, "first").messages()
    assert [len(messages), messages[-1].db_id] == [first.n[0], first["last"][0]]


@pytest.fixture
def full_disk() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("full_disk")
def test_without_room_every_query_decodes(written: Path, tmp_path: Path) -> None:
    directory = tmp_path / "linked"
    directory.mkdir()
    for path in written.iterdir():
        os.link(path, directory / path.name)
    first = query(directory, SQL)
    assert first.n.tolist() == [row.n for row in query(directory, SQL).itertuples()]
    assert sorted(path.suffix for path in directory.iterdir()) == [".jsonl", ".jsonl"]


def test_a_stop_keeps_the_sessions_that_were_read(copied: Path) -> None:
    running = Query(copied, SQL)

    def stop(_done: int, _total: int) -> None:
        if find_session(copied, "first").database.exists():
            running.interrupt()

    with reading_reports(stop), pytest.raises(KeyboardInterrupt):
        running.run()
    assert others(copied) == set()
    assert {path.name for path in copied.glob("*.duckdb")} >= {find_session(copied, "first").database.name}


@pytest.mark.process
@pytest.mark.timeout(120)
def test_two_processes_may_read_at_once(copied: Path, expected: pd.DataFrame) -> None:
    code = (
        "import sys; from pathlib import Path; from planck_nb.sessions import query; input();"
        "print(query(Path(sys.argv[1]), sys.argv[2]).to_csv())"
    )
    command = [sys.executable, "-c", code, str(copied), SQL]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    printed = [process.communicate()[0].strip() for process in processes]
    assert printed == [expected.to_csv().strip()] * 3
    assert others(copied) == set()
    assert reports_of(copied)[1] == []


def test_a_reader_of_a_long_session_makes_its_file_once(copied: Path) -> None:
    reader = Session.read(copied, "first")
    page = reader.messages_before_checkpoint(10**9)
    assert find_session(copied, "first").database.exists()
    assert [row.db_id for row in reader.messages_before_checkpoint(10**9).rows] == [row.db_id for row in page.rows]

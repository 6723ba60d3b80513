"""Journals with damaged lines, and rows whose ids are repeated or out of order."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import duckdb
import pytest
from support.stored import with_pages

from planck_nb.ai.messages import UserMessage, text_of
from planck_nb.config import Config
from planck_nb.sessions import Session, list_sessions, query, read_damage
from planck_nb.sessions.database import paging
from planck_nb.sessions.database.materialize import materialize
from planck_nb.sessions.journal import journal_check
from planck_nb.sessions.journal.journal_file import JournalFile
from planck_nb.sessions.journal.segments import (
    START,
    Position,
    compress_segment,
    old_segments,
    read_rows,
    start_segment,
)
from planck_nb.workspace import Workspace


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A journal whose second row is damaged and whose third has the id of the first."""
    with Session.create(tmp_path, name="mine") as session:
        for text in ("one", "two", "three"):
            asyncio.run(session.append("a", UserMessage(text)))
    content = session.path.read_bytes()
    content = content.replace(b'{"v":1,"id":2,', b'{"v":1,"id"#2,').replace(b'{"v":1,"id":3,', b'{"v":1,"id":1,')
    session.path.write_bytes(content)
    session.info.database.unlink()
    return tmp_path


def test_of_rows_with_one_id_the_first_counts(damaged: Path) -> None:
    with Session.open(damaged, "mine") as session:
        assert [row.message for row in session.messages()] == [UserMessage("one")]
        assert [row.message for row in session.messages_from_latest_checkpoint("a").rows] == [UserMessage("one")]
        assert [message for _, message in session.log("a").messages()] == [UserMessage("one")]


def test_damage_is_counted(damaged: Path) -> None:
    assert str(read_damage(Session.read(damaged, "mine").info)) == (
        "The journal of mine is damaged: 1 line that cannot be read and 1 row with the id of an earlier row are left "
        "out; restore the file from a backup if you can."
    )
    with Session.create(damaged, name="good") as session:
        asyncio.run(session.append("a", UserMessage("one")))
    assert not str(read_damage(session.info))


async def test_resuming_says_what_is_damaged(damaged: Path) -> None:
    config = Config.load(environment={}, directory=damaged, home=damaged, sessions_dir=damaged)
    async with Workspace(config) as workspace:
        problems = await workspace.resume("mine")
    assert problems[0].startswith("The journal of mine is damaged: 1 line that cannot be read and 1 row")


Harm = Callable[[list[bytes]], list[bytes]]
"""Changes the lines of a journal with ten messages; the first is the header, so that a line's index is its id."""


def _cut(lines: list[bytes]) -> list[bytes]:
    return [*lines[:4], lines[4][:-40] + b"\n", *lines[5:]]


def _other_bytes(lines: list[bytes]) -> list[bytes]:
    return [*lines[:4], lines[4].replace(b"message 4", b"message \xff"), *lines[5:]]


def _no_data(lines: list[bytes]) -> list[bytes]:
    return [*lines[:4], lines[4].replace(b',"data":{', b',"data":5,"other":{'), *lines[5:]]


def _no_day(lines: list[bytes]) -> list[bytes]:
    return [*lines[:4], re.sub(rb'"ts":"....-..-..', b'"ts":"2025-02-30', lines[4]), *lines[5:]]


def _no_kind(lines: list[bytes]) -> list[bytes]:
    return [*lines[:4], lines[4].replace(b'"kind":"message"', b'"kind":null'), *lines[5:]]


def _no_agent(lines: list[bytes]) -> list[bytes]:
    return [*lines[:4], lines[4].replace(b'"agent_id":"a"', b'"agent_id":7'), *lines[5:]]


def _huge_id(lines: list[bytes]) -> list[bytes]:
    return [*lines[:4], lines[4].replace(b'"id":4', b'"id":1' + b"0" * 30), *lines[5:]]


def _noise(lines: list[bytes]) -> list[bytes]:
    return [*lines[:4], bytes(range(1, 256)).replace(b"\n", b""), b"\n", *lines[5:]]


def _deep(lines: list[bytes]) -> list[bytes]:
    deep = b'"data":{"x":' + b"[" * 100_000 + b"]" * 100_000 + b","
    return [*lines[:4], lines[4].replace(b'"data":{', deep), *lines[5:]]


def _twice(lines: list[bytes]) -> list[bytes]:
    return [*lines, *lines[3:6]]


def _other_row_of_one_id(lines: list[bytes]) -> list[bytes]:
    return [*lines[:7], lines[4].replace(b"message 4", b"MESSAGE 4"), *lines[7:]]


def _joined(lines: list[bytes]) -> list[bytes]:
    return [*lines, *lines[1:]]


def _backwards(lines: list[bytes]) -> list[bytes]:
    return [lines[0], *reversed(lines[1:])]


def _later_part_first(lines: list[bytes]) -> list[bytes]:
    return [lines[0], *lines[6:], *lines[1:6]]


def _one_high_id(lines: list[bytes]) -> list[bytes]:
    return [*lines[:4], lines[4].replace(b'"id":4', b'"id":400'), *lines[5:]]


def _rewind_among_later_rows(lines: list[bytes]) -> list[bytes]:
    rewind = (
        b'{"v":1,"id":11,"kind":"rewind","agent_id":"","turn":null,"ts":"2025-06-15T15:06:41.000000Z","before_id":9}\n'
    )
    return [*lines[:3], rewind, *lines[3:]]


DAMAGED = (_cut, _other_bytes, _no_data, _no_day, _no_kind, _no_agent, _huge_id, _noise, _deep)
REPEATED = (_twice, _other_row_of_one_id, _joined)
DISORDERED = (_backwards, _later_part_first, _one_high_id, _rewind_among_later_rows)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session with ten messages, all of them in the DuckDB file."""
    directory = tmp_path_factory.mktemp("sound")
    with Session.create(directory, name="mine") as session:
        for number in range(1, 11):
            asyncio.run(session.append("a", UserMessage(f"message {number}")))
    return directory


@pytest.mark.slow
@pytest.mark.parametrize(
    ("known", "harm"),
    [
        *(("by no file", harm) for harm in (*DAMAGED, *REPEATED, *DISORDERED)),
        *(("by a file from before", harm) for harm in (_cut, _no_data, *REPEATED, *DISORDERED)),
        *(("by a file with half of it", harm) for harm in (_other_bytes, _joined, *DISORDERED)),
    ],
)
def test_sql_and_what_a_model_is_sent_are_the_same_rows(
    *,
    sound: Path,
    tmp_path: Path,
    harm: Harm,
    known: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for path in sound.iterdir():
        shutil.copy2(path, tmp_path)
    info = Session.read(tmp_path, "mine").info
    lines = info.path.read_bytes().splitlines(keepends=True)
    if known == "by a file with half of it":
        info.database.unlink()
        materialize(info, end=Position(1, sum(map(len, lines[:3]))))
    elif known == "by no file":
        info.database.unlink()
    info.path.write_bytes(b"".join(harm(lines)))
    _check(tmp_path, caplog, expected=3 if harm is _twice else 10 if harm is _joined else int(harm not in DISORDERED))
    _check(tmp_path, caplog, expected=None, last_bytes=())
    with with_pages(Session.open(tmp_path, "mine")) as session:
        before = [row.db_id for row in session.messages()]
        new = asyncio.run(session.append("a", UserMessage("and on")))
        assert new > max(before)
        session.materialize()
        assert [row.db_id for row in session.messages()] == [*before, new]
        _check(tmp_path, caplog, expected=None, last_bytes=())
    assert (
        duckdb.connect(info.database).execute("select id from messages order by id").fetchall()
        == [(row.db_id,) for row in session.messages()]
        or harm is _rewind_among_later_rows
    )  # of which the file has the hidden rows, too


def test_rows_whose_ids_are_lower_than_those_of_a_file_are_read_from_the_journal(
    sound: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for path in sound.iterdir():
        shutil.copy2(path, tmp_path)
    info = Session.read(tmp_path, "mine").info
    lines = _one_high_id(info.path.read_bytes().splitlines(keepends=True))
    info.path.write_bytes(b"".join(lines[:5]))
    info.database.unlink()
    materialize(info, end=Position(1, info.path.stat().st_size))
    info.path.write_bytes(b"".join(lines))
    _check(tmp_path, caplog, expected=0)
    assert list(query(tmp_path, "select id from messages order by id").id) == [1, 2, 3, 5, 6, 7, 8, 9, 10, 400]


def test_a_query_finds_damage_in_rows_that_a_duckdb_file_has(
    sound: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for path in sound.iterdir():
        shutil.copy2(path, tmp_path)
    [journal] = tmp_path.glob("*.jsonl")
    journal.write_bytes(b"".join(_other_bytes(journal.read_bytes().splitlines(keepends=True))))  # as long as before
    assert 4 not in list(query(tmp_path, "select id from messages").id)
    assert "is damaged: 1 line" in caplog.text


def _check(
    directory: Path,
    caplog: pytest.LogCaptureFixture,
    *,
    expected: int | None,
    last_bytes: Sequence[int] = paging.LAST_BYTES,
) -> None:
    """Compare all readers; `expected` is the number of lines that are skipped, None if that has been said.

    Without `last_bytes` it is like a long conversation, whose beginning is in the DuckDB file.
    """
    with with_pages(Session.read(directory, "mine"), last_bytes) as reader:
        rows = [(row.db_id, row.message) for row in reader.messages()]
        caplog.clear()
        found = query(directory, "select id, text from messages join sessions using (session_id) order by id")
        said = [record.getMessage() for record in caplog.records if "is damaged" in record.getMessage()]
        assert list(zip(found.id, found.text, strict=True)) == [(number, text_of(m.content)) for number, m in rows]
        assert [(row.db_id, row.message) for row in reader.messages_from_latest_checkpoint("a").rows] == rows
        assert sorted(number for number, _ in rows) == [number for number, _ in rows]
        if expected is not None:
            damage = read_damage(reader.info)
            assert damage.lines + damage.repeated == expected
            assert said == ([str(damage)] if expected else [])
            assert [info.damage for info in list_sessions(directory)] == [str(damage)]
        else:
            assert not said, "it was said before"


def test_damage_in_an_earlier_segment_is_counted(tmp_path: Path) -> None:
    with Session.create(tmp_path, name="mine") as session:
        asyncio.run(session.append("a", UserMessage("one")))
        asyncio.run(session.append("a", UserMessage("two")))
    start_segment(JournalFile.open(session.path)).close()
    with Session.open(tmp_path, "mine") as session:
        asyncio.run(session.append("a", UserMessage("three")))
    (earlier,) = old_segments(session.path)
    assert not session.info.damage
    earlier.write_bytes(earlier.read_bytes().replace(b'"id":2,', b'"id"#2,'))
    assert read_damage(session.info).lines == 1
    assert list(query(tmp_path, "select text from messages").text) == ["one", "three"]
    compress_segment(earlier)
    assert read_damage(session.info).lines == 1


def test_a_journal_that_only_grows_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Position] = []

    def reading(path: Path, *, start: Position, end: Position) -> Iterator[tuple[list[bytes], Position]]:
        read.append(start)
        return read_rows(path, start=start, end=end)

    with Session.create(tmp_path, name="mine") as session:
        asyncio.run(session.append("a", UserMessage("one")))
        monkeypatch.setattr(journal_check, "read_rows", reading)
        assert not session.info.damage
        assert not session.info.damage
        asyncio.run(session.append("a", UserMessage("two")))
        assert not session.info.damage
        assert len(read) == 2
        assert START < read[0] < read[1]


def test_a_session_whose_journal_cannot_be_read_at_all_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Session.create(tmp_path, name="mine") as session:
        pass
    session.path.write_bytes(b"nonsense\n")
    for _ in range(3):
        assert list_sessions(tmp_path) == []
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith(f"The session in {session.path.name} is left out: ")

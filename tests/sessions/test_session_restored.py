"""A journal and a DuckDB file that do not belong together: what is read is always what the journal has."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import duckdb
import pytest
from support.stored import converse, with_pages, with_updates

from planck_nb.ai.messages import TextPart, UserMessage, text_of
from planck_nb.base.errors import SessionError
from planck_nb.sessions import Session, list_sessions, query, read_members


def idle(session: Session) -> Session:
    """Let nothing but the test update the DuckDB file."""
    return with_updates(session, pause=3600)


async def history(directory: Path, words: list[str], *, resume: str | None = None, at: float = 0.25) -> Session:
    """Append messages of the same lengths at about the same times, so that journals differ as little as possible."""
    session = Session.create(directory, name="mine") if resume is None else Session.open(directory, resume)
    with idle(session):
        for number, word in enumerate(words):
            await session.log("a1").append(UserMessage(word), turn=number, time=1_750_000_000 + number + at)
    return session


def in_journal(path: Path) -> list[str]:
    """The texts in the whole lines of a journal."""
    lines = [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    return [record["text"] for record in map(json.loads, lines) if record["kind"] == "message"]


def check(directory: Path, session: Session) -> None:
    """SQL, the messages of a reader, and what a model is sent are what is in the journal."""
    texts = in_journal(session.path)
    assert list(query(directory, "select text from messages order by id").text) == texts
    # As in a long conversation, which begins in the DuckDB file.
    with with_pages(Session.read(directory, session.id)) as reader:
        assert [text_of(row.message.content) for row in reader.messages_from_latest_checkpoint().rows] == texts
    with with_pages(idle(Session.open(directory, session.id))) as opened:
        assert [text_of(message.content) for _, message in opened.log("a1").messages()] == texts
        opened.materialize()
    with duckdb.connect(session.info.database, read_only=True) as connection:
        assert [text for (text,) in connection.execute("select text from messages order by id").fetchall()] == texts
    assert list(query(directory, "select text from messages order by id").text) == texts


@pytest.mark.slow
@pytest.mark.parametrize("restored", ["journal", "file"])
@pytest.mark.parametrize("added", [0, 3, 6], ids=["none", "fewer", "as many"])
async def test_after_a_backup_is_restored_the_journal_counts(tmp_path: Path, restored: str, added: int) -> None:
    session = await history(tmp_path, ["a", "b", "c"])
    kept = {path: path.read_bytes() for path in (session.path, session.info.database)}
    await history(tmp_path, list("uvwxyz"), resume=session.id)
    later = session.info.database.read_bytes()
    session.path.write_bytes(kept[session.path])
    if added:
        await history(tmp_path, list("UVWXYZ")[:added], resume=session.id, at=0.75)
    session.info.database.write_bytes(later if restored == "journal" else kept[session.info.database])
    check(tmp_path, session)


async def test_a_journal_of_another_history_with_the_same_ids_and_sizes_counts(tmp_path: Path) -> None:
    session = await history(tmp_path, list("abcdef"))
    text = session.path.read_bytes()
    session.path.write_bytes(text.replace(b'"f"', b'"F"'))
    assert text != session.path.read_bytes()
    check(tmp_path, session)


async def test_journals_that_were_exchanged_are_left_out_and_counted_again_when_they_are_back(tmp_path: Path) -> None:
    first = await history(tmp_path, ["a", "b", "c"])
    with Session.create(tmp_path, name="other") as other:
        await converse(other)
    before = query(tmp_path, "select session_id, id, text from messages order by all")
    aside = tmp_path / "aside"
    shutil.move(first.path, aside)
    shutil.move(other.path, first.path)
    shutil.move(aside, other.path)
    assert query(tmp_path, "from messages").empty
    assert list_sessions(tmp_path) == []
    with pytest.raises(SessionError, match="holds another session; rename it back"):
        Session.open(tmp_path, first.id)
    shutil.move(first.path, aside)
    shutil.move(other.path, first.path)
    shutil.move(aside, other.path)
    assert query(tmp_path, "select session_id, id, text from messages order by all").equals(before)


@pytest.mark.slow
async def test_wherever_a_journal_is_cut_off_what_is_left_is_what_is_read(tmp_path: Path) -> None:
    session = await history(tmp_path, [f"message {number}" for number in range(40)])
    whole, database = session.path.read_bytes(), session.info.database.read_bytes()
    header = whole.index(b"\n") + 1
    chance = random.Random(11)
    points = [header, len(whole) - 1, *(chance.randrange(header, len(whole)) for _ in range(58))]
    with with_pages(Session.read(tmp_path, session.id)) as reader:  # connecting to DuckDB takes longer than all else
        for number, point in enumerate(points):
            session.path.write_bytes(whole[:point])
            texts = in_journal(session.path)
            rows = reader.messages_from_latest_checkpoint().rows
            assert [text_of(row.message.content) for row in rows] == texts
            if number % 10 == 0:
                assert list(query(tmp_path, "select text from messages order by id").text) == texts
                with with_pages(Session.read(tmp_path, session.id)) as fresh:
                    rows = fresh.messages_from_latest_checkpoint().rows
                assert [text_of(row.message.content) for row in rows] == texts
            if number % 40 == 0:
                with with_pages(idle(Session.open(tmp_path, session.id))) as opened:
                    new = await opened.log("a1").append(UserMessage("x" * 4000), turn=0, time=0)
                    assert [text_of(message.content) for _, message in opened.log("a1").messages()] == [
                        *texts,
                        "x" * 4000,
                    ]
                    assert opened.messages()[-1].db_id == new
                    assert opened.messages()[-1].message.content == (TextPart("x" * 4000),)
                    session.info.database.write_bytes(database)
                    found = await read_members(opened)
                    assert found.members == ()
                    assert len(query(tmp_path, "from messages")) == len(texts) + 1
            session.info.database.write_bytes(database)

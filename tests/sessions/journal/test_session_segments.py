from __future__ import annotations

import asyncio
import gzip
import importlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest
from support.stored import converse, with_updates

from planck_nb.ai.messages import UserMessage
from planck_nb.base.errors import SessionError
from planck_nb.sessions import (
    Damage,
    Session,
    compact_store,
    estimate_compaction,
    last_used_first,
    list_sessions,
    query,
    query_async,
    read_damage,
)
from planck_nb.sessions.database.session_catalogue import update_catalogue
from planck_nb.sessions.directory import new_session_info
from planck_nb.sessions.journal.codec import Header, encode_message_line
from planck_nb.sessions.journal.journal_file import JournalFile
from planck_nb.sessions.journal.journal_writer import Writer
from planck_nb.sessions.journal.segments import Position, compress_segment, journal_end, old_segments, read_rows

pytestmark = pytest.mark.process

ALL = "select * from messages order by session_id, id"
TESTS = Path(__file__).parents[2]


def file_names(session: Session) -> list[str]:
    """The files of a session by the ends of their names, without the one that DuckDB has while it writes."""
    stem = session.path.name.removesuffix(".journal.jsonl")
    names = (path.name.removeprefix(stem) for path in session.directory.iterdir() if path.name.startswith(stem))
    return sorted(name for name in names if not name.endswith(".wal"))


def modes(directory: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}


def size_of(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.iterdir() if path.suffix != ".lock")


def numbers(session: Session) -> list[int]:
    return [row.db_id for row in session.messages()]


def with_short_segments(directory: Path, name: str | None = None) -> Session:
    return with_updates(Session.create(directory, name=name), segment_bytes=2000)


async def test_compacting_keeps_what_only_the_database_has(tmp_path: Path) -> None:
    with with_short_segments(tmp_path) as session:
        ids = await converse(session)
        session.materialize()
        ids.append(await session.append("a1", UserMessage("more")))
    session.path.with_suffix(".1.jsonl").unlink()
    compact_store(tmp_path)
    assert list(query(tmp_path, ALL).id) == ids


async def test_segments_keep_to_their_size_while_nothing_is_materialized(tmp_path: Path) -> None:
    info = new_session_info(tmp_path, "00ff" * 4, "mine")
    journal = JournalFile.create(info.path, Header(info.id, info.name, info.created))
    writer = Writer(journal, lambda _: None, max_segment=5000)
    ids = list(range(1, 41))
    for row_id in ids:
        writer.put(encode_message_line(row_id, "a1", UserMessage("x" * 700), turn=0, time=1.75e9))
        writer.write()
    assert list(query(tmp_path, ALL).id) == ids
    writer.close()
    sizes = [file.stat().st_size for file in old_segments(info.path)]
    assert len(sizes) > 5
    assert 5000 <= min(sizes) <= max(sizes) < 7000
    with Session.open(tmp_path, info.id) as session:
        assert numbers(session) == ids
        assert await session.append("a1", UserMessage("more")) > ids[-1]
    assert read_damage(session.info) == Damage(session.name)


async def test_a_query_reads_nothing_twice_that_was_materialized_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module("planck_nb.sessions.database.queries")
    began: list[Position] = []

    def reading(journal: Path, *, start: Position) -> Iterator[tuple[list[bytes], Position]]:
        began.append(start)
        return read_rows(journal, start=start)

    monkeypatch.setattr(importlib.import_module("planck_nb.sessions.database.snapshot"), "read_rows", reading)
    with with_short_segments(tmp_path) as session:
        before = list_sessions(tmp_path)
        monkeypatch.setattr(module, "list_sessions", lambda _: before)
        ids = await converse(session)
        session.materialize()
        assert journal_end(session.path).segment == 2
        assert list(query(tmp_path, ALL).id) == ids
    assert len(began) == 1
    assert began[0] > Position(1, 1000)


async def test_a_long_journal_goes_on_in_a_new_segment_and_the_old_ones_stay(tmp_path: Path) -> None:
    with with_short_segments(tmp_path) as session:
        ids = []
        for turn in range(4):
            ids += await converse(session, turn=turn)
            session.materialize()
        assert file_names(session) == [".duckdb", *(f".journal.{n}.jsonl" for n in range(1, 5)), ".journal.jsonl"]
        assert numbers(session) == ids
        assert list(query(tmp_path, ALL).id) == ids
        ids.append(await session.append("a1", UserMessage("more")))
        assert list(query(tmp_path, ALL).id) == ids
        assert session.messages_from_latest_checkpoint().rows == session.messages()
    lines = [
        json.loads(line)
        for path in (*(session.path.with_suffix(f".{n}.jsonl") for n in range(1, 5)), session.path)
        for line in path.read_bytes().splitlines()
    ]
    assert [line["id"] for line in lines if line["kind"] != "session"] == list(range(1, ids[-1] + 1))
    assert [line["data"]["segment"] for line in lines if line["kind"] == "session"] == [1, 2, 3, 4, 5]
    assert modes(tmp_path) == {0o600}
    with Session.open(tmp_path, session.id) as again:
        assert await again.append("a1", UserMessage("and more")) == ids[-1] + 1


async def test_the_file_is_rebuilt_from_all_segments(tmp_path: Path) -> None:
    with with_short_segments(tmp_path) as session:
        for turn in range(3):
            await converse(session, turn=turn)
            session.materialize()
        before = query(tmp_path, ALL)
        assert len(before) == 12
        session.info.database.unlink()
        assert query(tmp_path, ALL).equals(before)
        session.materialize()
        assert query(tmp_path, ALL).equals(before)


async def test_a_segment_may_begin_where_nothing_was_materialized(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        ids = await converse(session)
        session.materialize()
        ids += await converse(session, turn=1)
        session._writer.start_segment()
        ids += await converse(session, turn=2)
        assert list(query(tmp_path, ALL).id) == ids
        session.materialize()
        assert list(query(tmp_path, ALL).id) == ids
        assert numbers(session) == ids


async def test_what_a_crash_between_the_steps_leaves_does_no_harm(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        ids = await converse(session)
    session.path.with_suffix(".next").write_bytes(b"half")
    os.link(session.path, session.path.with_suffix(".1.jsonl"))
    with Session.open(tmp_path, session.id) as again:
        assert numbers(again) == ids
        ids.append(await again.append("a1", UserMessage("x")))
        again._writer.start_segment()
        ids.append(await again.append("a1", UserMessage("y")))
        assert numbers(again) == ids
        assert list(query(tmp_path, ALL).id) == ids


async def test_where_no_segment_can_be_started_the_journal_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    with Session.create(tmp_path) as session:
        ids = await converse(session)
        monkeypatch.setattr(os, "link", refuse)
        session._writer.start_segment()
        ids.append(await session.append("a1", UserMessage("x")))
        assert numbers(session) == ids
        assert file_names(session)[-1] == ".journal.next"
        monkeypatch.undo()
        session._writer.start_segment()
        assert numbers(session) == ids


async def test_queries_and_writers_are_not_disturbed_by_a_new_segment(tmp_path: Path) -> None:
    with with_short_segments(tmp_path) as session:
        stop = asyncio.Event()

        async def write() -> int:
            number = 0
            while not stop.is_set():
                number += 1
                await session.append("a", UserMessage(str(number)), turn=number)
                if number % 30 == 0:
                    await asyncio.to_thread(session.materialize)
            return number

        writing = asyncio.ensure_future(write())
        for _ in range(8):
            row = (await query_async(tmp_path, "select count(*) as n, max(turn) as last from messages")).loc[0]
            assert row.n == 0 or row.n == row["last"]
        stop.set()
        assert numbers(session) == list(range(1, await writing + 1))


WRITE = """
import sys
sys.path.insert(0, sys.argv[3])
from support.stored import write_forever
write_forever(sys.argv[1], sys.argv[2], segment_bytes=5000, pause=0.01, rows=5)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kills with SIGKILL")
@pytest.mark.parametrize("acknowledged", [60, 700])
def test_no_acknowledged_message_is_lost_when_a_segment_begins(tmp_path: Path, acknowledged: int) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITE, str(tmp_path), "killed", str(TESTS)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    ids: list[int] = []
    while len(ids) < acknowledged or (acknowledged > 500 and not list(tmp_path.rglob("*.journal.1.jsonl"))):
        ids.append(int(writer.stdout.readline().split()[0]))
    writer.kill()
    rest, _ = writer.communicate()
    ids += [int(line.split()[0]) for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    seen = query(tmp_path, ALL)
    assert set(ids) <= set(seen.id)
    assert list(seen.text) == [f"message {number}" for number in range(1, len(seen) + 1)]
    with Session.open(tmp_path, "killed") as session:
        assert numbers(session) == list(seen.id)
        session.info.database.unlink(missing_ok=True)
        session.materialize()
        assert query(tmp_path, ALL).equals(seen)


async def test_compacting_compresses_old_segments_and_loses_nothing(tmp_path: Path) -> None:
    with with_short_segments(tmp_path) as session, with_short_segments(tmp_path, name="open") as other:
        for turn in range(3):
            await converse(session, turn=turn)
            await converse(other, turn=turn)
            session.materialize()
            other.materialize()
        session.close()
        bad = session.info.database.with_name(session.info.database.name + ".bad")
        bad.write_bytes(b"x" * 100_000)
        before, untouched = query(tmp_path, ALL), file_names(other)
        assert compact_store(tmp_path) > 90_000
        assert file_names(session) == [".duckdb", *(f".journal.{n}.jsonl.gz" for n in range(1, 4)), ".journal.jsonl"]
        assert file_names(other) == untouched
        assert query(tmp_path, ALL).equals(before)
        session.info.database.unlink()
        assert query(tmp_path, ALL).equals(before), "also from the compressed segments alone"
        with gzip.open(session.path.with_suffix(".1.jsonl.gz")) as file:
            assert json.loads(file.readline())["kind"] == "session"
    compact_store(tmp_path)
    assert query(tmp_path, ALL).equals(before)
    assert modes(tmp_path) == {0o600}


@pytest.mark.parametrize("rebuilt", [False, True])
async def test_a_single_segment_is_compressed_and_the_session_goes_on(tmp_path: Path, *, rebuilt: bool) -> None:
    with Session.create(tmp_path, name="one") as session:
        for turn in range(200):
            await session.append("a1", UserMessage(f"{turn} " + "the same again " * 30), turn=turn)
    with Session.create(tmp_path, name="later") as later:
        await converse(later)
    for used, info in enumerate((session.info, later.info)):
        os.utime(info.path, (1.7e9 + used, 1.7e9 + used))
    before, order = query(tmp_path, ALL), [info.name for info in last_used_first(list_sessions(tmp_path))]
    takes, expected = size_of(tmp_path), estimate_compaction(tmp_path)
    freed = compact_store(tmp_path)
    assert freed == takes - size_of(tmp_path)
    assert 0.8 < freed / expected < 1.25
    assert file_names(session) == [".duckdb", ".journal.1.jsonl.gz", ".journal.jsonl"]
    assert ".journal.1.jsonl.gz" not in file_names(later), "a short journal would not become smaller"
    assert query(tmp_path, ALL).equals(before)
    assert [info.name for info in last_used_first(list_sessions(tmp_path))] == order == ["later", "one"]
    assert (compact_store(tmp_path), estimate_compaction(tmp_path)) == (0, 0)
    if rebuilt:
        session.info.database.unlink()
    with Session.open(tmp_path, "one") as session:
        assert numbers(session) == list(before[before.session_name == "one"].id)
        assert await session.append("a1", UserMessage("more")) > max(before.id)
    assert len(query(tmp_path, ALL)) == len(before) + 1
    assert read_damage(session.info) == Damage("one")


async def test_a_duckdb_file_with_much_unused_space_is_rebuilt(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        await converse(session)
        session.materialize()
    with duckdb.connect(session.info.database) as connection:  # whose blocks in the middle are unused in the end
        connection.execute("create table unused as select uuid() as id from range(20000)")
        connection.execute("checkpoint")
        connection.execute("create table copied as from messages")
        connection.execute("drop table messages")
        connection.execute("alter table copied rename to messages")
        connection.execute("checkpoint")
        connection.execute("drop table unused")
    before, size = query(tmp_path, ALL), session.info.database.stat().st_size
    expected = estimate_compaction(tmp_path)
    freed = compact_store(tmp_path)
    assert freed > size / 2
    assert freed / 2 < expected < freed * 2
    assert query(tmp_path, ALL).equals(before)
    with duckdb.connect(session.info.database, read_only=True) as connection:
        assert connection.execute("select block_size from pragma_database_size()").fetchone() == (16 * 1024,)
    written = session.info.database.stat().st_mtime_ns
    assert compact_store(tmp_path) == 0
    assert session.info.database.stat().st_mtime_ns == written, "it is not rebuilt again"


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[: len(data) // 2],
    "no gzip": lambda data: b"XX" + data[2:],
    "other bytes": lambda data: data[:30] + bytes(byte ^ 255 for byte in data[30:38]) + data[38:],
    "checksum": lambda data: data[:-8] + bytes(4) + data[-4:],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
def test_a_damaged_compressed_segment_breaks_nothing_else(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    with Session.create(tmp_path) as session, Session.create(tmp_path) as other:
        asyncio.run(converse(session))
        asyncio.run(converse(other))
        session._writer.start_segment()
    compress_segment(session.path.with_suffix(".1.jsonl"))
    compressed = session.path.with_suffix(".1.jsonl.gz")
    compressed.write_bytes(damage(compressed.read_bytes()))
    session.info.database.unlink()
    assert other.id in set(query(tmp_path, ALL).session_id)
    assert "damaged" in session.info.damage
    assert update_catalogue(tmp_path, min_missing=1, quiet_seconds=-1) == 1
    with pytest.raises(SessionError, match="a part is damaged"):
        Session.read(tmp_path, session.id).messages()
    with Session.open(tmp_path, session.id) as opened:
        asyncio.run(opened.append("a1", UserMessage("on")))


def test_a_missing_segment_is_reported_and_breaks_no_query_of_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Session.create(tmp_path) as session, Session.create(tmp_path) as other:
        asyncio.run(converse(session))
        asyncio.run(converse(other))
        session._writer.start_segment()
    session.path.with_suffix(".1.jsonl").unlink()
    session.info.database.unlink()
    with Session.open(tmp_path, session.id) as session:
        with pytest.raises(SessionError, match="could not be rebuilt"):
            session.materialize()
        caplog.clear()
        for _ in range(2):
            assert set(query(tmp_path, ALL).session_id) == {other.id}
        said = (
            f"The journal of {session.name} is damaged: an earlier part of it cannot be found; "
            "restore it from a backup."
        )
        assert [record.getMessage() for record in caplog.records].count(said) == 1
        assert session.info.damage == str(read_damage(session.info)) == said

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.history import write_history
from support.stored import converse, with_updates

from planck_nb.base.errors import SessionError
from planck_nb.sessions import Session, list_sessions, query
from planck_nb.sessions.database import tables as schema
from planck_nb.sessions.journal.codec import decode_line
from planck_nb.sessions.journal.segments import read_rows

pytestmark = pytest.mark.process

ALL = "select id, agent_id, turn, role, stop_reason, output_tokens, cost_usd, text, content from messages order by id"


def materialized_ids(session: Session, table: str = "messages") -> list[int]:
    """The ids in the session's DuckDB file."""
    with duckdb.connect(session.info.database, read_only=True) as connection:
        return [row[0] for row in connection.execute(f"select id from {table} order by id").fetchall()]


async def stored(directory: Path, turns: int = 3) -> Session:
    session = Session.create(directory)
    for turn in range(turns):
        await converse(session, turn=turn)
    return session


async def test_the_file_is_the_journal_column_by_column(tmp_path: Path) -> None:
    with await stored(tmp_path) as session:
        await session.log("a1").truncate_from(9)
    records = [decode_line(line) for lines, _ in read_rows(session.path) for line in lines]
    with duckdb.connect(session.info.database, read_only=True) as connection:
        for table, kind in (("messages", "message"), ("events", "event"), ("rewinds", "rewind")):
            columns = [column for column in schema.TABLES[table] if column not in schema.COMPUTED.get(table, {})]
            expected = [record for record in records if record["kind"] == kind]
            assert expected
            scalars = [column for column in columns if column not in {"ts", "data"}]
            rows = connection.execute(f"select {', '.join(scalars)} from {table} order by id").fetchall()
            assert rows == [tuple(record.get(column) for column in scalars) for record in expected]
            times = connection.execute(f"select ts from {table} order by id").fetchall()
            assert [f"{moment.isoformat(timespec='microseconds')}Z" for (moment,) in times] == [
                r["ts"] for r in expected
            ]
        meta = dict(connection.execute("from meta").fetchall())
        assert meta["folded_id"] == str(records[-1]["id"])
        assert meta["folded_bytes"] == str(session.path.stat().st_size)
        assert connection.execute("select count(*) from duckdb_indexes()").fetchone() == (0,)
        assert connection.execute("select count(*) from duckdb_constraints()").fetchone() == (0,)


async def test_each_row_is_materialized_once(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        for turn in range(4):
            await converse(session, turn=turn)
            session.materialize()
            session.materialize()
        assert materialized_ids(session) == [row.db_id for row in session.messages()]
        assert list(query(tmp_path, ALL).id) == materialized_ids(session)


async def test_an_idle_session_is_materialized_automatically(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        ids = await converse(session)
        async with asyncio.timeout(20):
            while True:  # the folder may have the file at the moment, or not have made it yet
                with suppress(duckdb.Error):
                    if materialized_ids(session) == ids:
                        break
                await asyncio.sleep(0.05)


def test_few_rows_are_merged_at_once(tmp_path: Path) -> None:
    write_history(tmp_path, 1, 10_000)
    [session] = list_sessions(tmp_path)
    with duckdb.connect(session.database, read_only=True) as connection:
        groups = "select max(count) from pragma_storage_info('messages')"
        assert connection.execute(groups).fetchone() == (4096,)


async def test_a_missing_file_is_rebuilt(tmp_path: Path) -> None:
    with await stored(tmp_path) as session:
        session.materialize()
        before = query(tmp_path, ALL)
        session.info.database.unlink()
        assert query(tmp_path, ALL).equals(before)
        session.materialize()
        assert query(tmp_path, ALL).equals(before)
        assert materialized_ids(session) == list(before.id)


@pytest.mark.parametrize("content", [b"", b"junk" * 5000, "foreign", "other session", "no meta", "ahead"])
async def test_a_file_that_was_not_made_from_the_journal_is_renamed_and_rebuilt(
    tmp_path: Path, content: bytes | str
) -> None:
    with with_updates(await stored(tmp_path), pause=3600) as session:
        database = session.info.database
        before = query(tmp_path, ALL)
        session.materialize()
        if isinstance(content, bytes):
            database.write_bytes(content)
        elif content == "other session":
            with duckdb.connect(database) as connection:
                connection.execute("update meta set value = 'ffffffffffffffff' where key = 'session_id'")
        elif content == "ahead":
            with duckdb.connect(database) as connection:
                connection.execute("update meta set value = '99999999' where key = 'folded_bytes'")
        else:
            database.unlink()
            with duckdb.connect(database) as connection:
                connection.execute(
                    "create table meta (key int, value int)" if content == "foreign" else "create table t (i int)"
                )
        assert query(tmp_path, ALL).equals(before), "read from the journal meanwhile"
        session.materialize()
        assert query(tmp_path, ALL).equals(before)
        assert materialized_ids(session) == list(before.id)
        assert database.with_name(database.name + ".bad").exists()


async def test_a_file_of_an_another_layout_gets_that_of_a_new_one(tmp_path: Path) -> None:
    with with_updates(await stored(tmp_path), pause=3600) as session, Session.create(tmp_path / "fresh") as fresh:
        session.materialize()
        fresh.materialize()
        before = query(tmp_path, ALL)
        with duckdb.connect(session.info.database) as connection:
            connection.execute("alter table messages drop column thinking_tokens")
            connection.execute("drop table metadata")
            connection.execute(f"update meta set value = '{schema.VERSION - 1}' where key = 'format'")
        assert query(tmp_path, ALL).equals(before)
        session.materialize()
        assert query(tmp_path, ALL).equals(before)
        assert layout(session) == layout(fresh)


def written_calls(record: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The calls or results in a journal line."""
    kind = {"assistant": "tool_call", "tool_result": "tool_result"}.get(record["role"])
    parts = [part for part in record["data"]["content"] if part["type"] == kind] if kind else []
    errors = {True: "true", False: "false", None: None}
    return [
        {"id": part["id"], "name": part["name"], "is_error": errors[part.get("is_error")]} for part in parts
    ] or None


async def test_the_calls_of_messages_and_events_are_those_of_the_journal(tmp_path: Path) -> None:
    with await stored(tmp_path) as session:
        session.materialize()
    records = [decode_line(line) for lines, _ in read_rows(session.path) for line in lines]
    with duckdb.connect(session.info.database, read_only=True) as connection:
        calls = connection.execute("select calls from messages order by id").fetchall()
        assert [each or None for (each,) in calls] == [written_calls(r) for r in records if r["kind"] == "message"]
        assert sum(each is not None for (each,) in calls) == 6
        about = connection.execute("select call_id from events order by id").fetchall()
        kinds = {"tool_start", "tool_end", "approval_request", "approval_decision"}
        events = [r["data"] for r in records if r["kind"] == "event"]
        assert [each for (each,) in about] == [data["id"] if data["type"] in kinds else None for data in events]


def layout(session: Session) -> list[tuple[object, ...]]:
    with duckdb.connect(session.info.database, read_only=True) as connection:
        return connection.execute(
            "select table_name, column_name, column_index, data_type, is_nullable, column_default"
            " from duckdb_columns() where not internal order by all"
        ).fetchall()


async def test_flipped_bytes_never_change_what_is_read(tmp_path: Path) -> None:
    with await stored(tmp_path, turns=30) as session:
        session.materialize()
    database = session.info.database
    good = database.read_bytes()
    before = query(tmp_path, ALL)
    randomly = random.Random(7)
    used = [position for position in range(0, len(good), 64) if any(good[position : position + 64])]
    for _ in range(10):
        damaged = bytearray(good)
        for _ in range(4):
            damaged[randomly.choice(used) + randomly.randrange(64)] ^= 1 << randomly.randrange(8)
        database.write_bytes(damaged)
        assert query(tmp_path, ALL).equals(before)
        with Session.open(tmp_path, session.id) as again:
            again.materialize()
        assert query(tmp_path, ALL).equals(before)


HOLD = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def test_a_file_held_by_another_process_delays_the_fold_and_breaks_no_query(tmp_path: Path) -> None:
    session = with_updates(asyncio.run(stored(tmp_path)), busy_timeout=0.1)
    session.materialize()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(session.info.database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        ids = asyncio.run(converse(session, turn=3))
        assert list(query(tmp_path, ALL).id)[-4:] == ids
        with pytest.raises(SessionError, match="could not be updated"):
            session.materialize()
        session.close()
        assert list(query(tmp_path, ALL).id)[-4:] == ids
        holder.stdin.close()
    assert not session.info.database.with_name(session.info.database.name + ".bad").exists()
    with Session.open(tmp_path, session.id) as again:
        again.materialize()
        assert materialized_ids(again)[-4:] == ids

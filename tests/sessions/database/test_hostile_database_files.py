"""DuckDB files that somebody else made, with SQL where the project has tables: none of it is executed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import duckdb
import pytest
from support.history import write_history
from support.stored import converse, make_old, with_pages, with_updates

from planck_nb.ai.messages import text_of
from planck_nb.sessions import Session, list_sessions, query
from planck_nb.sessions.database import session_catalogue
from planck_nb.sessions.database.session_catalogue import FOLDER, update_catalogue

ENDLESS = "(with recursive r(n) as (select 1 union all select n + 1 from r) select max(n) from r)"
TEXTS = "select text from messages order by session_id, id"
MINE = "select text from messages where session_name = 'mine' order by id"


def replace_by_view(file: Path, table: str, values: str) -> None:
    """Make a table of a file a view over its rows in which SQL computes each text or value."""
    column = {"messages": "text", "events": "type", "meta": "value", "sources": "status"}.get(table, "agent_id")
    with duckdb.connect(file) as connection:
        connection.execute(f"alter table {table} rename to hidden_{table}")
        connection.execute(
            f"create view {table} as select * replace (coalesce({values}, {column}) as {column}) from hidden_{table}"
        )


def replace_by_computed(file: Path, table: str, column: str, expression: str) -> None:
    """Make a column of a file one that is computed whenever it is read."""
    with duckdb.connect(file) as connection:
        rows = connection.execute(f"describe {table}").fetchall()
        columns = ", ".join(
            f"{name} {kind} generated always as ({expression})" if name == column else f"{name} {kind}"
            for name, kind, *_ in rows
        )
        names = ", ".join(name for name, *_ in rows if name != column)
        connection.execute(f"alter table {table} rename to hidden_{table}")
        connection.execute(f"create table {table} ({columns})")
        connection.execute(f"insert into {table} ({names}) select {names} from hidden_{table}")


async def stored(directory: Path) -> Session:
    with with_updates(Session.create(directory, name="mine"), pause=3600) as session:
        await converse(session)
        await converse(session, turn=1)
    return session


ATTACKS = ["endless meta", "false messages", "false rewinds", "computed texts", "false metadata"]


def attack(file: Path, kind: str, spied_on: Path) -> None:
    match kind:
        case "endless meta":
            replace_by_view(file, "meta", f"{ENDLESS}::varchar")
        case "false messages":
            replace_by_view(file, "messages", f"(select content from read_text('{spied_on}'))")
        case "false rewinds":
            with duckdb.connect(file) as connection:
                connection.execute("drop table rewinds")
                connection.execute(
                    "create view rewinds as select id, agent_id, turn, ts, 1::bigint as before_id from messages"
                )
        case "false metadata":
            replace_by_view(file, "metadata", f"(select content from read_text('{spied_on}'))")
        case _:
            replace_by_computed(file, "messages", "text", "repeat(role, 1000)")


@pytest.mark.slow
@pytest.mark.parametrize(("read", "others"), [("attached", 0), ("scanned", 2)])
@pytest.mark.parametrize("kind", ATTACKS)
async def test_queries_and_readers_rely_on_the_journal(tmp_path: Path, kind: str, read: str, others: int) -> None:
    directory, secret = tmp_path / "sessions", tmp_path / "secret.txt"
    secret.write_text("stolen")
    write_history(directory, others, 8)
    session = await stored(directory)
    everything, texts = list(query(directory, TEXTS).text), list(query(directory, MINE).text)
    attack(session.info.database, kind, secret)
    if read != "attached":  # as are files that were written lately
        make_old(directory)
    assert list(query(directory, TEXTS).text) == everything
    with with_pages(Session.read(directory, "mine")) as reader:
        assert text_of(reader.messages_from_latest_checkpoint().rows[0].message.content) == texts[0]
    with with_pages(with_updates(Session.open(directory, "mine"), pause=3600)) as opened:
        assert len(opened.log("a1").messages()) == len(texts)
        opened.materialize()
    with duckdb.connect(session.info.database, read_only=True) as connection:  # made anew from the journal
        assert [text for (text,) in connection.execute("select text from messages order by id").fetchall()] == texts
        assert connection.execute("select count(*) from duckdb_views() where not internal").fetchone() == (0,)
    assert list(query(directory, TEXTS).text) == everything


@pytest.mark.slow
@pytest.mark.parametrize("table", ["sources", "messages", "rewinds"])
def test_a_catalogue_with_views_is_not_used(tmp_path: Path, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_catalogue._CatalogueUpdates, "start", lambda *_: None)
    directory = tmp_path / "sessions"
    write_history(directory, session_catalogue.MIN_MISSING + 2, 8)
    texts = list(query(directory, TEXTS).text)
    assert update_catalogue(directory, quiet_seconds=-1) == len(list_sessions(directory))
    [file] = (directory / FOLDER).glob("*.duckdb")
    named = file.with_name("0.duckdb")  # a file that was not read before
    file.rename(named)
    values = f"{ENDLESS}::varchar" if table == "sources" else "'stolen'"
    replace_by_view(named, table, values)
    assert list(query(directory, TEXTS).text) == texts
    assert update_catalogue(directory, quiet_seconds=-1) == len(list_sessions(directory))
    assert not named.exists()  # has nothing that could be used
    assert list(query(directory, TEXTS).text) == texts


@pytest.mark.slow
def test_a_catalogue_is_not_made_from_views(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_catalogue._CatalogueUpdates, "start", lambda *_: None)
    directory = tmp_path / "sessions"
    write_history(directory, session_catalogue.MIN_MISSING + 2, 8)
    texts = list(query(directory, TEXTS).text)
    databases = sorted(session.database for session in list_sessions(directory) if session.database.exists())
    assert len(databases) > 3
    replace_by_view(databases[0], "messages", "'stolen'")
    replace_by_view(databases[1], "meta", f"{ENDLESS}::varchar")
    replace_by_computed(databases[2], "messages", "text", "'stolen'")
    for session in list_sessions(directory):
        os.utime(session.path, (time.time() - 60, time.time() - 60))
        os.utime(session.database)
    assert update_catalogue(directory, quiet_seconds=-1) == len(list_sessions(directory))
    assert list(query(directory, TEXTS).text) == texts

"""Statements of other programs: they read the views of the sessions and nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path

import duckdb
import pytest
from support.stored import converse

from planck_nb.base.errors import QueryError
from planck_nb.sessions import VIEWS, Session, query_into
from planck_nb.sessions.database.duckdb import sql_literal
from planck_nb.sessions.database.restricted_sql import MAX_SQL_LENGTH, restrict

NOT_A_VIEW = "Only the views can be read here, not '{}': messages, sessions, "
NOT_HERE = "{}() cannot be used here; only the views of the sessions can be read."
NO_SELECT = "Sessions can only be read here: use SELECT instead of {}."

SHOW = "SHOW lists more than the views of the sessions and cannot be used here; DESCRIBE a view."

READS = [
    ("SELECT * FROM '{file}'", NOT_A_VIEW.format("{file}")),
    ('SELECT * FROM "{file}"', NOT_A_VIEW.format("{file}")),
    ("FROM (DESCRIBE '{file}')", NOT_A_VIEW.format("{file}")),
    ("WITH a AS MATERIALIZED (FROM '{file}') FROM a", NOT_A_VIEW.format("{file}")),
    ("WITH messages AS (FROM '{file}') FROM messages", NOT_A_VIEW.format("{file}")),
    ("SELECT content FROM read_text('{file}')", NOT_HERE.format("read_text")),
    ("SELECT content FROM READ_TEXT('{file}')", NOT_HERE.format("read_text")),
    ("SELECT content FROM main.read_text('{file}')", NOT_HERE.format("read_text")),
    ("SELECT size FROM system.main.read_blob('{file}')", NOT_HERE.format("read_blob")),
    ("FROM read_csv('{file}')", NOT_HERE.format("read_csv")),
    ("FROM read_csv_auto(['{file}'])", NOT_HERE.format("read_csv_auto")),
    ("FROM read_json_objects('{json}')", NOT_HERE.format("read_json_objects")),
    ("FROM read_parquet('{parquet}')", NOT_HERE.format("read_parquet")),
    ("FROM parquet_metadata('{parquet}')", NOT_HERE.format("parquet_metadata")),
    ("FROM sniff_csv('{file}')", NOT_HERE.format("sniff_csv")),
    ("FROM glob('/etc/*')", NOT_HERE.format("glob")),
    ("FROM duckdb_secrets()", NOT_HERE.format("duckdb_secrets")),
    ("FROM duckdb_settings()", NOT_HERE.format("duckdb_settings")),
    ("FROM duckdb_databases()", NOT_HERE.format("duckdb_databases")),
    ("FROM query_table('{file}')", NOT_HERE.format("query_table")),
    ("FROM query_table(['{file}'])", NOT_HERE.format("query_table")),
    ("SELECT (SELECT content FROM read_text('{file}'))", NOT_HERE.format("read_text")),
    (
        "SELECT text FROM messages WHERE text IN (SELECT content FROM read_text('{file}'))",
        NOT_HERE.format("read_text"),
    ),
    ("WITH hidden AS (SELECT content FROM read_text('{file}')) FROM hidden", NOT_HERE.format("read_text")),
    ("SELECT size FROM messages JOIN read_text('{file}') ON true", NOT_HERE.format("read_text")),
    ("SELECT size FROM messages, LATERAL (FROM read_text('{file}'))", NOT_HERE.format("read_text")),
    ("SELECT '1' UNION ALL SELECT content FROM read_text('{file}')", NOT_HERE.format("read_text")),
    (
        "FROM (PIVOT (SELECT content FROM read_text('{file}')) ON content IN ('a') USING count(*))",
        NOT_HERE.format("read_text"),
    ),
    ("FROM store.sessions", NOT_A_VIEW.format("sessions")),
    ("FROM tail.messages", NOT_A_VIEW.format("messages")),
    ("FROM store.all_events", NOT_A_VIEW.format("all_events")),
    ("WITH all_events AS (SELECT 1) FROM store.all_events", NOT_A_VIEW.format("all_events")),
    ("FROM information_schema.tables", NOT_A_VIEW.format("tables")),
    ("FROM pg_catalog.pg_class", NOT_A_VIEW.format("pg_class")),
    ("FROM sqlite_master", NOT_A_VIEW.format("sqlite_master")),
    (
        "SELECT * FROM (WITH sqlite_master AS (SELECT 1 z) SELECT z FROM sqlite_master) a, sqlite_master",
        NOT_A_VIEW.format("sqlite_master"),
    ),
    ("WITH sqlite_master AS (FROM sqlite_master) FROM sqlite_master", NOT_A_VIEW.format("sqlite_master")),
    (
        "WITH a AS (FROM sqlite_master), sqlite_master AS (SELECT 1) FROM a",
        NOT_A_VIEW.format("sqlite_master"),
    ),
    (
        "SELECT (WITH sqlite_master AS (SELECT 1) SELECT 1 FROM sqlite_master), (SELECT 1 FROM sqlite_master LIMIT 1)",
        NOT_A_VIEW.format("sqlite_master"),
    ),
    (
        "(WITH sqlite_master AS (SELECT 'a' AS name) FROM sqlite_master) UNION SELECT name FROM sqlite_master",
        NOT_A_VIEW.format("sqlite_master"),
    ),
    ("SELECT * FROM (SHOW ALL TABLES)", SHOW),
    ("SELECT * FROM (SHOW TABLES)", SHOW),
    ("SELECT * FROM (SHOW DATABASES)", SHOW),
    ("SHOW TABLES", SHOW),
]
"""Statements that read something else, which without the restriction work, and the begin of their refusal."""

REFUSED = [
    ("FROM read_json('{file}')", NOT_HERE.format("read_json")),
    ("FROM read_duckdb('{file}')", NOT_HERE.format("read_duckdb")),
    ("FROM pragma_database_list()", NOT_HERE.format("pragma_database_list")),
    ("FROM query('SELECT * FROM read_text(''{file}'')')", NOT_HERE.format("query")),
    ("FROM (SUMMARIZE read_text('{file}'))", "Parser Error: syntax error"),
    ("ATTACH 'stolen.duckdb' AS stolen", NO_SELECT.format("ATTACH")),
    ("COPY messages TO 'stolen.csv'", NO_SELECT.format("COPY")),
    ("COPY messages FROM '{file}'", NO_SELECT.format("COPY")),
    ("EXPORT DATABASE 'stolen'", NO_SELECT.format("EXPORT")),
    ("PRAGMA database_list", NO_SELECT.format("PRAGMA")),
    ("SET enable_external_access = true", NO_SELECT.format("SET")),
    ("INSTALL httpfs", NO_SELECT.format("LOAD")),
    ("LOAD httpfs", NO_SELECT.format("LOAD")),
    ("CREATE TABLE mine AS SELECT 1", NO_SELECT.format("CREATE")),
    ("CALL pragma_version()", NO_SELECT.format("CALL")),
    ("DROP VIEW messages", NO_SELECT.format("DROP")),
    ("EXPLAIN ANALYZE SELECT 1", NO_SELECT.format("EXPLAIN")),
    ("SELECT 1; SELECT 2", "A query is one SELECT statement; this has 2 statements."),
    ("", "A query is one SELECT statement; this has 0 statements."),
    ("SELECT " + "(" * 3_000 + "1" + ")" * 3_000, "Parser Error: Max expression depth"),
    ("SELECT " + "+".join("1" * 9_000), "Parser Error: Max expression depth"),
    (
        "SELECT json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
        "json_execute_serialized_sql() hides what it runs and cannot be used here.",
    ),
]
"""Statements that are refused, most of them without the restriction, too."""

ALLOWED = [
    "SELECT role, text FROM messages ORDER BY id",
    "FROM (DESCRIBE messages)",
    "WITH a AS (SELECT 1 x), b AS (FROM a) SELECT (SELECT x FROM a), (WITH c AS (FROM b) SELECT x FROM c) FROM b",
    "WITH A AS MATERIALIZED (SELECT 1) FROM a UNION ALL FROM a",
    "FROM messages WHERE EXISTS (WITH m AS (FROM sessions) FROM m)",
    "WITH RECURSIVE t(n) AS (WITH s AS (SELECT 1 n) FROM s UNION ALL SELECT n + 1 FROM t WHERE n < 5) FROM t",
    "SUMMARIZE messages",
    "WITH mine AS (FROM messages) SELECT count(*) FROM mine",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) FROM t",
    "SELECT * FROM range(3)",
    "SELECT unnest([1, 2])",
    "SELECT m.role, c.name FROM messages m LEFT JOIN tool_calls c USING (session_id)",
    "SELECT local(ts) FROM messages",
    "FROM MESSAGES",
    " UNION ALL BY NAME ".join(f"FROM {view}" for view in VIEWS),
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session with a conversation, which is in its DuckDB file, and one that is not."""
    folder = tmp_path_factory.mktemp("sessions")
    for name in ("closed", "other"):
        with Session.create(folder, name=name) as session:
            asyncio.run(converse(session))
    next(folder.glob("*_other.duckdb")).unlink()
    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Files that DuckDB can read."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "secret.csv").write_text("name,key\nada,1\n")
    (folder / "secret.json").write_text('{"key": 1}\n')
    duckdb.sql(f"COPY (SELECT 1 AS key) TO '{folder / 'secret.parquet'}'")
    return {
        name: str(folder / f"secret.{kind}")
        for name, kind in (("file", "csv"), ("json", "json"), ("parquet", "parquet"))
    }


def filled(text: str, files: dict[str, str]) -> str:
    for name, path in files.items():
        text = text.replace(f"{{{name}}}", path)
    return text


@pytest.mark.parametrize(("sql", "sentence"), READS, ids=lambda text: text[:60])
async def test_nothing_but_the_views_is_read(directory: Path, files: dict[str, str], sql: str, sentence: str) -> None:
    sql = filled(sql, files)
    await query_into(directory, sql, lambda result: result.fetchall())

    with pytest.raises(QueryError) as caught:
        await query_into(directory, sql, lambda result: result.fetchall(), restricted=True)

    assert str(caught.value).lower().startswith(filled(sentence, files).lower())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("sql", "sentence"), REFUSED, ids=lambda text: text[:60])
async def test_statements_that_do_not_query_the_views_are_refused(
    directory: Path, files: dict[str, str], sql: str, sentence: str
) -> None:
    with pytest.raises(QueryError) as caught:
        await query_into(directory, filled(sql, files), lambda result: result.fetchall(), restricted=True)

    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("number", [MAX_SQL_LENGTH, MAX_SQL_LENGTH + 1])
async def test_a_statement_has_a_length(directory: Path, number: int) -> None:
    sql = "SELECT '" + "x" * (number - 9) + "'"
    if number == MAX_SQL_LENGTH:
        [[text]] = await query_into(directory, sql, lambda result: result.fetchall(), restricted=True)
        assert len(text) == MAX_SQL_LENGTH - 9
        return
    with pytest.raises(QueryError, match="The statement has 20,001 characters; a query may have 20,000"):
        await query_into(directory, sql, lambda result: result.fetchall(), restricted=True)


async def test_duckdb_itself_is_restricted_while_a_statement_runs(directory: Path) -> None:
    names = ("enable_external_access", "lock_configuration", "threads", "temp_directory", "memory_limit")
    sql = "SELECT " + ", ".join(f"current_setting('{name}')" for name in names)
    [[access, locked, threads, temporary, memory]] = await query_into(
        directory, sql, lambda result: result.fetchall(), restricted=True
    )
    assert (access, locked, threads, temporary) == (False, True, 2, "")
    number, unit = memory.split()
    assert float(number) * {"MiB": 1, "GiB": 1024}[unit] < 1_300


def test_a_restricted_connection_reads_its_files_only(tmp_path: Path, files: dict[str, str]) -> None:
    mine = tmp_path / "it's mine.duckdb"
    with duckdb.connect(str(mine)) as made:
        made.execute("CREATE TABLE t AS SELECT 1 AS n")
    with duckdb.connect() as connection:
        connection.execute("SET threads = 5")
        restrict(connection, [mine])
        assert connection.execute("SELECT current_setting('threads')").fetchall() == [(2,)]
        connection.execute(f"ATTACH {sql_literal(str(mine))} AS mine (READ_ONLY)")
        assert connection.execute("FROM mine.t").fetchall() == [(1,)]
        for sql in (
            f"FROM '{files['file']}'",
            f"FROM read_text('{files['file']}')",
            f"ATTACH '{tmp_path / 'other.duckdb'}'",
            f"COPY (SELECT 1) TO '{tmp_path / 'stolen.csv'}'",
            "FROM 'https://127.0.0.1/secret.csv'",
            "SET allowed_paths = ['/']",
            "SET enable_external_access = true",
            "SET lock_configuration = false",
            "SET memory_limit = '100GB'",
            "INSTALL httpfs",
        ):
            with pytest.raises(duckdb.Error):
                connection.execute(sql)
    assert not (tmp_path / "stolen.csv").exists()


@pytest.mark.slow
@pytest.mark.parametrize("sql", ALLOWED, ids=lambda sql: sql[:60])
async def test_the_views_are_read(directory: Path, sql: str) -> None:
    unrestricted = await query_into(directory, sql, lambda result: result.fetchall())

    restricted = await query_into(directory, sql, lambda result: result.fetchall(), restricted=True)

    assert sorted(map(str, restricted)) == sorted(map(str, unrestricted))


async def test_frames_are_not_read(directory: Path) -> None:
    import pandas as pd

    frames = {"secrets": pd.DataFrame({"a": [1]})}

    with pytest.raises(QueryError, match="Only the views"):
        await query_into(directory, "FROM secrets", lambda result: result.fetchall(), frames=frames, restricted=True)

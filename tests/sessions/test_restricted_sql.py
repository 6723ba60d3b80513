"""Statements of other programs: they read the views of the sessions and nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.stored import converse

from planck_nb.base.errors import QueryError
from planck_nb.sessions import VIEWS, Session, query_into
from planck_nb.sessions.restricted_sql import LONGEST

FILE = "/etc/passwd"

REFUSED = [
    f"SELECT * FROM '{FILE}'",
    f'SELECT * FROM "{FILE}"',
    f"FROM read_text('{FILE}')",
    f"FROM READ_TEXT('{FILE}')",
    f"FROM main.read_text('{FILE}')",
    f"FROM system.main.read_blob('{FILE}')",
    f"FROM read_csv('{FILE}')",
    f"FROM read_csv_auto(['{FILE}'])",
    f"FROM read_json('{FILE}')",
    f"FROM read_parquet('{FILE}')",
    f"FROM parquet_metadata('{FILE}')",
    f"FROM read_duckdb('{FILE}')",
    f"FROM sniff_csv('{FILE}')",
    "FROM glob('/etc/*')",
    "FROM duckdb_secrets()",
    "FROM duckdb_settings()",
    "FROM duckdb_databases()",
    "FROM pragma_database_list()",
    f"FROM query('SELECT * FROM read_text(''{FILE}'')')",
    f"FROM query_table('{FILE}')",
    f"FROM query_table(['{FILE}'])",
    f"FROM (DESCRIBE '{FILE}')",
    f"FROM (SUMMARIZE read_text('{FILE}'))",
    f"SELECT (SELECT content FROM read_text('{FILE}'))",
    f"SELECT * FROM messages WHERE text IN (SELECT content FROM read_text('{FILE}'))",
    f"WITH hidden AS (FROM read_text('{FILE}')) FROM hidden",
    f"WITH a AS MATERIALIZED (FROM '{FILE}') FROM a",
    f"SELECT * FROM messages JOIN read_text('{FILE}') ON true",
    f"SELECT * FROM messages, LATERAL (FROM read_text('{FILE}'))",
    f"SELECT 1 UNION ALL SELECT content FROM read_text('{FILE}')",
    f"FROM (PIVOT read_text('{FILE}') ON filename IN ('a') USING count(*))",
    "FROM store.sessions",
    "FROM tail.messages",
    "FROM store.all_events",
    "FROM information_schema.tables",
    "FROM pg_catalog.pg_class",
    "FROM sqlite_master",
    "ATTACH 'stolen.duckdb' AS stolen",
    "COPY messages TO 'stolen.csv'",
    f"COPY messages FROM '{FILE}'",
    "EXPORT DATABASE 'stolen'",
    "PRAGMA database_list",
    "SET enable_external_access = true",
    "INSTALL httpfs",
    "LOAD httpfs",
    "CREATE TABLE mine AS SELECT 1",
    "CALL pragma_version()",
    "DROP VIEW messages",
    "SELECT 1; SELECT 2",
    "EXPLAIN ANALYZE SELECT 1",
    "",
    "SELECT " + "(" * 3_000 + "1" + ")" * 3_000,
    "SELECT " + "+".join("1" * 9_000),
    "SELECT '" + "x" * LONGEST + "'",
    "SELECT json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
]

ALLOWED = [
    "SELECT role, text FROM messages ORDER BY id",
    "FROM (DESCRIBE messages)",
    "SUMMARIZE messages",
    "WITH mine AS (FROM messages) SELECT count(*) FROM mine",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) FROM t",
    "SELECT * FROM range(3)",
    "SELECT unnest([1, 2])",
    "SELECT m.role, c.name FROM messages m LEFT JOIN tool_calls c USING (session_id)",
    "SELECT local(ts) FROM messages",
    "FROM MESSAGES",
    *(f"SELECT * FROM {view}" for view in VIEWS),
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


@pytest.mark.parametrize("sql", REFUSED, ids=lambda sql: sql[:60])
async def test_nothing_but_the_views_is_read(directory: Path, sql: str) -> None:
    with pytest.raises(QueryError) as caught:
        await query_into(directory, sql, lambda result: result.fetchall(), restricted=True)

    assert "\n" not in str(caught.value)


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

"""The tables of a session's DuckDB file, and the SQL that loads journal lines into them.

Columns are only ever added, at the end, so that files of different ages can be read together. There is no key and no
index: ids ascend, and DuckDB finds a range of them by its own statistics.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import duckdb

from planck_nb.sessions.screening import Screen

VERSION = 2
"""The layout of the file; one of another version is rebuilt from its journal."""

_COMMON = {"id": "BIGINT", "agent_id": "VARCHAR", "turn": "INTEGER", "ts": "TIMESTAMP"}

TABLES = {
    "messages": _COMMON
    | {
        "role": "VARCHAR",
        "provider": "VARCHAR",
        "model": "VARCHAR",
        "stop_reason": "VARCHAR",
        "input_tokens": "BIGINT",
        "output_tokens": "BIGINT",
        "cache_read_tokens": "BIGINT",
        "cache_write_tokens": "BIGINT",
        "thinking_tokens": "BIGINT",
        "cost_usd": "DOUBLE",
        "text": "VARCHAR",
        "data": "JSON",
    },
    "events": _COMMON | {"type": "VARCHAR", "data": "JSON"},
    "rewinds": _COMMON | {"before_id": "BIGINT"},
    "metadata": _COMMON | {"data": "JSON"},
}
"""Columns and their types by table. Each column has the value of the same key of a journal line."""

META = "meta"
"""The table of the keys and values that say what a file was made from."""

STORED = (META, *TABLES)
"""The tables of a session's DuckDB file."""

KINDS = {"messages": "message", "events": "event", "rewinds": "rewind", "metadata": "metadata"}
"""The kind of the rows of each table."""

_LINE = json.dumps({"kind": "VARCHAR"} | {name: kind for table in TABLES.values() for name, kind in table.items()})


def create_tables(connection: duckdb.DuckDBPyConnection, catalog: str, extra: str = "") -> None:
    """Create the empty tables in a database or schema, with additional column definitions in `extra`."""
    for table, columns in TABLES.items():
        definitions = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        connection.execute(f"create table {catalog}.{table} ({definitions}{extra})")


def stage_lines(
    connection: duckdb.DuckDBPyConnection, lines: Mapping[str, Sequence[bytes]], screens: Mapping[str, Screen]
) -> dict[str, Screen]:
    """Parse journal lines into the temporary table `line`, with their key as `source`, without those that are skipped.

    A statement costs some milliseconds even for few lines, so those of several journals are parsed together.

    Returns:
        The screens of the journals, to continue with.
    """
    selected = {source: screens[source].plausible(some) for source, some in lines.items()}
    chosen = {source: kept for source, (kept, _) in selected.items()}
    if _stage(connection, chosen) == sum(map(len, chosen.values())):
        return {source: after for source, (_, after) in selected.items()}
    # Some line is no JSON, or has no object as its data. What counts is what Python reads.
    exact = {source: screens[source].copy() for source in lines}
    _stage(connection, {source: exact[source].exact(some) for source, some in lines.items()})
    return exact


def _stage(connection: duckdb.DuckDBPyConnection, lines: Mapping[str, Sequence[bytes]]) -> int:
    # One text, not a list: converting a list for DuckDB blocks all other threads, the event loop's included.
    texts = {source: b"".join(some).decode("utf-8", "replace") for source, some in lines.items()}
    rows = ", ".join(f"(${2 * n + 1}::varchar, ${2 * n + 2}::varchar)" for n in range(len(texts)))
    staged = connection.execute(
        f"create or replace temp table line as select * from"  # noqa: S608 - our own
        f" (select unnest(json_transform(text, '{_LINE}')), source"
        f" from (select unnest(string_split(text, chr(10))) as text, source from (values {rows}) part(source, text))"
        " where json_valid(text))"
        " where kind not in ('message', 'event', 'metadata') or data::varchar like '{%'",
        [value for part in texts.items() for value in part],
    ).fetchone()
    return int(staged[0]) if staged else 0


def insert_staged(connection: duckdb.DuckDBPyConnection, catalog: str, extra: str = "") -> None:
    """Insert the staged lines into the tables, with expressions in `extra` for the additional columns."""
    for table, columns in TABLES.items():
        names = ", ".join(columns)
        connection.execute(
            f"insert into {catalog}.{table} select {names}{extra} from line where kind = '{KINDS[table]}'"  # noqa: S608
        )

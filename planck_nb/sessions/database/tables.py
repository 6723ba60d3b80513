"""The tables of a session's DuckDB file, and the SQL that loads journal lines into them.

There is no key and no index: ids ascend, and DuckDB finds a range of them by its own statistics.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import duckdb

from planck_nb.sessions.journal.screening import Screen

VERSION = 7
"""The layout of the file; one of any other version is rebuilt from its journal."""

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
        "calls": "STRUCT(id VARCHAR, name VARCHAR, is_error VARCHAR)[]",
        "estimated": "BOOLEAN",
    },
    "events": _COMMON
    | {
        "type": "VARCHAR",
        "data": "JSON",
        "call_id": "VARCHAR",
        "remembers": "BOOLEAN",
        "purpose": "VARCHAR",
    },
    "rewinds": _COMMON | {"before_id": "BIGINT"},
    "metadata": _COMMON | {"data": "JSON"},
}
"""Columns and their types by table. A column has the value of the same key of a journal line, or is in `COMPUTED`."""

# Looking for the word takes a tenth of the time of decoding.
_CALLS = """
    case when (role = 'assistant' and contains(data::varchar, '"tool_call"')) or role = 'tool_result' then [
        {'id': part.id, 'name': part.name, 'is_error': part.is_error}
        for part in json_transform(
            data, '{"content": [{"type": "VARCHAR", "id": "VARCHAR", "name": "VARCHAR", "is_error": "VARCHAR"}]}'
        ).content
        if part.type = if(role = 'assistant', 'tool_call', 'tool_result')
    ] end
"""

_CALL_ID = """
    case
        when type in ('tool_start', 'tool_end', 'approval_request', 'approval_decision') then data->>'$.id'
        when type = 'delegated' then nullif(data->>'$.call_id', '')
    end
"""

_REMEMBERS = """
    type = 'approval_decision' and contains(data::varchar, '"user"') and data->>'$.by' = 'user'
        and try_cast(data->>'$.allowed' as boolean) and data->>'$.rule' <> ''
"""

_ESTIMATED = """
    role = 'assistant' and contains(data::varchar, '"estimated"')
        and coalesce(try_cast(data->>'$.estimated' as boolean), false)
"""

_PURPOSE = """
    case when type = 'usage_delta' and not contains(data::varchar, '"purpose":"reply"')
        then nullif(data->>'$.purpose', 'reply') end
"""

COMPUTED = {
    "messages": {"calls": _CALLS, "estimated": _ESTIMATED},
    "events": {"call_id": _CALL_ID, "remembers": _REMEMBERS, "purpose": _PURPOSE},
}
"""SQL for the columns that are computed when lines are loaded, since decoding a million messages takes seconds.

`calls` has the calls in a reply, or those whose results a message contains, and `estimated` whether its usage is partly
an estimate; `call_id` is the call that an event is about, `remembers` whether a person has allowed a call with a rule
for later ones, and `purpose` says why tokens outside messages were taken.
"""

META = "meta"
"""The table of the keys and values that say what a file was made from."""

STORED = (META, *TABLES)
"""The tables of a session's DuckDB file."""

KINDS = {"messages": "message", "events": "event", "rewinds": "rewind", "metadata": "metadata"}
"""The kind of the rows of each table."""

_LINE = json.dumps(
    {"kind": "VARCHAR"}
    | {
        name: kind
        for table, columns in TABLES.items()
        for name, kind in columns.items()
        if name not in COMPUTED.get(table, {})
    }
)


def columns_of_lines(table: str) -> str:
    """Return SQL that selects all columns of a table from journal lines."""
    expressions = COMPUTED.get(table, {})
    return ", ".join(f"{expressions[name]} as {name}" if name in expressions else name for name in TABLES[table])


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
    # Some line is not JSON, or its data is not an object. What counts is what Python reads.
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


def drop_staged(connection: duckdb.DuckDBPyConnection) -> None:
    """Drop what `stage_lines` has created."""
    connection.execute("drop table if exists temp.line")


def insert_staged(connection: duckdb.DuckDBPyConnection, catalog: str, extra: str = "") -> None:
    """Insert the staged lines into the tables, with expressions in `extra` for the additional columns."""
    for table in TABLES:
        connection.execute(
            f"insert into {catalog}.{table} select {columns_of_lines(table)}{extra} from line"  # noqa: S608 - our own
            f" where kind = '{KINDS[table]}'"
        )

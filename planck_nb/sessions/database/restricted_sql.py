"""Limits a query that was written by another program to the views of the sessions.

The statement is checked before it runs, and DuckDB itself may then read no file but those of the sessions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb

from planck_nb.base.errors import QueryError
from planck_nb.sessions.database.duckdb import sql_literal

MAX_SQL_LENGTH = 20_000
"""The most characters that a restricted statement may have."""

_MEMORY = 1024 * 1024 * 1024
"""Bytes that a restricted query may use in addition to the rows that were loaded for it."""

_THREADS = 2
_TABLE_FUNCTIONS = frozenset({"unnest", "range", "generate_series", "json_each", "json_tree", "repeat"})


def check_length(sql: str) -> None:
    """Raise QueryError if the statement is longer than `MAX_SQL_LENGTH`."""
    if len(sql) > MAX_SQL_LENGTH:
        raise QueryError(f"The statement has {len(sql):,} characters; a query may have {MAX_SQL_LENGTH:,}.")


def check_nodes(nodes: Iterable[Mapping[str, Any]], views: Collection[str]) -> None:
    """Raise QueryError if a parsed statement reads anything but views and its own WITH clauses."""
    nodes = list(nodes)
    defined = {name.lower() for node in nodes for name in _defined(node)}
    for node in nodes:
        if node.get("type") == "TABLE_FUNCTION":
            name = str(node["function"]["function_name"])
            if name.lower() not in _TABLE_FUNCTIONS:
                raise QueryError(f"{name}() cannot be used here; only the views of the sessions can be read.")
        elif node.get("type") == "BASE_TABLE":
            name = str(node["table_name"])
            qualified = node.get("schema_name") or node.get("catalog_name")
            if qualified or name.lower() not in {*views, *defined}:
                raise QueryError(f"Only the views can be read here, not {name[:80]!r}: {', '.join(views)}.")


def _defined(node: Mapping[str, Any]) -> Iterator[str]:
    """The names of the WITH clauses of a query."""
    clauses = node.get("cte_map")
    if isinstance(clauses, Mapping):
        yield from (str(clause["key"]) for clause in clauses.get("map", ()))
    if isinstance(node.get("cte_name"), str):
        yield str(node["cte_name"])


def restrict(connection: duckdb.DuckDBPyConnection, files: Iterable[Path]) -> None:
    """Let a connection read no file but these, nor change a setting, and bound what it uses. Cannot be undone."""
    allowed = [name for file in files for name in (str(file), f"{file}.wal")]
    used = connection.execute("select coalesce(sum(memory_usage_bytes), 0) from duckdb_memory()").fetchone()
    limit = _MEMORY + int(used[0] if used else 0)
    for setting in (
        f"allowed_paths = [{', '.join(map(sql_literal, allowed))}]",
        f"memory_limit = '{limit}B'",
        f"threads = {_THREADS}",
        "temp_directory = ''",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        connection.execute(f"set {setting}")

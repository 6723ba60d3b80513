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


def check_tables(statement: Mapping[str, Any], views: Collection[str]) -> None:
    """Check a statement: it reads only views, and WITH clauses in their scope.

    Args:
        statement: The statement as DuckDB's `json_serialize_sql` describes it.
        views: The names of the views.

    Raises:
        QueryError: It reads something else.
    """
    known = frozenset(name.lower() for name in views)
    waiting: list[tuple[Any, frozenset[str]]] = [(statement, known)]
    while waiting:
        tree, names = waiting.pop()
        if isinstance(tree, list):
            waiting += ((item, names) for item in tree)
        elif isinstance(tree, dict):
            _check(tree, names, views)
            waiting += _parts(tree, names)


def _check(node: Mapping[str, Any], names: Collection[str], views: Collection[str]) -> None:
    match node.get("type"):
        case "TABLE_FUNCTION":
            name = str(node["function"]["function_name"])
            if name.lower() not in _TABLE_FUNCTIONS:
                raise QueryError(f"{name}() cannot be used here; only the views of the sessions can be read.")
        case "BASE_TABLE":
            name = str(node["table_name"])
            if node.get("schema_name") or node.get("catalog_name") or name.lower() not in names:
                raise QueryError(f"Only the views can be read here, not {name[:80]!r}: {', '.join(views)}.")
        case "SHOW_REF" if node.get("query") is None:
            raise QueryError("SHOW lists more than the views of the sessions and cannot be used here; DESCRIBE a view.")


def _parts(node: Mapping[str, Any], names: frozenset[str]) -> Iterator[tuple[Any, frozenset[str]]]:
    """Yield a node's parts, each with the tables in its scope.

    A WITH clause is known in those after it and in its query; a recursive one in itself, too.
    """
    recursive = node.get("cte_name")
    if isinstance(recursive, str):
        names |= {recursive.lower()}
    clauses = node.get("cte_map")
    for clause in clauses.get("map", ()) if isinstance(clauses, Mapping) else ():
        yield clause["value"], names
        names |= {str(clause["key"]).lower()}
    yield from ((part, names) for key, part in node.items() if key != "cte_map")


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

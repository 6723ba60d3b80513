"""In-memory DuckDB databases whose connections run one query each.

Connecting to a new database takes about as long as a whole query: DuckDB starts threads and registers its functions. So
one database is kept in each process, and a query gets a connection to it with a schema of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from secrets import token_hex
from tempfile import gettempdir

import duckdb

from planck_nb.base.forks import call_in_forks
from planck_nb.sessions.database.duckdb import (
    connect,
    require_tables,
    retry_while_busy,
    sql_literal,
    track_connection,
    updates,
)

FILE_BUSY_TIMEOUT = 2.0


@dataclass(slots=True)
class QueryConnection:
    """The connection of one query, and the names of what it has attached.

    Args:
        connection: The connection; new tables and views are in a database of its own.
        instance: The instance that the connection belongs to.
        name: A name that no other query of the instance has.
        attached: The names of the files that are attached for this query.
    """

    connection: duckdb.DuckDBPyConnection
    instance: Instance
    name: str
    attached: list[str] = field(default_factory=list[str])

    def attach(self, file: Path) -> str:
        """Attach a file for this query and return its name. Raises duckdb.Error if it stays busy or is damaged."""
        name = f"{self.name}_file_{len(self.attached)}"
        statement = f"attach {sql_literal(file)} as {name} (read_only)"
        updates.wait(file, seconds=FILE_BUSY_TIMEOUT)
        retry_while_busy(lambda: self.connection.execute(statement), seconds=FILE_BUSY_TIMEOUT)
        self.attached.append(name)
        return name

    def keep_attached(self, file: Path, tables: Collection[str]) -> str:
        """Attach a file that never changes, for as long as it exists, and return its name.

        Raises duckdb.Error, also if one of `tables` is not a table of the file (see `databases_with`).
        """
        return self.instance.keep_attached(self.connection, file, tables)


class Instance:
    """An in-memory database with a connection for each query.

    Args:
        memory: Bytes that its queries use together before they write to temporary files; None for DuckDB's default.
    """

    def __init__(self, memory: int | None = None) -> None:
        self._root = connect()
        folder = Path(gettempdir()) / f"planck-queries-{token_hex(8)}"  # made when a query needs it
        self._root.execute(f"set temp_directory = {sql_literal(folder)}")
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._kept: dict[Path, str] = {}
        if memory is not None:
            self._root.execute(f"set memory_limit = '{memory}B'")

    @contextmanager
    def open_connection(self) -> Iterator[QueryConnection]:
        """Open a connection, and detach and close everything at the end."""
        connection = track_connection(self._root.cursor())
        query_connection = QueryConnection(connection, self, f"query_{next(self._numbers)}")
        try:
            connection.execute(f"attach ':memory:' as {query_connection.name}")
            connection.execute(f"use {query_connection.name}")
            yield query_connection
        finally:
            connection.close()
            with self._root.cursor() as cleaning:
                for name in (*query_connection.attached, query_connection.name):
                    with suppress(duckdb.Error):
                        cleaning.execute(f"detach {name}")

    def keep_attached(self, connection: duckdb.DuckDBPyConnection, file: Path, tables: Collection[str]) -> str:
        """As `QueryConnection.keep_attached`. Files that were deleted since are detached."""
        with self._lock:
            for gone in [kept for kept in self._kept if not kept.exists()]:
                with suppress(duckdb.Error):
                    connection.execute(f"detach {self._kept[gone]}")
                    del self._kept[gone]
            if file not in self._kept:
                name = f"kept_{next(self._numbers)}"
                connection.execute(f"attach {sql_literal(file)} as {name} (read_only)")
                try:
                    require_tables(connection, name, tables)
                except duckdb.Error:
                    connection.execute(f"detach {name}")
                    raise
                self._kept[file] = name
            return self._kept[file]

    def close(self) -> None:
        """Close the database."""
        self._root.close()


_MEMORY = 160 * 1024 * 1024


class _Shared:
    """The instance of this process."""

    def __init__(self) -> None:
        self._instance: Instance | None = None
        self._lock = threading.Lock()

    def get(self) -> Instance:
        """Return the instance, which is made on first use."""
        with self._lock:
            if self._instance is None:
                self._instance = Instance(_MEMORY)
            return self._instance

    def replace(self, instance: Instance) -> None:
        """Let the next query make a new instance."""
        with self._lock:
            if self._instance is instance:
                self._instance = None

    def forget(self) -> None:
        """In a forked process: replace the lock and the instance, whose threads do not exist there."""
        self._instance, self._lock = None, threading.Lock()


_shared = _Shared()
call_in_forks(_shared.forget)


@contextmanager
def shared_connection() -> Iterator[QueryConnection]:
    """Open a connection to the instance of this process, which is replaced if an error has made it unusable."""
    instance = _shared.get()
    try:
        with instance.open_connection() as query_connection:
            yield query_connection
    except (duckdb.FatalException, duckdb.InternalException):
        _shared.replace(instance)
        raise


@contextmanager
def own_connection() -> Iterator[QueryConnection]:
    """Open a connection to a new instance, which is closed at the end."""
    instance = Instance()
    try:
        with instance.open_connection() as query_connection:
            yield query_connection
    finally:
        instance.close()

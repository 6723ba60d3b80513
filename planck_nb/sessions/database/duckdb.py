"""Connections to DuckDB, and which of its errors are temporary."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import duckdb

from planck_nb.base.forks import call_in_forks, forget_in_forks, never_destroy

T = TypeVar("T")

# Nothing may be fetched from the network, printed into a cell, or picked up from a caller's variables. Stored times are
# in UTC without a zone, so `now()` and `current_date` can be compared with them only in this zone.
_SETTINGS = (
    "TimeZone = 'UTC'",
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    "enable_progress_bar = false",
    "python_enable_replacements = false",
)
_connections: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()
_MAX_IDLE = 2
_MAX_USES = 20
"""DuckDB keeps a little more memory after each use."""
_MIN_PAUSE = 0.005
_MAX_PAUSE = 0.1


def connect(*, threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """Connect to a new in-memory database.

    It has `threads` threads, by default one for each core.
    """
    return track_connection(duckdb.connect(config={} if threads is None else {"threads": threads}))


class _IdleConnections:
    """Connections that are not in use."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """In a forked process: replace the lock and the connections, which belong to the parent."""
        self._lock = threading.Lock()
        self._connections: list[tuple[duckdb.DuckDBPyConnection, int]] = []

    def take(self) -> tuple[duckdb.DuckDBPyConnection, int]:
        """Return a connection and its number of earlier uses."""
        with self._lock:
            if self._connections:
                return self._connections.pop()
        return connect(threads=1), 0

    def keep(self, connection: duckdb.DuckDBPyConnection, uses: int) -> None:
        """Keep a connection for the next caller.

        It is closed after many uses, or beside enough others.
        """
        with self._lock:
            if len(self._connections) < _MAX_IDLE and uses < _MAX_USES:
                self._connections.append((connection, uses))
                return
        connection.close()


_idle = _IdleConnections()


@contextmanager
def idle_connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Take a connection to an in-memory database with one thread, which nobody else uses until the block ends.

    A new database takes longer than a short transaction, so a few are kept. Whoever takes one must leave
    nothing attached, and no table or setting. After an error it is closed.
    """
    connection, uses = _idle.take()
    try:
        yield connection
    except BaseException:
        connection.close()
        raise
    _idle.keep(connection, uses + 1)


def track_connection(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Set up a new connection, and never destroy it in a forked process."""
    _connections.add(connection)
    for setting in _SETTINGS:
        connection.execute(f"set {setting}")
    return connection


# Closing one in a forked process would wait for DuckDB's threads, which do not exist there.
forget_in_forks(_connections, never_destroy)
call_in_forks(_idle.forget)  # after the line before, so that none is destroyed


def create_local_time(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the macro `local(ts)`, which converts a time in UTC to the time zone of this computer."""
    connection.execute("reset TimeZone")
    found = connection.execute("select current_setting('TimeZone')").fetchone()
    zone = found[0] if found else "UTC"
    connection.execute("set TimeZone = 'UTC'")
    connection.execute(
        f"create macro local(ts, zone := {sql_literal(zone)}) as timezone(zone, timezone('UTC', ts::timestamp))"
    )


def databases_with(connection: duckdb.DuckDBPyConnection, tables: Collection[str]) -> set[str]:
    """Return the attached databases in which all of the names are tables with stored columns only.

    A file that somebody else made could have a view or a computed column of that name instead. Reading it would execute
    its SQL, which can read other files or run for ever.
    """
    rows = connection.execute(
        "select database_name from duckdb_tables() where schema_name = 'main' and list_contains($1, table_name)"
        " and check_constraint_count = 0 and not contains(sql, 'GENERATED ALWAYS AS')"
        " group by all having count(*) = $2",
        [list(tables), len(tables)],
    )
    return {name for (name,) in rows.fetchall()}


def require_tables(connection: duckdb.DuckDBPyConnection, database: str, tables: Collection[str]) -> None:
    """Raise duckdb.CatalogException unless an attached database has the tables, as `databases_with` defines it."""
    if database not in databases_with(connection, tables):
        raise duckdb.CatalogException(f"the file has no tables {', '.join(tables)}")


def sql_literal(value: str | Path) -> str:
    """Quote a text as an SQL string literal."""
    return "'" + str(value).replace("'", "''") + "'"


def is_busy(error: duckdb.Error) -> bool:
    """Return whether another process or connection has the file open for now."""
    text = str(error)
    return isinstance(error, duckdb.ResourceInUseException) or (
        isinstance(error, duckdb.IOException)
        and ("Could not set lock" in text or "being used by another process" in text)
    )


def is_refused(error: duckdb.Error) -> bool:
    """Return whether the disk is full or the file may not be written, which a rebuild would not change."""
    text = str(error)
    return any(
        reason in text
        for reason in ("No space left", "Permission denied", "Read-only file system", "quota", "File too large")
    )


def retry_while_busy(attempt: Callable[[], T], *, seconds: float) -> T:
    """Call `attempt` again and again while the file is busy, for about `seconds`. Raises duckdb.Error."""
    deadline = time.monotonic() + seconds
    pause = _MIN_PAUSE
    while True:
        try:
            return attempt()
        except duckdb.Error as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, _MAX_PAUSE)


class _Updates:
    """The files that this process updates or waits to update.

    Queries wait for an update; otherwise one query after another would never leave the file free for it.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """In a forked process, where the threads that update do not exist."""
        self._changed = threading.Condition()
        self._files: dict[Path, int] = {}

    @contextmanager
    def of(self, file: Path) -> Iterator[None]:
        """Make queries wait while a file is updated."""
        with self._changed:
            self._files[file] = self._files.get(file, 0) + 1
        try:
            yield
        finally:
            with self._changed:
                self._files[file] -= 1
                if not self._files[file]:
                    del self._files[file]
                self._changed.notify_all()

    def wait(self, file: Path, *, seconds: float) -> None:
        """Wait until a file is not being updated, but no longer than `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: file not in self._files, seconds)


updates = _Updates()
call_in_forks(updates.forget)

"""What is particular to DuckDB: how to connect, and which of its failures pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import duckdb

T = TypeVar("T")

# Nothing may be fetched from the network, printed into a cell, or picked up from a caller's variables.
_SETTINGS = (
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    "enable_progress_bar = false",
    "python_enable_replacements = false",
)
_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 0.1


def connect(*, threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """A new in-memory database, used by the calling thread only. `threads` bounds DuckDB's own; None means all."""
    connection = duckdb.connect(config={} if threads is None else {"threads": threads})
    for setting in _SETTINGS:
        connection.execute(f"set {setting}")
    return connection


def literal(value: str | Path) -> str:
    """The text as an SQL literal."""
    return "'" + str(value).replace("'", "''") + "'"


def is_busy(error: duckdb.Error) -> bool:
    """Whether another process, or another connection of this one, has the file for the moment."""
    text = str(error)
    return isinstance(error, duckdb.ResourceInUseException) or (
        isinstance(error, duckdb.IOException)
        and ("Could not set lock" in text or "being used by another process" in text)
    )


def is_refused(error: duckdb.Error) -> bool:
    """Whether the disk is full or the file may not be written: nothing that a rebuild would mend."""
    text = str(error)
    return any(
        reason in text
        for reason in ("No space left", "Permission denied", "Read-only file system", "quota", "File too large")
    )


def patiently(attempt: Callable[[], T], *, seconds: float) -> T:
    """What `attempt` returns, tried again while the file is busy, for about so many seconds. Raises duckdb.Error."""
    deadline = time.monotonic() + seconds
    pause = _FIRST_PAUSE
    while True:
        try:
            return attempt()
        except duckdb.Error as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)

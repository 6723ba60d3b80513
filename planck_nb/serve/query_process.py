"""Runs another program's query in a process which can be killed.

The process has bounded memory.

DuckDB's limit ignores texts from functions, and some functions cannot be interrupted. `python -m
planck_nb.serve.query_process` reads a request from standard input and writes the result to standard output.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from planck_nb.base.errors import QueryError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.secrets import process_secrets, remember_secret
from planck_nb.base.threads import run_in_thread
from planck_nb.serve.bounds import MAX_ANSWER_LENGTH, bounded_data, bounded_text
from planck_nb.sessions import Query

_MEMORY = 4 * 1024 * 1024 * 1024
"""Memory limit for the process, in bytes."""

_GRACE = 5
"""Seconds past the time limit after which the process ends itself.

Its parent may have been killed.
"""

_TOO_LARGE = "The query needs too much memory; select less."


async def run_query(directory: Path, sql: str, *, limit: int, seconds: float) -> JsonObject:
    """Run a SELECT statement over the views for a sessions directory.

    Cancelling this kills the process.

    Args:
        directory: The sessions directory.
        sql: The statement.
        limit: The highest number of rows to return.
        seconds: The time limit.

    Returns:
        `columns`, `rows`, and in `truncated` whether rows were left out.

    Raises:
        QueryError: The statement is wrong, reads other data than the views, takes too long or needs too much memory.
    """
    request = {
        "directory": str(directory),
        "sql": sql,
        "limit": limit,
        "seconds": seconds,
        "secrets": process_secrets(),
    }
    process = _Process(json.dumps(request).encode(), seconds)
    try:
        output = await run_in_thread(process.run)
    except asyncio.CancelledError:
        process.kill()
        raise
    try:
        answer: JsonObject = json.loads(output)
    except ValueError:
        raise QueryError(_TOO_LARGE) from None
    if "error" in answer:
        raise QueryError(str(answer["error"]))
    return answer


class _Process:
    """A query's process, in a thread which waits for its end."""

    def __init__(self, request: bytes, seconds: float) -> None:
        self._request = request
        self._seconds = seconds
        self._lock = threading.Lock()
        self._killed = False
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> bytes:
        """Run it and return its output; empty if it was killed.

        Raises QueryError if it takes too long.
        """
        # -P: modules in the working directory, a project's own, are not imported
        command = (sys.executable, "-P", "-m", "planck_nb.serve.query_process")
        with self._lock:
            if self._killed:
                return b""
            self._process = subprocess.Popen(  # noqa: S603 - this module
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        with self._process as process:
            try:
                return process.communicate(self._request, timeout=self._seconds)[0]
            except subprocess.TimeoutExpired:
                raise QueryError(f"The query took longer than {self._seconds:g} s; select less.") from None
            finally:
                process.kill()

    def kill(self) -> None:
        """End it; may be called at any time."""
        with self._lock:
            self._killed = True
            if self._process is not None:
                self._process.kill()


def _main() -> None:
    request = json.load(sys.stdin)
    _limit(request["seconds"])
    for value, description in request["secrets"].items():
        remember_secret(value, description)
    max_rows = int(request["limit"])
    query = Query(Path(request["directory"]), request["sql"], limit=max_rows + 1, restricted=True)
    try:
        answer: JsonObject = query.run_into(lambda result: _bounded_rows(result, max_rows))
    except QueryError as error:
        answer = {"error": bounded_text(str(error))}
    except MemoryError:
        answer = {"error": _TOO_LARGE}
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()


def _limit(seconds: float) -> None:
    """Bound this process's memory and time, on systems which can."""
    with suppress(ImportError, ValueError, OSError):
        import resource  # noqa: PLC0415 - Windows has none

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(AttributeError, ValueError):
        signal.alarm(int(seconds) + _GRACE)


def _bounded_rows(result: Any, max_rows: int) -> JsonObject:  # noqa: ANN401 - DuckDB is imported by sessions only
    rows: list[Any] = []
    size = 0
    truncated = False
    for row in result.fetchall():
        if len(rows) == max_rows or size > MAX_ANSWER_LENGTH:
            truncated = True
            break
        values = bounded_data(list(row))
        size += len(str(values))
        rows.append(values)
    return {"columns": bounded_data(list(result.columns)), "rows": rows, "truncated": truncated}


if __name__ == "__main__":
    _main()

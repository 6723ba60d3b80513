"""The fold: moves journal lines into a session's DuckDB file and leaves the file unlocked in between.

The file only ever grows, also on a rewind, so a reader that knows how far it was folded at some moment has a consistent
view however often it is folded after. It can be deleted at any time; the next fold makes it anew from the journal.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import duckdb

from planck_nb.base.errors import SessionError
from planck_nb.sessions import tables as schema
from planck_nb.sessions.directory import SessionInfo
from planck_nb.sessions.duckdb import connect, is_busy, is_refused, literal, patiently
from planck_nb.sessions.segments import Position, read_rows

_log = logging.getLogger(__name__)

_PATIENCE = 3.0


@dataclass(frozen=True, slots=True)
class FoldPosition:
    """How far a file is folded: up to a place in the journal, whose last line has the id `last_id`."""

    session_id: str
    last_id: int
    position: Position


class _UnusableError(Exception):
    """The file is DuckDB's, but not a fold of this journal."""


def parse_position(meta: dict[str, str]) -> FoldPosition | None:
    """The progress in the rows of a `meta` table; None where they are not of this version's making."""
    try:
        if meta["format"] == str(schema.VERSION):
            position = Position(int(meta["folded_segment"]), int(meta["folded_bytes"]))
            return FoldPosition(meta["session_id"], int(meta["folded_id"]), position)
    except (KeyError, ValueError):
        pass
    return None


def fold(session: SessionInfo, *, end: Position) -> None:
    """Bring the session's DuckDB file up to a place in the journal.

    A file that cannot be used is renamed to end in ".bad" and made anew. To be called by the session's writer only.
    Raises SessionError where the file stays busy or cannot be written; the journal has everything all the same.
    """
    try:
        try:
            patiently(lambda: _fold(session, end), seconds=_PATIENCE)
        except (duckdb.Error, _UnusableError) as error:
            if isinstance(error, duckdb.Error) and (is_busy(error) or is_refused(error)):
                raise
            _log.info("%s is set aside: %s", session.database, error)
            _set_aside(session.database)
            _fold(session, end)
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise SessionError(
            f"The database of session {session.name!r} could not be brought up to date ({reason}); "
            "its journal has everything, and the next fold tries again."
        ) from error
    except (OSError, _UnusableError) as error:
        raise SessionError(f"The session file {session.database} could not be made anew ({error}).") from error


def _fold(session: SessionInfo, end: Position) -> None:
    with closing(connect(threads=1)) as connection:
        connection.execute(f"attach {literal(session.database)} as file")
        session.database.chmod(0o600)
        progress = _read_or_create(connection, session, end)
        for lines, position in read_rows(session.path, start=progress.position, end=end):
            schema.stage(connection, {"": lines})
            connection.execute("begin")
            schema.insert_staged(connection, "file")
            connection.execute(
                "update file.meta set value = coalesce((select max(id) from line)::varchar, value)"
                " where key = 'folded_id'"
            )
            for key, value in (("folded_segment", position.segment), ("folded_bytes", position.offset)):
                connection.execute("update file.meta set value = $2 where key = $1", [key, str(value)])
            connection.execute("commit")
        connection.execute("detach file")


def _read_or_create(connection: duckdb.DuckDBPyConnection, session: SessionInfo, end: Position) -> FoldPosition:
    tables = connection.execute("select count(*) from duckdb_tables() where database_name = 'file'").fetchone()
    if tables == (0,):
        _create(connection, session)
    progress = parse_position(dict(connection.execute("select key, value from file.meta").fetchall()))
    if progress is None or progress.session_id != session.id or progress.position > end:
        raise _UnusableError("it does not belong to the journal")
    return progress


def _create(connection: duckdb.DuckDBPyConnection, session: SessionInfo) -> None:
    meta = {
        "format": str(schema.VERSION),
        "session_id": session.id,
        "name": session.name,
        "created": session.created.isoformat(),
        "folded_id": "0",
        "folded_segment": "1",
        "folded_bytes": "0",
    }
    connection.execute("begin")
    connection.execute("create table file.meta (key varchar, value varchar)")
    connection.executemany("insert into file.meta values ($1, $2)", [list(entry) for entry in meta.items()])
    schema.create_tables(connection, "file")
    connection.execute("commit")


def _set_aside(database: Path) -> None:
    database.replace(database.with_name(database.name + ".bad"))
    wal = database.with_name(database.name + ".wal")
    if wal.exists():
        wal.replace(wal.with_name(wal.name + ".bad"))


class Materializer:
    """The thread that folds a session behind its writer's back.

    It folds when about a second has passed without a new line, and under a steady load once `ROWS` lines wait but not
    more than once a second, so that its cost does not grow with the rate. `flush` makes the journal durable and returns
    its end: what is folded must never be ahead of what a crash leaves. When the journal's segment has grown to
    `SEGMENT` bytes and is folded, `start_segment` is called.
    """

    ROWS = 500
    PAUSE = 1.0
    SEGMENT = 64 * 1024 * 1024

    def __init__(self, session: SessionInfo, flush: Callable[[], Position], start_segment: Callable[[], None]) -> None:
        self._session = session
        self._flush = flush
        self._start_segment = start_segment
        self._folding = threading.Lock()
        self._changed = threading.Condition()
        self._waiting = 0
        self._written = 0.0
        self._folded = 0.0
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="planck-fold", daemon=True)
        self._thread.start()

    def written(self, lines: int) -> None:
        """So many lines more are in the journal."""
        with self._changed:
            before, self._waiting = self._waiting, self._waiting + lines
            self._written = time.monotonic()
            if before == 0 or before < self.ROWS <= self._waiting:
                self._changed.notify()

    def fold(self) -> None:
        """Fold now, on the calling thread. Raises SessionError."""
        with self._folding:
            end = self._flush()
            fold(self._session, end=end)
            if end.offset >= self.SEGMENT:
                self._start_segment()
            self._folded = time.monotonic()

    def close(self) -> None:
        """End the thread; what it folds at the moment is finished first."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while self._wait_until_due():
            try:
                self.fold()
            except SessionError as error:
                _log.info("%s", error)
                self.written(1)

    def _wait_until_due(self) -> bool:
        with self._changed:
            while not self._closing:
                if self._waiting:
                    since = self._folded if self._waiting >= self.ROWS else self._written
                    pause = since + self.PAUSE - time.monotonic()
                    if pause <= 0:
                        self._waiting = 0
                        return True
                    self._changed.wait(pause)
                else:
                    self._changed.wait()
            return False

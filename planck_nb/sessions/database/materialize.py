"""Copies journal lines into a session's DuckDB file, which stays unlocked in between.

Rows are only ever added to the file, also by a rewind. So a reader that knows up to which row the file went at some
moment has a consistent view, however many rows are added later. The file can be deleted at any time; it is then rebuilt
from the journal.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import duckdb

from planck_nb.base.errors import SessionError, SessionFormatError
from planck_nb.sessions.database import tables as schema
from planck_nb.sessions.database.database_match import (
    MaterializedPosition,
    is_made_from,
    line_digest,
    parse_position,
    read_meta,
    written_position,
)
from planck_nb.sessions.database.duckdb import (
    idle_connection,
    is_busy,
    is_refused,
    require_tables,
    retry_while_busy,
    sql_literal,
    updates,
)
from planck_nb.sessions.directory import SessionInfo
from planck_nb.sessions.journal.journal_check import JournalCheck, check_journal
from planck_nb.sessions.journal.screening import Screen
from planck_nb.sessions.journal.segments import START, Position, journal_bytes, journal_end, read_rows
from planck_nb.sessions.lock import lock_for_a_moment, open_in

_log = logging.getLogger(__name__)

BUSY_TIMEOUT = 3.0
_LOOKING_TIMEOUT = 0.5
_CHECKED = 64 * 1024 * 1024
_BLOCK_SIZE = 16 * 1024
"""Block size in bytes for new DuckDB files."""

_ROW_GROUP_SIZE = 4096
"""Rows up to which DuckDB merges small row groups, again and again and in memory.

It is given with each attachment: a file does not keep it.
"""


class _UnusableError(Exception):
    """The file is a DuckDB file, but not one made from this journal."""


def materialize(
    session: SessionInfo, *, end: Position, check: bool = False, busy_timeout: float = BUSY_TIMEOUT
) -> None:
    """Copy the journal's lines up to a position into the session's DuckDB file.

    A file that cannot be used is renamed to end in ".bad" and rebuilt, with `check` also one that has other rows than
    the journal. Only the process that holds the session's lock may call this. Raises SessionError if the file stays
    busy for `busy_timeout` seconds or cannot be written; the journal is complete anyway.
    """
    try:
        try:
            with updates.of(session.database):
                retry_while_busy(lambda: _materialize(session, end, check=check), seconds=busy_timeout)
        except (duckdb.Error, _UnusableError) as error:
            if isinstance(error, duckdb.Error) and (is_busy(error) or is_refused(error)):
                raise
            _log.info("%s is renamed and rebuilt: %s", session.database, error)
            _set_aside(session.database)
            _materialize(session, end)
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise SessionError(
            f"The database of session {session.name!r} could not be updated ({reason}); "
            "its journal is complete, and the update will be tried again."
        ) from error
    except (OSError, _UnusableError) as error:
        raise SessionError(
            f"The session file {session.database} could not be rebuilt ({error}); its journal is unchanged, so correct "
            "the cause and query the session again."
        ) from error


def _materialize(session: SessionInfo, end: Position, *, check: bool = False) -> None:
    with idle_connection() as connection:
        copy_rows(connection, session, end, check=check)
        schema.drop_staged(connection)


def missing_bytes(session: SessionInfo, end: Position) -> int:
    """Return how many bytes are not in the DuckDB file.

    Earlier segments count if nothing of the active one is in the file.
    """
    try:
        position = _position_of(session) or START
        if position.segment == end.segment:
            return max(end.offset - position.offset, 0)
        return journal_bytes(session.path)
    except (OSError, SessionFormatError):
        return 0


def _position_of(session: SessionInfo) -> Position | None:
    """Return the end of what the session's DuckDB file has.

    The result is None if the file cannot be used.
    """
    if not session.database.exists():
        return None
    try:
        with idle_connection() as connection:
            attach = f"attach {sql_literal(session.database)} as file (read_only)"
            retry_while_busy(lambda: connection.execute(attach), seconds=_LOOKING_TIMEOUT)
            require_tables(connection, "file", schema.STORED)
            progress = parse_position(read_meta(connection, "file"))
            connection.execute("detach file")
    except duckdb.Error:
        return None
    if progress is None or progress.session_id != session.id or not is_made_from(session.path, progress):
        return None
    return progress.position


def materialize_unused(session: SessionInfo, *, advance: Callable[[int], object] = lambda _: None) -> bool:
    """Make the DuckDB file for a session which is not open.

    Otherwise every query would decode its journal again. The file is made under another name; only while it gets its
    own, this process has the session's lock.

    Args:
        session: The session.
        advance: Called with numbers of copied bytes. What it raises ends the copying.

    Returns:
        Whether the file was made. It is not if a process has the session open, or nothing can be written.
    """
    temporary = session.path.with_name(f".planck-{secrets.token_hex(6)}.tmp")
    try:
        if open_in(session) is not None:
            return False
        state = _journal_state(session)
        with idle_connection() as connection:
            copy_rows(connection, session, journal_end(session.path), file=temporary, advance=advance)
            schema.drop_staged(connection)
        with lock_for_a_moment(session), updates.of(session.database):
            if _journal_state(session) != state:
                return False
            if session.database.exists():
                _set_aside(session.database)
            temporary.replace(session.database)
    except (duckdb.Error, OSError, SessionError, _UnusableError) as error:
        _log.info("no DuckDB file was made for %s: %s", session.path, error)
        return False
    finally:
        for leftover in (temporary, temporary.with_name(temporary.name + ".wal")):
            with suppress(OSError):
                leftover.unlink(missing_ok=True)
    return True


def _journal_state(session: SessionInfo) -> tuple[int, int, int]:
    status = session.path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def copy_rows(
    connection: duckdb.DuckDBPyConnection,
    session: SessionInfo,
    end: Position,
    *,
    check: bool = False,
    file: Path | None = None,
    advance: Callable[[int], object] = lambda _: None,
) -> None:
    """Copy the journal's lines up to a position into a DuckDB file.

    It is the session's own, or `file`. The connection is kept open; `advance` is called with numbers of bytes. Raises
    duckdb.Error, OSError, and an error if the file was not made from this journal; `materialize` handles them.
    """
    target = session.database if file is None else file
    # A file has several hundred kilobytes in half-empty blocks with DuckDB's default, 256 KiB. Only a new file can be
    # given a size; another one for an existing file is an error.
    size = "" if target.exists() else f", block_size {_BLOCK_SIZE}"
    connection.execute(f"attach {sql_literal(target)} as file (row_group_size {_ROW_GROUP_SIZE}{size})")
    target.chmod(0o600)
    progress = _read_or_create(connection, session, end)
    if check and progress.position.offset and not progress.agrees(_checked(session)):
        raise _UnusableError("the journal has lines that are damaged or were changed since")
    start, screen, repeated = progress.position, progress.screen(), progress.repeated
    for lines, position in read_rows(session.path, start=start, end=end):
        if not lines:
            continue
        screen = schema.stage_lines(connection, {"": lines}, {"": screen})[""]
        if start.offset and screen.repeated != repeated:
            raise _UnusableError("the journal has rows with lower ids than the file")
        connection.execute("begin")
        schema.insert_staged(connection, "file")
        progress = _save_progress(connection, progress, position, lines[-1], screen)
        connection.execute("commit")
        advance(sum(map(len, lines)))
    connection.execute("detach file")


def _checked(session: SessionInfo) -> JournalCheck | None:
    try:
        return check_journal(session.path, max_bytes=_CHECKED)
    except (OSError, SessionFormatError):
        return None


def _read_or_create(connection: duckdb.DuckDBPyConnection, session: SessionInfo, end: Position) -> MaterializedPosition:
    tables = connection.execute("select count(*) from duckdb_tables() where database_name = 'file'").fetchone()
    if tables == (0,):
        _create(connection, session)
    require_tables(connection, "file", schema.STORED)
    progress = parse_position(read_meta(connection, "file"))
    if progress is None or progress.session_id != session.id or progress.position > end:
        raise _UnusableError("it does not belong to this journal")
    if not is_made_from(session.path, progress):
        raise _UnusableError("the journal has another history")
    return progress


def _save_progress(
    connection: duckdb.DuckDBPyConnection,
    before: MaterializedPosition,
    position: Position,
    last_line: bytes,
    screen: Screen,
) -> MaterializedPosition:
    progress = MaterializedPosition(
        before.session_id,
        screen.ids.highest,
        position,
        len(last_line),
        line_digest(last_line),
        screen.damaged,
        screen.repeated,
        screen.checksum,
    )
    values = written_position(progress)
    keys = ", ".join(f"'{key}'" for key in values)
    connection.execute(f"delete from file.meta where key in ({keys})")  # noqa: S608 - our own
    connection.execute(
        f"insert into file.meta values {', '.join(['(?, ?)'] * len(values))}",  # noqa: S608
        [text for entry in values.items() for text in entry],
    )
    return progress


def _create(connection: duckdb.DuckDBPyConnection, session: SessionInfo) -> None:
    meta = {
        "format": str(schema.VERSION),
        "session_id": session.id,
        "name": session.name,
        "created": session.created.isoformat(),
        **written_position(MaterializedPosition(session.id, 0, START)),
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


PAUSE = 1.0
ROWS = 500
SEGMENT_BYTES = 64 * 1024 * 1024


class Materializer:
    """A thread that keeps a session's DuckDB file up to date with its journal.

    It works when about `pause` seconds have passed without a new line, and under a steady load once `rows` lines wait,
    but at most once in `pause` seconds: its cost is independent from the rate.

    Args:
        session: The session, which this process has locked.
        flush: Makes the journal durable and returns its end: the DuckDB file must never have a row that the journal
            can lose in a crash.
        start_segment: Called when the journal's segment has `segment_bytes` and all of them are in the DuckDB file.
        pause: Seconds.
        rows: The number of lines.
        segment_bytes: Segment size.
        busy_timeout: Seconds to wait while another process has the DuckDB file open.
    """

    def __init__(
        self,
        session: SessionInfo,
        flush: Callable[[], Position],
        start_segment: Callable[[], None],
        *,
        pause: float = PAUSE,
        rows: int = ROWS,
        segment_bytes: int = SEGMENT_BYTES,
        busy_timeout: float = BUSY_TIMEOUT,
    ) -> None:
        self.session = session
        """The session, whose folder may be moved."""
        self._flush = flush
        self._start_segment = start_segment
        self._pause = pause
        self._rows = rows
        self._segment_bytes = segment_bytes
        self._busy_timeout = busy_timeout
        self._materializing = threading.Lock()
        self._changed = threading.Condition()
        self._waiting = 0
        self._written = 0.0
        self._materialized_at = 0.0
        self._check = True
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="planck-materialize", daemon=True)
        self._thread.start()

    def written(self, lines: int) -> None:
        """Count lines that were added to the journal."""
        with self._changed:
            before, self._waiting = self._waiting, self._waiting + lines
            self._written = time.monotonic()
            if before == 0 or before < self._rows <= self._waiting:
                self._changed.notify()

    def materialize(self) -> None:
        """Update the DuckDB file now, on the calling thread. Raises SessionError."""
        with self._materializing:
            end = self._flush()
            materialize(self.session, end=end, check=self._check, busy_timeout=self._busy_timeout)
            self._check = False
            if end.offset >= self._segment_bytes:
                self._start_segment()
            self._materialized_at = time.monotonic()

    def close(self) -> None:
        """End the thread after the update that it is making."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while self._wait_until_due():
            try:
                self.materialize()
            except SessionError as error:
                _log.info("%s", error)
                self.written(1)

    def _wait_until_due(self) -> bool:
        with self._changed:
            while not self._closing:
                if self._waiting:
                    since = self._materialized_at if self._waiting >= self._rows else self._written
                    pause = since + self._pause - time.monotonic()
                    if pause <= 0:
                        self._waiting = 0
                        return True
                    self._changed.wait(pause)
                else:
                    self._changed.wait()
            return False

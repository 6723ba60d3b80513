"""A second copy of the rows of small sessions that are not in use, so that no query opens thousands of files.

The catalogue is in a folder of the sessions directory. It has a few DuckDB files that never change: a new one has the
sessions that were used since, and now and then several become one. So readers need no lock and may keep them open.

A file of the catalogue remembers the size, the times and the inode of the journal of each of its sessions. If the
journal has others now, the session's rows come from its own files again. So the catalogue can be deleted at any time.
"""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import duckdb
import filelock

from planck_nb.base.errors import SessionError
from planck_nb.base.forks import call_in_forks
from planck_nb.sessions.database import tables as schema
from planck_nb.sessions.database.database_match import MaterializedPosition, is_made_from, parse_position, read_meta
from planck_nb.sessions.database.duckdb import connect, databases_with, require_tables, sql_literal
from planck_nb.sessions.database.instance import QueryConnection
from planck_nb.sessions.directory import JournalState, SessionInfo, has_many, list_sessions
from planck_nb.sessions.journal.branch import hidden_ranges
from planck_nb.sessions.journal.journal_file import CHUNK
from planck_nb.sessions.journal.screening import Screen
from planck_nb.sessions.journal.segments import Position, journal_bytes, read_rows
from planck_nb.sessions.lock import open_in

_log = logging.getLogger(__name__)

FOLDER = ".catalogue"
FORMAT = 6
"""The layout of the files; one of another layout is replaced."""

MIN_MISSING = 16
"""Sessions that must be missing before the catalogue is brought up to date: so many files are read quickly."""

MAX_ADDED = 256
"""The most sessions that an update adds, in a second or two of work. What it has added stays if the process ends."""

MAX_JOURNAL_BYTES = 16 * 1024 * 1024
"""Bytes of a journal above which a session stays out of the catalogue: its own file is read quickly."""

QUIET_SECONDS = 2.0
"""Seconds since the last change of a journal: the clock of a file system may be too coarse to show a later change."""

_TABLES = ("messages", "events", "rewinds")
_STORED = ("sources", *_TABLES)
_NAMED = "session_id varchar, session_name varchar"
_MEMORY = 160 * 1024 * 1024
_MAX_BATCH_BYTES = 64 * 1024 * 1024
"""Bytes of journals whose rows are copied together."""

_MANY = 50
_FILES_OF_A_SIZE = 4
_RETRY_SECONDS = 30.0

_Status: TypeAlias = str


@dataclass(frozen=True, slots=True)
class CataloguedRows:
    """The sessions that a query reads from one file of the catalogue.

    Args:
        file: The file.
        name: The name under which it is attached.
        sessions: The ids of the sessions whose rows count.
        others: The ids of the other sessions in the file, which were changed, deleted or are in a newer file.
        excluded: SQL for the ids in `others`.
    """

    file: Path
    name: str
    sessions: frozenset[str]
    others: frozenset[str]
    excluded: str

    def select(self, table: str, columns: str) -> str:
        """Return SQL for the rows of a table."""
        where = f" where session_id not in ({self.excluded})" if self.others else ""
        return f"select {columns} from {self.name}.{table}{where}"  # noqa: S608 - our own


_sources: dict[Path, dict[str, _Status]] = {}
"""The sessions of files of catalogues, with the states of their journals. The files never change."""


def catalogued_rows(
    query_connection: QueryConnection, directory: Path, sessions: Sequence[SessionInfo]
) -> list[CataloguedRows]:
    """Find the sessions whose rows a query can read from the catalogue.

    Args:
        query_connection: The connection of the query.
        directory: The sessions directory.
        sessions: The sessions that the query reads.

    Returns:
        The files, each with some of the sessions. A session is in one of them at most.
    """
    files = _files(directory)
    if not files:
        return []
    statuses = {session.id: _listed_status(session) for session in sessions}
    found: list[CataloguedRows] = []
    taken: set[str] = set()
    for file in files:
        with suppress(duckdb.Error):
            name = query_connection.keep_attached(file, _STORED)
            if file not in _sources:
                _sources[file] = _read_sources(query_connection.connection, name)
            stored = _sources[file]
            current = {each for each, status in stored.items() if each not in taken and statuses.get(each) == status}
            others = stored.keys() - current
            if not current:
                continue
            taken |= current
            excluded = ", ".join(map(sql_literal, others))
            if len(others) > _MANY:
                table = f"excluded_{len(found)}"
                query_connection.connection.execute(
                    f"create table {table} as select unnest($1::varchar[]) as id", [list(others)]
                )
                excluded = f"select id from {query_connection.name}.{table}"  # noqa: S608 - our own
            found.append(CataloguedRows(file, name, frozenset(current), frozenset(others), excluded))
    return found


def status_of(journal: Path) -> _Status:
    """Return a text that changes when a journal is written or replaced; empty if it cannot be read."""
    try:
        status = journal.stat()
    except OSError:
        return ""
    return _status(journal, (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))


def _listed_status(session: SessionInfo) -> _Status:
    """Return the status of the journal as it was when the session was found."""
    return "" if session.state is None else _status(session.path, session.state)


def _status(journal: Path, state: JournalState) -> _Status:
    return f"{journal.name} {state[0]} {state[1]} {state[2]} {state[3]}"


def _files(directory: Path) -> list[Path]:
    """The files of the catalogue, the newest first."""
    try:
        with os.scandir(directory / FOLDER) as entries:
            found = [
                (entry.stat().st_mtime_ns, Path(entry.path)) for entry in entries if entry.name.endswith(".duckdb")
            ]
    except OSError:
        return []
    return [path for _, path in sorted(found, reverse=True)]


def _read_sources(connection: duckdb.DuckDBPyConnection, name: str) -> dict[str, _Status]:
    rows = connection.execute(f"select session_id, status, format from {name}.sources").fetchall()  # noqa: S608
    return {session_id: status for session_id, status, form in rows if form == FORMAT}


def update_catalogue(
    directory: Path,
    *,
    min_missing: int = MIN_MISSING,
    max_sessions: int = MAX_ADDED,
    quiet_seconds: float = QUIET_SECONDS,
    stopped: Callable[[], bool] = lambda: False,
    connected: Callable[[duckdb.DuckDBPyConnection], object] = lambda _: None,
) -> int:
    """Add sessions to the catalogue that were used since its last update. Only one process does this at a time.

    Args:
        directory: The sessions directory.
        min_missing: Do nothing if fewer sessions are missing.
        max_sessions: The highest number of sessions to add.
        quiet_seconds: Leave out a session whose journal was changed in the last seconds.
        stopped: Called now and then; if it returns True, the catalogue stays as it was.
        connected: Called with the connection to DuckDB, to interrupt it.

    Returns:
        The number of sessions that were added.

    Raises:
        OSError: The folder of the catalogue cannot be written.
        duckdb.Error: A file of the catalogue cannot be written.
        SessionError: The sessions directory cannot be read.
    """
    sessions = list_sessions(directory)
    if len(sessions) < min_missing:
        return 0
    folder = directory / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = filelock.FileLock(folder / "lock", blocking=False)
    try:
        lock.acquire()
    except (filelock.Timeout, NotImplementedError):
        return 0
    try:
        with closing(connect(threads=1)) as connection:
            connected(connection)
            connection.execute(f"set memory_limit = '{_MEMORY}B'")
            connection.execute("set fsync_mode = 'NONE'")  # the finished file is synced before it gets its name
            temporary = folder / f"{secrets.token_hex(8)}.tmp.spilled"
            connection.execute(f"set temp_directory = {sql_literal(temporary)}")
            connection.execute("set checkpoint_threshold = '64MB'")
            return _Builder(connection, directory, sessions, stopped, quiet_seconds).update(min_missing, max_sessions)
    finally:
        lock.release()


class _StoppedError(Exception):
    """The process is ending."""


class _Builder:
    """Writes a new file of a catalogue."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        directory: Path,
        sessions: Sequence[SessionInfo],
        stopped: Callable[[], bool],
        quiet_seconds: float,
    ) -> None:
        self._connection = connection
        self._folder = directory / FOLDER
        self._sessions = sessions
        self._statuses = {session.id: status_of(session.path) for session in sessions}
        self._stopped = stopped
        self._quiet_seconds = quiet_seconds

    def update(self, min_missing: int, max_sessions: int) -> int:
        """Write the new file and remove those that it replaces; return how many sessions were added."""
        for leftover in self._folder.glob("*.tmp*"):
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)
        current = self._current()
        known = {session_id for ids in current.values() for session_id in ids}
        missing = [session for session in self._sessions if session.id not in known and self._is_eligible(session)]
        enough = len(missing) >= min_missing
        del missing[max_sessions:]
        replaced = self._to_replace(current, len(missing))
        if not enough and not replaced:
            return 0
        temporary = self._folder / f"{secrets.token_hex(8)}.tmp"
        try:
            added = self._write(temporary, missing, {file: current[file] for file in replaced})
        except _StoppedError:
            temporary.unlink(missing_ok=True)
            return 0
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        temporary.chmod(0o600)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.rename(temporary.with_suffix(".duckdb"))
        for file in replaced:
            with suppress(OSError):  # Windows keeps a file that a reader has open; a later update removes it
                file.unlink()
        return added

    def _is_eligible(self, session: SessionInfo) -> bool:
        if self._statuses[session.id] in _unusable:
            return False
        try:
            status, size = session.path.stat(), journal_bytes(session.path)
        except (OSError, SessionError):
            return False
        quiet = time.time() - max(status.st_mtime, status.st_ctime) > self._quiet_seconds
        return quiet and size <= MAX_JOURNAL_BYTES and open_in(session) is None

    def _current(self) -> dict[Path, list[str]]:
        """The files, the newest first, with the sessions that are in them as they are now."""
        found: dict[Path, list[str]] = {}
        seen: set[str] = set()
        for file in _files(self._folder.parent):
            try:
                self._connection.execute(f"attach {sql_literal(file)} as old (read_only)")
                try:
                    require_tables(self._connection, "old", _STORED)
                    stored = _read_sources(self._connection, "old")
                finally:
                    self._connection.execute("detach old")
            except duckdb.Error:
                stored = {}
            found[file] = [
                each for each, status in stored.items() if self._statuses.get(each) == status and each not in seen
            ]
            seen.update(found[file])
        return found

    def _to_replace(self, current: dict[Path, list[str]], added: int) -> list[Path]:
        """The files whose sessions move to the new one.

        These are files that have few sessions left, and several that are no larger than what is written anyway.
        So a session is copied a number of times that grows with the logarithm of their number, and so does the number
        of files.
        """
        chosen = [file for file, ids in current.items() if not ids or self._is_mostly_old(file, ids)]
        if not added and not chosen:
            return []
        size = added + sum(len(current[file]) for file in chosen)
        rest = sorted(current.keys() - chosen, key=lambda file: len(current[file]))
        while small := [file for file in rest if len(current[file]) <= 2 * size]:
            if len(small) < _FILES_OF_A_SIZE - 1:
                break
            chosen += small
            size += sum(len(current[file]) for file in small)
            rest = [file for file in rest if file not in small]
        return chosen

    def _is_mostly_old(self, file: Path, ids: Sequence[str]) -> bool:
        return len(ids) * 2 < len(_sources.get(file, ids))

    def _write(self, file: Path, sessions: Sequence[SessionInfo], replaced: dict[Path, list[str]]) -> int:
        run = self._connection.execute
        run(f"attach {sql_literal(file)} as made")
        run("create table made.sources (session_id varchar, status varchar, format integer)")
        for table in _TABLES:
            columns = ", ".join(f"{name} {kind}" for name, kind in schema.TABLES[table].items())
            run(f"create table made.{table} ({_NAMED}, {columns}, hidden boolean)")
        for old, ids in replaced.items():
            self._continue()
            if ids:
                run(f"attach {sql_literal(old)} as old (read_only)")
                run("create or replace temp table kept as select unnest($1::varchar[]) as session_id", [ids])
                for table in _STORED:
                    run(
                        f"insert into made.{table} select * from old.{table}"  # noqa: S608 - our own
                        " where session_id in (select session_id from kept)"
                    )
                run("detach old")
        added = 0
        for batch in _batches(sessions, _MAX_BATCH_BYTES):
            self._continue()
            added += self._add(batch)
        run("checkpoint made")
        run("detach made")
        return added

    def _continue(self) -> None:
        if self._stopped():
            raise _StoppedError

    def _add(self, sessions: Sequence[SessionInfo]) -> int:
        """Add sessions, without those that have damaged lines, which a query is to report."""
        attached = self._attach(sessions)
        try:
            added = self._insert({session: _file_tables(name) for session, name in attached.items()})
        finally:
            for name in attached.values():
                self._connection.execute(f"detach {name}")
        for batch in _batches([session for session in sessions if session not in attached], CHUNK):
            self._continue()
            added += self._insert({session: _staged_tables(session) for session in self._stage(batch)})
        return added

    def _insert(self, tables: Mapping[SessionInfo, Mapping[str, str]]) -> int:
        """Insert the rows of sessions; `tables` has the SQL for those of each session."""
        added = [session for session in tables if status_of(session.path) == self._statuses[session.id]]
        if not added:
            return 0
        run = self._connection.execute
        hidden = self._hide({session: tables[session]["rewinds"] for session in added})
        run("begin")
        run(
            f"insert into made.sources select unnest($1::varchar[]), unnest($2::varchar[]), {FORMAT}",
            [[session.id for session in added], [self._statuses[session.id] for session in added]],
        )
        for table in _TABLES:
            columns = ", ".join(schema.TABLES[table])
            parts = " union all ".join(
                f"select {sql_literal(session.id)}, {sql_literal(session.name)}, {columns},"  # noqa: S608 - as above
                f" {hidden.get(session, 'false')} from {tables[session][table]}"
                for session in added
            )
            run(f"insert into made.{table} {parts}")
        run("commit")
        return len(added)

    def _attach(self, sessions: Sequence[SessionInfo]) -> dict[SessionInfo, str]:
        """Attach the DuckDB files that have all rows of undamaged journals: copying these is cheaper than decoding."""
        names: dict[SessionInfo, str] = {}
        for number, session in enumerate(sessions):
            name = f"session_{number}"
            with suppress(OSError, duckdb.Error):
                if session.database.exists():
                    self._connection.execute(f"attach {sql_literal(session.database)} as {name} (read_only)")
                    names[session] = name
        complete = databases_with(self._connection, (schema.META, *_TABLES))
        usable = {
            session: name for session, name in names.items() if name in complete and self._is_whole(session, name)
        }
        for name in set(names.values()).difference(usable.values()):
            self._connection.execute(f"detach {name}")
        return usable

    def _is_whole(self, session: SessionInfo, name: str) -> bool:
        """Whether an attached file has all rows of its session."""
        with suppress(OSError, duckdb.Error):
            progress = parse_position(read_meta(self._connection, name))
            return progress is not None and _has_all(session, progress)
        return False

    def _stage(self, sessions: Sequence[SessionInfo]) -> list[SessionInfo]:
        """Decode the journals of sessions into the table `line`, and return those that are undamaged."""
        if not sessions:
            return []
        lines: dict[str, list[bytes]] = {}
        for session in sessions:
            with suppress(OSError, SessionError):
                lines[session.id] = [line for some, _ in read_rows(session.path) for line in some]
        screens = schema.stage_lines(self._connection, lines, {session: Screen() for session in lines}) if lines else {}
        undamaged = []
        for session in sessions:
            screen = screens.get(session.id)
            if screen is None:
                continue
            if screen.damaged or screen.repeated or screen.unreadable or not screen.ids.ascending:
                _unusable.add(self._statuses[session.id])
            else:
                undamaged.append(session)
        return undamaged

    def _hide(self, rewinds: Mapping[SessionInfo, str]) -> dict[SessionInfo, str]:
        """Return SQL for whether a row is hidden, for the sessions that have rewinds."""
        run = self._connection.execute
        run("create or replace temp table hidden (session_id varchar, first_id bigint, end_id bigint)")
        parts = " union all ".join(
            f"select {number}, id, before_id from {rows}"  # noqa: S608 - as above
            for number, rows in enumerate(rewinds.values())
        )
        written: dict[int, list[tuple[int, int]]] = {}
        ordered = f"select * from ({parts}) as r (n, id, before_id) where before_id is not null order by id"  # noqa: S608
        for number, rewind_id, before_id in run(ordered).fetchall():
            written.setdefault(number, []).append((rewind_id, before_id))
        sessions = list(rewinds)
        rows = [(sessions[number].id, *ends) for number, some in written.items() for ends in hidden_ranges(some)]
        if rows:
            run(
                "insert into hidden select unnest($1::varchar[]), unnest($2::bigint[]), unnest($3::bigint[])",
                [list(column) for column in zip(*rows, strict=True)],
            )
        return {sessions[number]: _is_hidden(sessions[number]) for number in written}


def _is_hidden(session: SessionInfo) -> str:
    ranges = f"select 1 from hidden where hidden.session_id = {sql_literal(session.id)}"  # noqa: S608 - as above
    return f"exists ({ranges} and id >= first_id and id < end_id)"


def _has_all(session: SessionInfo, progress: MaterializedPosition) -> bool:
    """Whether a DuckDB file has all rows of a journal, which had no damaged lines and was not changed since."""
    if progress.damaged or progress.repeated:
        return False
    status = session.path.stat()
    made_later = status.st_mtime_ns < session.database.stat().st_mtime_ns
    is_whole = progress.session_id == session.id and progress.position == Position(session.segment, status.st_size)
    return made_later and is_whole and is_made_from(session.path, progress)


def _file_tables(name: str) -> dict[str, str]:
    """SQL for the rows of an attached file, by table."""
    return {table: f"{name}.{table}" for table in _TABLES}


def _staged_tables(session: SessionInfo) -> dict[str, str]:
    """SQL for the rows of a session in the table `line`, by table."""
    source = sql_literal(session.id)
    return {
        table: f"(select {schema.columns_of_lines(table)} from line"  # noqa: S608 - our own
        f" where source = {source} and kind = '{schema.KINDS[table]}' order by id)"
        for table in _TABLES
    }


_unusable: set[_Status] = set()
"""Journals with damaged lines, which stay out of the catalogue until they change."""


def _batches(sessions: Iterable[SessionInfo], max_bytes: int) -> Iterable[list[SessionInfo]]:
    """Group sessions so that about `max_bytes` of journals are read at a time."""
    batch: list[SessionInfo] = []
    size = 0
    for session in sessions:
        with suppress(OSError):
            size += session.path.stat().st_size
        batch.append(session)
        if size >= max_bytes:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class _CatalogueUpdates:
    """The threads of this process that update catalogues."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Reset: no updates are running, as in a forked process, where the threads do not exist."""
        self._lock = threading.Lock()
        self._running: dict[Path, threading.Thread] = {}
        self._connections: dict[Path, duckdb.DuckDBPyConnection] = {}
        self._useless: dict[Path, float] = {}
        """When updates ended that had nothing to add, as when all missing sessions are long or damaged."""
        self._stop = threading.Event()

    def start(self, directory: Path) -> None:
        """Update the catalogue of a directory soon, unless that is under way."""
        with self._lock:
            thread = self._running.get(directory)
            if (thread is not None and thread.is_alive()) or self._stop.is_set():
                return
            if time.monotonic() - self._useless.get(directory, float("-inf")) < _RETRY_SECONDS:
                return
            thread = threading.Thread(target=self._run, args=(directory,), name="planck-catalogue", daemon=True)
            with suppress(RuntimeError):  # the interpreter is shutting down
                thread.start()
                self._running[directory] = thread

    def _run(self, directory: Path) -> None:
        if self._stop.wait(QUIET_SECONDS + 0.5):
            return
        try:
            began = time.monotonic()
            while update_catalogue(
                directory,
                stopped=self._stop.is_set,
                connected=lambda connection: self._connections.__setitem__(directory, connection),
            ):
                # A kernel that has found thousands of sessions has other work, too, so half of one processor is enough.
                if self._stop.wait(time.monotonic() - began):
                    return
                began = time.monotonic()
            self._useless[directory] = time.monotonic()
        except (OSError, duckdb.Error, SessionError) as error:
            _log.info("the catalogue of %s was not updated: %s", directory, error)
        finally:
            self._connections.pop(directory, None)

    def wait(self, directory: Path) -> None:
        """Wait until the update of a directory that is under way has ended."""
        thread = self._running.get(directory)
        if thread is not None:
            thread.join()

    def close(self) -> None:
        """End all updates; the process ends."""
        self._stop.set()
        for connection in list(self._connections.values()):
            with suppress(duckdb.Error):
                connection.interrupt()
        for thread in list(self._running.values()):
            thread.join()


_updates = _CatalogueUpdates()
call_in_forks(_updates.forget)


def start_update(directory: Path) -> None:
    """Update the catalogue of a directory on another thread, unless that is under way or there are few sessions."""
    if has_many(directory, MIN_MISSING):
        _updates.start(directory)


def wait_for_update(directory: Path) -> None:
    """Wait until an update of the catalogue that was started has ended."""
    _updates.wait(directory)


@atexit.register
def _close() -> None:
    _updates.close()

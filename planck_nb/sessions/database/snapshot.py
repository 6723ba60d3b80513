"""Gives a query the rows of all sessions as they are at one moment.

The rows of sessions that are not in use come from the catalogue of the directory. Those of the others come from their
DuckDB files, up to the last row that these had when the query began, and the later rows from the journals. If a file is
busy, damaged or missing, its journal is read from the beginning, so nothing in the directory can break a query.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import duckdb

from planck_nb.base.errors import SessionError, SessionFormatError
from planck_nb.sessions.damage import Damage, say_once
from planck_nb.sessions.database import tables as schema
from planck_nb.sessions.database.database_match import MaterializedPosition, is_made_from, parse_position
from planck_nb.sessions.database.duckdb import databases_with, retry_while_busy, sql_literal
from planck_nb.sessions.database.first_reading import require_read
from planck_nb.sessions.database.instance import FILE_BUSY_TIMEOUT, QueryConnection
from planck_nb.sessions.database.session_catalogue import MIN_MISSING, CataloguedRows, catalogued_rows, start_update
from planck_nb.sessions.directory import SessionInfo
from planck_nb.sessions.journal.branch import hidden_ranges, ranges_of_branches
from planck_nb.sessions.journal.journal_check import JournalCheck, check_journal, known_check
from planck_nb.sessions.journal.journal_file import CHUNK
from planck_nb.sessions.journal.screening import Screen
from planck_nb.sessions.journal.segments import START, Position, journal_end, missing_segments, read_rows

_log = logging.getLogger(__name__)

LARGE_FILE = 4 * 1024 * 1024
_RECENTLY_WRITTEN = 60.0
_MAX_ATTACHED = 64
"""Files that are attached because they were written lately; attaching one takes half a millisecond."""
_CHECKED = 4 * 1024 * 1024
_CHECKING = 0.25
"""Seconds for which a query checks journals that were changed since the last one."""
_FEW_RANGES = 16


def prepare(
    query_connection: QueryConnection,
    sessions: Sequence[SessionInfo],
    views: str,
    *,
    trust_files: bool,
    catalogue: Path | None,
    complete: bool = False,
) -> list[Path]:
    """Create the views over the sessions as they are at this moment.

    Args:
        query_connection: The connection of the query.
        sessions: The sessions.
        views: SQL that creates the views.
        trust_files: Whether DuckDB files may be read; otherwise everything is read from the journals.
        catalogue: The sessions directory whose catalogue is used; None for none.
        complete: Whether files have to be made first if much would be decoded.

    Returns:
        The files that the views read.

    Raises:
        UnreadSessionsError: Much would be decoded.
    """
    connection = query_connection.connection
    catalogued = catalogued_rows(query_connection, catalogue, sessions) if catalogue is not None and trust_files else []
    known = {session_id for rows in catalogued for session_id in rows.sessions}
    others = [session for session in sessions if session.id not in known]
    files = _attach([s.database for s in others if s.database.exists()] if trust_files else [], query_connection)
    progress = _read_progress(connection, files)
    checks = _check(others)
    for session in others:
        if session.segment > 1 and session not in checks:
            with suppress(SessionError, OSError):
                missing = missing_segments(session.path)
                say_once(session.path, Damage(session.name, missing=missing))
    usable = {session: _usable(progress.get(session.database), session, checks.get(session)) for session in others}
    if complete:
        require_read(usable)
    if catalogue is not None and len(others) >= MIN_MISSING:
        start_update(catalogue)
    connection.execute("create schema tail")
    schema.create_tables(connection, "tail", ", filename varchar, hidden boolean default false")
    sources = _load_tails(connection, usable, checks)
    for source in sources:
        say_once(source.session.path, source.damage)
    files = files.only({source.session.database for source in sources if source.progress is not None})
    _create_sessions(connection, sessions, sources)
    branches = "branches" in views
    rewinds = _read_rewinds(connection, files, branches=branches)
    _hide(connection, sources, rewinds)
    _create_rewinds(connection, catalogued, rewinds, branches=branches)
    # A view opens every file when it is made. The documented ones are made over empty tables of the same columns,
    # which then give way to the real thing.
    for table in ("messages", "events"):
        connection.execute(
            f"create table store.all_{table} as select '' as session_id, '' as session_name, t.* exclude (filename)"  # noqa: S608
            f" from tail.{table} t limit 0"
        )
    connection.execute(views)
    for table in ("messages", "events"):
        connection.execute(f"drop table store.all_{table}")
        rows = _all_rows(table, files, sources, rewinds, catalogued)
        connection.execute(f"create view store.all_{table} as {rows}")
    return [*(rows.file for rows in catalogued), *(session.database for session in others)]


def _create_sessions(
    connection: duckdb.DuckDBPyConnection, sessions: Sequence[SessionInfo], sources: Iterable[_Source]
) -> None:
    connection.execute("create schema store")
    connection.execute(
        "create table store.sessions (session_id varchar, session_name varchar, created timestamp,"
        " filename varchar, materialized_id bigint, parent varchar, copied bigint)"
    )
    read = {source.session.id for source in sources}
    materialized = {source.session.id: source.progress.last_id for source in sources if source.progress is not None}
    columns: list[tuple[str, object, list[object]]] = [
        ("varchar", None, [session.id for session in sessions]),
        ("varchar", None, [session.name for session in sessions]),
        ("timestamp", None, [session.created.replace(tzinfo=None) for session in sessions]),
        ("varchar", "", [str(session.database) if session.id in read else "" for session in sessions]),
        ("bigint", 0, [materialized.get(session.id, 0) for session in sessions]),
        ("varchar", None, [session.parent for session in sessions]),
        ("bigint", 0, [session.copied for session in sessions]),
    ]
    # One statement, not one for each session: each takes a third of a millisecond. Converting the values of thousands
    # of sessions takes long, too, and most have none in some columns.
    parameters: list[list[object]] = []
    selected = []
    for kind, absent, values in columns:
        if any(value != absent for value in values):
            parameters.append(values)
            selected.append(f"unnest(${len(parameters)}::{kind}[])")
        else:
            selected.append("null" if absent is None else repr(absent))
    if sessions:
        connection.execute(f"insert into store.sessions select {', '.join(selected)}", parameters)


@dataclass(frozen=True, slots=True)
class _Source:
    """A session as a query reads it.

    Args:
        session: The session.
        progress: The position up to which its DuckDB file can be used; None if it cannot.
        has_tail: Whether rows were loaded from its journal.
        damage: What is skipped of it.
    """

    session: SessionInfo
    progress: MaterializedPosition | None
    has_tail: bool
    damage: Damage


def _read_progress(connection: duckdb.DuckDBPyConnection, files: _SessionFiles) -> dict[Path, MaterializedPosition]:
    """Read the position of each file, leaving out those that cannot be read for now."""
    found: dict[Path, MaterializedPosition] = {}
    for file, name in files.attached.items():
        with suppress(duckdb.Error):
            found |= _select_progress(connection, _attached_rows(file, name, "meta"))
    try:
        return found | (_select_progress(connection, _read_duckdb(files.others, "meta")) if files.others else {})
    except duckdb.Error:
        for file in files.others:
            select = partial(_select_progress, connection, _read_duckdb([file], "meta"))
            with suppress(duckdb.Error):
                found |= retry_while_busy(select, seconds=FILE_BUSY_TIMEOUT)
        return found


def _select_progress(connection: duckdb.DuckDBPyConnection, rows: str) -> dict[Path, MaterializedPosition]:
    meta: dict[Path, dict[str, str]] = {}
    for filename, key, value in connection.execute(f"select filename, key, value from {rows}").fetchall():  # noqa: S608
        meta.setdefault(Path(filename), {})[key] = value
    parsed = {file: parse_position(entries) for file, entries in meta.items()}
    return {file: progress for file, progress in parsed.items() if progress is not None}


def _usable(
    progress: MaterializedPosition | None, session: SessionInfo, check: JournalCheck | None
) -> MaterializedPosition | None:
    if progress is None or progress.session_id != session.id or not progress.agrees(check):
        return None
    try:
        written = Position(session.segment, session.path.stat().st_size)
        if progress.position > written:  # the journal may have gone on to a new segment since the directory was read
            written = journal_end(session.path)
    except (OSError, SessionFormatError):
        return None
    if progress.position > written:
        return None
    return progress if is_made_from(session.path, progress) else None


def _check(sessions: Iterable[SessionInfo]) -> dict[SessionInfo, JournalCheck]:
    """Check journals for damage, as far as that takes little time; what is left out is checked by later queries."""
    found = {}
    deadline = time.monotonic() + _CHECKING
    for session in sessions:
        with suppress(OSError, SessionFormatError):
            late = time.monotonic() > deadline
            check = known_check(session.path) if late else check_journal(session.path, max_bytes=_CHECKED)
            if check is not None:
                found[session] = check
    return found


def _load_tails(
    connection: duckdb.DuckDBPyConnection,
    usable: Mapping[SessionInfo, MaterializedPosition | None],
    checks: Mapping[SessionInfo, JournalCheck],
) -> list[_Source]:
    """Load the journal lines that are not in the DuckDB files yet, and all lines of journals out of order."""
    screens = _load_rows(connection, usable)
    disordered = [
        session
        for session, progress in usable.items()
        if progress is not None and screens[session].repeated != progress.repeated
    ]
    for session in disordered:
        for table in schema.TABLES:
            connection.execute(f"delete from tail.{table} where filename = $1", [str(session.database)])  # noqa: S608
    screens |= _load_rows(connection, dict.fromkeys(disordered))
    sources = []
    for session, progress in usable.items():
        check, screen = checks.get(session), screens[session]
        skipped = screen if check is None else check
        known = None if session in disordered else progress
        damage = Damage(session.name, skipped.damaged, skipped.repeated, unreadable=skipped.unreadable)
        has_tail = screen.ids.highest > (known.last_id if known is not None else 0)
        sources.append(_Source(session, known, has_tail, damage))
    return sources


def _load_rows(
    connection: duckdb.DuckDBPyConnection, usable: Mapping[SessionInfo, MaterializedPosition | None]
) -> dict[SessionInfo, Screen]:
    """Load the lines of journals after a position, and return the screens that selected them."""
    waiting: dict[str, list[bytes]] = {}
    screens = {
        str(session.database): Screen() if progress is None else progress.screen()
        for session, progress in usable.items()
    }
    size = 0
    for session, progress in usable.items():
        try:
            for lines, _ in read_rows(session.path, start=START if progress is None else progress.position):
                if lines:
                    waiting.setdefault(str(session.database), []).extend(lines)
                size += sum(map(len, lines))
                if size >= CHUNK:
                    _load(connection, waiting, screens)
                    waiting, size = {}, 0
        except FileNotFoundError:  # deleted since the directory was read
            continue
        except SessionFormatError as error:
            if len(usable) == 1:
                raise
            _log.info("the end of %s was left out: %s", session.path, error)
    if waiting:
        _load(connection, waiting, screens)
    return {session: screens[str(session.database)] for session in usable}


def _load(connection: duckdb.DuckDBPyConnection, lines: Mapping[str, list[bytes]], screens: dict[str, Screen]) -> None:
    screens.update(schema.stage_lines(connection, lines, screens))
    schema.insert_staged(connection, "tail", ", source, false")


@dataclass(frozen=True, slots=True)
class _SessionFiles:
    """DuckDB files to read: some attached under a name, the others read together by `read_duckdb`.

    Scanning an attached file takes half the time, and no writer can lock it in between; but attaching takes half a
    millisecond, and there may be many sessions. So large files are attached, and those that are being written.
    """

    attached: dict[Path, str]
    others: list[Path]

    def only(self, files: Collection[Path]) -> _SessionFiles:
        """Return a selection with `files` only."""
        attached = {file: name for file, name in self.attached.items() if file in files}
        return _SessionFiles(attached, [file for file in self.others if file in files])


def _attach(files: Iterable[Path], query_connection: QueryConnection) -> _SessionFiles:
    """Attach large and recently written files, leaving out those that cannot be attached for now."""
    found = _SessionFiles({}, [])
    now = time.time()
    statuses: list[tuple[Path, os.stat_result]] = []
    for file in files:
        with suppress(OSError):  # deleted since it was looked at, or out of reach
            statuses.append((file, file.stat()))
    recent = sorted(
        (now - status.st_mtime, str(file)) for file, status in statuses if now - status.st_mtime <= _RECENTLY_WRITTEN
    )
    written = {file for _, file in recent[:_MAX_ATTACHED]}
    for file, status in statuses:
        if status.st_size < LARGE_FILE and str(file) not in written:
            found.others.append(file)
            continue
        with suppress(duckdb.Error):
            found.attached[file] = query_connection.attach(file)
    if found.attached:
        complete = databases_with(query_connection.connection, schema.STORED)
        for file, name in list(found.attached.items()):
            if name not in complete:
                del found.attached[file]
    return found


@dataclass(slots=True)
class _Rewinds:
    """The rewinds of the sessions that are not in the catalogue, and the ids that they hide, by session id."""

    rows: list[tuple[object, ...]] = field(default_factory=list[tuple[object, ...]])
    by_session: dict[str, list[tuple[int, int]]] = field(default_factory=dict[str, list[tuple[int, int]]])
    hidden: dict[str, list[tuple[int, int]]] = field(default_factory=dict[str, list[tuple[int, int]]])


def _read_rewinds(connection: duckdb.DuckDBPyConnection, files: _SessionFiles, *, branches: bool) -> _Rewinds:
    columns = f"session_id, {'session_name, id, ts' if branches else 'null, id, null'}, before_id"
    named = "join store.sessions using (filename)"
    parts = [
        f"select {columns} from {_attached_rows(file, name, 'rewinds')} {named} where id <= materialized_id"  # noqa: S608
        for file, name in files.attached.items()
    ]
    if files.others:
        rows = _read_duckdb(files.others, "rewinds")
        parts.append(f"select {columns} from {rows} {named} where id <= materialized_id")  # noqa: S608
    parts.append(f"select {columns} from tail.rewinds {named}")  # noqa: S608
    found = _Rewinds()
    ordered = f"select * from ({' union all '.join(parts)}) where before_id is not null order by id"  # noqa: S608
    found.rows = connection.execute(ordered).fetchall()
    for session_id, _, rewind_id, _, before_id in found.rows:
        found.by_session.setdefault(str(session_id), []).append((rewind_id, before_id))  # type: ignore[arg-type]
    found.hidden = {session: hidden_ranges(rewinds) for session, rewinds in found.by_session.items()}
    return found


def _hide(connection: duckdb.DuckDBPyConnection, sources: Iterable[_Source], rewinds: _Rewinds) -> None:
    """Mark the hidden rows of the journals, and list the hidden ids of sessions with many rewinds."""
    many = [
        f"{session_id} {first} {end}"
        for session_id, ranges in rewinds.hidden.items()
        for first, end in ranges
        if len(ranges) > _FEW_RANGES
    ]
    # An id is found in a hash table, while a range would be compared with every other one.
    connection.execute("create table store.hidden_ids (session_id varchar, id bigint)")
    if many:
        # As one text, because converting lists for DuckDB takes longer and blocks all other threads.
        connection.execute(
            "insert into store.hidden_ids select line[1], unnest(range(line[2]::bigint, line[3]::bigint))"
            " from (select string_split(unnest(string_split($1, chr(10))), ' ') as line)",
            ["\n".join(many)],
        )
    for source in sources:
        ranges = rewinds.hidden.get(source.session.id)
        if ranges and source.has_tail:
            hidden = _hidden(source.session.id, ranges)
            where = f"filename = {sql_literal(source.session.database)} and {hidden}"
            for table in ("messages", "events"):
                connection.execute(f"update tail.{table} set hidden = true where {where}")  # noqa: S608


def _hidden(session_id: str, ranges: Sequence[tuple[int, int]]) -> str:
    """Return SQL for whether a row of a session is hidden."""
    if len(ranges) > _FEW_RANGES:
        return f"id in (select id from store.hidden_ids where session_id = {sql_literal(session_id)})"  # noqa: S608
    return "(" + " or ".join(f"(id >= {first:d} and id < {end:d})" for first, end in ranges) + ")"


def _create_rewinds(
    connection: duckdb.DuckDBPyConnection, catalogued: Iterable[CataloguedRows], rewinds: _Rewinds, *, branches: bool
) -> None:
    """Create the tables of the rewinds and of what each of them hid, which only `branches` needs."""
    connection.execute(
        "create table store.rewinds"
        " (session_id varchar, session_name varchar, id bigint, ts timestamp, before_id bigint)"
    )
    connection.execute(
        "create table store.branch_rows (session_id varchar, branch_id bigint, first_id bigint, end_id bigint)"
    )
    if not branches:
        return
    rows = list(rewinds.rows)
    for part in catalogued:
        selected = part.select("rewinds", "session_id, session_name, id, ts, before_id")
        rows += connection.execute(f"{selected} order by id").fetchall()
    if not rows:
        return
    kinds = ("varchar", "varchar", "bigint", "timestamp", "bigint")
    unnested = ", ".join(f"unnest(${number}::{kind}[])" for number, kind in enumerate(kinds, 1))
    connection.execute(
        f"insert into store.rewinds select {unnested}",
        [list(column) for column in zip(*rows, strict=True)],
    )
    by_session: dict[object, list[tuple[int, int]]] = {}
    for session_id, _, rewind_id, _, before_id in rows:
        by_session.setdefault(session_id, []).append((rewind_id, before_id))  # type: ignore[arg-type]
    own = [
        (session_id, branch_id, first, end)
        for session_id, entries in by_session.items()
        for branch_id, ranges in ranges_of_branches(entries)
        for first, end in ranges
    ]
    if own:
        connection.execute(
            "insert into store.branch_rows"
            " select unnest($1::varchar[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bigint[])",
            [list(column) for column in zip(*own, strict=True)],
        )


def _all_rows(
    table: str,
    files: _SessionFiles,
    sources: Iterable[_Source],
    rewinds: _Rewinds,
    catalogued: Iterable[CataloguedRows],
) -> str:
    """Return SQL for all rows of a table: those in the files, up to the positions read, and those of the journals."""
    columns = ", ".join(schema.TABLES[table])
    of_file = {source.session.database: source for source in sources}
    parts = [rows.select(table, f"session_id, session_name, {columns}, hidden") for rows in catalogued]

    for file, name in files.attached.items():
        source = of_file[file]
        session, ranges = source.session, rewinds.hidden.get(source.session.id)
        hidden = _hidden(session.id, ranges) if ranges else "false"
        last_id = source.progress.last_id if source.progress else 0
        # With literals, DuckDB does not read the files of sessions that a query leaves out.
        parts.append(
            f"select {sql_literal(session.id)} as session_id, {sql_literal(session.name)} as session_name,"  # noqa: S608
            f" {columns}, {hidden} as hidden from {name}.{table} where id <= {last_id:d}"
        )
    named = "select session_id, session_name, {}, {} as hidden from {} join store.sessions using (filename)"
    if plain := [file for file in files.others if of_file[file].session.id not in rewinds.hidden]:
        parts.append(named.format(columns, "false", _read_duckdb(plain, table)) + " where id <= materialized_id")
    for file in files.others:
        session_id = of_file[file].session.id
        if session_id in rewinds.hidden:
            hidden = _hidden(session_id, rewinds.hidden[session_id])
            rows = named.format(columns, hidden, _read_duckdb([file], table))
            parts.append(rows + " where id <= materialized_id")
    parts.append(named.format(columns, "hidden", f"tail.{table}"))
    return " union all ".join(parts)


def _attached_rows(file: Path, name: str, table: str) -> str:
    return f"(select *, {sql_literal(file)} as filename from {name}.{table})"  # noqa: S608 - our own names


def _read_duckdb(files: Iterable[Path], table: str) -> str:
    # The list is explicit, because one foreign file fails a whole glob. Files of one version have the same columns.
    paths = ", ".join(map(sql_literal, files))
    return f"read_duckdb([{paths}], table_name = '{table}', union_by_name = false, filename = true)"

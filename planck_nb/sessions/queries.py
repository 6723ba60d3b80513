"""SQL over every session in a directory, including those that other processes are writing.

Each query has its own in-memory database. Its views read the DuckDB files of all sessions up to the last row that they
had when the query began, and the later rows from the journals. If a file is busy, damaged or missing, its journal is
read from the beginning, so nothing in the directory can break a query.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from planck_nb.base.aio import run_in_thread
from planck_nb.base.errors import QueryError, SessionError, SessionFormatError, did_you_mean
from planck_nb.sessions import tables as schema
from planck_nb.sessions.branch import hidden_in_branch, hidden_ranges
from planck_nb.sessions.damage import Damage, say_once
from planck_nb.sessions.directory import SessionInfo, list_sessions
from planck_nb.sessions.duckdb import connect, create_local_time, retry_while_busy, sql_literal
from planck_nb.sessions.journal_check import JournalCheck, check_journal, known_check
from planck_nb.sessions.journal_file import CHUNK
from planck_nb.sessions.materialize import MaterializedPosition, is_made_from, parse_position, times_sql
from planck_nb.sessions.restricted_sql import check_length, check_nodes, restrict
from planck_nb.sessions.screening import Screen
from planck_nb.sessions.segments import START, Position, journal_end, missing_segments, read_rows

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

_log = logging.getLogger(__name__)

VIEWS = (
    "messages",
    "sessions",
    "agents",
    "team_members",
    "turns",
    "tool_calls",
    "delegations",
    "approvals",
    "usage",
    "chapters",
    "branches",
)
"""The names of the views that a query can read; README.md describes their columns."""

_VIEWS_SQL = Path(__file__).with_name("views.sql")
_BUSY_TIMEOUT = 5.0
_FILE_BUSY_TIMEOUT = 2.0
_INTERRUPT_AGAIN = 0.05
_LARGE_FILE = 16 * 1024 * 1024
_RECENTLY_WRITTEN = 60.0
_CHECKED = 4 * 1024 * 1024
_CHECKING = 0.25
"""Seconds in which a query checks journals that were changed since the last one."""
_VIEW = re.compile(r"create view (?:store\.)?(\w+)")

# A statement of type SELECT may still contain an INSERT or a COPY in its WITH clause, and these functions run a
# statement from a string.
_READ_ONLY_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
_DYNAMIC_SQL = {"query", "json_execute_serialized_sql"}


class Query:
    """One SELECT statement over the sessions in a directory.

    Args:
        directory: The sessions directory.
        sql: One SELECT statement in DuckDB's dialect, over the views in `VIEWS` and the frames.
        frames: DataFrames of pandas or Polars and Arrow tables by the names that the statement uses; views come first.
            Other values are ignored, so a whole namespace can be passed.
        limit: The highest number of rows to return; None for all.
        session: The id that `getvariable('session')` returns.
        only: The only session that the statement sees; None for all in the directory.
        restricted: Whether the statement was written by another program: it may read the views and nothing else, no
            files, functions over files or frames, and use a bounded amount of memory.
    """

    def __init__(
        self,
        directory: Path,
        sql: str,
        *,
        frames: Mapping[str, object] | None = None,
        limit: int | None = None,
        session: str | None = None,
        only: SessionInfo | None = None,
        restricted: bool = False,
    ) -> None:
        self._directory = directory
        self._sql = sql
        self._frames = {} if frames is None or restricted else frames
        self._limit = limit
        self._session = session
        self._only = only
        self._restricted = restricted
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._process = os.getpid()
        self._interrupted = threading.Event()

    def run(self) -> pd.DataFrame:
        """Run the query.

        Returns:
            All rows of the result.

        Raises:
            QueryError: The statement is wrong, does not only read, or the sessions cannot be read.
            KeyboardInterrupt: Ctrl-C or `interrupt` ended the query.
        """
        return self.run_into(_data_frame)

    def run_into(self, into: Callable[[duckdb.DuckDBPyRelation], T]) -> T:
        """Run the query and convert its result.

        Args:
            into: Called with the result, which has an Arrow stream; for example `polars.DataFrame` or `pyarrow.table`.
                Unlike pandas, these keep integers in a column that has nulls.

        Returns:
            What `into` returns.

        Raises:
            QueryError: The statement is wrong, does not only read, or the sessions cannot be read.
            KeyboardInterrupt: Ctrl-C or `interrupt` ended the query.
        """
        try:
            try:
                return retry_while_busy(partial(self._attempt, into, trust_files=True), seconds=_BUSY_TIMEOUT)
            except (duckdb.ProgrammingError, duckdb.DataError):
                raise
            except duckdb.Error:
                # A file that opened well may still be damaged inside, or have become busy for good.
                return self._attempt(into, trust_files=False)
        except duckdb.Error as error:
            raise QueryError(self._explain(error)) from error

    def interrupt(self) -> None:
        """End the query, which then raises KeyboardInterrupt. May be called from any thread."""
        # DuckDB ignores an interrupt that comes just before a statement starts, so it is repeated until the query ends.
        self._interrupted.set()
        connection = self._connection
        if connection is not None and self._process == os.getpid():  # in a forked process, no query runs
            connection.interrupt()
            again = threading.Timer(_INTERRUPT_AGAIN, self.interrupt)
            again.daemon = True
            again.start()

    def _attempt(self, into: Callable[[duckdb.DuckDBPyRelation], T], *, trust_files: bool) -> T:
        with closing(connect()) as connection, _keyboard_interrupts():
            self._connection = connection
            try:
                tables = _tables_read(connection, self._sql, restricted=self._restricted)
                sessions = list_sessions(self._directory) if self._only is None else [self._only]
                _prepare(connection, sessions, _views_named(self._sql), trust_files=trust_files)
                if "local" in self._sql.lower():
                    create_local_time(connection)
                if self._session is not None:
                    connection.execute(f"set variable session = {sql_literal(self._session)}")
                for name, frame in self._frames_named(tables).items():
                    connection.register(name, frame)
                if self._restricted:
                    restrict(connection, [session.database for session in sessions])
                if self._interrupted.is_set():
                    raise KeyboardInterrupt
                result = connection.sql(self._sql)
                return into(result if self._limit is None else result.limit(self._limit))
            finally:
                self._connection = None

    def _frames_named(self, tables: Iterable[str]) -> dict[str, object]:
        """Select the frames with these names, an exact match before one in another case: SQL ignores case."""
        usable = {name: frame for name, frame in self._frames.items() if _is_frame(frame)}
        by_lower_name = {name.lower(): frame for name, frame in usable.items()}
        found: dict[str, object] = {}
        for table in tables:
            frame = usable.get(table, by_lower_name.get(table.lower()))
            if frame is not None and table.lower() not in VIEWS:
                found.setdefault(table.lower(), frame)
        return found

    def _explain(self, error: duckdb.Error) -> str:
        message = " ".join(str(error).split("\n\n")[0].split())
        if isinstance(error, duckdb.CatalogException) and message.startswith("Catalog Error: Table with name "):
            name = message.removeprefix("Catalog Error: Table with name ").split(" ")[0]
            frames = {name for name, value in self._frames.items() if _is_frame(value)}
            known = {*VIEWS, *(name for name in frames if name.lower() not in VIEWS)}
            return f"There is no table {name!r}. {did_you_mean(name, known)} Views: {', '.join(VIEWS)}."
        if "No module named 'pyarrow'" in message:
            return "DuckDB needs pyarrow to read a Polars frame; run `pip install pyarrow`."
        return message


def query(
    directory: Path,
    sql: str,
    *,
    frames: Mapping[str, object] | None = None,
    limit: int | None = None,
    session: str | None = None,
) -> pd.DataFrame:
    """Run one SELECT statement over the views of all sessions in a directory, and block until it is done.

    Args:
        directory: The sessions directory.
        sql: One SELECT statement in DuckDB's dialect, over the views in `VIEWS` and the frames.
        frames: DataFrames and Arrow tables by the names that the statement uses; other values are ignored.
        limit: The highest number of rows to return; None for all.
        session: The id that `getvariable('session')` returns.

    Returns:
        All rows of the result.

    Raises:
        QueryError: The statement is wrong, does not only read, or the sessions cannot be read.
        KeyboardInterrupt: Ctrl-C ended the query.

    Example:
        >>> import asyncio, tempfile
        >>> from pathlib import Path
        >>> from planck_nb import Session
        >>> from planck_nb.ai.messages import UserMessage
        >>> from planck_nb.sessions import query
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     with Session.create(Path(directory)) as session:
        ...         _ = asyncio.run(session.append("agent", UserMessage("hello")))
        ...     query(Path(directory), "SELECT role, text FROM messages")
           role   text
        0  user  hello
    """
    # On another thread, because DuckDB does not notice Ctrl-C while it computes on the main one.
    running = Query(directory, sql, frames=frames, limit=limit, session=session)
    with ThreadPoolExecutor(1) as thread:
        result = thread.submit(running.run)
        try:
            return result.result()
        except KeyboardInterrupt:
            running.interrupt()
            raise


async def query_async(
    directory: Path,
    sql: str,
    *,
    frames: Mapping[str, object] | None = None,
    limit: int | None = None,
    session: str | None = None,
    only: SessionInfo | None = None,
) -> pd.DataFrame:
    """Run a query like `query` does, but on another thread while the event loop goes on. Cancelling ends the query.

    Args:
        directory: The sessions directory.
        sql: One SELECT statement in DuckDB's dialect, over the views in `VIEWS` and the frames.
        frames: DataFrames and Arrow tables by the names that the statement uses; other values are ignored.
        limit: The highest number of rows to return; None for all.
        session: The id that `getvariable('session')` returns.
        only: The only session that the statement sees; None for all in the directory.

    Returns:
        All rows of the result.

    Raises:
        QueryError: The statement is wrong, does not only read, or the sessions cannot be read.
    """
    return await query_into(directory, sql, _data_frame, frames=frames, limit=limit, session=session, only=only)


async def query_into(
    directory: Path,
    sql: str,
    into: Callable[[duckdb.DuckDBPyRelation], T],
    *,
    frames: Mapping[str, object] | None = None,
    limit: int | None = None,
    session: str | None = None,
    only: SessionInfo | None = None,
    restricted: bool = False,
) -> T:
    """Run a query like `query_async` does, and convert its result.

    Args:
        directory: The sessions directory.
        sql: One SELECT statement in DuckDB's dialect, over the views in `VIEWS` and the frames.
        into: Called with the result, on the query's thread; see `Query.run_into`.
        frames: DataFrames and Arrow tables by the names that the statement uses; other values are ignored.
        limit: The highest number of rows to return; None for all.
        session: The id that `getvariable('session')` returns.
        only: The only session that the statement sees; None for all in the directory.
        restricted: Whether the statement may read the views and nothing else; see `Query`.

    Returns:
        What `into` returns.

    Raises:
        QueryError: The statement is wrong, does not only read, or the sessions cannot be read.
    """
    running = Query(directory, sql, frames=frames, limit=limit, session=session, only=only, restricted=restricted)
    try:
        return await run_in_thread(partial(running.run_into, into))
    except asyncio.CancelledError:
        running.interrupt()
        raise


def _data_frame(result: duckdb.DuckDBPyRelation) -> pd.DataFrame:
    frame: pd.DataFrame = result.df()
    return frame


@contextmanager
def _keyboard_interrupts() -> Iterator[None]:
    # DuckDB handles Ctrl-C itself and raises a RuntimeError.
    try:
        yield
    except duckdb.InterruptException as error:
        raise KeyboardInterrupt from error
    except RuntimeError as error:
        if "interrupted" not in str(error):
            raise
        raise KeyboardInterrupt from error


def _tables_read(connection: duckdb.DuckDBPyConnection, sql: str, *, restricted: bool) -> set[str]:
    """Return the names of the tables that the statement reads, as written. Raises QueryError unless it only reads."""
    if restricted:
        check_length(sql)
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise QueryError(f"A query is one SELECT statement; this has {len(statements)} statements.")
    if statements[0].type is not duckdb.StatementType.SELECT:
        kind = statements[0].type.name
        hint = " A PIVOT needs its values: PIVOT … ON column IN (…)." if kind == "MULTI" else ""
        raise QueryError(f"Sessions can only be read here: use SELECT instead of {kind}.{hint}")
    nodes = _nodes(connection, sql)
    if restricted:
        check_nodes(nodes, VIEWS)
    tables: set[str] = set()
    for node in nodes:
        node_type = node.get("type")
        if isinstance(node_type, str) and node_type.endswith("_NODE") and node_type not in _READ_ONLY_NODES:
            raise QueryError(f"Sessions can only be read here: a WITH clause may not hold {node_type.split('_')[0]}.")
        if node.get("function_name") in _DYNAMIC_SQL:
            raise QueryError(f"{node['function_name']}() hides what it runs and cannot be used here.")
        if node_type == "BASE_TABLE":
            tables.add(node["table_name"])
    return tables


def _nodes(connection: duckdb.DuckDBPyConnection, sql: str) -> list[dict[str, Any]]:
    """Return the parts of a parsed statement. Raises QueryError if there is a kind that DuckDB cannot describe."""
    serialized = connection.execute("select json_serialize_sql($1)", [sql]).fetchone()
    try:
        tree = json.loads(serialized[0]) if serialized else {"error": True}
        if not tree["error"]:
            return list(_walk(tree["statements"]))
    except RecursionError:
        raise QueryError("The statement is nested too deeply; write it with fewer levels.") from None
    raise QueryError("The statement cannot be checked to only read; write it as a plain SELECT.")


def _walk(tree: object) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        for value in tree.values():
            yield from _walk(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _walk(value)


def _is_frame(value: object) -> bool:
    package = type(value).__module__.partition(".")[0]
    return package in {"pandas", "polars", "pyarrow"} and hasattr(value, "shape")


@dataclass(frozen=True, slots=True)
class _Source:
    """A session, the position up to which its DuckDB file can be used, None if it cannot, and what is skipped of it."""

    session: SessionInfo
    progress: MaterializedPosition | None
    damage: Damage


def _prepare(
    connection: duckdb.DuckDBPyConnection, sessions: list[SessionInfo], views: str, *, trust_files: bool
) -> None:
    """Create the views over the sessions as they are at this moment."""
    files = _attach([s.database for s in sessions if s.database.exists()] if trust_files else [], connection)
    progress = _read_progress(connection, files)
    checks = _check(sessions)
    for session in sessions:
        if session.segment > 1 and session not in checks:
            with suppress(SessionError, OSError):
                missing = missing_segments(session.path)
                say_once(session.path, Damage(session.name, missing=missing))
    usable = {
        session: _usable(progress.get(session.database), session, checks.get(session), files, connection)
        for session in sessions
    }
    connection.execute("create schema tail")
    schema.create_tables(connection, "tail", ", filename varchar")
    sources = _load_tails(connection, usable, checks)
    for source in sources:
        say_once(source.session.path, source.damage)
    files = files.only({source.session.database for source in sources if source.progress is not None})
    connection.execute("create schema store")
    connection.execute(
        "create table store.sessions (session_id varchar, session_name varchar, created timestamp,"
        " filename varchar, materialized_id bigint, parent varchar, copied bigint)"
    )
    for source in sources:
        session = source.session
        connection.execute(
            "insert into store.sessions values ($1, $2, $3, $4, $5, $6, $7)",
            [
                session.id,
                session.name,
                session.created.replace(tzinfo=None),
                str(session.database),
                source.progress.last_id if source.progress else 0,
                session.parent,
                session.copied,
            ],
        )
    _create_hidden(connection, files)
    # A view opens every file when it is made. The documented ones are made over empty tables of the same columns,
    # which then give way to the real thing.
    for table in ("messages", "events"):
        connection.execute(
            f"create table store.all_{table} as select session_id, session_name, t.* exclude (filename)"  # noqa: S608
            f" from tail.{table} t join store.sessions using (filename) limit 0"
        )
    connection.execute(views)
    for table in ("messages", "events"):
        connection.execute(f"drop table store.all_{table}")
        connection.execute(f"create view store.all_{table} as {_all_rows(table, files)}")


def _views_named(sql: str) -> str:
    """Return SQL that creates the views that the statement names, and those they use; all if it names none.

    Creating a view takes as long as a small query, and most queries use one or two.
    """
    statements = re.split(r"^(?=create )", _VIEWS_SQL.read_text(encoding="utf-8"), flags=re.MULTILINE)
    chosen: list[str] = []
    words = set(re.findall(r"\w+", sql.lower()))
    if words.isdisjoint(VIEWS):
        words.update(VIEWS)
    for statement in reversed(statements):  # each is made of earlier ones
        view = _VIEW.match(statement)
        if view is None or view[1] in words:
            chosen.append(statement)
            words.update(re.findall(r"\w+", statement))
    return "".join(reversed(chosen))


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
                found |= retry_while_busy(select, seconds=_FILE_BUSY_TIMEOUT)
        return found


def _select_progress(connection: duckdb.DuckDBPyConnection, rows: str) -> dict[Path, MaterializedPosition]:
    meta: dict[Path, dict[str, str]] = {}
    for filename, key, value in connection.execute(f"select filename, key, value from {rows}").fetchall():  # noqa: S608
        meta.setdefault(Path(filename), {})[key] = value
    parsed = {file: parse_position(entries) for file, entries in meta.items()}
    return {file: progress for file, progress in parsed.items() if progress is not None}


def _usable(
    progress: MaterializedPosition | None,
    session: SessionInfo,
    check: JournalCheck | None,
    files: _SessionFiles,
    connection: duckdb.DuckDBPyConnection,
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

    def read_times() -> set[str]:
        try:
            sql = times_sql(lambda table: files.rows(session.database, table), progress.last_id)
            return {time for (time,) in connection.execute(sql).fetchall()}
        except duckdb.Error:
            return set()

    return progress if is_made_from(session.path, progress, read_times) else None


def _check(sessions: Iterable[SessionInfo]) -> dict[SessionInfo, JournalCheck]:
    """Check journals for damage, as far as that takes little time; what is left out is checked by later queries."""
    found = {}
    deadline = time.monotonic() + _CHECKING
    for session in sessions:
        with suppress(OSError, SessionFormatError):
            late = time.monotonic() > deadline
            check = known_check(session.path) if late else check_journal(session.path, most=_CHECKED)
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
        sources.append(_Source(session, known, damage))
    return sources


def _load_rows(
    connection: duckdb.DuckDBPyConnection, usable: Mapping[SessionInfo, MaterializedPosition | None]
) -> dict[SessionInfo, Screen]:
    """Load the lines of journals after a position, and return what has selected them."""
    waiting: dict[str, list[bytes]] = {}
    screens = {
        str(session.database): Screen() if progress is None else progress.screen()
        for session, progress in usable.items()
    }
    size = 0
    for session, progress in usable.items():
        try:
            for lines, _ in read_rows(session.path, start=START if progress is None else progress.position):
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
    schema.insert_staged(connection, "tail", ", source")


@dataclass(frozen=True, slots=True)
class _SessionFiles:
    """DuckDB files to read: some attached under a name, the others read together by `read_duckdb`.

    Scanning an attached file takes half the time, and no writer can lock it in between; but attaching takes half a
    millisecond, and there may be many sessions. So large files are attached, and those that are being written.
    """

    attached: dict[Path, str]
    others: list[Path]

    def rows(self, file: Path, table: str) -> str:
        """Return SQL for the rows of a table in one of the files."""
        name = self.attached.get(file)
        return _read_duckdb([file], table) if name is None else _attached_rows(file, name, table)

    def only(self, files: Collection[Path]) -> _SessionFiles:
        """Keep those among `files`."""
        attached = {file: name for file, name in self.attached.items() if file in files}
        return _SessionFiles(attached, [file for file in self.others if file in files])


def _attach(files: Iterable[Path], connection: duckdb.DuckDBPyConnection) -> _SessionFiles:
    """Attach large and recently written files, leaving out those that cannot be attached for now."""
    found = _SessionFiles({}, [])
    now = time.time()
    for file in files:
        try:
            status = file.stat()
        except OSError:
            continue  # deleted since it was looked at, or out of reach
        if status.st_size < _LARGE_FILE and now - status.st_mtime > _RECENTLY_WRITTEN:
            found.others.append(file)
            continue
        name = f"file_{len(found.attached)}"
        attach = partial(connection.execute, f"attach {sql_literal(file)} as {name} (read_only)")
        with suppress(duckdb.Error):
            retry_while_busy(attach, seconds=_FILE_BUSY_TIMEOUT)
            found.attached[file] = name
    return found


def _create_hidden(connection: duckdb.DuckDBPyConnection, files: _SessionFiles) -> None:
    connection.execute("create table store.hidden (session_id varchar, first_id bigint, end_id bigint)")
    connection.execute(
        "create table store.hidden_in_branch (session_id varchar, branch_id bigint, first_id bigint, end_id bigint)"
    )
    connection.execute(f"create table store.rewinds as select * from ({_all_rows('rewinds', files)})")  # noqa: S608
    rewinds: dict[str, list[tuple[int, int]]] = {}
    for session_id, rewind_id, before_id in connection.execute(
        "select session_id, id, before_id from store.rewinds where before_id is not null order by id"
    ).fetchall():
        rewinds.setdefault(session_id, []).append((rewind_id, before_id))
    for session_id, entries in rewinds.items():
        for first, end in hidden_ranges(entries):
            connection.execute("insert into store.hidden values ($1, $2, $3)", [session_id, first, end])
        for branch_id, before_id in entries:
            for first, end in hidden_in_branch(entries, branch_id):
                if end > before_id:
                    connection.execute(
                        "insert into store.hidden_in_branch values ($1, $2, $3, $4)",
                        [session_id, branch_id, first, end],
                    )


def _all_rows(table: str, files: _SessionFiles) -> str:
    """Return SQL for all rows of a table: those in the files, up to the positions read, and those of the journals."""
    columns = "session_id, session_name, " + ", ".join(schema.TABLES[table])
    sources = [_attached_rows(file, name, table) for file, name in files.attached.items()]
    if files.others:
        sources.append(_read_duckdb(files.others, table))
    named = "join store.sessions using (filename)"
    parts = [f"select {columns} from {rows} {named} where id <= materialized_id" for rows in sources]  # noqa: S608
    parts.append(f"select {columns} from tail.{table} {named}")  # noqa: S608
    return " union all ".join(parts)


def _attached_rows(file: Path, name: str, table: str) -> str:
    return f"(select *, {sql_literal(file)} as filename from {name}.{table})"  # noqa: S608 - our own names


def _read_duckdb(files: Iterable[Path], table: str) -> str:
    # The list is explicit, because one foreign file fails a whole glob.
    paths = ", ".join(map(sql_literal, files))
    return f"read_duckdb([{paths}], table_name = '{table}', union_by_name = true, filename = true)"

"""SQL over every session in a directory, those that other processes are writing included.

A query gets an in-memory database of its own. Its views read the DuckDB files of all sessions, as far as they were
folded when the query began, and from each journal what came after. A file that is busy, damaged or missing is left
out and its journal read from the beginning, so nothing in the directory can break a query.
"""

from __future__ import annotations

import asyncio
import json
import logging
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
from planck_nb.base.errors import QueryError, SessionFormatError, did_you_mean
from planck_nb.sessions import tables as schema
from planck_nb.sessions.branch import hidden_in_branch, hidden_ranges
from planck_nb.sessions.directory import SessionInfo, list_sessions
from planck_nb.sessions.duckdb import connect, literal, patiently
from planck_nb.sessions.journal import CHUNK
from planck_nb.sessions.materialize import FoldPosition, parse_position
from planck_nb.sessions.segments import START, Position, journal_end, read_rows

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

_log = logging.getLogger(__name__)

VIEWS = ("messages", "sessions", "agents", "turns", "tool_calls", "approvals", "usage", "chapters", "branches")
"""The views that a query sees, documented in this package's README."""

_VIEWS_SQL = Path(__file__).with_name("views.sql")
_PATIENCE = 5.0
_FILE_PATIENCE = 2.0
_INTERRUPT_AGAIN = 0.05
_LARGE = 16 * 1024 * 1024
_LATELY = 60.0
_VIEW = re.compile(r"create view (?:store\.)?(\w+)")

# What only reads. A statement of type SELECT may still hold an INSERT or a COPY in its WITH clause, and these
# functions run a statement from a string.
_READING = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
_INDIRECT = {"query", "json_execute_serialized_sql"}


class Query:
    """One SQL statement over the sessions in `directory`.

    `frames` are values that the statement may use as tables by their names, unless a view has the name: DataFrames of
    pandas or Polars and Arrow tables; the rest of a namespace may be there too. `limit` bounds the number of rows.
    `session` is the id that `getvariable('session')` stands for. With `only` the statement sees no other session.
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
    ) -> None:
        self._directory = directory
        self._sql = sql
        self._frames = {} if frames is None else frames
        self._limit = limit
        self._session = session
        self._only = only
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._interrupted = threading.Event()

    def run(self) -> pd.DataFrame:
        """The result, complete and independent of the files.

        Raises QueryError, and KeyboardInterrupt when Ctrl-C or `interrupt` ended it.
        """
        return self.run_into(_data_frame)

    def run_into(self, into: Callable[[duckdb.DuckDBPyRelation], T]) -> T:
        """Like `run`, as what `into` makes of the result's Arrow stream: `polars.DataFrame`, say, or `pyarrow.table`.

        Unlike pandas these keep integers where some are null.
        """
        try:
            try:
                return patiently(partial(self._attempt, into, trust_files=True), seconds=_PATIENCE)
            except (duckdb.ProgrammingError, duckdb.DataError):
                raise
            except duckdb.Error:
                # A file that opened well may still be damaged inside, or have become busy for good.
                return self._attempt(into, trust_files=False)
        except duckdb.Error as error:
            raise QueryError(self._explain(error)) from error

    def interrupt(self) -> None:
        """End the query, from any thread.

        DuckDB forgets an interrupt that comes just before a statement starts, so it is repeated until the query ends.
        """
        self._interrupted.set()
        connection = self._connection
        if connection is not None:
            connection.interrupt()
            again = threading.Timer(_INTERRUPT_AGAIN, self.interrupt)
            again.daemon = True
            again.start()

    def _attempt(self, into: Callable[[duckdb.DuckDBPyRelation], T], *, trust_files: bool) -> T:
        with closing(connect()) as connection, _keyboard_interrupts():
            self._connection = connection
            try:
                tables = _tables_read(connection, self._sql)
                sessions = list_sessions(self._directory) if self._only is None else [self._only]
                _prepare(connection, sessions, _views_named(self._sql), trust_files=trust_files)
                if self._session is not None:
                    connection.execute(f"set variable session = {literal(self._session)}")
                for name, frame in self._frames_named(tables).items():
                    connection.register(name, frame)
                if self._interrupted.is_set():
                    raise KeyboardInterrupt
                result = connection.sql(self._sql)
                return into(result if self._limit is None else result.limit(self._limit))
            finally:
                self._connection = None

    def _frames_named(self, tables: Iterable[str]) -> dict[str, object]:
        """The frames with these names, one that is spelled alike first: SQL does not tell upper from lower case."""
        usable = {name: frame for name, frame in self._frames.items() if _is_frame(frame)}
        alike = {name.lower(): frame for name, frame in usable.items()}
        found: dict[str, object] = {}
        for table in tables:
            frame = usable.get(table, alike.get(table.lower()))
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
            return "DuckDB reads a Polars frame by way of pyarrow; run `pip install pyarrow`."
        return message


def query(
    directory: Path,
    sql: str,
    *,
    frames: Mapping[str, object] | None = None,
    limit: int | None = None,
    session: str | None = None,
) -> pd.DataFrame:
    """The result of one SELECT over the views of all sessions in the directory; see `Query`. Blocks until it is there.

    Raises QueryError, and KeyboardInterrupt on Ctrl-C, which DuckDB would not notice while it computes in this thread.
    """
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
    """Like `query`, on a thread of its own while the event loop goes on. Cancelling ends the query."""
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
) -> T:
    """Like `query_async`, as what `into` makes of the result; see `Query.run_into`."""
    running = Query(directory, sql, frames=frames, limit=limit, session=session, only=only)
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
    # DuckDB notices Ctrl-C itself and says so with a RuntimeError.
    try:
        yield
    except duckdb.InterruptException as error:
        raise KeyboardInterrupt from error
    except RuntimeError as error:
        if "interrupted" not in str(error):
            raise
        raise KeyboardInterrupt from error


def _tables_read(connection: duckdb.DuckDBPyConnection, sql: str) -> set[str]:
    """The names of the tables that the statement reads, as it has them. Raises QueryError for one that may not run."""
    statements = duckdb.extract_statements(sql)
    if len(statements) != 1:
        raise QueryError(f"A query is one SELECT statement; this has {len(statements)}.")
    if statements[0].type is not duckdb.StatementType.SELECT:
        kind = statements[0].type.name
        hint = " A PIVOT needs its values: PIVOT … ON column IN (…)." if kind == "MULTI" else ""
        raise QueryError(f"Sessions can only be read here: use SELECT instead of {kind}.{hint}")
    serialized = connection.execute("select json_serialize_sql($1)", [sql]).fetchone()
    tree = json.loads(serialized[0]) if serialized else {"error": True}
    if tree["error"]:
        raise QueryError("The statement cannot be checked to only read; write it as a plain SELECT.")
    tables: set[str] = set()
    for node in _nodes(tree["statements"]):
        node_type = node.get("type")
        if isinstance(node_type, str) and node_type.endswith("_NODE") and node_type not in _READING:
            raise QueryError(f"Sessions can only be read here: a WITH clause may not hold {node_type.split('_')[0]}.")
        if node.get("function_name") in _INDIRECT:
            raise QueryError(f"{node['function_name']}() hides what it runs and cannot be used here.")
        if node_type == "BASE_TABLE":
            tables.add(node["table_name"])
    return tables


def _nodes(tree: object) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        for value in tree.values():
            yield from _nodes(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _nodes(value)


def _is_frame(value: object) -> bool:
    package = type(value).__module__.partition(".")[0]
    return package in {"pandas", "polars", "pyarrow"} and hasattr(value, "shape")


@dataclass(frozen=True, slots=True)
class _Source:
    """A session, and how far its DuckDB file can be used; None when it cannot."""

    session: SessionInfo
    progress: FoldPosition | None


def _prepare(
    connection: duckdb.DuckDBPyConnection, sessions: list[SessionInfo], views: str, *, trust_files: bool
) -> None:
    """Make the views over the sessions, as they are at this moment."""
    files = _attach([s.database for s in sessions if s.database.exists()] if trust_files else [], connection)
    progress = _read_progress(connection, files)
    sources = [_Source(session, _usable(progress.get(session.database), session)) for session in sessions]
    files = files.only({source.session.database for source in sources if source.progress is not None})
    connection.execute("create schema store")
    connection.execute(
        "create table store.sessions (session_id varchar, session_name varchar, created timestamp,"
        " filename varchar, folded_id bigint, parent varchar, copied bigint)"
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
    connection.execute("create schema tail")
    schema.create_tables(connection, "tail", ", filename varchar")
    _load_tails(connection, sources)
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
        connection.execute(f"create view store.all_{table} as {_everything(table, files)}")


def _views_named(sql: str) -> str:
    """SQL that makes the views that the statement names, and those they are made of; all where it names none.

    Making one takes as long as a small query, and most queries want one or two.
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


def _read_progress(connection: duckdb.DuckDBPyConnection, files: _SessionFiles) -> dict[Path, FoldPosition]:
    """How far each file is folded; without those that cannot be read for now."""
    found: dict[Path, FoldPosition] = {}
    for file, name in files.attached.items():
        with suppress(duckdb.Error):
            found |= _select_progress(connection, _attached_rows(file, name, "meta"))
    try:
        return found | (_select_progress(connection, _read_duckdb(files.others, "meta")) if files.others else {})
    except duckdb.Error:
        for file in files.others:
            select = partial(_select_progress, connection, _read_duckdb([file], "meta"))
            with suppress(duckdb.Error):
                found |= patiently(select, seconds=_FILE_PATIENCE)
        return found


def _select_progress(connection: duckdb.DuckDBPyConnection, rows: str) -> dict[Path, FoldPosition]:
    meta: dict[Path, dict[str, str]] = {}
    for filename, key, value in connection.execute(f"select filename, key, value from {rows}").fetchall():  # noqa: S608
        meta.setdefault(Path(filename), {})[key] = value
    parsed = {file: parse_position(entries) for file, entries in meta.items()}
    return {file: progress for file, progress in parsed.items() if progress is not None}


def _usable(progress: FoldPosition | None, session: SessionInfo) -> FoldPosition | None:
    if progress is None or progress.session_id != session.id:
        return None
    try:
        written = Position(session.segment, session.path.stat().st_size)
        if progress.position > written:  # the journal may have gone on to a new segment since the directory was read
            written = journal_end(session.path)
    except (OSError, SessionFormatError):
        return None
    return progress if progress.position <= written else None


def _load_tails(connection: duckdb.DuckDBPyConnection, sources: Collection[_Source]) -> None:
    """Load what the journals hold beyond the files."""
    waiting: dict[str, list[bytes]] = {}
    size = 0
    for source in sources:
        start = source.progress.position if source.progress else START
        try:
            for lines, _ in read_rows(source.session.path, start=start):
                waiting.setdefault(str(source.session.database), []).extend(lines)
                size += sum(map(len, lines))
                if size >= CHUNK:
                    _load(connection, waiting)
                    waiting, size = {}, 0
        except FileNotFoundError:  # deleted since the directory was read
            continue
        except SessionFormatError as error:
            if len(sources) == 1:
                raise
            _log.info("the end of %s was left out: %s", source.session.path, error)
    if waiting:
        _load(connection, waiting)


def _load(connection: duckdb.DuckDBPyConnection, lines: Mapping[str, list[bytes]]) -> None:
    schema.stage(connection, lines)
    schema.insert_staged(connection, "tail", ", source")


@dataclass(frozen=True, slots=True)
class _SessionFiles:
    """DuckDB files to read: some by the name that they are attached under, the others in one go.

    A scan of an attached file takes half the time, and no fold comes in between; but attaching takes half a
    millisecond, and there may be many sessions. So large files are attached, and those that are being written.
    """

    attached: dict[Path, str]
    others: list[Path]

    def only(self, files: Collection[Path]) -> _SessionFiles:
        """Those among `files`."""
        attached = {file: name for file, name in self.attached.items() if file in files}
        return _SessionFiles(attached, [file for file in self.others if file in files])


def _attach(files: Iterable[Path], connection: duckdb.DuckDBPyConnection) -> _SessionFiles:
    """Attach what is to be attached, without what cannot be for now."""
    found = _SessionFiles({}, [])
    now = time.time()
    for file in files:
        try:
            status = file.stat()
        except OSError:
            continue  # deleted since it was looked at, or out of reach
        if status.st_size < _LARGE and now - status.st_mtime > _LATELY:
            found.others.append(file)
            continue
        name = f"file_{len(found.attached)}"
        attach = partial(connection.execute, f"attach {literal(file)} as {name} (read_only)")
        with suppress(duckdb.Error):
            patiently(attach, seconds=_FILE_PATIENCE)
            found.attached[file] = name
    return found


def _create_hidden(connection: duckdb.DuckDBPyConnection, files: _SessionFiles) -> None:
    connection.execute("create table store.hidden (session_id varchar, first_id bigint, end_id bigint)")
    connection.execute(
        "create table store.hidden_in_branch (session_id varchar, branch_id bigint, first_id bigint, end_id bigint)"
    )
    connection.execute(f"create table store.rewinds as select * from ({_everything('rewinds', files)})")  # noqa: S608
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


def _everything(table: str, files: _SessionFiles) -> str:
    """SQL for all rows of a table: those in the files, as far as they were folded then, and those in the tails."""
    columns = "session_id, session_name, " + ", ".join(schema.TABLES[table])
    folded = [_attached_rows(file, name, table) for file, name in files.attached.items()]
    if files.others:
        folded.append(_read_duckdb(files.others, table))
    named = "join store.sessions using (filename)"
    parts = [f"select {columns} from {rows} {named} where id <= folded_id" for rows in folded]  # noqa: S608
    parts.append(f"select {columns} from tail.{table} {named}")  # noqa: S608
    return " union all ".join(parts)


def _attached_rows(file: Path, name: str, table: str) -> str:
    return f"(select *, {literal(file)} as filename from {name}.{table})"  # noqa: S608 - our own names


def _read_duckdb(files: Iterable[Path], table: str) -> str:
    # The list is explicit, because one foreign file fails a whole glob.
    paths = ", ".join(map(literal, files))
    return f"read_duckdb([{paths}], table_name = '{table}', union_by_name = true, filename = true)"

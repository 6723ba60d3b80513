"""SQL over every session in a directory, including those that other processes are writing.

Each query has its own in-memory database. Its views read the DuckDB files of all sessions up to the last row that they
had when the query began, and the later rows from the journals. If a file is busy, damaged or missing, its journal is
read from the beginning, so nothing in the directory can break a query.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from planck_nb.base.errors import QueryError, did_you_mean
from planck_nb.base.threads import run_in_thread
from planck_nb.sessions.database.duckdb import create_local_time, retry_while_busy, sql_literal
from planck_nb.sessions.database.first_reading import UnreadSessionsError, read_first
from planck_nb.sessions.database.instance import own_connection, shared_connection
from planck_nb.sessions.database.restricted_sql import check_length, check_tables, restrict
from planck_nb.sessions.database.snapshot import prepare
from planck_nb.sessions.directory import SessionInfo, list_sessions

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

VIEWS = (
    "messages",
    "sessions",
    "agents",
    "team_members",
    "turns",
    "tool_calls",
    "delegations",
    "approvals",
    "charges",
    "usage",
    "chapters",
    "branches",
    "events",
    "replies",
    "map_items",
    "evaluations",
    "scores",
    "score_rates",
)
"""The names of the views that a query can read; README.md describes their columns."""

_VIEWS_SQL = Path(__file__).with_name("views.sql")
_BUSY_TIMEOUT = 5.0
_INTERRUPT_AGAIN = 0.05
_EXPLAIN = re.compile(r"\A\s*explain\s+(?:analyze\s+)?(?=select\b|from\b|with\b)", re.IGNORECASE)
_OPEN_PIVOT = re.compile(
    r"""\A\s*pivot\s+(?P<source>\w+|\(.*\))\s+on\s+(?P<column>\w+|"[^"]+")"""
    r"""(?P<rest>\s+(?:using|group|order|limit)\b.*|\s*;?\s*)\Z""",
    re.IGNORECASE | re.DOTALL,
)
_MOST_PIVOTED = 1000
_ALL_CALLS = "create view store.wanted_calls as select * from store.own_calls"
_VIEW = re.compile(r"create view (?:store\.)?(\w+)")
_SQL_COMMENT = re.compile("--.*")

# A statement of type SELECT may still contain an INSERT or a COPY in its WITH clause, and these functions run a
# statement from a string.
_READ_ONLY_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
_DYNAMIC_SQL = {"query", "json_execute_serialized_sql"}

_ALL_ROWS = ("where_clause", "group_sets", "having", "qualify", "sample")
_CHANGED_STAR = ("replace_list", "columns", "expr")


class Query:
    """One SELECT statement over the sessions in a directory.

    Args:
        directory: The sessions directory.
        sql: One SELECT statement in DuckDB's dialect, over the views in `VIEWS` and the frames.
        frames: DataFrames of pandas or Polars and Arrow tables by the names that the statement uses. Views take
            precedence. Other values are ignored, so a whole namespace can be passed.
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
                try:
                    return retry_while_busy(partial(self._attempt, into, complete=True), seconds=_BUSY_TIMEOUT)
                except UnreadSessionsError as unread:
                    read_first(unread.sessions, self._require_uninterrupted)
                return retry_while_busy(partial(self._attempt, into), seconds=_BUSY_TIMEOUT)
            except (duckdb.ProgrammingError, duckdb.DataError) as error:
                if str(self._directory) not in str(error):
                    raise
                # One of the files has unexpected tables. DuckDB may find that only when it reads the file.
                return self._attempt(into, trust_files=False)
            except duckdb.OutOfMemoryException:
                if self._restricted:
                    raise
                return retry_while_busy(partial(self._attempt, into, unbounded=True), seconds=_BUSY_TIMEOUT)
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

    def _require_uninterrupted(self) -> None:
        if self._interrupted.is_set():
            raise KeyboardInterrupt

    def _attempt(
        self,
        into: Callable[[duckdb.DuckDBPyRelation], T],
        *,
        trust_files: bool = True,
        unbounded: bool = False,
        complete: bool = False,
    ) -> T:
        # A restricted query changes settings of the whole instance, and another one may need more memory than the
        # instance of the process has.
        opened = own_connection if self._restricted or unbounded else shared_connection
        with opened() as query_connection, _keyboard_interrupts():
            connection = self._connection = query_connection.connection
            try:
                # What EXPLAIN describes, and EXPLAIN ANALYZE runs, may only read, too.
                statement = self._sql if self._restricted else _EXPLAIN.sub("", self._sql)
                pivot = _OpenPivot.parse(connection, statement)
                if pivot is not None:
                    _checked_nodes(connection, pivot.values, restricted=self._restricted)
                    statement = pivot.filled([""])
                nodes = _checked_nodes(connection, statement, restricted=self._restricted)
                sessions = list_sessions(self._directory) if self._only is None else [self._only]
                catalogue = self._directory if self._only is None else None
                views = _views_named(self._sql, rows_needed(nodes[0]["node"], "tool_calls"))
                read = prepare(
                    query_connection, sessions, views, trust_files=trust_files, catalogue=catalogue, complete=complete
                )
                if "local" in self._sql.lower():
                    create_local_time(connection)
                if self._session is not None:
                    connection.execute(f"set variable session = {sql_literal(self._session)}")
                for name, frame in self._frames_named(_tables(nodes)).items():
                    connection.register(name, frame)
                if self._restricted:
                    restrict(connection, read)
                self._require_uninterrupted()
                result = connection.sql(self._sql if pivot is None else pivot.filled(pivot.read_values(connection)))
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
            hint = did_you_mean(name, known)
            views = "" if hint.startswith("Known") else f" Views: {', '.join(VIEWS)}."
            return f"There is no table {name!r}. {hint}{views}"
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
    result: Future[pd.DataFrame] = Future()
    thread = threading.Thread(target=_run_for, args=(result, running), name="planck-query", daemon=True)
    try:
        thread.start()  # Ctrl-C may come when the query runs but this has not returned
        return result.result()
    except KeyboardInterrupt:
        _end(running, thread)
        raise


def _run_for(result: Future[pd.DataFrame], running: Query) -> None:
    try:
        result.set_result(running.run())
    except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
        result.set_exception(error)


def _end(running: Query, thread: threading.Thread) -> None:
    """End a query and wait for its thread, however often Ctrl-C is pressed meanwhile."""
    try:
        running.interrupt()
        if thread.ident is not None:
            thread.join()
    except KeyboardInterrupt:
        _end(running, thread)


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


@dataclass(frozen=True, slots=True)
class _OpenPivot:
    """A PIVOT statement without its values, split where they belong.

    DuckDB runs such a statement as several, the first of which creates a type with the values. Here, they are read by a
    SELECT of their own. Both statements are checked to only read, so it does not matter how the text was split.
    """

    head: str
    rest: str
    column: str
    values: str

    @classmethod
    def parse(cls, connection: duckdb.DuckDBPyConnection, sql: str) -> _OpenPivot | None:
        """Split a PIVOT statement; None if the statement is anything else. Raises duckdb.Error if it has an error."""
        match = _OPEN_PIVOT.match(sql)
        if match is None:
            return None
        statements = connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type is not duckdb.StatementType.MULTI:
            return None
        source, column = match["source"], match["column"]
        values = (
            f"select distinct {column}::varchar from {source} where {column} is not null"  # noqa: S608 - checked later
            f" order by 1 limit {_MOST_PIVOTED + 1}"
        )
        return cls(sql[: match.end("column")], match["rest"], column, values)

    def filled(self, values: Iterable[str]) -> str:
        """Return the statement with its values."""
        return f"{self.head} in ({', '.join(map(sql_literal, values))}){self.rest}"

    def read_values(self, connection: duckdb.DuckDBPyConnection) -> list[str]:
        """Read the values. Raises QueryError if there are none or too many."""
        values = [value for (value,) in connection.execute(self.values).fetchall()]
        if not values:
            raise QueryError(f"There is nothing to PIVOT: {self.column} has no values.")
        if len(values) > _MOST_PIVOTED:
            raise QueryError(
                f"{self.column} has more than {_MOST_PIVOTED} values, each of which would be a column; name those that"
                f" you need: PIVOT … ON {self.column} IN (…)."
            )
        return values


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


def _checked_nodes(connection: duckdb.DuckDBPyConnection, sql: str, *, restricted: bool) -> list[dict[str, Any]]:
    """Return the parts of a parsed statement, the whole of it first. Raises QueryError unless it only reads."""
    if restricted:
        check_length(sql)
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise QueryError(f"A query is one SELECT statement; this has {len(statements)} statements.")
    if statements[0].type is not duckdb.StatementType.SELECT:
        kind = statements[0].type.name
        hint = (
            " A PIVOT within another statement, or over an expression, needs its values: PIVOT … ON column IN (…)."
            if kind == "MULTI"
            else ""
        )
        raise QueryError(f"Sessions can only be read here: use SELECT instead of {kind}.{hint}")
    nodes = _nodes(connection, sql)
    if restricted:
        check_tables(nodes[0], VIEWS)
    for node in nodes:
        node_type = node.get("type")
        if isinstance(node_type, str) and node_type.endswith("_NODE") and node_type not in _READ_ONLY_NODES:
            raise QueryError(f"Sessions can only be read here: a WITH clause may not hold {node_type.split('_')[0]}.")
        if node.get("function_name") in _DYNAMIC_SQL:
            raise QueryError(f"{node['function_name']}() hides what it runs and cannot be used here.")
    return nodes


def _tables(nodes: Iterable[dict[str, Any]]) -> set[str]:
    """Return the names of the tables that a statement reads, as written."""
    return {node["table_name"] for node in nodes if node.get("type") == "BASE_TABLE"}


def _nodes(connection: duckdb.DuckDBPyConnection, sql: str) -> list[dict[str, Any]]:
    """Return the parts of a parsed statement. Raises QueryError if there is a kind that DuckDB cannot describe."""
    serialized = connection.execute("select json_serialize_sql($1)", [sql]).fetchone()
    try:
        tree = json.loads(serialized[0]) if serialized else {"error": True}
        if not tree["error"]:
            return list(_walk(tree["statements"]))
    except RecursionError:
        raise QueryError("The statement is nested too deeply; write it with fewer levels.") from None
    raise QueryError("It is unclear whether the statement only reads; write it as a plain SELECT.")


def _walk(tree: object) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        for value in tree.values():
            yield from _walk(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _walk(value)


def _is_frame(value: object) -> bool:
    packages = {base.__module__.partition(".")[0] for base in type(value).__mro__}
    return not packages.isdisjoint({"pandas", "polars", "pyarrow"}) and hasattr(value, "shape")


def _views_named(sql: str, calls: int | None) -> str:
    """Return SQL that creates the views that the statement names, and those they use; all if it names none.

    Creating a view takes as long as a small query, and most queries use one or two. `calls` is how many rows of
    `tool_calls` the statement needs; None for all.
    """
    written = _VIEWS_SQL.read_text(encoding="utf-8")
    if calls is not None:
        written = written.replace(_ALL_CALLS, f"{_ALL_CALLS} limit {calls:d}")
    statements = re.split(r"^(?=create )", written, flags=re.MULTILINE)
    chosen: list[str] = []
    words = set(re.findall(r"\w+", sql.lower()))
    if words.isdisjoint(VIEWS):
        words.update(VIEWS)
    for statement in reversed(statements):  # each is made of earlier ones
        view = _VIEW.match(statement)
        if view is None or view[1] in words:
            chosen.append(statement)
            words.update(re.findall(r"\w+", _SQL_COMMENT.sub("", statement)))
    return "".join(reversed(chosen))


def rows_needed(select: dict[str, Any], view: str) -> int | None:
    """Return the highest number of rows of a view that a statement needs.

    Args:
        select: The parsed statement, as DuckDB's `json_serialize_sql` describes it.
        view: The name of the view.

    Returns:
        The sum of limit and offset for `SELECT columns FROM view LIMIT number OFFSET number`. None for every other
        statement: an order, a condition or a function may need all rows.
    """
    source, modifiers = select.get("from_table") or {}, select.get("modifiers") or []
    if source.get("type") != "BASE_TABLE" or source["table_name"].lower() != view or source.get("sample"):
        return None
    if any(select.get(part) for part in _ALL_ROWS) or select.get("aggregate_handling") != "STANDARD_HANDLING":
        return None
    if select["cte_map"]["map"]:  # may read the view, too
        return None
    if not all(map(_is_column, select["select_list"])):
        return None
    if [(modifier.get("type"), modifier.get("limit_type")) for modifier in modifiers] != [
        ("LIMIT_MODIFIER", "ROW_COUNT")
    ]:
        return None
    limit, offset = modifiers[0].get("limit"), modifiers[0].get("offset")
    counts = [_constant(expression) for expression in (limit, offset) if expression is not None]
    return None if limit is None or None in counts else sum(filter(None, counts))


def _is_column(expression: dict[str, Any]) -> bool:
    if expression["class"] == "STAR":
        return not any(expression.get(part) for part in _CHANGED_STAR)
    return bool(expression["class"] == "COLUMN_REF")


def _constant(expression: dict[str, Any]) -> int | None:
    literal = expression.get("literal") or {}
    return int(literal["text"]) if literal.get("kind") == "INTEGER" and literal["text"].isdecimal() else None

"""Parts of a long conversation, read without what lies before them.

What is wanted is nearly always at the end of the journal, where it is found without DuckDB, whose mere connecting takes
longer. Failing that, what is folded comes from the session's DuckDB file, the rest from its journal. A file that is
busy, damaged or missing is done without: the journal has everything.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import duckdb

from planck_nb.ai.messages import Message, decode_message
from planck_nb.base.json_types import JsonObject
from planck_nb.sessions import codec
from planck_nb.sessions.branch import HiddenRange, hidden_ranges, is_hidden
from planck_nb.sessions.directory import SessionInfo
from planck_nb.sessions.duckdb import connect, literal, patiently
from planck_nb.sessions.materialize import parse_position
from planck_nb.sessions.segments import START, Position, read_last_lines, read_rows

T = TypeVar("T")

_PATIENCE = 0.5
_NO_END = 2**62
_GAP = 1000
_NEAR = 10_000
_LAST_BYTES = (128 * 1024, 1024 * 1024)
_SUMMARY = b'"role":"summary"'


@dataclass(frozen=True, slots=True)
class Row:
    """A stored message. `inserted_at` is in UTC."""

    db_id: int
    agent_id: str
    message: Message
    inserted_at: datetime


class Page(NamedTuple):
    """A chapter of a conversation, and the id of the summary it begins with; None where it begins at the beginning."""

    rows: list[Row]
    checkpoint_id: int | None


def row_of(record: JsonObject) -> Row:
    """The row of a decoded journal line of kind "message"."""
    written = datetime.fromisoformat(record["ts"])
    return Row(record["id"], record["agent_id"], codec.message_of(record), written)


class Pager:
    """Reads chapters of one session. May be used from any thread; `end` is how far the journal is to be read."""

    def __init__(self, session: SessionInfo) -> None:
        self._session = session
        self._turn = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None

    def chapter(self, before: int | None, agent_id: str | None, *, end: Position) -> Page:
        """The messages from the latest summary before the id `before` up to that id; None stands for the end.

        With `agent_id` only that agent's messages and summaries count.
        """

        def read(moment: _Moment) -> Page:
            stop = _NO_END if before is None else before
            checkpoint = moment.latest_summary(stop, agent_id)
            return Page(moment.rows(checkpoint or 0, stop, agent_id), checkpoint)

        return self._at(end, read, agent_id)

    def conversation(self, agent_id: str, *, end: Position) -> list[Row]:
        """What a model is still sent of the agent's messages, oldest first.

        That is the latest summary, the messages that it keeps, and all after it; everything without one.
        """

        def read(moment: _Moment) -> list[Row]:
            checkpoint = moment.latest_summary(_NO_END, agent_id)
            rows = moment.rows(checkpoint or 0, _NO_END, agent_id)
            if not rows or rows[0].message.type != "summary":
                return rows
            kept = set(rows[0].message.kept)
            earlier = [
                row
                for first, last in _runs(kept)
                for row in moment.rows(first, min(last + 1, rows[0].db_id), agent_id)
                if row.db_id in kept
            ]
            return earlier + rows

        return self._at(end, read, agent_id)

    def metadata(self, *, end: Position) -> JsonObject:
        """What was saved beside the conversation, the latest value of each key."""
        merged: JsonObject = {}
        for data in self._at(end, lambda moment: moment.metadata()):
            merged |= data
        return merged

    def close(self) -> None:
        """Let go of DuckDB."""
        with self._turn:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _at(self, end: Position, read: Callable[[_Moment], T], agent_id: str | None = None) -> T:
        for size in _LAST_BYTES:
            with suppress(_TooFarBackError):
                return read(_last_moment(self._session, end, size, agent_id))
        try:
            with self._turn, self._attached() as connection:
                return read(_whole_moment(self._session, end, connection, agent_id))
        except (duckdb.Error, _UnreadablePageError):
            return read(_whole_moment(self._session, end, None, agent_id))

    @contextmanager
    def _attached(self) -> Iterator[duckdb.DuckDBPyConnection]:
        if not self._session.database.exists():
            raise _UnreadablePageError
        if self._connection is None:
            # One thread is enough for a few rows, and connecting takes longer than reading them.
            self._connection = connect(threads=1)
        connection = self._connection
        attach = f"attach {literal(self._session.database)} as file (read_only)"
        patiently(partial(connection.execute, attach), seconds=_PATIENCE)
        try:
            yield connection
        finally:
            connection.execute("detach file")


def _runs(ids: Iterable[int]) -> list[tuple[int, int]]:
    """Ranges, ends included, that hold all ids and no long stretch without one.

    DuckDB finds a range by its statistics, but looks for scattered ids in the whole table.
    """
    runs: list[tuple[int, int]] = []
    for number in sorted(ids):
        if runs and number - runs[-1][1] <= _GAP:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


class _UnreadablePageError(Exception):
    """The file is missing, or no fold of this journal."""


class _TooFarBackError(Exception):
    """What is looked for is not among the last lines of the journal."""


def _last_moment(session: SessionInfo, end: Position, size: int, agent_id: str | None) -> _Moment:
    """The session as far as its last bytes before `end` tell. Raises _TooFarBackError where they tell nothing."""
    lines, complete = read_last_lines(session.path, end, size)
    if complete:
        return _Moment(_parse(lines, agent_id))
    first = next((record["id"] for record in map(codec.parse_line, lines) if record is not None), None)
    if first is None or not any(_SUMMARY in line for line in lines):
        raise _TooFarBackError
    return _Moment(_parse(lines, agent_id), known_from=first)


def _whole_moment(
    session: SessionInfo, end: Position, connection: duckdb.DuckDBPyConnection | None, agent_id: str | None
) -> _Moment:
    """The session as far as `end`, through the attached file, or through the journal alone."""
    start, folded_id = START, 0
    if connection is not None:
        progress = parse_position(dict(connection.execute("select key, value from file.meta").fetchall()))
        if progress is None or progress.session_id != session.id or progress.position > end:
            raise _UnreadablePageError
        start, folded_id = progress.position, progress.last_id
    lines = (line for lines, _ in read_rows(session.path, start=start, end=end) for line in lines)
    return _Moment(_parse(lines, agent_id), connection=connection, folded_id=folded_id)


def _parse(lines: Iterable[bytes], agent_id: str | None) -> list[JsonObject]:
    """The rows that the lines stand for. With `agent_id` what is only about other agents may be missing."""
    if agent_id is not None and agent_id.isascii() and agent_id.isalnum():
        # Reading JSON takes a hundred times as long, and where there are many agents most lines are of others.
        mine = agent_id.encode()
        lines = (line for line in lines if mine in line or b"rewind" in line)
    return [record for record in map(codec.parse_line, lines) if record is not None]


class _Moment:
    """The session at one moment: what the attached file holds, up to the row `folded_id`, then the rows in `tail`.

    Without a connection the tail is everything from the id `known_from` on, and asking for what lies before raises
    _TooFarBackError. What was taken back there is known all the same, since a rewind comes after what it takes back.
    """

    def __init__(
        self,
        tail: list[JsonObject],
        *,
        known_from: int = 0,
        connection: duckdb.DuckDBPyConnection | None = None,
        folded_id: int = 0,
    ) -> None:
        self._tail = tail
        self._known_from = known_from
        self._connection = connection
        self._folded_id = folded_id

    @cached_property
    def hidden(self) -> list[HiddenRange]:
        """What was taken back."""
        rewinds = [(record["id"], record["before_id"]) for record in self._tail if record["kind"] == "rewind"]
        return hidden_ranges([*self._folded("select id, before_id from file.rewinds order by id"), *rewinds])

    def latest_summary(self, before: int, agent_id: str | None) -> int | None:
        """The id of the last summary before an id, of all agents or of one; None where there is none."""
        for record in reversed(self._tail):
            if self._counts(record, 0, before, agent_id) and record["role"] == "summary":
                return int(record["id"])
        self._require(0)
        # The latest is nearly always near the end, where a range of ids finds it without a look at the whole table.
        near = min(before, self._folded_id + 1) - _NEAR
        return self._folded_summary(near, before, agent_id) or self._folded_summary(0, near, agent_id)

    def _folded_summary(self, first: int, before: int, agent_id: str | None) -> int | None:
        found = self._folded(
            "select max(id) from file.messages where role = 'summary' and id >= $1 and id < $2"  # noqa: S608 - our own
            f" and ($3 is null or agent_id = $3) {self._visible}",
            first,
            before,
            agent_id,
        )
        return found[0][0] if found else None

    def rows(self, first: int, before: int, agent_id: str | None) -> list[Row]:
        """The messages from one id, included, to another, excluded."""
        self._require(first)
        folded = self._folded(
            "select id, agent_id, ts, data from file.messages where id >= $1 and id < $2"  # noqa: S608 - as above
            f" and ($3 is null or agent_id = $3) {self._visible} order by id",
            first,
            before,
            agent_id,
        )
        rows = [
            Row(row_id, agent, decode_message(json.loads(data)), ts.replace(tzinfo=UTC))
            for row_id, agent, ts, data in folded
        ]
        rows.extend(row_of(record) for record in self._tail if self._counts(record, first, before, agent_id))
        return rows

    def metadata(self) -> list[JsonObject]:
        """What was saved, in order."""
        self._require(0)
        folded = [json.loads(data) for (data,) in self._folded("select data from file.metadata order by id")]
        return folded + [record["data"] for record in self._tail if record["kind"] == "metadata"]

    def _require(self, first: int) -> None:
        if max(first, 0) < self._known_from:
            raise _TooFarBackError

    def _counts(self, record: JsonObject, first: int, before: int, agent_id: str | None) -> bool:
        return (
            record["kind"] == "message"
            and first <= record["id"] < before
            and agent_id in {None, record["agent_id"]}
            and not is_hidden(record["id"], self.hidden)
        )

    @cached_property
    def _visible(self) -> str:
        return " ".join(f"and not (id >= {first} and id < {end})" for first, end in self.hidden)

    def _folded(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        if self._connection is None:
            return []
        return self._connection.execute(sql, list(values)).fetchall()

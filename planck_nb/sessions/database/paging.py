"""Reads parts of a long conversation without reading what comes before them.

The part is nearly always at the end of the journal and is read from there, because attaching a DuckDB file alone takes
longer. Otherwise rows come from the session's DuckDB file, and those that are not in it yet from the journal. If the
file is busy, damaged or missing, the whole journal is read instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import filterfalse
from typing import Any, NamedTuple, TypeVar

import duckdb

from planck_nb.ai.messages import Message, decode_message
from planck_nb.base.json_types import JsonObject
from planck_nb.sessions.database import tables
from planck_nb.sessions.database.database_match import is_made_from, parse_position, read_meta
from planck_nb.sessions.database.duckdb import idle_connection, require_tables, retry_while_busy, sql_literal
from planck_nb.sessions.database.materialize import materialize_unused
from planck_nb.sessions.directory import SessionInfo
from planck_nb.sessions.journal import codec
from planck_nb.sessions.journal.branch import HiddenRange, hidden_ranges, is_hidden
from planck_nb.sessions.journal.journal_check import known_check
from planck_nb.sessions.journal.records import read_records, sorted_records
from planck_nb.sessions.journal.screening import DisorderError, in_order
from planck_nb.sessions.journal.segments import START, Position, read_last_lines, read_rows

T = TypeVar("T")

_BUSY_TIMEOUT = 0.5
_MUCH = 1024 * 1024
_NO_END = 2**62
_MAX_GAP = 1000
_RECENT_IDS = 10_000
_FEW_RANGES = 16
LAST_BYTES = (128 * 1024, 1024 * 1024)
_EVENT = re.compile(rb'\{"v":1,"id":[1-9]\d*,"kind":"event"')
_SUMMARY = b'"role":"summary"'
FEW_AGENTS = 4


@dataclass(frozen=True, slots=True)
class Row:
    """A stored message.

    Args:
        db_id: The id of the message, ascending in the session.
        agent_id: The agent whose conversation it is part of.
        message: The message itself.
        inserted_at: When it was complete, in UTC.
    """

    db_id: int
    agent_id: str
    message: Message
    inserted_at: datetime


class Page(NamedTuple):
    """A chapter of a conversation: a summary and the messages up to the next one.

    Args:
        rows: The messages, oldest first.
        checkpoint_id: The id of the summary, which is the first row; None in the chapter before the first summary.
    """

    rows: list[Row]
    checkpoint_id: int | None


def rows_of(records: Iterable[JsonObject]) -> list[Row]:
    """Make rows from decoded journal lines of kind "message", leaving out messages that cannot be decoded."""
    rows: list[Row] = []
    for record in records:
        if record["kind"] == "message":
            with suppress(ValueError, RecursionError):  # as `codec.is_readable`, which is counted as damage
                message = codec.message_of(record)
                rows.append(Row(record["id"], record["agent_id"], message, datetime.fromisoformat(record["ts"])))
    return rows


class Pager:
    """Reads chapters of one session, as far as the position `end` in the journal. May be used from any thread.

    Args:
        session: The session.
        last_bytes: Sizes of the journal's end to try in turn before the DuckDB file is attached.
        few_agents: The most agents whose conversations are read one by one, each from the journal's end if possible.
    """

    def __init__(
        self, session: SessionInfo, *, last_bytes: Sequence[int] = LAST_BYTES, few_agents: int = FEW_AGENTS
    ) -> None:
        self.session = session
        """The session, whose folder may be moved."""
        self._last_bytes = last_bytes
        self._few_agents = few_agents

    def chapter(self, before: int | None, agent_id: str | None, *, end: Position) -> Page:
        """Read the messages from the latest summary before the id `before` up to that id; None stands for the end.

        With `agent_id`, only that agent's messages and summaries are read.
        """

        def read(snapshot: _Snapshot) -> Page:
            stop = _NO_END if before is None else before
            checkpoint = snapshot.latest_summary(stop, agent_id)
            return Page(snapshot.rows(checkpoint or 0, stop, agent_id), checkpoint)

        return self._read(end, read, agent_id)

    def conversation(self, agent_id: str, *, end: Position) -> list[Row]:
        """Read those messages of an agent that a model is still sent, oldest first.

        These are the latest summary, the messages that it keeps, and all after it; all messages without a summary.
        """
        return self._read(end, lambda snapshot: snapshot.conversation(agent_id), agent_id)

    def conversations(self, agent_ids: AbstractSet[str], *, end: Position) -> dict[str, list[Row]]:
        """Read what `conversation` returns for each of several agents, in one pass over the session."""
        if len(agent_ids) <= self._few_agents:
            return {agent_id: self.conversation(agent_id, end=end) for agent_id in agent_ids}
        return self._read(end, lambda snapshot: snapshot.conversations(agent_ids))

    def metadata(self, *, end: Position) -> JsonObject:
        """Read the session's metadata: the latest value of each key."""
        merged: JsonObject = {}
        for _, data in self.metadata_rows(end=end):
            merged |= data
        return merged

    def metadata_rows(self, *, end: Position) -> list[tuple[int, JsonObject]]:
        """Read all saved metadata in order, with the ids of its rows."""
        return self._read(end, lambda snapshot: snapshot.metadata())

    def _read(self, end: Position, read: Callable[[_Snapshot], T], agent_id: str | None = None) -> T:
        try:
            for size in self._last_bytes:
                with suppress(_TooFarBackError):
                    return read(_tail_snapshot(self.session, end, size, agent_id))
            for _ in range(2):
                with suppress(duckdb.Error, _UnusableFileError), self._attached() as connection:
                    return read(_full_snapshot(self.session, end, connection, agent_id))
                if end.offset < _MUCH or not materialize_unused(self.session):
                    break
            return read(_full_snapshot(self.session, end, None, agent_id))
        except DisorderError:
            return read(_Snapshot(sorted_records(read_records(self.session.path, end=end))))

    @contextmanager
    def _attached(self) -> Iterator[duckdb.DuckDBPyConnection]:
        if not self.session.database.exists():
            raise _UnusableFileError
        with idle_connection() as connection:
            attach = f"attach {sql_literal(self.session.database)} as file (read_only)"
            retry_while_busy(partial(connection.execute, attach), seconds=_BUSY_TIMEOUT)
            yield connection
            connection.execute("detach file")


def _id_ranges(ids: Iterable[int]) -> list[tuple[int, int]]:
    """Group ids into ranges, ends included, without long gaps.

    DuckDB finds a range by its statistics, but scans the whole table for scattered ids.
    """
    ranges: list[tuple[int, int]] = []
    for number in sorted(ids):
        if ranges and number - ranges[-1][1] <= _MAX_GAP:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges


class _UnusableFileError(Exception):
    """The DuckDB file is missing, or was not made from this journal."""


class _TooFarBackError(Exception):
    """The rows to read begin before the last lines of the journal."""


def _tail_snapshot(session: SessionInfo, end: Position, size: int, agent_id: str | None) -> _Snapshot:
    """Read the last `size` bytes before `end`. Raises _TooFarBackError if they hold no summary and are not all."""
    lines, complete = read_last_lines(session.path, end, size)
    lines = list(in_order(lines))
    if complete:
        return _Snapshot(_parse(lines, agent_id))
    known = known_check(session.path)
    if known is not None and not known.ascending:
        raise DisorderError
    records = (record for record in map(codec.parse_line, lines) if record is not None)
    # The first line of a segment has the id of the last row before it, which is not among these lines.
    first = next((record["id"] for record in records if record["kind"] != "session"), None)
    if first is None or not any(_SUMMARY in line for line in lines):
        raise _TooFarBackError
    return _Snapshot(_parse(lines, agent_id), known_from=first)


def _full_snapshot(
    session: SessionInfo, end: Position, connection: duckdb.DuckDBPyConnection | None, agent_id: str | None
) -> _Snapshot:
    """Read the session as far as `end`: with the attached file, or from the journal alone."""
    start, materialized_id = START, 0
    if connection is not None:
        require_tables(connection, "file", tables.STORED)
        progress = parse_position(read_meta(connection, "file"))
        if progress is None or progress.session_id != session.id or progress.position > end:
            raise _UnusableFileError
        if not progress.agrees(known_check(session.path)):
            raise _UnusableFileError
        if not is_made_from(session.path, progress):
            raise _UnusableFileError
        start, materialized_id = progress.position, progress.last_id
    lines = (line for lines, _ in read_rows(session.path, start=start, end=end) for line in lines)
    return _Snapshot(
        _parse(in_order(lines, after=materialized_id), agent_id), connection=connection, materialized_id=materialized_id
    )


def _parse(lines: Iterable[bytes], agent_id: str | None) -> list[JsonObject]:
    """Decode journal lines; with `agent_id`, lines of other agents may be left out."""
    if agent_id is not None and agent_id.isascii() and agent_id.isalnum():
        # Parsing takes a hundred times as long, and with many agents most lines belong to others.
        encoded = agent_id.encode()
        lines = (line for line in lines if encoded in line or b"rewind" in line)
    # Events are most lines and in no conversation.
    return [record for record in map(codec.parse_line, filterfalse(_EVENT.match, lines)) if record is not None]


def _is_summary(data: JsonObject) -> bool:
    return data.get("type") == "summary" and codec.is_readable({"kind": "message", "data": data})


class _Snapshot:
    """A session at one moment: the attached file up to the row `materialized_id`, then the rows in `tail`.

    Without a connection, the tail is everything from the id `known_from` on, and reading what comes before raises
    _TooFarBackError. The hidden ranges are complete anyway, because a rewind comes after the rows that it hides.
    """

    def __init__(
        self,
        tail: list[JsonObject],
        *,
        known_from: int = 0,
        connection: duckdb.DuckDBPyConnection | None = None,
        materialized_id: int = 0,
    ) -> None:
        self._tail = tail
        self._known_from = known_from
        self._connection = connection
        self._materialized_id = materialized_id

    @cached_property
    def hidden(self) -> list[HiddenRange]:
        """The ids that were hidden by rewinds."""
        rewinds = [(record["id"], record["before_id"]) for record in self._tail if record["kind"] == "rewind"]
        return hidden_ranges([*self._select("select id, before_id from file.rewinds order by id"), *rewinds])

    def latest_summary(self, before: int, agent_id: str | None) -> int | None:
        """Return the id of the last summary before an id, of all agents or of one; None if there is none."""
        for record in reversed(self._tail):
            matches = record["kind"] == "message" and record.get("role") == "summary"
            if matches and self._matches(record, 0, before, agent_id) and _is_summary(record["data"]):
                return int(record["id"])
        self._require_from(0)
        # The latest is nearly always near the end, where a range of ids finds it without a scan of the whole table.
        recent = min(before, self._materialized_id + 1) - _RECENT_IDS
        return self._materialized_summary(recent, before, agent_id) or self._materialized_summary(0, recent, agent_id)

    def _materialized_summary(self, first: int, before: int, agent_id: str | None) -> int | None:
        ids = self._select(
            "select id from file.messages"
            " where role = 'summary' and id >= $1 and id < $2 and ($3 is null or agent_id = $3) order by id desc",
            first,
            before,
            agent_id,
        )
        for (row_id,) in ids:
            if not is_hidden(row_id, self.hidden):
                found = self._select("select data from file.messages where id = $1 and role = 'summary'", row_id)
                if found and _is_summary(json.loads(found[0][0])):
                    return int(row_id)
        return None

    def rows(self, first: int, before: int, agent_id: str | None) -> list[Row]:
        """Read the messages from one id, included, to another, excluded."""
        self._require_from(first)
        stored = self._select(
            "select id, agent_id, ts, data from file.messages where id >= $1 and id < $2"  # noqa: S608 - our own
            f" and ($3 is null or agent_id = $3) {self._visible(first, before)} order by id",
            first,
            before,
            agent_id,
        )
        rows = self._decoded(stored)
        rows += rows_of(record for record in self._tail if self._matches(record, first, before, agent_id))
        return rows

    def _decoded(self, stored: Iterable[tuple[int, str, datetime, str]]) -> list[Row]:
        """Make rows from the stored ones that are visible and can be decoded."""
        rows: list[Row] = []
        for row_id, agent, ts, data in stored:
            if is_hidden(row_id, self.hidden):
                continue
            with suppress(ValueError, RecursionError):
                rows.append(Row(row_id, agent, decode_message(json.loads(data)), ts.replace(tzinfo=UTC)))
        return rows

    def conversation(self, agent_id: str) -> list[Row]:
        """Read those messages of an agent that a model is still sent."""
        checkpoint = self.latest_summary(_NO_END, agent_id)
        rows = self.rows(checkpoint or 0, _NO_END, agent_id)
        if not rows or rows[0].message.type != "summary":
            return rows
        kept = set(rows[0].message.kept)
        earlier = [
            row
            for first, last in _id_ranges(kept)
            for row in self.rows(first, min(last + 1, rows[0].db_id), agent_id)
            if row.db_id in kept
        ]
        return earlier + rows

    def conversations(self, agent_ids: AbstractSet[str]) -> dict[str, list[Row]]:
        """Read those messages of several agents that a model is still sent; each table is read once for all."""
        begins = self._latest_summaries(agent_ids)
        if len(begins) < len(agent_ids):
            self._require_from(0)
        found: dict[str, list[Row]] = {agent_id: [] for agent_id in agent_ids}
        for row in self._rows_since({agent_id: begins.get(agent_id, 0) for agent_id in agent_ids}):
            found[row.agent_id].append(row)
        kept: set[tuple[int, str]] = set()
        for agent_id, begin in begins.items():
            rows = found[agent_id]
            if not rows or rows[0].db_id != begin or rows[0].message.type != "summary":
                found[agent_id] = self.conversation(agent_id)  # what looks like its latest summary cannot be decoded
                continue
            kept.update((row_id, agent_id) for row_id in rows[0].message.kept if row_id < begin)
        earlier: dict[str, list[Row]] = {}
        for first, last in _id_ranges({row_id for row_id, _ in kept}):
            for row in self.rows(first, last + 1, None):
                if (row.db_id, row.agent_id) in kept:
                    earlier.setdefault(row.agent_id, []).append(row)
        return {agent_id: earlier.get(agent_id, []) + rows for agent_id, rows in found.items()}

    def _latest_summaries(self, agent_ids: AbstractSet[str]) -> dict[str, int]:
        """Return the id of the last row of each agent that is stored as a summary, by agent, as far as there is one."""
        found: dict[str, int] = {}

        def add(row_id: int, agent_id: str) -> None:
            if agent_id in agent_ids and agent_id not in found and not is_hidden(row_id, self.hidden):
                found[agent_id] = row_id

        for record in reversed(self._tail):
            if record["kind"] == "message" and record.get("role") == "summary":
                add(int(record["id"]), record["agent_id"])
        for row_id, agent_id in self._select(
            "select id, agent_id from file.messages where role = 'summary' order by id desc"
        ):
            add(row_id, agent_id)
        return found

    def _rows_since(self, begins: Mapping[str, int]) -> list[Row]:
        """Read the messages of several agents, each from its own id on."""
        first = min(begins.values())
        stored = self._select(
            "select id, agent_id, ts, data from file.messages"  # noqa: S608 - our own
            " join (select unnest($1::varchar[]) as agent_id, unnest($2::bigint[]) as begin) using (agent_id)"
            f" where id >= begin and id >= {first:d} {self._visible(first, _NO_END)} order by id",
            list(begins),
            list(begins.values()),
        )
        rows = self._decoded(stored)
        rows += rows_of(
            record
            for record in self._tail
            if self._matches(record, begins.get(str(record.get("agent_id")), _NO_END), _NO_END, None)
        )
        return rows

    def metadata(self) -> list[tuple[int, JsonObject]]:
        """Read all saved metadata in order, with the ids of its rows."""
        self._require_from(0)
        stored = self._select("select id, data from file.metadata order by id")
        tail = [(record["id"], record["data"]) for record in self._tail if record["kind"] == "metadata"]
        return [(row_id, json.loads(data)) for row_id, data in stored] + tail

    def _require_from(self, first: int) -> None:
        if max(first, 0) < self._known_from:
            raise _TooFarBackError

    def _matches(self, record: JsonObject, first: int, before: int, agent_id: str | None) -> bool:
        return (
            record["kind"] == "message"
            and first <= record["id"] < before
            and agent_id in {None, record["agent_id"]}
            and not is_hidden(record["id"], self.hidden)
        )

    def _visible(self, first: int, before: int) -> str:
        """Return SQL that leaves out hidden rows in a range of ids, as far as that is faster than reading them."""
        ranges = [(start, end) for start, end in self.hidden if start < before and end > first]
        ranges = sorted(ranges, key=lambda ends: ends[0] - ends[1])[:_FEW_RANGES]
        return " ".join(f"and not (id >= {start} and id < {end})" for start, end in ranges)

    def _select(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        if self._connection is None:
            return []
        return self._connection.execute(sql, list(values)).fetchall()

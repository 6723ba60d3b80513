"""Reads the rows of a journal as JSON objects."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from pathlib import Path

from planck_nb.base.json_types import JsonObject
from planck_nb.sessions.journal import codec
from planck_nb.sessions.journal.branch import hidden_ranges, membership
from planck_nb.sessions.journal.screening import ROWS, Screen, usual_id
from planck_nb.sessions.journal.segments import Position, journal_end, read_rows

_log = logging.getLogger(__name__)

_LAST_LINES = 64


def read_records(journal: Path, *, end: Position | None = None) -> Iterator[JsonObject]:
    """Yield all rows of a journal as stored, hidden ones included; without `end`, up to its end at this moment.

    A damaged line is skipped and logged, as is a row with the id of an earlier one. Raises SessionFormatError for a
    line of a newer version.
    """
    screen = Screen()
    for lines, _ in read_rows(journal, end=end):
        for line, record in screen.records(lines):
            if record is None:
                _log_skipped(journal, line)
            else:
                codec.check_version(record)
                yield record


def sorted_records(records: Iterable[JsonObject]) -> list[JsonObject]:
    """Sort rows by their ids, the order that counts; damaged journals may have another."""
    return sorted(records, key=itemgetter("id"))


class OrderedRows:
    """A journal's rows in the order of their ids, never kept.

    A first pass, which decodes little, finds the rewinds. Only a journal which is out of order, and so damaged, is kept
    in memory, as lines.

    Args:
        journal: The journal.
        end: The position to which it is read; None for its end at this moment.

    Raises:
        OSError: It cannot be read.
        SessionFormatError: It has a line of a newer version.
    """

    def __init__(self, journal: Path, *, end: Position | None = None) -> None:
        self._journal = journal
        self._end = journal_end(journal) if end is None else end
        self._sorted: list[bytes] | None = None
        self.rewinds: list[JsonObject] = []
        """All rewinds, in order."""
        if not self._find_rewinds():
            records = sorted_records(record for record in read_records(journal, end=self._end))
            self._sorted = [codec.encode_record(record) for record in records]
            self.rewinds = [record for record in records if record["kind"] == "rewind"]
        self._hides = membership(hidden_ranges((row["id"], row["before_id"]) for row in self.rewinds))

    def visible(self, *, before: int | None = None) -> Iterator[tuple[bytes, JsonObject]]:
        """Yield what no rewind hides, each row as a line and decoded.

        This is all metadata, and the visible messages and events.

        Args:
            before: The id of the first message or event to leave out; None for all.
        """
        hides = self._hides
        for line, record in self.select(lambda row_id: not hides(row_id) and (before is None or row_id < before)):
            is_wanted = record["kind"] in {"message", "event"} and not hides(record["id"])
            if record["kind"] == "metadata" or (is_wanted and (before is None or record["id"] < before)):
                yield line, record

    def last_visible_id(self, *, before: int | None = None) -> int:
        """Return the last id from `visible`, or 0."""
        hides = self._hides
        wanted = self._lines(lambda row_id: not hides(row_id) and (before is None or row_id < before))
        last = deque(wanted, maxlen=_LAST_LINES)
        for line in reversed(last):
            record = codec.parse_line(line)
            if record is None or record["kind"] not in {"message", "event", "metadata"}:
                continue
            shown = not hides(record["id"]) and (before is None or record["id"] < before)
            if record["kind"] == "metadata" or shown:
                return int(record["id"])
        if len(last) < _LAST_LINES:
            return 0
        return max((record["id"] for _, record in self.visible(before=before)), default=0)

    def select(self, is_wanted: Callable[[int], bool]) -> Iterator[tuple[bytes, JsonObject]]:
        """Yield some rows, each as a line and decoded.

        Most messages and events with other ids are not decoded.

        Args:
            is_wanted: Called with the id of a message or an event. Other rows are always yielded.
        """
        for line in self._lines(is_wanted):
            record = codec.parse_usual_line(line) if usual_id(line) else None
            if record is not None:
                yield line, record
            elif (record := codec.parse_line(line)) is None:
                if not line.isspace():
                    _log_skipped(self._journal, line)
            else:
                yield codec.encode_record(record), record

    def _lines(self, is_wanted: Callable[[int], bool]) -> Iterator[bytes]:
        if self._sorted is not None:
            yield from self._sorted
            return
        for lines, _ in read_rows(self._journal, end=self._end):
            yield from (line for line in lines if not (row_id := usual_id(line)) or is_wanted(row_id))

    def _find_rewinds(self) -> bool:
        """Read the rewinds.

        The result is False if the journal is out of order or a row is there twice.
        """
        highest = 0
        for lines, _ in read_rows(self._journal, end=self._end):
            for line in lines:
                row_id = usual_id(line)
                if not row_id:
                    record = codec.parse_line(line)
                    if record is None:
                        continue
                    codec.check_version(record)
                    if record.get("kind") not in ROWS:
                        continue
                    row_id = record["id"]
                    if record["kind"] == "rewind":
                        self.rewinds.append(record)
                if row_id <= highest:
                    return False
                highest = row_id
        return True


def _log_skipped(journal: Path, line: bytes) -> None:
    _log.info("a damaged line of %s, or one with the id of an earlier row, is skipped: %.60r…", journal, line)

"""Selects the rows of a journal that count, for all readers alike, and counts what they skip.

Skipped are damaged lines, and rows with the id of an earlier row: of rows with the same id, the first counts.
The order of rows is that of their ids, which a damaged journal may have in another order.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from zlib import crc32

from planck_nb.base.json_types import JsonObject
from planck_nb.sessions.journal.codec import encode_record, is_readable, parse_line

ROWS = frozenset({"message", "event", "rewind", "metadata"})
"""Kinds for rows.

Other lines are headers or from a later version.
"""

_BEGINNING = (
    rb'\{"v":1,"id":([1-9]\d{0,17}),"kind":"%b","agent_id":"[^"\\\x00-\x1f]*","turn":(?:-?\d{1,9}|null),'
    rb'"ts":"(?:19|20|21)\d\d-'
    rb"(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
    rb'T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{6}Z"'
)
# The beginning of nearly every line. Such a line is a row if it is JSON and its data is an object.
_USUAL = re.compile(_BEGINNING % b"(?:message|event)")
_REWIND = re.compile(_BEGINNING % b"rewind" + rb',"before_id":[1-9]\d{0,17}\}\n')
_DEEP = 200


class RowIds:
    """A set of row ids that needs little memory while they ascend."""

    def __init__(self, highest: int = 0) -> None:
        self.highest = highest
        """The highest id; at the beginning, all ids up to it count as seen."""
        self.ascending = True
        """Whether each new id was higher than all before."""
        self._starts, self._ends = ([0], [highest]) if highest else ([], [])
        self._others: set[int] = set()

    def add(self, row_id: int) -> bool:
        """Add an id and return whether it is new."""
        if row_id > self.highest:
            if self._ends and row_id == self._ends[-1] + 1:
                self._ends[-1] = row_id
            else:
                self._starts.append(row_id)
                self._ends.append(row_id)
            self.highest = row_id
            return True
        self.ascending = False
        found = bisect_right(self._starts, row_id) - 1
        if row_id in self._others or (found >= 0 and row_id <= self._ends[found]):
            return False
        self._others.add(row_id)
        return True

    def copy(self) -> RowIds:
        """Return an independent copy."""
        other = RowIds(self.highest)
        other.ascending = self.ascending
        other._starts, other._ends, other._others = self._starts.copy(), self._ends.copy(), self._others.copy()
        return other


class Screen:
    """Selects the rows of one journal that count, while its lines are read from the beginning or from a position.

    Args:
        highest: The highest id before that position.
        damaged: The number of damaged lines before it.
        repeated: The number of rows before it with the id of an earlier row.
        checksum: The checksum of all lines before it.
    """

    def __init__(self, highest: int = 0, damaged: int = 0, repeated: int = 0, checksum: int = 0) -> None:
        self.ids = RowIds(highest)
        self.damaged = damaged
        self.repeated = repeated
        self.checksum = checksum
        self.unreadable = 0
        """The number of rows that `count` found whose message or event cannot be decoded."""

    def copy(self) -> Screen:
        """Return an independent copy."""
        other = Screen(0, self.damaged, self.repeated, self.checksum)
        other.ids, other.unreadable = self.ids.copy(), self.unreadable
        return other

    def records(self, lines: Iterable[bytes]) -> Iterator[tuple[bytes, JsonObject | None]]:
        """Yield each line that is not blank with its decoded row, None for a line that is skipped."""
        for line in lines:
            self.checksum = crc32(line, self.checksum)
            record = parse_line(line)
            if record is None:
                if line.isspace():
                    continue
                self.damaged += 1
            elif record.get("kind") in ROWS and not self.ids.add(record["id"]):
                self.repeated += 1
                record = None
            yield line, record

    def count(self, lines: Iterable[bytes]) -> None:
        """Count what is skipped."""
        from pydantic_core import from_json  # noqa: PLC0415 - reading a journal has loaded pydantic

        for line in lines:
            usual = self._usual_id(line)
            if usual:
                try:
                    record = from_json(line)  # in a third of the time
                except ValueError:
                    record = {}
                if isinstance(record.get("data"), dict):
                    self.checksum = crc32(line, self.checksum)
                    if self.ids.add(usual):
                        self.unreadable += not is_readable(record)
                    else:
                        self.repeated += 1
                    continue
            for _, found in self.records((line,)):
                self.unreadable += found is not None and not is_readable(found)

    def plausible(self, lines: Iterable[bytes]) -> tuple[list[bytes], Screen]:
        """Select lines without decoding most of them, which takes a tenth of the time.

        Returns:
            The lines, which may include some whose end is damaged, and the screen to continue with if there are none.
        """
        after = self.copy()
        kept: list[bytes] = []
        for line in lines:
            usual = self._usual_id(line)
            if usual:
                after.checksum = crc32(line, after.checksum)
                if after.ids.add(usual):
                    kept.append(line)
                else:
                    after.repeated += 1
            else:
                kept += (encode_record(record) for _, record in after.records((line,)) if record is not None)
        return kept, after

    @staticmethod
    def _usual_id(line: bytes) -> int:
        """Return the id of a line that is a row if DuckDB can read it; 0 for other lines."""
        usual = _USUAL.match(line)
        if usual is None or not line.endswith(b"}\n") or not _is_utf8(line):
            return 0
        return int(usual[1]) if line.count(b"{") + line.count(b"[") < _DEEP else 0

    def exact(self, lines: Iterable[bytes]) -> list[bytes]:
        """Select lines by decoding each, and encode them again, so that every reader of JSON accepts them."""
        return [encode_record(record) for _, record in self.records(lines) if record is not None]


def usual_id(line: bytes) -> int:
    """Return the id in a line with the usual beginning.

    It is 0 for other lines.
    """
    usual = _USUAL.match(line)
    return 0 if usual is None else int(usual[1])


class DisorderError(Exception):
    """The ids of the rows in a journal do not ascend."""


def in_order(lines: Iterable[bytes], *, after: int = 0) -> Iterator[bytes]:
    """Yield lines. Raises DisorderError unless the ids of their rows ascend, beginning with one higher than `after`."""
    ids = RowIds(after)
    for line in lines:
        usual = _USUAL.match(line) or _REWIND.fullmatch(line)
        if usual is not None:
            ids.add(int(usual[1]))
        else:
            record = parse_line(line)
            if record is not None and record.get("kind") in ROWS:
                ids.add(record["id"])
        if not ids.ascending:
            raise DisorderError
        yield line


def _is_utf8(line: bytes) -> bool:
    if line.isascii():
        return True
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True

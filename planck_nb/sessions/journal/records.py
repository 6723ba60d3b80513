"""Reads the rows of a journal as JSON objects."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path

from planck_nb.base.json_types import JsonObject
from planck_nb.sessions.journal import codec
from planck_nb.sessions.journal.branch import hidden_ranges, is_hidden
from planck_nb.sessions.journal.screening import Screen
from planck_nb.sessions.journal.segments import Position, read_rows

_log = logging.getLogger(__name__)


def read_records(journal: Path, *, end: Position | None = None) -> Iterator[JsonObject]:
    """Yield all rows of a journal as stored, hidden ones included; without `end`, up to its end at this moment.

    A damaged line is skipped and logged, as is a row with the id of an earlier one. Raises SessionFormatError for a
    line of a newer version.
    """
    screen = Screen()
    for lines, _ in read_rows(journal, end=end):
        for line, record in screen.records(lines):
            if record is None:
                _log.info(
                    "a damaged line of %s, or one with the id of an earlier row, is skipped: %.60r…", journal, line
                )
            else:
                codec.check_version(record)
                yield record


def sorted_records(records: Iterable[JsonObject]) -> list[JsonObject]:
    """Sort rows by their ids, the order that counts; damaged journals may have another."""
    return sorted(records, key=itemgetter("id"))


def visible_records(records: Iterable[JsonObject]) -> list[JsonObject]:
    """Select all metadata, and the messages and events that no rewind hides, in the order of their ids."""
    everything = sorted_records(records)
    hidden = hidden_ranges((record["id"], record["before_id"]) for record in everything if record["kind"] == "rewind")
    return [
        record
        for record in everything
        if record["kind"] == "metadata"
        or (record["kind"] in {"message", "event"} and not is_hidden(record["id"], hidden))
    ]

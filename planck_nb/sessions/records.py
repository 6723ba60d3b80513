"""Reads the rows of a journal as JSON objects."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

from planck_nb.base.json_types import JsonObject
from planck_nb.sessions import codec
from planck_nb.sessions.branch import hidden_ranges, is_hidden
from planck_nb.sessions.segments import Position, read_rows

_log = logging.getLogger(__name__)


def read_records(journal: Path, *, end: Position | None = None) -> Iterator[JsonObject]:
    """Yield all rows of a journal in order, hidden ones included; without `end`, up to its end at this moment.

    A damaged line is skipped and logged, as is a row with the id of an earlier one. Raises SessionFormatError for a
    line of a newer version.
    """
    ids: set[int] = set()
    for lines, _ in read_rows(journal, end=end):
        for line in lines:
            record = codec.parse_line(line)
            if record is not None:
                codec.check_version(record)
                if record.get("kind") != "session":  # which has the id of the row before
                    if record["id"] in ids:
                        _log.warning("a row of %s with the id %d of an earlier one was skipped", journal, record["id"])
                        continue
                    ids.add(record["id"])
                yield record
            elif not line.isspace():
                _log.warning("a damaged line of %s was skipped: %.60r…", journal, line)


def visible_records(records: Iterable[JsonObject]) -> list[JsonObject]:
    """Select the messages and events that no rewind hides, and all metadata, which a rewind does not change."""
    everything = list(records)
    hidden = hidden_ranges((record["id"], record["before_id"]) for record in everything if record["kind"] == "rewind")
    return [
        record
        for record in everything
        if record["kind"] == "metadata"
        or (record["kind"] in {"message", "event"} and not is_hidden(record["id"], hidden))
    ]

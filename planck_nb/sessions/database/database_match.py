"""Whether a session's DuckDB file belongs to its journal, and how much of the journal it has.

The file says which line of the journal is the last one that it has. Someone may have replaced, restored or cut off
either of the two.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import duckdb

from planck_nb.base.errors import SessionFormatError
from planck_nb.sessions.database import tables as schema
from planck_nb.sessions.journal.journal_check import DIGESTED, JournalCheck
from planck_nb.sessions.journal.screening import Screen
from planck_nb.sessions.journal.segments import Position, read_before

_MAX_META_ROWS = 100


@dataclass(frozen=True, slots=True)
class MaterializedPosition:
    """The end of what a DuckDB file holds: a position in the journal, the id of the last line before it, and that line.

    The line is known by its size and its digest. `damaged` and `repeated` count the lines before it that are not in the
    file, and `checksum` is that of all lines.
    """

    session_id: str
    last_id: int
    position: Position
    line_bytes: int = 0
    digest: str = ""
    damaged: int = 0
    repeated: int = 0
    checksum: int = 0

    def agrees(self, check: JournalCheck | None) -> bool:
        """Return whether the file has what its journal has, as far as a check of the journal shows."""
        if check is None:
            return True
        same = check.end != self.position or check.checksum == self.checksum
        return same and (check.damaged, check.repeated) == (self.damaged, self.repeated)

    def screen(self) -> Screen:
        """Return the screen for the rows after this position."""
        return Screen(self.last_id, self.damaged, self.repeated, self.checksum)


def read_meta(connection: duckdb.DuckDBPyConnection, database: str) -> dict[str, str]:
    """Read the keys and values of an attached file: a file that this package wrote has few. Raises duckdb.Error."""
    rows = connection.execute(f"select key, value from {database}.{schema.META} limit {_MAX_META_ROWS}")  # noqa: S608
    return dict(rows.fetchall())


def parse_position(meta: dict[str, str]) -> MaterializedPosition | None:
    """Read the position from the rows of a `meta` table; None if they are of another layout or damaged."""
    try:
        if meta["format"] == str(schema.VERSION):
            return MaterializedPosition(
                meta["session_id"],
                int(meta["folded_id"]),
                Position(int(meta["folded_segment"]), int(meta["folded_bytes"])),
                int(meta["folded_line_bytes"]),
                meta["folded_digest"],
                int(meta["damaged_lines"]),
                int(meta["repeated_rows"]),
                int(meta["checksum"]),
            )
    except (KeyError, ValueError):
        pass
    return None


def written_position(progress: MaterializedPosition) -> dict[str, str]:
    """The rows of a `meta` table from which `parse_position` reads the position."""
    return {
        "folded_id": str(progress.last_id),
        "folded_segment": str(progress.position.segment),
        "folded_bytes": str(progress.position.offset),
        "folded_line_bytes": str(progress.line_bytes),
        "folded_digest": progress.digest,
        "damaged_lines": str(progress.damaged),
        "repeated_rows": str(progress.repeated),
        "checksum": str(progress.checksum),
    }


def is_made_from(journal: Path, progress: MaterializedPosition) -> bool:
    """Return whether a DuckDB file was made from a journal, which someone may have replaced or cut off."""
    if progress.position.offset == 0:
        return True
    try:
        line = read_before(journal, progress.position, progress.line_bytes, max_bytes=DIGESTED)
    except (OSError, EOFError, SessionFormatError):
        return False
    return line_digest(line) == progress.digest


def line_digest(line: bytes) -> str:
    """Return the digest of the beginning of a journal line."""
    return hashlib.blake2b(line[:DIGESTED], digest_size=16).hexdigest()

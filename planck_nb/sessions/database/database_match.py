"""Whether a session's DuckDB file belongs to its journal, and how much of the journal it has.

The file says which line of the journal is the last one that it has. Someone may have replaced, restored or cut off
either of the two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb

from planck_nb.base.errors import SessionFormatError
from planck_nb.sessions.database import tables as schema
from planck_nb.sessions.journal.codec import parse_line
from planck_nb.sessions.journal.journal_check import DIGESTED, JournalCheck
from planck_nb.sessions.journal.screening import Screen
from planck_nb.sessions.journal.segments import Position, read_before, read_last_lines

_MAX_META_ROWS = 100
LAST_LINE = 1024 * 1024
"""How many bytes before a position are searched for its last line."""


@dataclass(frozen=True, slots=True)
class MaterializedPosition:
    """The end of what a DuckDB file holds: a position in the journal, the id of the last line before it, and that line.

    The line is known by its size and its digest, which files of version 0.1.0 do not have. `damaged` and `repeated`
    count the lines before it that are not in the file, and `checksum` is that of all lines, if it is known. `computed`
    says whether the file has the columns in `tables.COMPUTED`.
    """

    session_id: str
    last_id: int
    position: Position
    line_bytes: int = 0
    digest: str = ""
    damaged: int = 0
    repeated: int = 0
    checksum: int | None = None
    computed: bool = True

    def agrees(self, check: JournalCheck | None) -> bool:
        """Return whether the file has what its journal has, as far as a check of the journal shows."""
        if check is None:
            return True
        same = check.end != self.position or self.checksum in {None, check.checksum}
        return same and (check.damaged, check.repeated) == (self.damaged, self.repeated)

    def screen(self) -> Screen:
        """Return the screen for the rows after this position."""
        return Screen(self.last_id, self.damaged, self.repeated, self.checksum or 0)


def read_meta(connection: duckdb.DuckDBPyConnection, database: str) -> dict[str, str]:
    """Read the keys and values of an attached file: a file that this package wrote has few. Raises duckdb.Error."""
    rows = connection.execute(f"select key, value from {database}.{schema.META} limit {_MAX_META_ROWS}")  # noqa: S608
    return dict(rows.fetchall())


def parse_position(meta: dict[str, str]) -> MaterializedPosition | None:
    """Read the position from the rows of a `meta` table; None if another version wrote them."""
    try:
        if meta["format"] in {str(schema.VERSION), str(schema.EARLIER)}:
            position = Position(int(meta["folded_segment"]), int(meta["folded_bytes"]))
            line = int(meta.get("folded_line_bytes", 0)), meta.get("folded_digest", "")
            skipped = int(meta.get("damaged_lines", 0)), int(meta.get("repeated_rows", 0))
            checksum = int(meta["checksum"]) if "checksum" in meta else None
            computed = meta["format"] == str(schema.VERSION)
            return MaterializedPosition(
                meta["session_id"], int(meta["folded_id"]), position, *line, *skipped, checksum, computed
            )
    except (KeyError, ValueError):
        pass
    return None


def is_made_from(journal: Path, progress: MaterializedPosition, read_times: Callable[[], set[str]]) -> bool:
    """Return whether a DuckDB file was made from a journal, which someone may have replaced or cut off.

    This compares the last line that the file has. For a file without a digest, `read_times` returns the times of its
    last row as ISO 8601.
    """
    if progress.position.offset == 0:
        return True
    try:
        if progress.digest:
            line = read_before(journal, progress.position, progress.line_bytes, max_bytes=DIGESTED)
            return line_digest(line) == progress.digest
        lines, _ = read_last_lines(journal, progress.position, LAST_LINE)
    except (OSError, EOFError, SessionFormatError):
        return False
    record = parse_line(lines[-1]) if lines else None
    if record is None:
        return not lines  # one line that is longer than what was read
    return record["id"] == progress.last_id and (record["kind"] == "session" or record["ts"] in read_times())


def times_sql(tables: Callable[[str], str], last_id: int) -> str:
    """Return SQL for the times of the row with an id; `tables` returns the SQL of a table by its name."""
    parts = [f"select ts from {tables(name)} where id = {last_id:d}" for name in schema.TABLES]  # noqa: S608 - our own
    return f"select strftime(ts, '%Y-%m-%dT%H:%M:%S.%fZ') from ({' union all '.join(parts)})"  # noqa: S608


def line_digest(line: bytes) -> str:
    """Return the digest of the beginning of a journal line."""
    return hashlib.blake2b(line[:DIGESTED], digest_size=16).hexdigest()

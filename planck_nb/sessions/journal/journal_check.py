"""Reads whole journals to find what readers skip, and remembers what it found for as long as a journal only grows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from planck_nb.base.errors import SessionFormatError
from planck_nb.sessions.journal.screening import Screen
from planck_nb.sessions.journal.segments import (
    START,
    Position,
    journal_bytes,
    journal_end,
    old_segments,
    read_before,
    read_rows,
)

DIGESTED = 64 * 1024
"""Bytes for a digest: a line starts with id and time."""


@dataclass(frozen=True, slots=True)
class JournalCheck:
    """What readers skip of a journal up to a position."""

    end: Position = START
    damaged: int = 0
    repeated: int = 0
    ascending: bool = True
    highest: int = 0
    checksum: int = 0
    unreadable: int = 0


class _Status(NamedTuple):
    inode: int
    size: int
    changed: int


@dataclass(slots=True)
class _Checked:
    """A journal as it was when it was checked, and the screen to go on with."""

    files: dict[Path, _Status] = field(default_factory=dict)
    end: Position = START
    last_line: bytes = b""
    line_bytes: int = 0
    screen: Screen = field(default_factory=Screen)

    def result(self) -> JournalCheck:
        screen = self.screen
        ids = screen.ids
        skipped = screen.damaged, screen.repeated
        return JournalCheck(self.end, *skipped, ids.ascending, ids.highest, screen.checksum, screen.unreadable)


_checked: dict[Path, _Checked] = {}


def check_journal(journal: Path, *, max_bytes: int | None = None) -> JournalCheck | None:
    """Find what readers skip of a journal, reading only what was added since it was last checked in this process.

    Args:
        journal: The active segment of the journal.
        max_bytes: The highest number of bytes to read; None for all.

    Returns:
        The result; None if more bytes would have to be read.

    Raises:
        OSError: The journal cannot be read, or a segment of it is missing.
        SessionFormatError: It does not begin like a journal, or was written by a newer version.
    """
    before = _checked.get(journal)
    with suppress(FileNotFoundError):  # an old segment was compressed
        if before is not None and before.files == _statuses(before.files):
            return before.result()
    files = _statuses([journal, *old_segments(journal)])
    end = journal_end(journal)
    if before is None or not _has_grown(journal, before, files, end):
        before = _Checked()
    known = before.end.offset if before.end.segment == end.segment else 0
    if max_bytes is not None and journal_bytes(journal) - known > max_bytes:
        return None
    found = _Checked(files, before.end, before.last_line, before.line_bytes, before.screen.copy())
    for lines, position in read_rows(journal, start=before.end, end=end):
        found.screen.count(lines)
        if lines:
            found.end, found.last_line, found.line_bytes = position, _digest(lines[-1]), len(lines[-1])
    _checked[journal] = found
    return found.result()


def known_check(journal: Path) -> JournalCheck | None:
    """Return what `check_journal` last found in this process, without reading anything; None if it was not called."""
    found = _checked.get(journal)
    return None if found is None else found.result()


def _statuses(paths: Iterable[Path]) -> dict[Path, _Status]:
    found = {}
    for path in paths:
        status = path.stat()
        found[path] = _Status(status.st_ino, status.st_size, status.st_mtime_ns)
    return found


def _has_grown(journal: Path, before: _Checked, files: dict[Path, _Status], end: Position) -> bool:
    """Whether lines were added to a journal, and nothing else was changed as far as its files show."""
    if end <= before.end:
        return False
    now = {status.inode: status for status in files.values()}  # which the active segment keeps as an old one
    if any(now.get(status.inode) != status for path, status in before.files.items() if path != journal):
        return False
    try:
        line = read_before(journal, before.end, before.line_bytes, max_bytes=DIGESTED)
    except (OSError, EOFError, SessionFormatError):
        return False
    return _digest(line) == before.last_line


def _digest(line: bytes) -> bytes:
    return hashlib.blake2b(line[:DIGESTED], digest_size=16).digest()

"""Restores earlier segments of an open journal that were deleted or replaced."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from itertools import count
from pathlib import Path

from planck_nb.base.atomic import replacing
from planck_nb.base.errors import SessionFormatError
from planck_nb.sessions.journal.journal_file import CHUNK
from planck_nb.sessions.journal.segments import old_segments

_log = logging.getLogger(__name__)


class KeptSegments:
    """The earlier segments of a journal, open for reading: a file can be read for as long as it is open.

    Windows deletes no open file, so nothing is opened there. Used by one thread at a time.

    Args:
        journal: The active segment, which must exist.
    """

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._descriptors: dict[Path, int] = {}
        self._failed: set[Path] = set()
        self.add_new()

    def add_new(self) -> None:
        """Open the segments that are not open yet."""
        if os.name != "posix":
            return
        with suppress(OSError, SessionFormatError):
            for path in old_segments(self._journal):
                if path not in self._descriptors:
                    self._descriptors[path] = os.open(path, os.O_RDONLY)

    def follow(self, journal: Path) -> None:
        """Take the new paths after the folder was moved."""
        self._journal = journal
        self._descriptors = {journal.with_name(path.name): number for path, number in self._descriptors.items()}

    def restore(self) -> None:
        """Write missing or replaced segments again, with a warning. A failure is a warning, too."""
        for path, descriptor in list(self._descriptors.items()):
            if _is_in_place(path, descriptor):
                continue
            try:
                kept = _set_aside(path, descriptor)
                _copy(descriptor, path)
                self._descriptors[path] = os.open(path, os.O_RDONLY)
            except OSError as error:
                if path not in self._failed:
                    _log.warning(
                        "The earlier part %s of the session's journal was deleted and cannot be written again (%s); "
                        "free space and keep this session open, which will try again.",
                        path,
                        error.strerror,
                    )
                    self._failed.add(path)
                continue
            os.close(descriptor)
            self._failed.discard(path)
            where = f"; the file that was in its place is now {kept.name}" if kept else ""
            _log.warning(
                "The earlier part %s of the session's journal was deleted or replaced and has been written again%s.",
                path,
                where,
            )

    def close(self) -> None:
        """Close the files."""
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()


def _is_in_place(path: Path, descriptor: int) -> bool:
    try:
        there = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # nothing shows that it is gone
        return True
    mine = os.fstat(descriptor)
    return there.st_ino == mine.st_ino and there.st_dev == mine.st_dev


def _set_aside(path: Path, descriptor: int) -> Path | None:
    """Rename a file with other content that took the place of a segment."""
    try:
        with path.open("rb") as other:
            if all(
                os.pread(descriptor, CHUNK, offset) == other.read(CHUNK)
                for offset in range(0, max(os.fstat(descriptor).st_size, path.stat().st_size) + 1, CHUNK)
            ):
                return None
    except FileNotFoundError:
        return None
    names = (path.with_name(f"{path.name}.replaced-{number}") for number in count(1))
    return path.rename(next(name for name in names if not name.exists()))


def _copy(descriptor: int, path: Path) -> None:
    with replacing(path, mode=0o600) as file:
        for offset in range(0, os.fstat(descriptor).st_size, CHUNK):
            file.write(os.pread(descriptor, CHUNK, offset))

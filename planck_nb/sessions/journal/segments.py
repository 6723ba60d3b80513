"""A journal's segments: the active one, which is written, and those before it, which never change again.

The active segment keeps the journal's name, so that the path of a session does not change; an old one has its number in
its name and may be compressed. A position in the journal is a segment and an offset in it.
"""

from __future__ import annotations

import errno
import gzip
import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from planck_nb.base.atomic import replacing, sync_directory
from planck_nb.base.errors import SessionError
from planck_nb.sessions.journal.codec import decode_header
from planck_nb.sessions.journal.journal_file import (
    END_OF_FILE,
    JournalFile,
    find_end,
    read_first_line,
    read_lines,
    readable_end,
)

_SUFFIX = ".jsonl"
_COMPRESSED = ".gz"
_LEVEL = 6
"""A higher level takes twice as long for a fiftieth of the size."""


class Position(NamedTuple):
    """A position in a journal: the number of a segment and an offset in it, in bytes. Later positions are greater."""

    segment: int
    offset: int


START = Position(1, 0)
"""The beginning of every journal."""


def read_rows(
    journal: Path, *, start: Position = START, end: Position | None = None
) -> Iterator[tuple[list[bytes], Position]]:
    """Yield the complete lines between two positions, some megabytes at a time, with the position of their end.

    Without `end`, read up to the last line that is complete at this moment. The lines are consistent even if the
    journal continues in a new segment meanwhile. Raises FileNotFoundError if a segment is missing, or at the damaged
    place in a compressed one.
    """
    with journal.open("rb") as active:
        newest = decode_header(active.readline()).segment
        for number in range(start.segment, newest + 1):
            if end is not None and number > end.segment:
                return
            offset = start.offset if number == start.segment else 0
            limit = end.offset if end is not None and number == end.segment else None
            if number == newest:
                yield from _numbered(read_lines(active, start=offset, end=limit), number)
            else:
                with _open_old(journal, number) as old, _readable(_old(journal, number)):
                    limit = END_OF_FILE if limit is None else limit
                    yield from _numbered(read_lines(old, start=offset, end=limit), number)


def read_last_lines(journal: Path, end: Position, size: int) -> tuple[list[bytes], bool]:
    """Return the complete lines in the last `size` bytes before a position, and whether they are all lines before it.

    There may be fewer lines if a segment is compressed. Raises FileNotFoundError if the journal is missing.
    """
    lines: list[bytes] = []
    number, offset = end
    while size > 0:
        start = max(0, offset - size)
        rows = read_rows(journal, start=Position(number, start), end=Position(number, offset))
        part = [line for some, _ in rows for line in some]
        if start:
            return part[1:] + lines, False  # the first may be the end of one
        lines = part + lines
        if number == 1:
            return lines, True
        size -= offset
        number -= 1
        try:
            offset = _old(journal, number).stat().st_size
        except FileNotFoundError:
            break
    return lines, False


def read_before(journal: Path, position: Position, size: int, *, max_bytes: int) -> bytes:
    """Read the `size` bytes before a position, or the first `max_bytes` of them. Raises OSError if that fails."""
    with journal.open("rb") as active:
        if decode_header(active.readline()).segment == position.segment:
            return _read_at(active, position.offset - size, min(size, max_bytes))
    with _open_old(journal, position.segment) as old, _readable(_old(journal, position.segment)):
        return _read_at(old, position.offset - size, min(size, max_bytes))


def _read_at(file: BinaryIO, offset: int, size: int) -> bytes:
    if offset < 0:
        return b""
    file.seek(offset)
    return file.read(size)


def journal_end(journal: Path) -> Position:
    """Return the position after the last line that is complete at this moment."""
    with journal.open("rb") as active:
        segment = decode_header(active.readline()).segment
        return Position(segment, find_end(active)[0])


def start_segment(journal: JournalFile) -> JournalFile:
    """Close a journal, start a new segment and return the journal to write from now on.

    If the file system does not allow it, the old segment is opened again. At every moment the journal's name belongs
    to a journal that can be opened. Raises SessionError if the journal cannot be opened again.
    """
    path = journal.path
    journal.close()
    fresh = path.with_name(path.name.removesuffix(_SUFFIX) + ".next")
    with suppress(OSError, SessionError):
        header = decode_header(read_first_line(path))
        _, last_id = readable_end(path)
        old = _old(path, header.segment)
        fresh.unlink(missing_ok=True)
        # A crash between the next steps may have left a second name of the active segment.
        old.unlink(missing_ok=True)
        created = JournalFile.create(fresh, replace(header, segment=header.segment + 1, last_id=last_id))
        created.append(b"", sync=True)  # it must not get the journal's name before its header is on disk
        created.close()
        os.link(path, old)
        fresh.replace(path)
        sync_directory(path.parent)
    return JournalFile.open(path)


def old_segments(journal: Path) -> list[Path]:
    """Return the files of the segments before the active one, compressed or not."""
    newest = decode_header(read_first_line(journal)).segment
    files = [_old(journal, number) for number in range(1, newest)]
    return [path for old in files for path in (old, _compressed(old)) if path.exists()]


def missing_segments(journal: Path) -> int:
    """Count the missing and the damaged segments. Raises OSError and SessionFormatError."""
    newest = decode_header(read_first_line(journal)).segment
    files = [_old(journal, number) for number in range(1, newest)]
    return sum(not path.exists() and _stamp(_compressed(path)) in (None, *_unreadable_stamps) for path in files)


def journal_bytes(journal: Path) -> int:
    """Return the length of all segments, uncompressed. Raises OSError if one is missing, and SessionFormatError."""
    newest = decode_header(read_first_line(journal)).segment
    return journal.stat().st_size + sum(_length(_old(journal, number)) for number in range(1, newest))


def is_compressed(segment: Path) -> bool:
    """Return whether a segment is compressed."""
    return segment.suffix == _COMPRESSED


def compress_segment(segment: Path) -> None:
    """Compress an old segment, which stays readable throughout. Raises OSError."""
    if is_compressed(segment):
        return
    with (
        segment.open("rb") as source,
        replacing(_compressed(segment), mode=0o600) as target,
        gzip.GzipFile(fileobj=target, mode="wb", compresslevel=_LEVEL) as packed,
    ):
        shutil.copyfileobj(source, packed)
    segment.unlink()


def _numbered(chunks: Iterator[tuple[list[bytes], int]], number: int) -> Iterator[tuple[list[bytes], Position]]:
    for lines, offset in chunks:
        yield lines, Position(number, offset)


def _open_old(journal: Path, number: int) -> BinaryIO:
    path = _old(journal, number)
    try:
        return path.open("rb")
    except FileNotFoundError:
        return cast("BinaryIO", gzip.open(_compressed(path), "rb"))


_unreadable_stamps: set[tuple[str, int, int]] = set()
"""The compressed segments which could not be read to their end."""


def _stamp(path: Path) -> tuple[str, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return str(path), status.st_mtime_ns, status.st_size


@contextmanager
def _readable(segment: Path) -> Iterator[None]:
    """Report gzip's three kinds of errors like a missing segment."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        path = _compressed(segment)
        if stamp := _stamp(path):
            _unreadable_stamps.add(stamp)
        raise FileNotFoundError(errno.ENOENT, f"a part is damaged: {error}", str(path)) from error


def _length(segment: Path) -> int:
    """Return the length of an old segment, which a compressed file has in its last four bytes."""
    try:
        return segment.stat().st_size
    except FileNotFoundError:
        with _compressed(segment).open("rb") as file:
            file.seek(-4, os.SEEK_END)
            return int.from_bytes(file.read(), "little")


def _old(journal: Path, number: int) -> Path:
    return journal.with_name(f"{journal.name.removesuffix(_SUFFIX)}.{number}{_SUFFIX}")


def _compressed(segment: Path) -> Path:
    return segment.with_name(segment.name + _COMPRESSED)

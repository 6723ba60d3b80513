"""The journal file: one line per row, only appended to. It is the primary copy of a session."""

from __future__ import annotations

import logging
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import BinaryIO, Self

import filelock

from planck_nb.base.atomic import replacing, sync_directory
from planck_nb.base.errors import SessionError, SessionFormatError, SessionLockedError
from planck_nb.base.forks import forget_in_forks
from planck_nb.base.jsonl import after_last_newline
from planck_nb.sessions.journal.codec import Header, check_version, decode_header, encode_header, parse_line

_log = logging.getLogger(__name__)

CHUNK = 2 * 1024 * 1024
"""Bytes that are read at a time. DuckDB parses them in some milliseconds, during which no other thread can run."""
END_OF_FILE = sys.maxsize
"""An end offset for a file that is read to its last line."""

_BLOCK = 64 * 1024
_FLAGS = os.O_RDWR | getattr(os, "O_BINARY", 0)
_PADDING = (b" " * 4095 + b"\n") * 64


_open_files: weakref.WeakSet[JournalFile] = weakref.WeakSet()


class JournalFile:
    """A journal open for writing. Used by one thread at a time.

    `path` changes when the folder is renamed or moved meanwhile. `size` is its length in bytes, `durable` the number of
    bytes that are known to be on disk, `segment` its number, `last_id` the id of the last line when it was opened.

    While it is open, the file is longer than `size`: it is padded with blank lines that later lines overwrite, because
    a sync takes a third less time when the file does not grow. `open` and `close` remove the padding.
    """

    def __init__(self, path: Path, descriptor: int, *, segment: int, size: int, last_id: int) -> None:
        self.path = path
        self.segment = segment
        self.size = size
        self.durable = 0
        self.last_id = last_id
        self._descriptor = descriptor
        self._folder = _identity(os.stat(path.parent))  # noqa: PTH116 - as in `_is_in_place`
        self._padded_size = size
        self._broken = False
        self._is_new = False
        """Whether its entry in the directory may not be on disk."""
        _open_files.add(self)

    @classmethod
    def create(cls, path: Path, header: Header) -> Self:
        """Create a journal with its header. Raises SessionError if it cannot be written.

        The header and the directory entry reach the disk with the first synced lines, so the caller's event
        loop does not wait for the disk.
        """
        try:
            descriptor = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise _unwritable(path, error) from error
        lock_file(descriptor, path)
        journal = cls(path, descriptor, segment=header.segment, size=0, last_id=header.last_id)
        try:
            journal.append(encode_header(header), sync=False)
        except SessionError:
            journal.close()
            path.unlink()
            raise
        journal._is_new = True
        return journal

    @classmethod
    def create_with_content(cls, path: Path, header: Header, lines: Iterable[bytes]) -> Self:
        """Create a journal with its header and lines, all or nothing. Raises SessionError."""
        try:
            with replacing(path, mode=0o600) as file:
                file.write(encode_header(header))
                file.writelines(lines)
        except OSError as error:
            raise _unwritable(path, error) from error
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the journal at `path` and remove an incomplete line that a crash may have left at its end.

        What a crashed process has written reaches the disk with the first lines that are synced, as for `create`.

        Raises SessionFormatError if no line of it can be read, SessionError if it cannot be written.
        """
        try:
            descriptor = os.open(path, _FLAGS)
        except OSError as error:
            raise _unwritable(path, error) from error
        try:
            lock_file(descriptor, path)
        except SessionLockedError:
            os.close(descriptor)
            raise
        try:
            size, last_id = readable_end(path)
            segment = decode_header(read_first_line(path)).segment
            os.ftruncate(descriptor, size)
        except OSError as error:
            os.close(descriptor)
            raise _unwritable(path, error) from error
        except SessionFormatError:
            os.close(descriptor)
            raise
        return cls(path, descriptor, segment=segment, size=size, last_id=last_id)

    def append(self, data: bytes, *, sync: bool) -> None:
        """Write complete lines, and with `sync` wait until they and all before are on disk.

        Raises SessionError if that fails; the file then ends where it ended before.
        """
        if self._broken:
            raise SessionError(
                f"The journal {self.path.name} is in an unknown state; close the session and open it again."
            )
        if not data and self.durable == self.size:
            self._keep_in_place()
            return
        end = self.size + len(data)
        try:
            self._write_padded(data, end)
            if sync:
                self._sync()
        except OSError as error:
            self._truncate()
            raise _unwritable(self.path, error) from error
        before, self.size = self.size, end
        try:
            self._keep_in_place()
        except SessionError:
            self.size = before
            self._truncate()
            raise
        if sync:
            self.durable = self.size

    def _sync(self) -> None:
        _sync(self._descriptor)
        if self._is_new:
            self._follow_folder()
            sync_directory(self.path.parent)
            self._is_new = False

    def close(self) -> None:
        """Close the file."""
        self._truncate()
        descriptor, self._descriptor = self._descriptor, -1
        self._broken = True
        os.close(descriptor)

    def forget(self) -> None:
        """Close the file in a forked process, and leave what is in it to the process that writes it."""
        self._broken = True
        descriptor, self._descriptor = self._descriptor, -1
        with suppress(OSError):
            os.close(descriptor)

    def _keep_in_place(self) -> None:
        """Write the file again if it was deleted or replaced, before its last lines are acknowledged.

        The open file can be read for as long as it is open. Raises SessionError if it cannot be written again.
        """
        if os.name != "posix" or self._follow_folder():
            return
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            kept = self._set_other_file_aside()
            self._copy_to(self.path)
            descriptor = os.open(self.path, _FLAGS)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        try:
            lock_file(descriptor, self.path)
        except SessionLockedError:
            os.close(descriptor)
            raise
        os.close(self._descriptor)
        self._descriptor, self._padded_size, self.durable = descriptor, self.size, self.size
        where = f"; the file that was in its place is now {kept.name}" if kept else ""
        _log.warning("The session's journal %s was deleted or replaced and has been written again%s.", self.path, where)

    def _follow_folder(self) -> bool:
        """Take the present path; False if the file itself is gone.

        A file that has another name or folder now was moved by itself, without its other files, and counts as gone.
        """
        if self._is_in_place(self.path):
            return True
        if not os.fstat(self._descriptor).st_nlink:
            return False
        try:
            present = Path(f"/proc/self/fd/{self._descriptor}").readlink()
            if present.name != self.path.name or _identity(present.parent.stat()) != self._folder:
                return False
        except OSError:  # not on Linux, or it is moved again at this moment
            return False
        if not self._is_in_place(present):
            return False
        self.path = present
        return True

    def _is_in_place(self, path: Path) -> bool:
        try:
            there = os.stat(path)  # noqa: PTH116 - a third faster than Path.stat, for every batch
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # for example of a network file system that is out of reach: nothing shows that it is gone
            return True
        return _identity(there) == _identity(os.fstat(self._descriptor))

    def _set_other_file_aside(self) -> Path | None:
        """Rename a file that has taken this one's place. Raises SessionLockedError if another process writes it."""
        try:
            descriptor = os.open(self.path, _FLAGS)
        except FileNotFoundError:
            return None
        names = (self.path.with_name(f"{self.path.name}.replaced-{number}") for number in count(1))
        unused = next(name for name in names if not name.exists())
        try:
            lock_file(descriptor, self.path)
            return self.path.rename(unused)
        except SessionLockedError as error:
            self._copy_to(unused)
            self._broken = True
            raise SessionLockedError(
                f"The journal {self.path.name} was replaced and is open in another process now; what was stored here "
                f"is in {unused.name}, and nothing more can be added: resume the session again."
            ) from error
        finally:
            os.close(descriptor)

    def _copy_to(self, path: Path) -> None:
        with replacing(path, mode=0o600) as file:
            for offset in range(0, self.size, CHUNK):
                file.write(os.pread(self._descriptor, min(CHUNK, self.size - offset), offset))

    def _write_padded(self, data: bytes, end: int) -> None:
        """Write lines, with padding if there is none after them; on a full disk without it."""
        if end <= self._padded_size:
            self._write(data)
            return
        try:
            self._write(data + _PADDING)
            self._padded_size = end + len(_PADDING)
        except OSError:
            os.ftruncate(self._descriptor, self.size)
            self._write(data)
            self._padded_size = end

    def _write(self, data: bytes) -> None:
        written = _write_at(self._descriptor, data, self.size)
        while written < len(data):
            written += _write_at(self._descriptor, memoryview(data)[written:], self.size + written)

    def _truncate(self) -> None:
        try:
            os.ftruncate(self._descriptor, self.size)
        except OSError:
            # The file may end in half a line, and a later line appended to it would be lost with it.
            self._broken = True
        self._padded_size = self.size


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def lock_file(descriptor: int, path: Path) -> None:
    """Lock an open journal, besides the session's lock file, which may be deleted. Raises SessionLockedError.

    The lock ends when the descriptor is closed. Nothing is locked on file systems without locks, nor on Windows, where
    other processes could not read a locked file, but cannot delete an open one either.
    """
    if os.name != "posix":
        return
    try:
        locked = filelock.lock_descriptor(descriptor, blocking=False)
    except OSError:
        return
    if not locked:
        raise SessionLockedError(
            f"The journal {path.name} is open in another process; close the session there, or query it with SQL."
        )


def read_lines(file: BinaryIO, *, start: int = 0, end: int | None = None) -> Iterator[tuple[list[bytes], int]]:
    """Yield the complete lines between two offsets in bytes, some megabytes at a time, with the offset of their end.

    Without `end`, read up to the last line that is complete at this moment, while another process may be writing.
    """
    # A reader that just went forward could see padding where a line is being written, and then a later line. Lines are
    # written in order, so everything before a complete line is final.
    end = find_end(file)[0] if end is None else end
    file.seek(start)
    while start < end and (lines := file.readlines(CHUNK)):
        size = sum(map(len, lines))
        while lines and start + size > end:
            size -= len(lines.pop())
        start += size
        yield lines, start


def read_first_line(path: Path) -> bytes:
    """Read the first line, at most 64 KiB of it, which is enough for a header."""
    with path.open("rb") as file:
        return file.readline(_BLOCK)


def readable_end(path: Path) -> tuple[int, int]:
    """Return the end of the last complete line in bytes, and its id. Raises SessionFormatError if there is none."""
    with path.open("rb") as file:
        size, last_id = find_end(file)
    if not size:
        raise SessionFormatError(f"The journal {path.name} has no line that can be read; restore it from a backup.")
    return size, last_id


def find_end(file: BinaryIO) -> tuple[int, int]:
    """Return the end of the last complete line in bytes, and its id; zeros if there is none."""
    end = _content_end(file)
    while end:
        start = after_last_newline(file, end - 1)
        file.seek(start)
        record = parse_line(file.read(end - start))
        if record is not None:
            check_version(record)
            return end, int(record["id"])
        end = start
    return 0, 0


def _content_end(file: BinaryIO) -> int:
    """Return the offset of the padding, after one byte that may be the last line's own line feed."""
    length = position = file.seek(0, os.SEEK_END)
    while position:
        size = min(_BLOCK, position)
        position -= size
        file.seek(position)
        text = file.read(size).rstrip()
        if text:
            return min(position + len(text) + 1, length)
    return 0


def _seek_and_write(descriptor: int, data: bytes | memoryview, offset: int) -> int:
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.write(descriptor, data)


_write_at: Callable[[int, bytes | memoryview, int], int] = getattr(os, "pwrite", _seek_and_write)
_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


def _unwritable(path: Path, error: OSError) -> SessionError:
    return SessionError(
        f"The session's journal {path} could not be written ({error.strerror}); free space or choose another folder."
    )


# A lock would remain for as long as any process has the file open.
forget_in_forks(_open_files, JournalFile.forget)

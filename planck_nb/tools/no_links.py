"""Opens resolved paths without following links, so that what is opened is what was checked.

A resolved path contains no links. A link that is found in it all the same was put there later, and what it leads to was
not approved. Each folder of the path is opened relative to the one before it, so that later renames have no effect. On
systems that cannot do that, it is checked after opening where the path leads.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

SUPPORTED = os.name == "posix" and {os.open, os.mkdir, os.stat, os.unlink} <= os.supports_dir_fd
"""Whether this system can open files relative to an open folder."""

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class LinkInPathError(OSError):
    """A resolved path leads through a link."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.ELOOP, f"{path} is a link, and was none when the call was checked; make the call again")


def require_regular(status: os.stat_result) -> None:
    """Raise OSError unless this is a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(0, "Is a directory")
    if not stat.S_ISREG(status.st_mode):
        raise OSError(0, "Not a regular file")


@contextmanager
def open_folder(path: Path, *, create: bool = False) -> Iterator[int]:
    """Open a folder, to be used as `dir_fd`; with `create`, missing folders are created. Raises OSError."""
    descriptor = os.open(path.anchor, _FOLDER)
    try:
        for depth, name in enumerate(path.parts[1:], start=2):
            inner = _open_inner(name, descriptor, Path(*path.parts[:depth]), create=create)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _open_inner(name: str, folder: int, path: Path, *, create: bool) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not create:
            raise
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
        return _open_inner(name, folder, path, create=False)
    except OSError as error:
        _refuse_link(name, folder, path)
        raise OSError(error.errno, os.strerror(error.errno or 0)) from error


def status_of(name: str, folder: int, path: Path) -> os.stat_result | None:
    """Return the status of the file `name` in an open folder, None if there is none. Raises OSError for a link."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        raise LinkInPathError(path)
    return found


def _refuse_link(name: str, folder: int, path: Path) -> None:
    with suppress(FileNotFoundError):
        status_of(name, folder, path)


def open_file(path: Path) -> BinaryIO:
    """Open a regular file for reading. Raises OSError, also for a device or a pipe, which may never end."""
    if not path.name:
        raise IsADirectoryError(0, "Is a directory")
    if not SUPPORTED:
        return open_checked(path)
    with open_folder(path.parent) as folder:
        found = status_of(path.name, folder, path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        require_regular(found)
        try:
            descriptor = os.open(path.name, _FILE, dir_fd=folder)
        except OSError:
            _refuse_link(path.name, folder, path)
            raise
    return _regular(descriptor)


def read_bytes(path: Path) -> bytes:
    """Return the content of a regular file. Raises OSError."""
    with open_file(path) as file:
        return file.read()


def _regular(descriptor: int) -> BinaryIO:
    try:
        require_regular(os.fstat(descriptor))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def require_no_links(path: Path) -> None:
    """Raise OSError if the path leads through a link now."""
    if path.resolve() != path:
        raise LinkInPathError(path)


def open_checked(path: Path) -> BinaryIO:
    """For systems without `dir_fd`: open the file, and check that this is what the path leads to without a link."""
    require_regular(path.stat())
    file = _regular(os.open(path, _FILE))
    try:
        require_no_links(path)
        same = os.path.samestat(os.fstat(file.fileno()), path.lstat())
    except BaseException:
        file.close()
        raise
    if not same:
        file.close()
        raise LinkInPathError(path)
    return file

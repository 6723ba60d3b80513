"""Atomic file replacement.

A reader sees the old content or the new, even after a crash.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

DEFAULT_MODE = 0o666


def write_atomically(path: Path, content: bytes, *, mode: int = DEFAULT_MODE, folder: int | None = None) -> None:
    """Replace a file's content, or create the file in an existing directory.

    Args:
        path: The file. A symbolic link is replaced, not followed; resolve the path first to write to its target.
        content: The complete new content.
        mode: Permission bits for a new file, less the process's umask. An existing file keeps its own, and its owner
            where the system allows it.
        folder: Descriptor for the file's directory, if it is open; the rest of `path` is not looked up then.

    Raises:
        OSError: The file cannot be written. It then has its old content.
    """
    with replacing(path, mode=mode, folder=folder) as file:
        file.write(content)


@contextmanager
def replacing(path: Path, *, mode: int = DEFAULT_MODE, folder: int | None = None) -> Iterator[BinaryIO]:
    """Open a temporary file for replacing `path` after the `with` block.

    It is removed if the block raises.

    Args:
        path: The file to replace or create, as in `write_atomically`.
        mode: Permission bits for a new file, less the process's umask.
        folder: Descriptor for the file's directory, as in `write_atomically`.

    Yields:
        A binary file open for writing, in the same directory as `path`.

    Raises:
        OSError: The file cannot be written. It then has its old content.
    """
    target = path if folder is None else Path(path.name)
    temporary = target.parent / f".planck-{secrets.token_hex(6)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY
    try:
        with os.fdopen(os.open(temporary, flags, mode, dir_fd=folder), "wb") as file:
            with suppress(FileNotFoundError):
                # In an open directory, a link may point anywhere, so its target is not looked at.
                status = os.stat(target, dir_fd=folder, follow_symlinks=folder is None)
                _copy_permissions(status, temporary if folder is None else file.fileno())
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    if folder is None:
        sync_directory(path.parent)
    else:
        _sync_open_directory(folder)


def sync_directory(directory: Path) -> None:
    """Let the file names in a directory survive a power cut.

    A new or renamed file survives one only once its directory entry is on disk as well. Does nothing on Windows, which
    cannot open directories.

    Raises:
        OSError: The directory cannot be opened or synced.
    """
    if os.name != "posix":
        return
    _sync(os.open(directory, os.O_RDONLY))


def _sync_open_directory(folder: int) -> None:
    """Sync a directory through a descriptor which can be synced.

    The descriptor it was opened with may not allow that.
    """
    _sync(os.open(".", os.O_RDONLY, dir_fd=folder))


def _sync(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_BINARY = getattr(os, "O_BINARY", 0)


def _copy_permissions(status: os.stat_result, target: Path | int) -> None:
    with suppress(OSError, AttributeError):  # only root may give files away; Windows has no owners to set
        os.chown(target, status.st_uid, status.st_gid)
    os.chmod(target, stat.S_IMODE(status.st_mode))  # noqa: PTH101 - the target may be a descriptor

"""Replaces files atomically: a reader sees the old content or the new one, also after a crash."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


def write_atomically(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Replace the content of a file, or create the file in an existing directory.

    Args:
        path: The file. A symbolic link is replaced, not followed; resolve the path first to write to its target.
        content: All of the new content.
        mode: Permission bits of a new file, less the process's umask. A file that exists keeps its own, and its owner
            where the system allows it.

    Raises:
        OSError: The file cannot be written. It then has its old content.
    """
    with replacing(path, mode=mode) as file:
        file.write(content)


@contextmanager
def replacing(path: Path, *, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` when the `with` block ends, and is removed if the block raises.

    Args:
        path: The file to replace or create, as in `write_atomically`.
        mode: Permission bits of a new file, less the process's umask.

    Yields:
        A binary file open for writing, in the same directory as `path`.

    Raises:
        OSError: The file cannot be written. It then has its old content.
    """
    temporary = path.parent / f".planck-{secrets.token_hex(6)}.tmp"
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, mode), "wb") as file:
            with suppress(FileNotFoundError):
                _copy_permissions(path.stat(), temporary)
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make the names of the files in a directory survive a power cut.

    A new or renamed file survives one only once its directory entry is on disk, too. Does nothing on Windows, which
    cannot open directories.

    Raises:
        OSError: The directory cannot be opened or synced.
    """
    if os.name != "posix":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_BINARY = getattr(os, "O_BINARY", 0)


def _copy_permissions(status: os.stat_result, target: Path) -> None:
    with suppress(OSError, AttributeError):  # only root may give files away; Windows has no owners to set
        os.chown(target, status.st_uid, status.st_gid)
    target.chmod(stat.S_IMODE(status.st_mode))

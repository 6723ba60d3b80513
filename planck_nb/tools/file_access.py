"""Reading and writing whole files, with one writer at a time."""

from __future__ import annotations

import errno
import os
import stat
import threading
from contextlib import suppress
from pathlib import Path

from planck_nb.agent.approval.paths import LONGEST
from planck_nb.base.atomic import write_atomically

_LOCKS = tuple(threading.Lock() for _ in range(64))


def lock_of(path: Path) -> threading.Lock:
    """Return the lock of a resolved path. Some paths share one, so no caller may hold two."""
    return _LOCKS[hash(path) % len(_LOCKS)]


def resolve(path: str, cwd: Path | None) -> Path:
    """Return the path, `~` expanded and links followed, relative to `cwd` or else the process's. Raises OSError."""
    if len(path) > LONGEST:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    base = Path.cwd() if cwd is None else cwd.expanduser()
    try:
        return (base / Path(path).expanduser()).resolve()
    except (ValueError, RuntimeError) as error:  # a NUL byte; a loop of links; no home
        raise OSError(0, str(error)) from error


def read_bytes(path: Path) -> bytes:
    """Return the content of a regular file. Raises OSError, also for a device or a pipe, which may never end."""
    require_regular(path.stat())
    return path.read_bytes()


def require_regular(status: os.stat_result) -> None:
    """Raise OSError unless this is a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(0, "Is a directory")
    if not stat.S_ISREG(status.st_mode):
        raise OSError(0, "Not a regular file")


def write_file(path: Path, content: bytes) -> None:
    """Replace a file atomically, or create it with the folders above it. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        require_regular(path.stat())
    write_atomically(path, content)

"""Whole files, one writer at a time, never half written."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import threading
from contextlib import suppress
from pathlib import Path

from planck_nb.agent.approval.paths import LONGEST

_LOCKS = tuple(threading.Lock() for _ in range(64))


def lock_of(path: Path) -> threading.Lock:
    """The lock of a resolved path; some paths share one, so nobody may hold two."""
    return _LOCKS[hash(path) % len(_LOCKS)]


def resolve(path: str, cwd: Path | None) -> Path:
    """The path, `~` expanded and links followed, relative to `cwd`, by default the process's now. Raises OSError."""
    if len(path) > LONGEST:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    base = Path.cwd() if cwd is None else cwd.expanduser()
    try:
        return (base / Path(path).expanduser()).resolve()
    except (ValueError, RuntimeError) as error:  # a NUL byte; a loop of links; no home
        raise OSError(0, str(error)) from error


def read_bytes(path: Path) -> bytes:
    """The content of a regular file. Raises OSError, also for what would never end, such as a device or a pipe."""
    require_regular(path.stat())
    return path.read_bytes()


def require_regular(status: os.stat_result) -> None:
    """Raise OSError unless this is a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(0, "Is a directory")
    if not stat.S_ISREG(status.st_mode):
        raise OSError(0, "Not a regular file")


def write_atomically(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Replace the file, or make it with the folders above it; a reader sees all of it or nothing. Raises OSError.

    Mode and, where allowed, owner of a file that was there stay; a new one gets `mode`, less the process's umask.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        old = path.stat()
        require_regular(old)
    except FileNotFoundError:
        old = None
    temporary = path.parent / f".planck-{secrets.token_hex(6)}.tmp"
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            if old is not None:
                with suppress(OSError, AttributeError):
                    os.chown(temporary, old.st_uid, old.st_gid)
                temporary.chmod(stat.S_IMODE(old.st_mode))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise

"""File systems without file locks, such as some network homes."""

from __future__ import annotations

import errno
import os
from pathlib import Path

_TAKEN = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES})
"""A lock of another process; some file systems report EACCES for it."""


def refuses_locks(path: Path) -> bool:
    """Return whether the file system cannot lock a file.

    Servers report this in many ways: `ENOLCK`, `ENOSYS`, `EOPNOTSUPP`, 524 (Linux's own `ENOTSUPP`), and more. So
    every failure counts, but only in the locking call, with an open file: too many open files, a full disk and missing
    rights are other problems.

    Args:
        path: A file whose lock another function could not acquire. It is created if it is missing.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     refuses_locks(Path(folder, "session.lock"))
        False
    """
    try:
        import fcntl  # noqa: PLC0415 - missing on Windows, whose file systems have locks

        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except (ImportError, OSError):
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in _TAKEN
    finally:
        os.close(file)
    return False

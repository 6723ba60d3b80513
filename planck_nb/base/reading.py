"""Reads files of unknown origin: regular ones only, and no more than a number of bytes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


def read_bounded(path: Path, limit: int) -> tuple[bytes, os.stat_result]:
    """Read a file of at most `limit` bytes, and its status.

    Raises:
        OSError: The file cannot be read, is no regular file (a pipe would never end), or is larger.
    """
    descriptor = os.open(path, _FLAGS)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is not a regular file")
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(0, f"it has more than {limit:,} bytes")
    return data, status

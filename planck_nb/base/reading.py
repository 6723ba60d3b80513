"""Bounded reading from regular files with unknown origin."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


def read_bounded(path: Path, limit: int) -> tuple[bytes, os.stat_result]:
    """Read at most `limit` bytes; return a file's content and status.

    Raises:
        OSError: The file cannot be read, is not a regular file (a pipe might never end), or is larger.
    """
    with _opened(path) as (file, status):
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(0, f"it has more than {limit:,} bytes")
    return data, status


def read_head(path: Path, size: int) -> bytes:
    """Read a file's first `size` bytes.

    Raises:
        OSError: The file cannot be read, or is not a regular file.
    """
    with _opened(path) as (file, _status):
        return file.read(size)


def describe_error(error: Exception) -> str:
    """Return an error's reason, as a part of a sentence."""
    return str(getattr(error, "strerror", None) or error)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, os.stat_result]]:
    with open(path, "rb", opener=lambda name, _flags: os.open(name, _FLAGS)) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is not a regular file")
        yield file, status

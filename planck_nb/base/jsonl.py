"""Append-only line files whose last line may be incomplete after a crash."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_BLOCK = 64 * 1024
_BINARY = getattr(os, "O_BINARY", 0)

_appending = threading.Lock()
"""Lock for writing a line.

Two writers in a process may have the same file open.
"""


def append_line(path: Path, line: bytes, *, durable: bool = False, mode: int = 0o600) -> None:
    """Append a complete line, after removing an incomplete last one.

    Args:
        path: The file, in an existing directory; it is created if missing.
        line: The line or lines, each ending in a line feed.
        durable: Whether to wait until the line is on disk.
        mode: Permission bits for a new file, less the process's umask.

    Raises:
        OSError: The line cannot be written; the next call removes any part on disk.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _BINARY, mode)
    with _appending, os.fdopen(descriptor, "a+b") as file:
        length = file.seek(0, os.SEEK_END)
        end = after_last_newline(file, length)
        if end < length:
            file.truncate(end)
        file.write(line)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def read_lines(path: Path) -> Iterator[bytes]:
    """Yield a file's complete lines without line feeds.

    An incomplete last line is left out. Lines end at line feeds only.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for line in file:
            if line.endswith(b"\n"):
                yield line[:-1]


def after_last_newline(file: BinaryIO, end: int) -> int:
    """Return the offset after the last line feed before the offset `end`.

    It is 0 without a line feed. The cursor moves.
    """
    while end:
        start = max(0, end - _BLOCK)
        file.seek(start)
        if (place := file.read(end - start).rfind(b"\n")) >= 0:
            return start + place + 1
        end = start
    return 0

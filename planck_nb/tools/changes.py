"""What tools changed on disk, newest last, and how to take it back."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from planck_nb.base.errors import ToolError
from planck_nb.tools.disk import lock_of, read_bytes, write_atomically

KEPT_BYTES = 64_000_000
"""Contents that are kept for undoing, in bytes; the oldest changes are forgotten beyond it."""


@dataclass(frozen=True, slots=True)
class Change:
    """One file that a tool wrote. `before` is None where there was no file; `time` in seconds since the epoch."""

    path: Path
    before: bytes | None = field(repr=False)
    after: bytes = field(repr=False)
    tool: str
    agent_id: str
    call_id: str
    time: float


class Changes:
    """The changes of some tools, oldest first: iterate over them, ask for their number, undo them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changes: deque[Change] = deque()
        self._bytes = 0
        self.forgotten = 0
        """Changes that were too old or too large to be kept."""

    def __iter__(self) -> Iterator[Change]:
        with self._lock:
            return iter(tuple(self._changes))

    def __len__(self) -> int:
        return len(self._changes)

    def record(
        self, path: Path, before: bytes | None, after: bytes, *, tool: str, agent_id: str = "", call_id: str = ""
    ) -> Change:
        """Note that `tool` replaced `before` by `after`."""
        change = Change(path, before, after, tool, agent_id, call_id, time.time())
        with self._lock:
            self._changes.append(change)
            self._bytes += _size(change)
            while self._bytes > KEPT_BYTES:
                self._bytes -= _size(self._changes.popleft())
                self.forgotten += 1
        return change

    def undo(self, change: Change | None = None) -> Change:
        """Give the file of `change`, by default the newest, its content from before, and forget the change.

        A file that the change made is removed. Raises `ToolError` when there is nothing to undo, or when the file is
        no longer as the change left it: what came later must be undone first.
        """
        with self._lock:
            undone = change or (self._changes[-1] if self._changes else None)
            if undone is None or undone not in self._changes:
                raise ToolError("There is no such change to undo; list the changes that are kept.")
        path = undone.path
        with lock_of(path), suppress(OSError):
            if read_bytes(path) == undone.after:
                if undone.before is None:
                    path.unlink()
                else:
                    write_atomically(path, undone.before)
                self._forget(undone)
                return undone
        raise ToolError(f"{path} is no longer as the {undone.tool} left it, or cannot be written; restore it by hand.")

    def _forget(self, change: Change) -> None:
        with self._lock, suppress(ValueError):
            self._changes.remove(change)
            self._bytes -= _size(change)


def _size(change: Change) -> int:
    return len(change.before or b"") + len(change.after)

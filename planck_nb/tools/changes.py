"""What tools changed on disk, newest last, and how to take it back."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from planck_nb.base.errors import ToolError
from planck_nb.tools.archive import Archive, Change, Ending, FolderArchive, MemoryArchive, digest
from planck_nb.tools.file_access import lock_of, read_bytes, write_file

KEPT_BYTES = 64_000_000
"""Contents that are kept for undoing, in bytes; the oldest changes are forgotten beyond it."""

KEPT_CHANGES = 10_000


class Changes:
    """The changes that can be undone, oldest first: iterate over them, ask for their number, undo them.

    With a `directory` they are kept there, privately, and are there again when another process opens it; without, they
    go with this process. The folder is made with the first change. Raises `ToolError`, from whatever is asked, when the
    folder cannot be used.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._archive: Archive = MemoryArchive() if directory is None else FolderArchive(directory)
        self._where = "memory" if directory is None else str(directory)
        self._lock = threading.RLock()
        self._known: dict[int, Change] | None = None
        self._last = self._bytes = 0
        self.forgotten = 0
        """Changes that were too many or too large to be kept, as far as this process saw it."""

    def __iter__(self) -> Iterator[Change]:
        with self._lock:
            return iter(tuple(self._changes().values()))

    def __len__(self) -> int:
        with self._lock:
            return len(self._changes())

    @contextmanager
    def recording(
        self,
        path: Path,
        before: bytes | None,
        after: bytes,
        *,
        tool: str,
        agent_id: str = "",
        call_id: str = "",
        lines: tuple[int, int] = (0, 0),
    ) -> Iterator[None]:
        """Around the writing: note that `tool` replaces `before` by `after`, with `lines` added and removed.

        The note is kept before the file is written, so that no crash loses what it held, and dropped if that fails.
        """
        change = None if before == after else self._record(path, before, after, (tool, agent_id, call_id), lines)
        try:
            yield
        except BaseException:
            if change is not None:
                with self._lock, suppress(OSError):
                    self._end(change, "forgotten")
            raise

    def undo(self, change: Change | int | None = None) -> Change:
        """Give the file of `change`, or of the change of this number, by default the newest, its content from before.

        The change is then no longer among those that can be undone. A file that it made is removed. Raises `ToolError`
        when there is nothing to undo, or when the file is no longer as the change left it: what came later must be
        undone first.
        """
        with self._lock, self._usable():
            changes = self._changes()
            number = change.number if isinstance(change, Change) else change
            undone = changes.get(max(changes, default=0) if number is None else number)
        if undone is None:
            raise ToolError("There is no such change to undo; list the changes that are kept.")
        with lock_of(undone.path), self._usable():
            self._restore(undone)
            with self._lock:
                self._end(undone, "undone")
        return undone

    def _restore(self, change: Change) -> None:
        """Write what the file held before, unless it does already, as after a crash."""
        path = change.path
        try:
            now = digest(read_bytes(path)) if path.exists() else None
            if now not in {change.before, change.after}:
                raise ToolError(f"{path} is no longer as the {change.tool} left it; restore it by hand.")
            if now == change.before:
                return
            if change.before is None:
                path.unlink()
                return
            content = self._archive.content(change)
            write_file(path, content)
        except OSError as error:
            raise ToolError(f"{path} cannot be restored: {error.strerror or error}; mend that first.") from error

    def _record(
        self, path: Path, before: bytes | None, after: bytes, who: tuple[str, str, str], lines: tuple[int, int]
    ) -> Change | None:
        content = before or b""
        with self._lock, self._usable():
            changes = self._changes()
            if len(content) > KEPT_BYTES:
                self.forgotten += 1
                return None
            was = None if before is None else digest(before)
            change = Change(self._last + 1, path, *who, time.time(), *lines, was, digest(after), len(content))
            self._archive.keep(change, content)
            self._last = change.number
            changes[change.number] = change
            self._bytes += change.size
            while self._bytes > KEPT_BYTES or len(changes) > KEPT_CHANGES:
                self._end(next(iter(changes.values())), "forgotten")
                self.forgotten += 1
            return change

    def _end(self, change: Change, ending: Ending) -> None:
        if self._changes().pop(change.number, None) is not None:
            self._bytes -= change.size
            self._archive.end(change, ending)

    def _changes(self) -> dict[int, Change]:
        if self._known is None:
            with self._usable():
                kept, self._last = self._archive.load()
            self._known = {change.number: change for change in kept}
            self._bytes = sum(change.size for change in kept)
        return self._known

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Raise `ToolError` in place of what the archive's folder raises."""
        try:
            yield
        except OSError as error:
            reason = error.strerror or error
            raise ToolError(f"Changes cannot be kept in {self._where}: {reason}; mend that first.") from error

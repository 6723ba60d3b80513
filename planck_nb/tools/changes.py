"""What tools changed on disk, newest last, and how to undo it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from planck_nb.base.errors import ToolError
from planck_nb.tools.archive import Archive, Change, Ending, FolderArchive, MemoryArchive, digest
from planck_nb.tools.file_access import exists, lock_of, remove_file, write_file
from planck_nb.tools.no_links import read_bytes

KEPT_BYTES = 64_000_000
KEPT_CHANGES = 10_000


class Changes:
    """The changes that can be undone, oldest first; they can be iterated over and counted.

    All methods raise `ToolError` if the directory cannot be used.

    Args:
        directory: Where the changes are kept, readable by this user only, also for later processes. It is created with
            the first change. By default they are kept in memory.
        kept_bytes: The most bytes of earlier contents; beyond them the oldest changes are forgotten.
        kept_changes: The most changes.
    """

    def __init__(
        self, directory: Path | None = None, *, kept_bytes: int = KEPT_BYTES, kept_changes: int = KEPT_CHANGES
    ) -> None:
        self._kept_bytes = kept_bytes
        self._kept_changes = kept_changes
        self._archive: Archive = MemoryArchive() if directory is None else FolderArchive(directory)
        self._where = "memory" if directory is None else str(directory)
        self._lock = threading.RLock()
        self._known: dict[int, Change] | None = None
        self._last = self._bytes = 0
        self.forgotten = 0
        """The number of changes that this process did not keep, or dropped, because of the limits."""

    def __iter__(self) -> Iterator[Change]:
        with self._lock:
            return iter(tuple(self._changes().values()))

    def __len__(self) -> int:
        with self._lock:
            return len(self._changes())

    def follow(self, directory: Path) -> None:
        """Keep the changes in the directory where they are now, after it was moved.

        Args:
            directory: The directory.
        """
        with self._lock:
            self._archive, self._where, self._known = FolderArchive(directory), str(directory), None

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
        """Record that the `with` block, which writes the file, replaces `before` with `after`.

        The change is recorded before the file is written, so that no crash loses what the file contained, and forgotten
        if the block raises.

        Args:
            path: The resolved path of the file.
            before: What the file contains, None if it does not exist.
            after: What it is going to contain.
            tool: The name of the tool.
            agent_id: The agent that calls the tool.
            call_id: The call.
            lines: How many lines are added and removed.
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
        """Restore the file of a change; a file that it created is removed.

        Args:
            change: The change or its number, by default the newest.

        Returns:
            The change, which can no longer be undone.

        Raises:
            ToolError: There is nothing to undo, or the file is no longer as the change left it: later changes must be
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
        """Write what the file contained before, unless it already does, as after a crash."""
        path = change.path
        try:
            now = digest(read_bytes(path)) if exists(path) else None
            if now not in {change.before, change.after}:
                raise ToolError(f"{path} is no longer as the {change.tool} left it; restore it by hand.")
            if now == change.before:
                return
            if change.before is None:
                remove_file(path)
                return
            content = self._archive.content(change)
            write_file(path, content)
        except OSError as error:
            raise ToolError(f"{path} cannot be restored: {error.strerror or error}; fix that first.") from error

    def _record(
        self, path: Path, before: bytes | None, after: bytes, who: tuple[str, str, str], lines: tuple[int, int]
    ) -> Change | None:
        content = before or b""
        with self._lock, self._usable():
            changes = self._changes()
            if len(content) > self._kept_bytes:
                self.forgotten += 1
                return None
            was = None if before is None else digest(before)
            change = Change(self._last + 1, path, *who, time.time(), *lines, was, digest(after), len(content))
            self._archive.keep(change, content)
            self._last = change.number
            changes[change.number] = change
            self._bytes += change.size
            while self._bytes > self._kept_bytes or len(changes) > self._kept_changes:
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
        """Raise `ToolError` instead of an OSError of the archive."""
        try:
            yield
        except OSError as error:
            reason = error.strerror or error
            raise ToolError(f"Changes cannot be kept in {self._where}: {reason}; fix that first.") from error

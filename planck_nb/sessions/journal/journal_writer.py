"""Writes a journal on a thread of its own: all lines that wait at the same time are written and synced together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NamedTuple, TypeAlias, TypeVar

from planck_nb.base.errors import SessionError
from planck_nb.sessions.journal.journal_file import JournalFile
from planck_nb.sessions.journal.kept_segments import KeptSegments
from planck_nb.sessions.journal.segments import Position, start_segment

T = TypeVar("T")

DoneCallback: TypeAlias = Callable[[SessionError | None], None]
"""Called on the writer's thread with None when a line is stored, or with the error that prevented it."""

GATHER_SECONDS = 0.02
MAX_SEGMENT = 128 * 1024 * 1024


class _Entry(NamedTuple):
    """A line to write. `done` is called when it is in the file, or with `sync` when it is on disk."""

    line: bytes
    done: DoneCallback | None
    sync: bool


class Writer:
    """Appends lines to a journal in the order of `put`.

    One `write` and one `fdatasync` cover all lines that wait at the same time. Lines without a `done` callback do not
    cause a sync: they are written after at most `gather_seconds` and become durable with the next line that has one. If
    writing fails, they are kept and written with the next batch, while lines with a `done` are dropped and their
    callbacks get the error.

    Args:
        journal: The file to append to. The writer closes it.
        on_written: Called on the writer's thread after each write, with the number of lines written.
        on_moved: Called there with the journal's new path after its folder was moved, before anything is acknowledged.
        gather_seconds: How long lines without a callback wait for others.
        max_segment: Bytes after which a new segment is started even if lines are written faster than they are copied
            into DuckDB.
    """

    def __init__(
        self,
        journal: JournalFile,
        on_written: Callable[[int], None],
        on_moved: Callable[[Path], None] = lambda _: None,
        *,
        gather_seconds: float = GATHER_SECONDS,
        max_segment: int = MAX_SEGMENT,
    ) -> None:
        self._journal = journal
        self._earlier = KeptSegments(journal.path)
        self._gather_seconds = gather_seconds
        self._max_segment = max_segment
        self._segment_end = max_segment
        self._on_written = on_written
        self._on_moved = on_moved
        self._path = journal.path
        self._lock = threading.Lock()
        self._wakeups: SimpleQueue[None] = SimpleQueue()
        self._waiting: list[_Entry] = []
        self._urgent = False
        self._closing = False
        self._retained: list[bytes] = []
        self._thread = threading.Thread(target=self._run, name="planck-journal", daemon=True)
        self._thread.start()

    def put(self, line: bytes, done: DoneCallback | None = None, *, sync: bool = True) -> None:
        """Queue a line without blocking. Raises SessionError after `close`."""
        with self._lock:
            if self._closing:
                raise SessionError(f"The journal {self._journal.path.name} is closed; open the session again.")
            urgent = done is not None
            if not self._waiting or (urgent and not self._urgent):
                self._wakeups.put(None)
            self._urgent = self._urgent or urgent
            self._waiting.append(_Entry(line, done, sync and urgent))

    def write(self) -> Position:
        """Return the end of the file once all lines put before are in it, or do not fit on the disk.

        Raises SessionError after `close`.
        """

        def end() -> Position:
            return Position(self._journal.segment, self._journal.size)

        return self._call(end, sync=False, despite_errors=True)  # a full disk can still be read

    def sync(self) -> Position:
        """Return when every line put before is on disk, with the end of what is on disk. Raises SessionError."""
        return self._call(lambda: Position(self._journal.segment, self._journal.durable), sync=True)

    def start_segment(self) -> None:
        """Sync the journal and continue it in a new segment. Raises SessionError."""
        self._call(self._start_segment, sync=True)

    def close(self) -> None:
        """Write what is queued, end the thread and close the file."""
        with self._lock:
            self._closing = True
            self._wakeups.put(None)
        self._thread.join()
        self._earlier.close()
        self._journal.close()

    def _call(self, function: Callable[[], T], *, sync: bool, despite_errors: bool = False) -> T:
        """Call a function on the writer's thread after every line put before, and wait for what it returns."""
        result: Future[T] = Future()

        def done(error: SessionError | None) -> None:
            if error is not None and not despite_errors:
                result.set_exception(error)
                return
            try:
                result.set_result(function())
            except BaseException as failure:  # noqa: BLE001 - raised in the waiting thread
                result.set_exception(failure)

        self.put(b"", done, sync=sync)
        return result.result()

    def _start_segment(self) -> None:
        self._journal = start_segment(self._journal)
        # Also if the segment has grown, where files have no links.
        self._segment_end = self._journal.size + self._max_segment
        self._earlier.add_new()

    def _run(self) -> None:
        closing = False
        while not closing:
            self._wakeups.get()
            if not (self._urgent or self._closing):
                # Lines without a callback are gathered, so that many events wake the thread only now and then.
                with suppress(Empty):
                    self._wakeups.get(timeout=self._gather_seconds)
            with self._lock:
                closing = self._closing
                batch, self._waiting, self._urgent = self._waiting, [], False
            self._write(batch)

    def _write(self, batch: list[_Entry]) -> None:
        lines, sync, is_call = [*self._retained], False, False
        for line, _, needs_sync in batch:  # one pass: a thread that was idle runs each further function slowly
            lines.append(line)
            sync = sync or needs_sync
            is_call = is_call or not line
        error: SessionError | None = None
        try:
            self._journal.append(b"".join(lines), sync=sync)
            self._retained = []
            if self._journal.path != self._path:
                self._path = self._journal.path
                self._earlier.follow(self._path)
                self._on_moved(self._path)
            if is_call:  # something is about to read the journal, or to close it
                self._earlier.restore()
        except SessionError as failure:
            error = failure
            self._retained += [entry.line for entry in batch if entry.done is None]
        for entry in batch:
            if entry.done is not None:
                entry.done(error)
        if self._journal.size >= self._segment_end:
            with suppress(SessionError):  # the next line gets the error
                self._journal.append(b"", sync=True)
                self._start_segment()
        if error is None and (written := len(lines) - lines.count(b"")):
            self._on_written(written)

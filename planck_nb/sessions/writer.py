"""Writes a journal: whatever is waiting goes to the disk together, on a thread of its own unless the disk is fast."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeAlias

from planck_nb.base.errors import SessionError
from planck_nb.sessions import pace
from planck_nb.sessions.journal import JournalFile
from planck_nb.sessions.segments import Position, start_segment

Done: TypeAlias = Callable[[SessionError | None], None]
"""Called on the thread that writes once the line is durable, or with what prevented it."""

_GATHER = 0.02
_SMALL = 256 * 1024


class Writer:
    """Lines in the order of `put`. One `write` and one `fdatasync` cover all lines that wait at the same time.

    Lines without a `done` are not worth a sync of their own: they are written some milliseconds later and become
    durable with the next line that has one. When the disk fails they are kept and tried again, while lines with a
    `done` are reported and dropped. `on_written` is told the number of lines of each write, on the thread that writes.
    """

    def __init__(self, journal: JournalFile, on_written: Callable[[int], None]) -> None:
        self._journal = journal
        self._on_written = on_written
        self._pace = pace.Pace()
        self._writing = threading.Lock()
        self._changed = threading.Condition()
        self._waiting: list[tuple[bytes, Done | None]] = []
        self._size = 0
        self._urgent = False
        self._closing = False
        self._wrote_in_iteration = False
        self._kept: list[bytes] = []
        self._thread = threading.Thread(target=self._run, name="planck-journal", daemon=True)
        self._thread.start()

    def put(self, line: bytes, done: Done | None = None) -> None:
        """Queue a line. Never blocks. To be followed by `hurry` where there is a `done`; by nothing after `close`."""
        with self._changed:
            first = not self._waiting
            self._waiting.append((line, done))
            self._size += len(line)
            if first and done is None:
                self._changed.notify()

    def hurry(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have what waits written as soon as possible; to be called on the running loop.

        While the disk is fast, the first to hurry in an iteration of the loop writes at once, and those that follow
        are written together in the next. Otherwise the thread does it.
        """
        if self._wrote_in_iteration:
            loop.call_soon(self._write_on_loop)
        else:
            self._wrote_in_iteration = True
            loop.call_soon(self._next_iteration)
            self._write_on_loop()

    def sync(self) -> Position:
        """Write every line put before, on the calling thread; where the journal then ends on disk.

        Raises SessionError when the disk does not take them.
        """
        with self._writing:
            self._write_all()
            return Position(self._journal.segment, self._journal.durable)

    def start_segment(self) -> None:
        """Let the journal go on in a new segment; returns when it does. Raises SessionError."""
        with self._writing:
            self._write_all()
            self._journal = start_segment(self._journal)

    def close(self) -> None:
        """Write what waits, end the thread and close the file."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()
        self._journal.close()

    def _suits_a_loop(self) -> bool:
        return self._pace.fast and self._size <= _SMALL

    def _next_iteration(self) -> None:
        self._wrote_in_iteration = False

    def _wake_thread(self) -> None:
        with self._changed:
            self._urgent = True
            self._changed.notify()

    def _write_on_loop(self) -> None:
        if not self._waiting:
            return
        if not self._suits_a_loop() or not self._writing.acquire(blocking=False):
            self._wake_thread()
            return
        try:
            self._write_waiting()
        finally:
            self._writing.release()

    def _write_all(self) -> None:
        error = self._write_waiting(sync=True)
        if error is not None:
            raise error

    def _run(self) -> None:
        closing = False
        while not closing:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                # What nobody waits for goes with what comes next, or with more of its kind.
                self._changed.wait_for(lambda: self._urgent or self._closing, _GATHER)
                closing = self._closing
            with self._writing:
                self._write_waiting()

    def _write_waiting(self, *, sync: bool = False) -> SessionError | None:
        """Write what waits, while holding `_writing`; what prevented it."""
        batch, size = self._take(), self._journal.size
        try:
            return self._write(batch, sync=sync)
        except BaseException:
            # Ctrl-C comes in the main thread at any moment. The thread, which it cannot reach, finishes the work.
            written = self._journal.size > size
            with self._changed:
                self._waiting[:0] = [(b"" if written else line, done) for line, done in batch]
            self._wake_thread()
            raise

    def _take(self) -> list[tuple[bytes, Done | None]]:
        with self._changed:
            batch, self._waiting = self._waiting, []
            self._size = 0
            self._urgent = False
            return batch

    def _write(self, batch: list[tuple[bytes, Done | None]], *, sync: bool) -> SessionError | None:
        waiting = [done for _, done in batch if done is not None]
        lines = [*self._kept, *(line for line, _ in batch)]
        data = b"".join(lines)
        start = pace.now()
        error: SessionError | None = None
        try:
            self._journal.append(data, sync=sync or bool(waiting))
            self._kept = []
        except SessionError as failure:
            error = failure
            self._kept.extend(line for line, done in batch if done is None)
        if waiting and 0 < len(data) <= _SMALL:
            self._pace.note(pace.now() - start, held_up=threading.current_thread() is not self._thread)
        for done in waiting:
            done(error)
        if error is None and data:
            self._on_written(sum(map(bool, lines)))
        return error

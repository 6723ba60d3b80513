"""The thread that writes a journal: whatever is waiting goes to the disk together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeAlias

from planck_nb.base.errors import SessionError
from planck_nb.sessions.journal import JournalFile
from planck_nb.sessions.segments import Position, start_segment

Done: TypeAlias = Callable[[SessionError | None], None]
"""Called on the writer's thread once the line is durable, or with what prevented it."""


class Writer:
    """Lines in the order of `put`. One `write` and one `fdatasync` cover all lines that wait at the same time.

    Lines without a `done` are not worth a sync of their own; they become durable with the next line that has one. When
    the disk fails they are kept and tried again, while lines with a `done` are reported and dropped. `on_written` is
    told the number of lines of each write, on the writer's thread.
    """

    def __init__(self, journal: JournalFile, on_written: Callable[[int], None]) -> None:
        self._journal = journal
        self._on_written = on_written
        self._queue: SimpleQueue[tuple[bytes, Done | None] | None] = SimpleQueue()
        self._kept: list[bytes] = []
        self._thread = threading.Thread(target=self._run, name="planck-journal", daemon=True)
        self._thread.start()

    def put(self, line: bytes, done: Done | None = None) -> None:
        """Queue a line. Never blocks. The caller puts nothing after `close`."""
        self._queue.put((line, done))

    def sync(self) -> Position:
        """Wait until every line put before is on disk; where the journal then ends.

        Raises SessionError when the disk does not take them.
        """
        reached: Future[Position] = Future()

        def report(error: SessionError | None) -> None:
            if error is None:
                reached.set_result(Position(self._journal.segment, self._journal.durable))
            else:
                reached.set_exception(error)

        self.put(b"", report)
        return reached.result()

    def start_segment(self) -> None:
        """Let the journal go on in a new segment; returns when it does. Raises SessionError."""
        started: Future[None] = Future()

        def start(error: SessionError | None) -> None:
            try:
                if error is None:
                    self._journal = start_segment(self._journal)
            except SessionError as failure:
                error = failure
            if error is None:
                started.set_result(None)
            else:
                started.set_exception(error)

        self.put(b"", start)
        started.result()

    def close(self) -> None:
        """Write what waits, end the thread and close the file."""
        self._queue.put(None)
        self._thread.join()
        self._journal.close()

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            batch = [first]
            stop = False
            for _ in range(self._queue.qsize()):
                item = self._queue.get()
                if item is None:
                    stop = True
                    break
                batch.append(item)
            self._write(batch)
            if stop:
                return

    def _write(self, batch: list[tuple[bytes, Done | None]]) -> None:
        waiting = [done for _, done in batch if done is not None]
        lines = [*self._kept, *(line for line, _ in batch)]
        error: SessionError | None = None
        try:
            self._journal.append(b"".join(lines), sync=bool(waiting))
            self._kept = []
        except SessionError as failure:
            error = failure
            self._kept.extend(line for line, done in batch if done is None)
        for done in waiting:
            done(error)
        if error is None:
            self._on_written(sum(map(bool, lines)))

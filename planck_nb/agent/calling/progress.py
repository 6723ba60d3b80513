"""What a running tool shows of its work, joined so that it comes at a pace that a reader can follow."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

INTERVAL = 0.05
"""Seconds between two reports of one call, at least."""

REPORT_CHARACTERS = 4_000
"""The longest report; of what comes faster only the newest is shown."""


class ProgressReporter:
    """Joins the texts of one call and hands them to `show` on the event loop it was made on.

    Calling it never waits, from whatever thread. Once closed it shows nothing more.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._pieces: list[str] = []
        self._size = 0
        self._waiting = self._closed = False
        self._shown_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self, text: str) -> None:
        """Show `text` soon, joined with what comes just before and after it."""
        with self._lock:
            if self._closed or not text:
                return
            self._pieces.append(text)
            self._size += len(text)
            if self._size > 2 * REPORT_CHARACTERS:
                self._pieces = [_newest("".join(self._pieces))]
                self._size = len(self._pieces[0])
            if self._waiting:
                return
            self._waiting = True
        try:
            self._loop.call_soon_threadsafe(self._plan)
        except RuntimeError:
            return  # the loop is closed: nobody watches any more

    def close(self) -> None:
        """Show what waits. Called on the event loop, when the tool has ended."""
        if self._timer is not None:
            self._timer.cancel()
        self._report()
        with self._lock:
            self._closed = True

    def _plan(self) -> None:
        wait = self._shown_at + INTERVAL - self._loop.time()
        self._timer = self._loop.call_later(max(wait, 0.0), self._report)

    def _report(self) -> None:
        with self._lock:
            text = _newest("".join(self._pieces))
            self._pieces.clear()
            self._size = 0
            self._waiting = False
            shown = bool(text) and not self._closed
        if shown:
            self._shown_at = self._loop.time()
            self._show(text)


def _newest(text: str) -> str:
    return text if len(text) <= REPORT_CHARACTERS else f"…{text[1 - REPORT_CHARACTERS :]}"

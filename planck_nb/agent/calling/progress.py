"""Reports the progress of a running tool, joined so that events do not come faster than people can read."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from planck_nb.base.secrets import MAX_LENGTH, process_secrets, redact, unfinished_secret

INTERVAL = 0.05
"""The minimum number of seconds between two reports of one call."""

REPORT_CHARACTERS = 4_000
"""The maximum length of a report; if there is more, only the newest text is shown."""


_running: ContextVar[ProgressReporter | None] = ContextVar("planck_nb_running_call", default=None)


def running_call() -> ProgressReporter | None:
    """Return the reporter of the call that the current code belongs to, None if it belongs to none that is running."""
    reporter = _running.get()
    return None if reporter is None or reporter.is_closed else reporter


class ProgressReporter:
    """Joins the texts of one call and passes them to `show`, on the event loop that was running when it was created.

    It can be called from any thread and never blocks. Secrets are not shown. Once closed it shows nothing more.

    Args:
        show: Called with the joined text.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._pieces: list[str] = []
        self._size = 0
        self._waiting = self._closed = False
        self.is_stopped = False
        """The user has stopped a task in this call."""
        self._shown_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self, text: str) -> None:
        """Show `text` soon, joined with the texts just before and after it."""
        with self._lock:
            if self._closed or not text:
                return
            self._pieces.append(text)
            self._size += len(text)
            if self._size > 2 * REPORT_CHARACTERS:
                self._pieces = [_newest("".join(self._pieces), process_secrets())]
                self._size = len(self._pieces[0])
            if self._waiting:
                return
            self._waiting = True
        try:
            self._loop.call_soon_threadsafe(self._schedule)
        except RuntimeError:
            return  # the loop is closed, so nothing can be shown any more

    @property
    def is_closed(self) -> bool:
        """Whether the tool has ended."""
        return self._closed

    @contextmanager
    def in_context(self) -> Iterator[None]:
        """Let `running_call` return this reporter in the block, and in the tasks and threads that it starts."""
        token = _running.set(self)
        try:
            yield
        finally:
            _running.reset(token)

    def close(self) -> None:
        """Show what has not been shown yet. Called on the event loop, when the tool has ended."""
        if self._timer is not None:
            self._timer.cancel()
        if self._pieces:
            self._report(last=True)
        with self._lock:
            self._closed = True

    def _schedule(self) -> None:
        wait = self._shown_at + INTERVAL - self._loop.time()
        self._timer = self._loop.call_later(max(wait, 0.0), self._report)

    def _report(self, *, last: bool = False) -> None:
        known = process_secrets()
        with self._lock:
            text = _newest("".join(self._pieces), known)
            # A secret may have arrived in part only; its beginning waits for the rest.
            held = 0 if last else unfinished_secret(text, known)
            shown, rest = text[: len(text) - held], text[len(text) - held :]
            self._pieces = [rest] if rest else []
            self._size = len(rest)
            self._waiting = False
            closed = self._closed
        if shown and not closed:
            self._shown_at = self._loop.time()
            self._show(redact(shown, known))


def _newest(text: str, known: Mapping[str, str]) -> str:
    """The newest part of a text; without secrets if it is cut, because half of one would not be recognised later."""
    if len(text) <= REPORT_CHARACTERS:
        return text
    end = text[-2 * MAX_LENGTH :]
    # The first cut may leave half a secret, which is not recognised; this one removes it.
    text = redact(end, known)[0 if len(end) == len(text) else MAX_LENGTH :]
    return text if len(text) <= REPORT_CHARACTERS else f"…{text[1 - REPORT_CHARACTERS :]}"

"""Interrupts Python code in another thread by raising an exception there."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress

PENDING = 0.005
"""Seconds per attempt, where a pending exception stops all other threads."""

MAX_PAUSE = 1.0
"""Longest pause between two such attempts, in seconds."""


class ThreadInterruption:
    """Interruption for code in one thread between `begin` and `end`.

    Args:
        exception: The type to raise in the thread.
    """

    def __init__(self, exception: type[BaseException]) -> None:
        self._exception = exception
        self._running = threading.Lock()
        """Held while `_thread` changes or is interrupted."""
        self._thread: int | None = None
        self._interrupted = False

    def begin(self) -> None:
        """From now on, let `interrupt` affect the calling thread."""
        self._thread = threading.get_ident()

    def end(self) -> None:
        """From now on, make `interrupt` ineffective, and withdraw a pending exception."""
        with self._running:
            thread, self._thread = self._thread, None
        if self._interrupted:
            _take_back(thread)

    def interrupt(self) -> None:
        """Raise the exception at the thread's next Python instruction.

        Before `begin` and after `end` this has no effect.
        """
        with self._running:
            if self._thread is None:
                return
            self._interrupted = True
            if not _stalls_while_pending():
                _raise_in_thread(self._thread, self._exception)
                return
        threading.Thread(target=self._interrupt_repeatedly, name="planck-interrupt", daemon=True).start()

    def _interrupt_repeatedly(self) -> None:
        """Try at intervals until the thread raises the exception.

        The exception is not pending in between.
        """
        sys.settrace(None)  # else this thread would be stopped too
        delivery, target = threading.Event(), self._thread
        kind = self._exception

        def note(_: BaseException) -> None:
            if threading.get_ident() == target:  # until it begins, CPython takes a new thread for its creator
                delivery.set()

        interruption = type(kind.__name__, (kind,), {"__init__": note})
        pause = PENDING
        while True:
            with self._running:
                if self._thread is None:
                    return
                _raise_in_thread(self._thread, interruption)
            time.sleep(PENDING)
            with self._running:
                if self._thread is None or delivery.is_set():
                    return
                _take_back(self._thread)
            if delivery.wait(pause):
                return
            pause = min(2 * pause, MAX_PAUSE)


def _stalls_while_pending() -> bool:
    """Return whether a pending exception in one thread stops all others.

    CPython 3.11 enters a traced function again and again while an exception is pending: a blocked function would stop
    the event loop until it returns. Debuggers and coverage tools trace.
    """
    return sys.version_info < (3, 12) and (sys.gettrace() is not None or threading.gettrace() is not None)


def _raise_in_thread(thread: int | None, exception: type[BaseException] | None) -> None:
    """Raise an exception in a thread, or withdraw one with None.

    The thread raises it at its next Python instruction.
    """
    import ctypes  # noqa: PLC0415 - 13 ms, paid with the first function that is interrupted

    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread or 0), ctypes.py_object() if exception is None else ctypes.py_object(exception)
    )


class _TakenBackError(BaseException):
    """Raised and handled in `_take_back` only."""


def _take_back(thread: int | None) -> None:
    """Withdraw a pending exception from a thread.

    Pending exceptions share a flag for all threads, which is reset only when a thread raises its own.
    """
    here = threading.get_ident()
    with suppress(_TakenBackError):
        if thread != here:
            _raise_in_thread(thread, None)
        _raise_in_thread(here, _TakenBackError)  # instead of a pending one here
        while True:
            pass

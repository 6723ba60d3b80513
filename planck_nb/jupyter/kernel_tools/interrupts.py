"""Stops code that blocks the event loop of the kernel: at an interrupt (■), and after a time limit.

Python handles signals in the main thread between two instructions, or when a call of the operating system such as that
of `time.sleep` is interrupted. Code in C that does neither is stopped only when it returns.
"""

from __future__ import annotations

import _thread
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from planck_nb.jupyter.ipython.bridge import has_pending_interrupt

_AGAIN = 0.5
"""Seconds until code that goes on in spite of the time limit is interrupted again."""

_DELIVERY = 1.0
"""Seconds at most that a signal takes from one thread to another."""


class StopSignal:
    """Raises `KeyboardInterrupt` in the code of one call, and in no other code.

    Args:
        on_interrupt: Called in the signal handler when the user interrupts.
    """

    def __init__(self, on_interrupt: Callable[[], None]) -> None:
        self._on_interrupt = on_interrupt
        self._in_code = False
        self._missed = False
        """A signal came where no code ran, so the next code of the call must not begin."""
        self._lock = threading.Lock()
        self._before: Any = None
        self._handling = False
        self._sent = False
        self._ended = threading.Event()
        self.interrupted = False
        """The user has interrupted the call."""
        self.late = False
        """The call has reached its time limit."""

    def call(self, function: Callable[[], Any], *, instead: Callable[[], Any] | None = None) -> Any:  # noqa: ANN401 - what the function returns
        """Call code of the user, which a signal may interrupt; nothing else is interrupted.

        Args:
            function: Calls the code.
            instead: Called instead if there was a signal after the code before; None raises `KeyboardInterrupt`.
        """
        before = self._in_code
        try:
            self._in_code = True  # first, so that no signal can come between the question and the code
            if not self._missed:
                return function()
            self._missed = False
            if instead is None:
                raise KeyboardInterrupt
            return instead()
        finally:
            self._in_code = before

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle SIGINT in the block, and restore the handler after it. The block awaits only in `released`."""
        if self._handling or threading.current_thread() is not threading.main_thread():
            yield
            return
        self._install()
        try:
            yield
        finally:
            self._restore()

    @contextmanager
    def released(self) -> Iterator[None]:
        """Within `handled`, leave SIGINT to its former handler in the block, which awaits."""
        if not self._handling or threading.current_thread() is not threading.main_thread():
            yield
            return
        self._restore()
        try:
            yield
        finally:
            self._install()

    def _install(self) -> None:
        self._before = signal.signal(signal.SIGINT, self._handle)
        if has_pending_interrupt():  # which came while the code awaited
            self._missed = self.interrupted = True
        with self._lock:
            self._handling = True

    def _restore(self) -> None:
        with self._lock:
            self._handling = False
        deadline = time.monotonic() + _DELIVERY
        while self._sent and time.monotonic() < deadline:  # the signal would reach the handler that is restored
            time.sleep(0.001)
        before, self._before, self._missed = self._before, None, False
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)

    def limit(self, seconds: float) -> None:
        """Interrupt the code after some seconds, counted from now, until `end` is called."""
        threading.Thread(target=self._watch, args=(seconds,), name="planck time limit", daemon=True).start()

    def end(self) -> None:
        """End the time limit."""
        self._ended.set()

    def _watch(self, seconds: float) -> None:
        while not self._ended.wait(seconds):
            seconds = _AGAIN
            with self._lock:
                if self._handling and not self._sent:
                    self.late = self._sent = True
                    _signal_main_thread()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._sent:
            self._sent = False
        else:
            self.interrupted = True
            before = self._before
            if callable(before) and before is not signal.default_int_handler:
                with suppress(KeyboardInterrupt):
                    before(number, frame)
            self._on_interrupt()
        if self._in_code:
            raise KeyboardInterrupt
        self._missed = True


def _signal_main_thread() -> None:
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, signal.SIGINT)
    else:
        _thread.interrupt_main()

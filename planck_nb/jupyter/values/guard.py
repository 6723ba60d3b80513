"""Calls potentially harmful code from other objects for a limited time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import TypeVar

from planck_nb.base.interruption import ThreadInterruption
from planck_nb.base.text import printable

T = TypeVar("T")

_MIN_SECONDS = 0.005
"""Shortest time for a call, in seconds.

With less time left the call is not made.
"""

_ERROR_CHARACTERS = 200

_enclosing: ContextVar[float] = ContextVar("planck_nb_guard", default=float("inf"))
"""End of the call around this code."""


class UnusableError(Exception):
    """The object's own code raised or took too long.

    The message is the reason, as a clause.
    """


class Guard:
    """A caller for foreign code, with a common time limit.

    Each call runs in a thread and gets half the remaining time, so a slow call leaves time for others. A late call is
    stopped at its next line of Python, or abandoned if it waits in C.

    Args:
        seconds: Time for all calls.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def call(self, function: Callable[[], T]) -> T:
        """Call a function.

        Args:
            function: Calls the foreign code, without arguments.

        Returns:
            The function's result.

        Raises:
            UnusableError: It raised, or took too long.
        """
        seconds = (min(self._end, _enclosing.get()) - time.monotonic()) / 2
        if seconds < _MIN_SECONDS:
            raise UnusableError("there was no time left")
        results: list[T] = []
        problems: list[str] = []
        interruption = ThreadInterruption(SystemExit)  # which ends a thread without printing

        def work() -> None:
            interruption.begin()
            try:
                _enclosing.set(time.monotonic() + seconds)
                results.append(function())
            except UnusableError as error:
                problems.append(str(error))
            except BaseException as error:  # noqa: BLE001 - foreign code may raise anything
                problems.append(_described(error))
            interruption.end()

        thread = threading.Thread(target=copy_context().run, args=(work,), name="planck-values", daemon=True)
        thread.start()
        try:
            thread.join(seconds)
        finally:
            is_late = thread.is_alive()
            if is_late:
                interruption.interrupt()
        if is_late:
            raise UnusableError(f"it took longer than {seconds:.1g} s")
        if results:
            return results[0]
        raise UnusableError(problems[0] if problems else "it ended without a result")


def _described(error: BaseException) -> str:
    name = type.__dict__["__name__"].__get__(type(error))
    try:
        text = printable(str(error))[:_ERROR_CHARACTERS]
    except Exception:  # noqa: BLE001 - the error's own code
        return str(name)
    return f"{name}: {text}" if text else str(name)

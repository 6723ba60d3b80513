"""The user's functions on the event loop, and interrupts for them.

An interrupt ends a function which blocks the loop. Only a frontend knows about interrupts. It raises `UserInterrupt` in
a function whose caller is marked here and turns the exception into a result: elsewhere, an exception between two awaits
could end the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from types import CodeType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

STOPPED = "The call was stopped before it returned."

_callers: set[CodeType] = set()
_observes: ContextVar[bool] = ContextVar("planck_nb_observes", default=False)


class UserInterrupt(KeyboardInterrupt):
    """Interrupt (■) in a user's function which blocks the event loop."""

    def __init__(self) -> None:
        super().__init__("It blocked the event loop, and the user stopped it.")


def calls_user_code(function: F) -> F:
    """Mark a function which calls the user's code.

    Its caller handles `UserInterrupt`.
    """
    _callers.add(function.__code__)
    return function


def is_marked(code: CodeType) -> bool:
    """Return whether the code belongs to a marked function."""
    return code in _callers


def mark_observer() -> None:
    """Note in the current task that it reads events.

    An interrupt may then end it, too.
    """
    _observes.set(True)


def is_observer() -> bool:
    """Return whether the current task, or the one before it, reads events."""
    return _observes.get()

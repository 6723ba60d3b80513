"""Event loops in which time passes only while everything waits, and then at once."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from planck_nb import ai

T = TypeVar("T")


class _Waiting(selectors.DefaultSelector):
    """A selector that does not wait, and counts the time for which it would have waited."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if not ready and timeout is None:
            ready = super().select(None)  # for another thread
        elif not ready and timeout is not None and timeout > 0:
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop with a time of its own, from 0."""

    def __init__(self) -> None:
        self._waiting = _Waiting()
        super().__init__(self._waiting)

    def time(self) -> float:
        return self._waiting.now


def virtually(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())


def policy(**settings: Any) -> ai.RetryPolicy:
    """A retry policy with the time of the running loop."""
    return ai.RetryPolicy(clock=asyncio.get_running_loop().time, **settings)

"""Running event loops, and calls from one loop to another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, Generic, TypeVar

from planck_nb.base.errors import WrongLoopError

T = TypeVar("T")

HAND_OVER = 5.0
"""Seconds in which another thread's event loop has to start a call."""


class LoopLock:
    """A lock for tasks in one event loop at a time.

    An `asyncio.Lock` with earlier waiters cannot be used in another loop, such as the next call of `run_sync`.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._lock = loop, asyncio.Lock()
        await self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()


class SharedLookup(Generic[T]):
    """A lookup which all that ask at the same moment share.

    A moment is one iteration of the event loop: who began to wait after a change always sees it.
    """

    def __init__(self) -> None:
        self._latest: tuple[asyncio.AbstractEventLoop, T] | None = None

    def __call__(self, look_up: Callable[[], T]) -> T:
        """Return what was found in this iteration.

        Args:
            look_up: Called for the first who asks, and always without a running loop.
        """
        loop, latest = running_loop(), self._latest
        if loop is None:
            return look_up()
        if latest is not None and latest[0] is loop:
            return latest[1]
        result = look_up()
        self._latest = loop, result
        loop.call_soon(self._forget)
        return result

    def _forget(self) -> None:
        self._latest = None


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return this thread's running event loop, if any."""
    return asyncio._get_running_loop()  # noqa: SLF001 - asyncio exports it; the public function raises instead


def has_running_loop() -> bool:
    """Return whether this thread runs an event loop now."""
    return running_loop() is not None


def is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether this thread runs the event loop now."""
    return running_loop() is loop


async def await_in_loop(loop: asyncio.AbstractEventLoop, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Await `function()` on another thread's event loop.

    Cancelling the await cancels the function there.

    Raises:
        WrongLoopError: The loop is closed, or is closed meanwhile.
    """
    coroutine = function()
    try:
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    except RuntimeError:
        coroutine.close()
        raise _loop_is_closed() from None
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) and task.cancelling():
            raise
        raise _loop_is_closed() from None


def call_in_loop(loop: asyncio.AbstractEventLoop | None, function: Callable[[], T], *, seconds: float = HAND_OVER) -> T:
    """Call a quick function in an event loop's thread.

    The thread may be the caller's own. Returns the function's result.

    Args:
        loop: The loop; None calls the function in this thread.
        function: The function.
        seconds: Time in which the thread has to begin.

    Raises:
        WrongLoopError: The loop is blocked or closed. The function was then not called.
    """
    if loop is None or not loop.is_running() or is_running_here(loop):
        return function()
    outcome: Future[T] = Future()

    def call() -> None:
        if not outcome.set_running_or_notify_cancel():
            return
        try:
            outcome.set_result(function())
        except Exception as error:  # noqa: BLE001 - raised in the thread that waits
            outcome.set_exception(error)

    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:
        raise _loop_is_closed() from None
    if wait([outcome], seconds).not_done and outcome.cancel():
        raise WrongLoopError(
            "The agent is used by the event loop of another thread, which is blocked, perhaps because it waits for "
            "this one; call it there, or let that loop run meanwhile, as `await asyncio.to_thread(…)` does."
        )
    return outcome.result()


def _loop_is_closed() -> WrongLoopError:
    return WrongLoopError(
        "The event loop that the agent was used in was closed before there was an answer; send the prompt again."
    )

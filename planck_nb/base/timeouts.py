"""Time limits with fewer timers than those in `asyncio.timeout`."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Generator
from time import monotonic
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast

T = TypeVar("T")


async def within(limit: float | asyncio.Timeout, awaitable: Awaitable[T]) -> T:
    """Await for at most this long, or raise `TimeoutError`.

    A timer is started only if the awaitable has to wait, because it costs as much as reading available data.

    Args:
        limit: Seconds, or a new `asyncio.timeout`, which tells afterwards whether it has expired.
        awaitable: The awaitable.
    """
    steps = awaitable.__await__()
    try:
        first = next(steps)
    except StopIteration as end:
        return cast("T", end.value)
    async with limit if isinstance(limit, asyncio.Timeout) else asyncio.timeout(limit):
        return await _Started(steps, first)


class ReusableTimeout:
    """Time limit for each of many blocks, with a single timer.

        with timeout:
            data = await connection.read()

    A block which takes too long is cancelled, and raises `TimeoutError`. A separate timer for each would cost as much
    as reading a piece of data. Only one task at a time may be in a block, and the block must end when it is cancelled.
    Call `close` after the last block.

    Args:
        seconds: The limit for each block, None for unlimited time.
    """

    def __init__(self, seconds: float | None) -> None:
        self._usual = self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._fires_at = 0.0
        """The timer's end."""
        self._deadline = 0.0
        self._waiting: asyncio.Task[Any] | None = None
        self._cancellations = 0
        """Number of earlier cancellations, when the block began."""
        self._expired = False

    @property
    def expired(self) -> bool:
        """Return whether the latest block took too long."""
        return self._expired

    def of(self, seconds: float | None) -> Self:
        """Return the same timeout with another limit for the next block.

        None stands for the usual limit.
        """
        self._seconds = self._usual if seconds is None else seconds
        return self

    def __enter__(self) -> None:
        self._expired = False
        seconds, self._seconds = self._seconds, self._usual
        task = None if seconds is None else asyncio.current_task()
        if seconds is None or task is None:
            return
        self._waiting = task
        self._cancellations = task.cancelling()
        now = monotonic()
        self._deadline = now + seconds
        if self._timer is None or self._fires_at > self._deadline:
            self.close()
            # A timer that fires too early is started again, so a later block with a shorter limit needs no other.
            self._start_timer(seconds if self._usual is None else min(seconds, self._usual), now, task.get_loop())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._waiting = self._waiting, None
        if error is None or task is None or not self._expired:
            return
        if task.uncancel() <= self._cancellations and isinstance(error, asyncio.CancelledError):
            raise TimeoutError from error

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start_timer(self, seconds: float, now: float, loop: asyncio.AbstractEventLoop) -> None:
        self._fires_at = now + seconds
        # The loop keeps a cancelled timer until its end, perhaps for an hour, and with it the timer's context, which in
        # a turn holds the turn's results.
        self._timer = loop.call_later(seconds, self._check, loop, context=contextvars.Context())

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel a late block; otherwise start the timer again for its deadline."""
        self._timer = None
        if self._waiting is None:
            return
        if (now := monotonic()) < self._deadline:
            self._start_timer(self._deadline - now, now, loop)
        else:
            self._expired = True
            self._waiting.cancel()


class _Started(Generic[T]):
    """An awaitable after its first step."""

    def __init__(self, steps: Generator[Any, Any, T], first: object) -> None:
        self._steps = steps
        self._first = first

    def __await__(self) -> Generator[Any, Any, T]:
        step = self._first
        while True:
            try:
                yield step
            except BaseException as error:  # noqa: BLE001 - every exception thrown in belongs to the awaitable
                try:
                    step = self._steps.throw(error)
                except StopIteration as end:
                    return cast("T", end.value)
            else:
                return (yield from self._steps)

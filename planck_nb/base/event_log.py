"""An append-only log of events that many readers follow at their own pace.

The cost of appending does not depend on the number of readers or how far they lag: a reader is a position in the log,
not a queue. A bounded log drops its oldest events; a slow reader skips those, and counts the events that it missed, so
that it can tell when it has to start again from a snapshot.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from operator import length_hint
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from planck_nb.base.aio import is_running_here

T = TypeVar("T")

_NOTHING: Iterator[Any] = iter(())


class EventLog(Generic[T]):
    """Events in order.

    Args:
        limit: The number of events that are kept for late readers; None for all.
    """

    __slots__ = ("_closed", "_events", "_waiters", "end")

    def __init__(self, *, limit: int | None = None) -> None:
        self._events: deque[T] = deque(maxlen=limit)
        self._waiters: list[asyncio.Future[None]] = []
        self._closed = False
        self.end = 0
        """The position that the next event will have."""

    @property
    def start(self) -> int:
        """The position of the oldest event that is kept."""
        return self.end - len(self._events)

    @property
    def closed(self) -> bool:
        """Whether the log has ended, so that no event will follow."""
        return self._closed

    def append(self, event: T) -> None:
        """Add an event and wake the readers that wait for one, in any event loop."""
        self._events.append(event)
        self.end += 1
        if self._waiters:
            self._wake()

    def close(self) -> None:
        """End the log. Readers receive the remaining events and then stop."""
        self._closed = True
        self._wake()

    def since(self, position: int) -> list[T]:
        """The kept events from `position` on."""
        events, count = self._events, self.end - position
        return list(events) if count >= len(events) else [events[-index] for index in range(count, 0, -1)]

    def subscribe(self, position: int | None = None) -> Subscription[T]:
        """A reader that starts at `position`; by default after the newest event."""
        return Subscription(self, self.end if position is None else position)

    async def wait_beyond(self, position: int) -> None:
        """Return once there is an event at `position`, or the log is closed."""
        while self.end <= position and not self._closed:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            if self.end > position or self._closed:  # by another thread, which may have seen no waiter
                self._wake()
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
                raise

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if is_running_here(waiter.get_loop()):
                _settle(waiter)
            else:  # a reader of the event loop of another thread
                with suppress(RuntimeError):  # which is closed
                    waiter.get_loop().call_soon_threadsafe(_settle, waiter)


def _settle(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Subscription(Generic[T]):
    """One reader of an `EventLog`: an async iterator, and an async context manager that ends it.

    `missed` counts the events that the log dropped before this reader reached them.
    """

    __slots__ = ("_ended", "_log", "_pending", "_position", "missed")

    def __init__(self, log: EventLog[T], position: int) -> None:
        self._log = log
        self._position = position
        self._pending: Iterator[T] = _NOTHING
        self._ended = False
        self.missed = 0

    @property
    def position(self) -> int:
        """The position of the next event that this reader returns, for `EventLog.subscribe`."""
        return self._position - length_hint(self._pending)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop reading."""
        self._ended = True
        self._pending = _NOTHING

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        log = self._log
        while True:
            for event in self._pending:
                return event
            if self._ended:
                raise StopAsyncIteration
            end = log.end
            if end <= self._position:
                if log.closed:
                    raise StopAsyncIteration
                await log.wait_beyond(self._position)
                continue
            if self._position < log.start:
                self.missed += log.start - self._position
                self._position = log.start
            self._pending = iter(log.since(self._position))
            self._position = end

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
from itertools import islice
from operator import length_hint
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

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
        # In this order: Python switches threads only after a call, and readers compute positions from both.
        self.end += 1
        self._events.append(event)
        if self._waiters:
            self._wake()

    def close(self) -> None:
        """End the log. Readers receive the remaining events and then stop."""
        self._closed = True
        self._wake()

    def since(self, position: int) -> list[T]:
        """The kept events from `position` on."""
        return self.read(position)[0]

    def read(self, position: int) -> tuple[list[T], int]:
        """The kept events from `position` on, and the position after them, also while other threads append."""
        while True:
            end = self.end
            newest_first = reversed(self._events)  # no call in between, so that both are of the same moment
            try:
                events = list(islice(newest_first, max(end - position, 0)))
            except RuntimeError:  # an event was appended meanwhile
                continue
            events.reverse()
            return events, end

    def subscribe(self, position: int | None = None) -> Subscription[T]:
        """A reader that starts at `position`; by default after the newest event."""
        return Subscription(self, self.end if position is None else position)

    async def wait_beyond(self, position: int) -> None:
        """Return once there is an event at `position`, or the log is closed."""
        while self.end <= position and not self._closed:
            waiter = self.waiter(position)
            try:
                await waiter
            except asyncio.CancelledError:
                self.forget(waiter)
                raise

    def waiter(self, position: int) -> asyncio.Future[None]:
        """A future that is done once there may be an event at `position`, or the log is closed.

        A caller that stops waiting for it must call `forget`.
        """
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        if self.end > position or self._closed:  # through another thread, which may not have seen this waiter
            self._wake()
        return waiter

    def forget(self, waiter: asyncio.Future[None]) -> None:
        """Drop a future that nobody waits for."""
        with suppress(ValueError):  # it is done
            self._waiters.remove(waiter)

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        here = asyncio._get_running_loop()  # noqa: SLF001 - `running_loop`, without the extra call
        for waiter in waiters:
            if waiter.get_loop() is here:
                if not waiter.done():
                    waiter.set_result(None)
            else:  # a reader in another thread's event loop
                with suppress(RuntimeError):  # it is closed
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
        for event in self._pending:
            return event
        log = self._log
        while not self._ended:
            end = log.end
            if end == self._position + 1 and log._events:  # noqa: SLF001 - of this module
                self._position = end  # the usual case: the reader keeps up
                return log._events[-1]  # noqa: SLF001
            if end > self._position:
                events, end = log.read(self._position)
                self.missed += end - self._position - len(events)
                self._position = end
                self._pending = iter(events)
                for event in self._pending:
                    return event
            elif log._closed:  # noqa: SLF001
                break
            else:  # as `wait_beyond` does, but without a coroutine for each event
                waiter = log.waiter(self._position)
                try:
                    await waiter
                except asyncio.CancelledError:
                    log.forget(waiter)
                    raise
        raise StopAsyncIteration

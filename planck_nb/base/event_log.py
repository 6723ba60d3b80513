"""An append-only event log for many readers at their own pace.

Appending costs the same for any number of readers, however far they lag: a reader is a position in the log rather than
a queue. A bounded log drops its oldest events; a slow reader skips and counts those, and so knows when to start again
from a snapshot.
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
        limit: How many events to keep for late readers; None for all.
    """

    __slots__ = ("_closed", "_events", "_waiters", "end")

    def __init__(self, *, limit: int | None = None) -> None:
        self._events: deque[T] = deque(maxlen=limit)
        self._waiters: list[asyncio.Future[None]] = []
        self._closed = False
        self.end = 0
        """Position for the next event."""

    @property
    def start(self) -> int:
        """Return the oldest event's position."""
        return self.end - len(self._events)

    @property
    def closed(self) -> bool:
        """Return whether the log has ended."""
        return self._closed

    def append(self, event: T) -> None:
        """Add an event and wake waiting readers in any event loop."""
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
        """Return the events from `position` on which the log still has."""
        return self.read(position)[0]

    def read(self, position: int) -> tuple[list[T], int]:
        """Return the events from `position` on, and the position after them.

        Other threads may append meanwhile.
        """
        while True:
            end = self.end
            newest_first = reversed(self._events)  # without a call in between, both belong to the same moment
            try:
                events = list(islice(newest_first, max(end - position, 0)))
            except RuntimeError:  # an event was appended meanwhile
                continue
            events.reverse()
            return events, end

    def subscribe(self, position: int | None = None) -> Subscription[T]:
        """Return a reader from `position` on, by default after the newest event."""
        return Subscription(self, self.end if position is None else position)

    async def wait_beyond(self, position: int) -> None:
        """Wait for an event at `position`, or for the end."""
        while self.end <= position and not self._closed:
            waiter = self.waiter(position)
            try:
                await waiter
            except asyncio.CancelledError:
                self.forget(waiter)
                raise

    def waiter(self, position: int) -> asyncio.Future[None]:
        """Return a future for an event at `position` or the end.

        It may be done too early. Call `forget` after abandoning it.
        """
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        if self.end > position or self._closed:  # through another thread, which may not have seen this waiter
            self._wake()
        return waiter

    def forget(self, waiter: asyncio.Future[None]) -> None:
        """Drop an abandoned future."""
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
    """An `EventLog` reader: an async iterator and an async context manager.

    `missed` counts the events which the log dropped before this reader reached them.
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
        """Position of this reader's next event, for `EventLog.subscribe`."""
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

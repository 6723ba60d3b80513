"""Session events for sidecars' observers, in batches and without waiting."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from planck_nb.agent.events import TRANSIENT, AgentEvent, encode_event
from planck_nb.base.async_tasks import spawn
from planck_nb.base.event_loops import is_running_here
from planck_nb.base.json_types import JsonObject

_INTERVAL = 0.1
"""Seconds for which events are collected for one call."""

_BATCH = 200
_WAITING = 5_000
"""Largest number of waiting events.

The oldest are dropped, because an observer must not fill the kernel's memory.
"""

Deliver = Callable[[list[JsonObject]], Awaitable[None]]
"""Passes encoded events on, without raising."""


class EventQueue:
    """Events awaiting delivery, with a task only while there are some.

    Args:
        deliver: Passes events on.
    """

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self._waiting: deque[AgentEvent] = deque(maxlen=_WAITING)
        self._task: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self.dropped = 0

    def add(self, event: AgentEvent) -> None:
        """Add an event, from any thread.

        Deltas and progress are left out, as in a session file.
        """
        if event.type in TRANSIENT:
            return
        if len(self._waiting) == _WAITING:
            self.dropped += 1
        self._waiting.append(event)
        if is_running_here(self._loop):
            self._begin()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._begin)

    @property
    def is_closed(self) -> bool:
        """Return whether its event loop is closed.

        It cannot pass on anything then.
        """
        return self._loop.is_closed()

    async def flush(self) -> None:
        """Wait until all events have been passed on."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    def close(self) -> None:
        """Drop the undelivered events."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()

    def _begin(self) -> None:
        if self._task is None or self._task.done():
            self._task = spawn(self._pass_on(), name="planck-sidecar-events")

    async def _pass_on(self) -> None:
        while self._waiting:
            await asyncio.sleep(_INTERVAL)
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _BATCH))]
            await self._deliver([encode_event(event) for event in batch])

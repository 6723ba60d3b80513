"""Which event loop uses an agent: that of one thread at a time, while prompts from others are queued."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from planck_nb.agent.run import Run


class LoopOwnership:
    """Gives an agent to one event loop at a time.

    A turn runs on the event loop that sent its prompt, because what the prompt's caller awaits, its client and its
    context belong to that loop. An idle agent belongs to none. Can be used in any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Run[Any]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._last: asyncio.AbstractEventLoop | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that uses the agent, None if it is idle."""
        loop = self._loop
        return None if loop is None or loop.is_closed() else loop

    @property
    def last(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that uses the agent, or used it last; None unless that loop is running."""
        loop = self._loop or self._last
        return loop if loop is not None and loop.is_running() else None

    def admit(self, run: Run[Any]) -> bool:
        """Give the agent to the run's event loop if no other uses it; otherwise the run is queued.

        Returns:
            Whether the run's loop uses the agent now.
        """
        with self._lock:
            if self.loop is None:
                self._loop = run.loop
            if self._loop is run.loop:
                return True
            self._waiting.append(run)
            return False

    def acquire(self, loop: asyncio.AbstractEventLoop) -> asyncio.AbstractEventLoop:
        """Give the agent to an event loop if no other uses it. Returns the loop that uses it now."""
        with self._lock:
            self._loop = self.loop or loop
            return self._loop

    def release(self) -> Run[Any] | None:
        """Give the agent to the event loop of the run that has waited longest. Returns it, None if none waits."""
        with self._lock:
            self._last = self._loop
            while self._waiting:
                run = self._waiting.pop(0)
                if not run.loop.is_closed():
                    self._loop = run.loop
                    return run
            self._loop = None
            return None

    def leave(self, run: Run[Any]) -> None:
        """Remove a run from the queue, if it is there."""
        with self._lock:
            if run in self._waiting:
                self._waiting.remove(run)

    def clear(self) -> list[Run[Any]]:
        """Remove and return the runs in the queue."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            return waiting

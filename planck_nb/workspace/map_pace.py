"""Concurrency for maps: lower while the server refuses."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Slot:
    """One item's place in flight.

    Args:
        cuts: How often the pace had been cut when the item began.
    """

    cuts: int
    refused: bool = False


class Pace:
    """Concurrency for all items in a run.

    A refusal halves it, and a round without refusals adds one. Items from before the last cut are out of date.

    Args:
        most: The most items in flight.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._allowed = float(most)
        self._cuts = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self.active = 0
        """Items in flight."""
        self.answers = 0
        """Items with an answer."""

    @property
    def allowed(self) -> int:
        """Return the most items in flight at present."""
        return int(self._allowed)

    async def enter(self) -> Slot:
        """Wait for a place, in the callers' order."""
        while self.active >= self.allowed:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                with suppress(ValueError):  # it was woken, and another may be in its place
                    self._waiters.remove(waiter)
                self._wake()
                raise
        self.active += 1
        return Slot(self._cuts)

    def leave(self, slot: Slot, *, answered: bool) -> None:
        """Give the place back."""
        self.active -= 1
        if answered:
            self.answers += 1
            if not slot.refused:
                self._allowed = min(self._most, self._allowed + 1 / self._allowed)
        self._wake()

    def refused(self, slot: Slot) -> None:
        """Learn about a refused request."""
        slot.refused = True
        if slot.cuts == self._cuts:
            self._allowed = max(1.0, self._allowed / 2)
            self._cuts += 1
        slot.cuts = self._cuts

    def _wake(self) -> None:
        free = self.allowed - self.active
        while self._waiters and free > 0:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                free -= 1

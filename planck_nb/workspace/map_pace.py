"""Concurrency for maps: lower while the server refuses."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

_LONGEST_PAUSE = 120.0
_MOST_PAUSES = 5
"""Pauses in a row before the server counts as unwilling."""


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
        self._pauses = 0
        self._resume = 0.0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self.active = 0
        """Items in flight."""

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
        try:
            while (seconds := self._resume - time.monotonic()) > 0:  # noqa: ASYNC110 - others may prolong it
                await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.active -= 1
            self._wake()
            raise
        return Slot(self._cuts)

    def leave(self, slot: Slot, *, answered: bool) -> None:
        """Give the place back."""
        self.active -= 1
        if answered:
            self._pauses = 0
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

    def pause(self, seconds: float | None) -> bool:
        """Let no item begin for a time.

        Args:
            seconds: The server's wish; without it pauses double.

        Returns:
            Whether to go on afterwards: False if the pause is too long, or one too many without an answer.
        """
        now = time.monotonic()
        if now >= self._resume:  # not another item's pause
            self._pauses += 1
        wait = 2.0**self._pauses if seconds is None else seconds
        if wait > _LONGEST_PAUSE or self._pauses > _MOST_PAUSES:
            return False
        self._resume = max(self._resume, now + wait)
        return True

    def _wake(self) -> None:
        free = self.allowed - self.active
        while self._waiters and free > 0:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                free -= 1

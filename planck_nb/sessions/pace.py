"""Whether the disk is fast enough to wait for it where nothing else can happen meanwhile."""

from __future__ import annotations

import time

now = time.perf_counter
"""The clock that syncs are timed with, in seconds."""

_FAST = 0.0005
_SLOW = 0.01
_SHARE = 0.01
_PATIENCE = 0.05
_WEIGHT = 1 / 8


class Pace:
    """How long the disk's last syncs took.

    The disk is fast as long as a moving average stays below half a millisecond, and as long as patience is left. A sync
    of more than ten milliseconds that held others up takes its time from that; a hundredth of all time comes back, up
    to fifty milliseconds. So a slow sync now and then changes nothing, and in the long run slow ones hold whoever waits
    for a fast disk only up for one hundredth of the time at most.
    """

    def __init__(self) -> None:
        self._average = 2 * _FAST
        self._left = _PATIENCE
        self._left_at = now()

    def note(self, seconds: float, *, held_up: bool) -> None:
        """A sync took so long, while others were held up or went on."""
        self._average += (seconds - self._average) * _WEIGHT
        if held_up and seconds > _SLOW:
            self._left, self._left_at = self._patience() - seconds, now()

    @property
    def fast(self) -> bool:
        """Whether the next sync will probably take less than half a millisecond."""
        return self._average < _FAST and self._patience() > 0

    def _patience(self) -> float:
        return min(_PATIENCE, self._left + (now() - self._left_at) * _SHARE)

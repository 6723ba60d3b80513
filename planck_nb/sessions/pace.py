"""Whether the disk is fast enough to wait for it where nothing else can happen meanwhile."""

from __future__ import annotations

import time

now = time.perf_counter
"""The clock that syncs are timed with, in seconds."""

_FAST = 0.0005
_SLOW = 0.01
_REST = 100
_WEIGHT = 1 / 8


class Pace:
    """How long the disk's last syncs took.

    The disk is fast as long as a moving average stays below half a millisecond. After a sync of more than ten it is
    not, for a hundred times as long as that took: so whoever waits for a fast disk only is held up by a slow one for
    one hundredth of the time at most.
    """

    def __init__(self) -> None:
        self._average = 2 * _FAST
        self._resting_until = 0.0

    def note(self, seconds: float) -> None:
        """A sync took so long."""
        self._average += (seconds - self._average) * _WEIGHT
        if seconds > _SLOW:
            self._resting_until = now() + _REST * seconds

    @property
    def fast(self) -> bool:
        """Whether the next sync will probably take less than half a millisecond."""
        return self._average < _FAST and now() >= self._resting_until

"""A time axis without long idle stretches."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from planck_nb.jupyter.charts.svg import width_of

Interval = tuple[float, float]
"""Begin and end, in seconds."""

EXACT = 10.0
"""Seconds below which a duration is shown with decimals."""

_LONG = 1 / 8
_GAP_WIDTH = 20.0
_GAPS_SHARE = 0.25
_TICK_DISTANCE = 64.0
_LABELS_APART = 8.0
_STEPS = [
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 14_400, 21_600, 43_200, 86_400),
]
_MAX_TICKS = 1_000


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of time, drawn to scale.

    It starts at `x`, with `rate` pixels a second.
    """

    begin: float
    end: float
    x: float
    rate: float

    @property
    def x_end(self) -> float:
        return self.x + (self.end - self.begin) * self.rate


class TimeScale:
    """Maps seconds to pixels.

    An idle stretch of more than an eighth of all busy time is drawn as a narrow gap.

    Args:
        busy: Intervals with activity.
        left: The first pixel.
        right: The last pixel.
    """

    def __init__(self, busy: Iterable[Interval], left: float, right: float) -> None:
        stretches = _union(busy) or [(0.0, 0.0)]
        seconds = sum(end - begin for begin, end in stretches)
        stretches_to_draw = _bridge(stretches, seconds * _LONG)
        gaps = len(stretches_to_draw) - 1
        self.gap_width = min(_GAP_WIDTH, (right - left) * _GAPS_SHARE / gaps) if gaps else 0.0
        seconds_to_draw = sum(end - begin for begin, end in stretches_to_draw)
        rate = (right - left - gaps * self.gap_width) / seconds_to_draw if seconds_to_draw else 0.0
        self._pieces: list[_Piece] = []
        x = left
        for begin, end in stretches_to_draw:
            self._pieces.append(_Piece(begin, end, x, rate))
            x = self._pieces[-1].x_end + self.gap_width
        self._begins = [piece.begin for piece in self._pieces]
        self._rate = rate

    def x(self, moment: float) -> float:
        """Return a moment's position.

        In a gap or outside it is the nearest edge before it.
        """
        piece = self._pieces[max(bisect_right(self._begins, moment) - 1, 0)]
        return piece.x + (min(max(moment, piece.begin), piece.end) - piece.begin) * piece.rate

    def gaps(self) -> list[float]:
        """Return the middle of each gap."""
        return [piece.x - self.gap_width / 2 for piece in self._pieces[1:]]

    def ticks(self) -> list[tuple[float, str]]:
        """Return positions and labels with the time since the beginning.

        Labels do not touch.
        """
        start = self._begins[0]
        exact = self._pieces[-1].end - start < EXACT
        ticks: list[tuple[float, str]] = []
        for moment in self._candidates(start):
            x, label = self.x(moment), elapsed(moment - start, exact=exact)
            apart = (abs(x - other) - (width_of(label) + width_of(text)) / 2 for other, text in ticks)
            if min(apart, default=_LABELS_APART) >= _LABELS_APART and label not in {text for _, text in ticks}:
                ticks.append((x, label))
        return sorted(ticks)

    def _candidates(self, start: float) -> Iterator[float]:
        yield from self._begins[:_MAX_TICKS]
        if not self._rate:
            return
        distance = _TICK_DISTANCE / self._rate
        step = next((step for step in _STEPS if step >= distance), 86_400 * max(1, round(distance / 86_400)))
        for piece in self._pieces[:_MAX_TICKS]:
            first = int((piece.begin - start) // step) + 1
            last = int((piece.end - start) // step)
            yield from (start + step * number for number in range(first, last + 1))


def elapsed(seconds: float, *, exact: bool = False) -> str:
    """Format a duration like a clock, 1:24 or 2:03:05.

    With `exact` it is like 1.5 s.
    """
    if exact:
        return f"{seconds:.3f}".rstrip("0").rstrip(".") + " s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours}:{minutes:02}"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _union(intervals: Iterable[Interval]) -> list[Interval]:
    return _bridge(sorted(intervals), 0.0)


def _bridge(intervals: Sequence[Interval], distance: float) -> list[Interval]:
    """Join sorted intervals with gaps up to `distance`."""
    result: list[Interval] = []
    for begin, end in intervals:
        if result and begin - result[-1][1] <= distance:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((begin, end))
    return result

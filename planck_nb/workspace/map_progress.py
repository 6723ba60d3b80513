"""A map's progress, and an estimate for its rest."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal, TypeAlias

from planck_nb.rendering.formatting import dollars, elapsed

MapState: TypeAlias = Literal["running", "preview", "changed", "stopped", "limit", "failed", "done"]
"""`preview` and `changed` wait for a decision; `limit` is used up."""

_WINDOW = 30.0
"""Seconds over which the rate is measured."""

_MARKS = 64
"""Most moments that are kept for it."""


@dataclass(frozen=True, slots=True)
class MapEstimate:
    """The rest after a preview; `str` returns a sentence about it.

    Args:
        rest: Items without an answer, None if the prompts cannot be counted.
        cost: US dollars for the rest, or for each item if it cannot be counted; None if the price is unknown.
        seconds: Time for the same.

    Example:
        >>> from planck_nb.workspace import MapEstimate
        >>> str(MapEstimate(rest=4_995, cost=2.0, seconds=230.0)).partition(". ")[0]
        'The other 4,995 items will cost about $2.00 and take about 3:50'
    """

    rest: int | None
    cost: float | None
    seconds: float

    def __str__(self) -> str:
        if self.rest == 0:
            return self.forecast
        return f"{self.forecast} `go_on()`, or the same call without `first`, asks what is left."

    @property
    def forecast(self) -> str:
        """Return the price and the time as a sentence."""
        if self.rest == 0:
            return "All items have an answer."
        items = "Each further item" if self.rest is None else f"The other {counted_items(self.rest)}"
        price = "cost an unknown price" if self.cost is None else f"cost about {dollars(self.cost)}"
        return f"{items} will {price if self.cost != 0 else 'cost nothing'} and take about {elapsed(self.seconds)}."


@dataclass(frozen=True, slots=True)
class MapProgress:
    """A map at one moment; `str` returns one line.

    Args:
        state: What it does, or why it ended.
        total: All prompts, None if they cannot be counted.
        finished: Items with an answer, and failed ones.
        failed: Items without an answer.
        in_flight: Unfinished items at present.
        waiting: Items in flight whose tool calls wait for approval.
        concurrency: The most items in flight at present, fewer than given after refusals.
        cost: US dollars so far.
        cost_limit: Most US dollars, None if unlimited.
        expected_cost: US dollars in the end, None if unknown.
        seconds: Time since the start.
        rate: Finished items in a second.
        left: Seconds to the end, None if unknown.
        sentence: What else a person should know, such as the rest after a preview; may be empty.
        reasons: The most frequent errors, each with its number.

    Example:
        >>> import asyncio, tempfile
        >>> from pathlib import Path
        >>> from planck_nb import Config, Workspace
        >>> from planck_nb.testing import scripted_model
        >>> async def main(folder):
        ...     config = Config.load(environment={}, directory=folder, home=folder)
        ...     async with Workspace(config) as workspace:
        ...         run = await workspace.map(["Is 7 prime?"], model=scripted_model(["Yes."]))
        ...         return run.progress.headline
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     asyncio.run(main(Path(folder)))
        '1 of 1 item'
    """

    state: MapState
    total: int | None
    finished: int
    failed: int
    in_flight: int
    waiting: int
    concurrency: int
    cost: float
    cost_limit: float | None
    expected_cost: float | None
    seconds: float
    rate: float
    left: float | None
    sentence: str = ""
    reasons: tuple[tuple[str, int], ...] = ()

    @property
    def headline(self) -> str:
        """Return the count, such as `1,840 of 5,000 items`."""
        if self.total is None:
            return counted_items(self.finished)
        return f"{self.finished:,} of {counted_items(self.total)}"

    def __str__(self) -> str:
        facts = [self.headline]
        if self.failed:
            facts.append(f"{self.failed:,} failed")
        if self.in_flight:
            facts.append(f"{self.in_flight:,} in flight")
        if self.waiting:
            facts.append(f"{self.waiting:,} waiting for approval")
        if self.state == "stopped":
            facts.append("stopped")
        facts += [dollars(self.cost), elapsed(self.seconds)]
        if self.left is not None and self.state == "running":
            facts.append(f"about {elapsed(self.left)} left")
        return " · ".join(facts)


class RateMeter:
    """Finished items in a second, lately.

    Args:
        now: The time in seconds.
    """

    def __init__(self, now: float) -> None:
        self.began = now
        self._marks: deque[tuple[float, int]] = deque([(now, 0)], maxlen=_MARKS)
        self.count = 0
        """Items so far."""

    def add(self, now: float) -> None:
        """Count a finished item."""
        self.count += 1
        if now - self._marks[-1][0] >= _WINDOW / _MARKS:
            self._marks.append((now, self.count))

    def rate(self, now: float) -> float:
        """Return the items in a second, lately."""
        moment, before = next(
            (mark for mark in self._marks if now - mark[0] <= _WINDOW), (self._marks[0] if self.count else (now, 0))
        )
        return (self.count - before) / (now - moment) if now > moment else 0.0


def counted_items(count: int) -> str:
    """Return a number with its noun."""
    return "1 item" if count == 1 else f"{count:,} items"

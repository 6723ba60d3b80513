"""The runs that one prompt causes: those of the agents that it makes work for each other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from planck_nb.agent.events import AgentEvent
from planck_nb.agent.limits import Limits, ReachedLimit, RunSpend
from planck_nb.agent.run_result import RunResult
from planck_nb.base.event_log import EventLog


class GroupedRun(Protocol):
    """A run, as far as its group knows it."""

    def abort(self) -> None:
        """Stop it."""


@dataclass(frozen=True, slots=True)
class GroupedTurn:
    """How one turn of a group has ended.

    Args:
        agent_id: The agent.
        result: What came of it, also if it failed.
        error: What it failed with, None if it did not.
    """

    agent_id: str
    result: RunResult[Any]
    error: BaseException | None = None


class RunGroup:
    """Runs that end, are stopped and are limited together.

    A prompt that is sent in the context of the group, such as by a tool of one of its runs, adds its run to it. The
    group is over once no run is open and nothing holds it; then it accepts no more.

    Args:
        limits: What the runs may use together.
        idle: Called when no run is open; returns whether the group is over. It may send another prompt in the group.
    """

    def __init__(self, limits: Limits, idle: Callable[[], bool]) -> None:
        self.events: EventLog[AgentEvent] = EventLog()
        """The events of all runs, in one order."""
        self.spend = RunSpend(limits)
        """What the runs have used together."""
        self.turns: list[GroupedTurn] = []
        """The turns that have ended, in that order."""
        self.started = time.time()
        self.is_aborted = False
        self.is_over = False
        self._idle = idle
        self._open: dict[int, GroupedRun] = {}
        self._holds = 0

    @property
    def open_runs(self) -> tuple[GroupedRun, ...]:
        """The runs that have not ended."""
        return tuple(self._open.values())

    @property
    def reached_limit(self) -> ReachedLimit | None:
        """The limit that the runs have reached together, None if there is none."""
        return self.spend.reached_limit()

    def add(self, run: GroupedRun) -> None:
        """Add a run that was caused by one of the group."""
        self._open[id(run)] = run

    def remove(self, run: GroupedRun) -> None:
        """Note that a run has ended."""
        self._open.pop(id(run), None)
        self._end_if_idle()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the group open for the block, as one run has ended and the next one that it causes has not begun."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            self._end_if_idle()

    def abort(self) -> None:
        """Stop all runs, and start none any more."""
        if self.is_over:
            return
        self.is_aborted = True
        with self.held():
            for run in self.open_runs:
                run.abort()

    def _end_if_idle(self) -> None:
        if not (self._open or self._holds or self.is_over) and self._idle():
            self.is_over = True


_current: ContextVar[RunGroup | None] = ContextVar("planck_nb_run_group", default=None)


def current_group() -> RunGroup | None:
    """The group that a prompt sent here belongs to, None if there is none or it is over."""
    group = _current.get()
    return None if group is None or group.is_over else group


@contextmanager
def within_group(group: RunGroup | None) -> Iterator[None]:
    """Add the runs of the prompts that are sent in the block, and in all that they cause, to the group."""
    token = _current.set(group)
    try:
        yield
    finally:
        _current.reset(token)

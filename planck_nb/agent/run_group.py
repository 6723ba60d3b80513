"""The runs that one prompt causes when agents give each other work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from planck_nb.agent.events import AgentEvent
from planck_nb.agent.limits import Limits, RunSpend
from planck_nb.agent.run_result import RunResult
from planck_nb.base.event_log import EventLog
from planck_nb.base.event_loops import is_running_here


@dataclass(frozen=True, slots=True)
class GroupedTurn:
    """How one turn of a group ended.

    Args:
        agent_id: The agent.
        result: Its outcome, also if it failed.
        error: What it failed with, None if it did not.
    """

    agent_id: str
    result: RunResult[Any]
    error: BaseException | None = None


class RunGroup:
    """Runs that end, are stopped and are limited together.

    A prompt that is sent in the context of the group, such as by a tool of one of its runs, adds its run to it. The
    group is over once no run is open and nothing holds it; then it accepts no others. Runs may be on the event loops of
    several threads; how the group ends is decided on that of its first run.

    Args:
        limits: What the runs may use together.
        idle: Called when no run is open; returns whether the group is over. It may send another prompt in the group.
    """

    def __init__(self, limits: Limits, idle: Callable[[], bool]) -> None:
        outer: RunGroup | None = current_group()
        self.outer: RunGroup | None = outer
        """The group of the run that caused this one, None if none did. What happens here is a part of it."""
        self.events: EventLog[AgentEvent] = EventLog()
        """The events of all runs, in one order."""
        self.spend: RunSpend = RunSpend(limits, outer=None if outer is None else outer.spend)
        """What the runs have used together."""
        self.turns: list[GroupedTurn] = []
        """The turns that have ended, in that order."""
        self.started = time.time()
        self.is_aborted = False
        self.is_over = False
        self._idle = idle
        self._loop: asyncio.AbstractEventLoop | None = None
        self._aborts: dict[object, Callable[[], None]] = {}
        """How each open run is stopped."""
        self._holds: dict[object, None] = {}

    @property
    def logs(self) -> tuple[EventLog[AgentEvent], ...]:
        """The logs that get the events of its runs."""
        return (self.events,) if self.outer is None else (self.events, *self.outer.logs)

    def add(self, abort: Callable[[], None], loop: asyncio.AbstractEventLoop) -> object:
        """Add a run that was caused by one of the group; it is aborted at once if the group was.

        Args:
            abort: Stops the run; may be called in any thread.
            loop: The event loop of the run.

        Returns:
            A key that identifies the run, for `remove`.
        """
        key = object()
        self._loop = self._loop or loop
        self._aborts[key] = abort
        if self.is_aborted:
            loop.call_soon_threadsafe(abort)
        return key

    def remove(self, key: object) -> None:
        """Note that a run has ended.

        Args:
            key: The key that `add` returned.
        """
        self._aborts.pop(key, None)
        self._end_if_idle()

    def add_turn(self, turn: GroupedTurn) -> None:
        """Note that a turn of one of its runs has ended."""
        self.turns.append(turn)
        if self.outer is not None:
            self.outer.add_turn(turn)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the group open for the block, while one run has ended and the next one that it causes has not begun."""
        hold = object()
        self._holds[hold] = None
        try:
            yield
        finally:
            del self._holds[hold]
            self._end_if_idle()

    def abort(self) -> None:
        """Stop all runs, and start no others."""
        if self.is_over:
            return
        self.is_aborted = True
        with self.held():
            for abort in tuple(self._aborts.values()):
                abort()

    def _end_if_idle(self) -> None:
        if self._aborts or self._holds or self.is_over:
            return
        if self._loop is None:  # not even the first prompt could be sent
            self.is_over = True
        elif is_running_here(self._loop):
            self.is_over = self._idle()
        else:
            with suppress(RuntimeError):  # the loop is closed, so nothing awaits the end
                self._loop.call_soon_threadsafe(self._end_if_idle)


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

"""Which agents wait for which: an edge while a tool of one agent awaits an answer of another.

A turn ends only when its tools have ended, and an agent answers a prompt only when the turns before it have ended. So
agents that wait for each other in a cycle would wait for ever. The wait that would close the cycle raises
`DeadlockError` instead; the others then make progress.

    >>> ann, bob = Participant("ann"), Participant("bob")
    >>> with within(ann), waiting_for(bob):      # in a turn of ann, while it awaits bob's answer
    ...     with within(bob), waiting_for(ann):  # in the turn of bob that this causes
    ...         pass
    Traceback (most recent call last):
    planck_nb.base.errors.DeadlockError: ...

The scope is in a context variable, so it is known in tasks that a tool creates and in threads that it starts with
`asyncio.to_thread`, but not in other threads, unless they are given the context; see the README. Tasks that outlive
their scope block nothing, and their waits are not edges.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from itertools import pairwise

from planck_nb.base.errors import DeadlockError, UsageError


class Participant:
    """An agent, as far as the graph knows it.

    Args:
        name: What the agent is called in errors.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.waits: list[_Wait] = []
        """The waits of its turn. Guarded by the lock of the graph: agents may run in the event loops of several
        threads."""


class WaitScope:
    """A turn of an agent, or a tool call in it, which cannot end before what it awaits.

    Args:
        participant: The agent.
        outer: The scope that this one is a part of, None for a turn.
    """

    def __init__(self, participant: Participant, outer: WaitScope | None = None) -> None:
        self.participant = participant
        self._outer = outer
        self._over = False

    @property
    def is_over(self) -> bool:
        """Whether it has ended, itself or with the turn around it."""
        return self._over or (self._outer is not None and self._outer.is_over)

    def end(self) -> None:
        """Mark it as ended: what its tasks still await blocks nothing."""
        self._over = True


class _Wait:
    """One edge: a scope of one agent waits for another agent."""

    def __init__(self, scope: WaitScope, awaited: Participant) -> None:
        self.scope = scope
        self.awaited = awaited


_current: ContextVar[WaitScope | None] = ContextVar("planck_nb_wait_scope", default=None)
_evaluated_agent: ContextVar[Participant | None] = ContextVar("planck_nb_evaluated_agent", default=None)
_lock = threading.Lock()


def is_within_turn() -> bool:
    """Whether the current task or thread belongs to a turn, so that what it awaits matters."""
    scope = _current.get()
    return scope is not None and not scope.is_over


@contextmanager
def within(participant: Participant) -> Iterator[WaitScope]:
    """Run the block as a turn of the agent or, inside one of its turns, as a tool call.

    Args:
        participant: The agent.

    Yields:
        The scope of the block, which ends with it.
    """
    outer = _current.get()
    if outer is not None and (outer.participant is not participant or outer.is_over):
        outer = None  # of the agent whose tool sent the prompt, in whose context the turn runs
    scope = WaitScope(participant, outer)
    token = _current.set(scope)
    try:
        yield scope
    finally:
        scope.end()
        with suppress(ValueError):  # a task of a closed loop is collected as garbage, in another context
            _current.reset(token)


@contextmanager
def waiting_for(*awaited: Participant) -> Iterator[None]:
    """Register that the current turn waits for the agents until the block ends. Outside a turn it does nothing.

    Args:
        awaited: The agents whose answers are awaited.

    Raises:
        DeadlockError: If one of them waits for the agent of the current turn, directly or through others.
    """
    scope = _current.get()
    if scope is None or scope.is_over:
        yield
        return
    waiting = scope.participant
    waits = [_Wait(scope, other) for other in awaited]
    with _lock:
        for other in awaited:
            path = _path(other, waiting)
            if path:
                raise _deadlock([waiting, *path])
        waiting.waits += waits
    try:
        yield
    finally:
        with _lock:
            for wait in waits:
                waiting.waits.remove(wait)


@contextmanager
def judging(participant: Participant) -> Iterator[None]:
    """Run a scorer for the agent's answers, which cannot prompt it.

    Args:
        participant: The agent under evaluation.
    """
    token = _evaluated_agent.set(participant)
    try:
        yield
    finally:
        _evaluated_agent.reset(token)


def require_unjudged(participant: Participant) -> None:
    """Refuse a scorer's prompt to the agent under evaluation.

    Args:
        participant: The agent for the prompt.

    Raises:
        UsageError: It is under evaluation.
    """
    if _evaluated_agent.get() is participant:
        raise UsageError(
            f"A scorer cannot prompt {participant.name}, whose answers it scores; let another agent judge."
        )


def _path(start: Participant, end: Participant) -> list[Participant]:
    """The agents from `start` to `end`, each of which waits for the next; empty if there is no such path."""
    before: dict[Participant, Participant | None] = {start: None}
    pending = [start]
    while pending:
        participant = pending.pop()
        if participant is end:
            path = [participant]
            while (previous := before[path[-1]]) is not None:
                path.append(previous)
            return path[::-1]
        for wait in participant.waits:
            if not wait.scope.is_over and wait.awaited not in before:
                before[wait.awaited] = participant
                pending.append(wait.awaited)
    return []


def _deadlock(cycle: list[Participant]) -> DeadlockError:
    names = [participant.name for participant in cycle]
    if len(cycle) == 2:  # noqa: PLR2004 - the agent and itself
        return DeadlockError(
            f"Agent {names[0]} cannot wait for its own answer inside its turn, which ends only after the wait; "
            "send the prompt without awaiting it, or prompt another agent.",
            f"{names[0]} waits for itself",
        )
    chain = ", and ".join(f"{one} waits for {other}" for one, other in pairwise(names[1:]))
    return DeadlockError(
        f"Agent {names[0]} cannot wait for {names[1]}, because {chain}: none of them would ever answer; "
        "send the prompt without awaiting it, or prompt another agent.",
        chain,
    )

"""The agents of one team: who they are, and that they live no longer than their orchestrator.

Agents of one session with the same `team_id` are a team. Nothing has to be registered: an agent joins its team when it
is created, and leaves it when it is stopped. An agent without a session is in a team with others without one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from planck_nb.agent import events as ev
from planck_nb.agent.identity import Role
from planck_nb.base.event_log import EventLog

REPLAY = 10_000
"""Events of a team that are kept for late subscribers."""

DESTROYED = "destroyed"
"""The reason of a worker's exit if an agent of its team destroyed it."""

STOPPED = "stopped"
"""The reason if a program or a person stopped it."""

ENDED = "its orchestrator ended"
"""The reason if the team ended."""


class Member(Protocol):
    """An agent, as far as its team knows it."""

    id: str
    name: str
    type: str
    role: Role

    @property
    def model(self) -> object:
        """Its model."""

    async def stop(self, *, removed: bool = False, reason: str = STOPPED) -> None:
        """Stop it."""


M = TypeVar("M", bound=Member)


@dataclass(frozen=True, slots=True)
class _Joined(Generic[M]):
    agent: M
    emit: Callable[..., None]


class TeamMembers(Generic[M]):
    """The agents of one team that exist in this process, in the order in which they joined.

    Args:
        team_id: The id of the team.
    """

    def __init__(self, team_id: str) -> None:
        self.team_id = team_id
        self.seed = team_id
        """What the ids of new members are derived from."""
        self.events: EventLog[ev.AgentEvent] = EventLog(limit=REPLAY)
        """The newest events of all members, in one order."""
        self.former: set[str] = set()
        """The ids of all agents that ever joined in this process."""
        self._joined: dict[str, _Joined[M]] = {}

    def __iter__(self) -> Iterator[M]:
        return (joined.agent for joined in tuple(self._joined.values()))

    def __len__(self) -> int:
        return len(self._joined)

    def get(self, agent_id: str) -> M | None:
        """The member with this id, None if there is none."""
        joined = self._joined.get(agent_id)
        return None if joined is None else joined.agent

    @property
    def orchestrator(self) -> M | None:
        """The member that leads the team, None if there is none yet."""
        joined = self._leader()
        return None if joined is None else joined.agent

    def join(self, agent: M, emit: Callable[..., None]) -> None:
        """Add an agent.

        Args:
            agent: The agent.
            emit: Publishes an event of the agent.
        """
        leader = self._leader()
        self._joined[agent.id] = _Joined(agent, emit)
        _by_agent[agent.id] = self
        self.former.add(agent.id)
        if agent.role == "orchestrator":
            for worker in self:
                if worker is not agent:
                    _spawned(emit, worker)
        elif leader is not None:
            _spawned(leader.emit, agent)

    async def leave(self, agent: M, *, removed: bool, reason: str) -> None:
        """Note that an agent has stopped. If it led the team, all others are stopped.

        Args:
            agent: The agent.
            removed: Whether it is left out when its session is resumed; then those that it takes along are, too.
            reason: Why, in a few words.
        """
        joined = self._joined.get(agent.id)
        if joined is None or joined.agent is not agent:
            return
        del self._joined[agent.id]
        if agent.role == "orchestrator":
            workers = [worker for worker in self if worker.role != "orchestrator"]
            await asyncio.gather(*(worker.stop(removed=removed, reason=ENDED) for worker in workers))
        elif (leader := self._leader()) is not None:
            leader.emit(ev.WorkerExit, agent.id, agent.name, reason, normal=True)

    def _leader(self) -> _Joined[M] | None:
        return next((each for each in self._joined.values() if each.agent.role == "orchestrator"), None)


def _spawned(emit: Callable[..., None], worker: Member) -> None:
    emit(ev.WorkerSpawned, worker.id, worker.name, worker.role, worker.type, str(worker.model))


_teams: WeakValueDictionary[tuple[str | None, str], TeamMembers[Any]] = WeakValueDictionary()
_by_agent: WeakValueDictionary[str, TeamMembers[Any]] = WeakValueDictionary()
_current: ContextVar[TeamMembers[Any] | None] = ContextVar("planck_nb_team", default=None)


def find_team(session_id: str | None, team_id: str) -> TeamMembers[Any]:
    """The team of this session with this id, which exists as long as one of its agents refers to it.

    Args:
        session_id: The session, None for agents without one.
        team_id: The id of the team.
    """
    team = _teams.get((session_id, team_id))
    if team is None:
        team = _teams[session_id, team_id] = TeamMembers(team_id)
    return team


def enter_team(team: TeamMembers[Any] | None) -> None:
    """Note, in the context of a turn, in which team its tools are."""
    _current.set(team)


def team_of(agent_id: str) -> TeamMembers[Any] | None:
    """The team of an agent that is not stopped, None if it is in no team.

    Two sessions of one process may have agents with the same id; inside a turn, it is the agent of that turn.
    """
    team = _current.get()
    if team is None or team.get(agent_id) is None:
        team = _by_agent.get(agent_id)
    return team if team is not None and team.get(agent_id) is not None else None

"""The agents of one team: who they are, and how they end with their orchestrator.

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
from planck_nb.base.errors import AgentError
from planck_nb.base.event_log import EventLog

REPLAY = 10_000
"""Events kept for late subscribers to a team or a session."""

DESTROYED = "destroyed"
"""The reason of a worker's exit if an agent of its team destroyed it."""

STOPPED = "stopped"
"""The reason if a program or a person stopped it."""

ENDED = "its orchestrator ended"
"""The reason if the team ended."""


class Member(Protocol):
    """An agent, as far as its team knows it. It is a protocol, because `agent.py` imports this module."""

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


class GivenTask(Protocol):
    """A task that a member works on for another one."""

    def give_up(self) -> None:
        """End it without a result, because the member does not go on with it."""


def title(agent: Member) -> str:
    """What an agent is called where people and models read it: its name, else its type, else its id."""
    return agent.name or agent.type or agent.id


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
        self.is_over = False
        """Whether its orchestrator has ended, and the team with it."""
        self._joined: dict[str, _Joined[M]] = {}
        self._leader: _Joined[M] | None = None
        self._tasks: dict[str, dict[GivenTask, None]] = {}

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
        return None if self._leader is None else self._leader.agent

    def require_place(self, agent_id: str, role: Role) -> None:
        """Raise `AgentError` if an agent of this role cannot join, because another one leads the team."""
        leader = self.orchestrator
        if role == "orchestrator" and leader is not None and leader.id != agent_id:
            raise AgentError(
                f"The team {self.team_id} already has an orchestrator, {title(leader)}; stop that one first, or give "
                'this agent another `team_id` or `role="worker"`.'
            )

    def join(self, agent: M, emit: Callable[..., None]) -> None:
        """Add an agent. One with the id of a member takes its place.

        Args:
            agent: The agent.
            emit: Publishes an event of the agent.
        """
        joined = self._joined[agent.id] = _Joined(agent, emit)
        _by_agent[agent.id] = self
        self.former.add(agent.id)
        if agent.role == "orchestrator":
            self._leader = joined
            for worker in self:
                if worker is not agent:
                    _spawned(emit, worker)
        elif self._leader is not None:
            _spawned(self._leader.emit, agent)

    async def leave(self, agent: M, *, removed: bool, reason: str) -> None:
        """Note that an agent has stopped. If it led the team, all others are stopped.

        Args:
            agent: The agent.
            removed: Whether it is left out when its session is resumed; then the agents that stop with it are, too.
            reason: Why, in a few words.
        """
        joined = self._joined.get(agent.id)
        if joined is None or joined.agent is not agent:
            return
        del self._joined[agent.id]
        self.give_up_tasks(agent)
        if joined is self._leader:
            self._leader = None
            self.is_over = True
            # The caller of `stop` may be cancelled meanwhile; the workers must end in any case.
            await asyncio.shield(asyncio.ensure_future(self._stop_workers(removed=removed)))
        elif self._leader is not None:
            self._leader.emit(ev.WorkerExit, agent.id, agent.name, reason, normal=True)

    async def _stop_workers(self, *, removed: bool) -> None:
        stops = (worker.stop(removed=removed, reason=ENDED) for worker in self)
        failures = await asyncio.gather(*stops, return_exceptions=True)
        self.events.close()
        for failure in failures:
            if isinstance(failure, BaseException):
                raise failure

    def add_task(self, agent: M, task: GivenTask) -> None:
        """Note that a member works on a task, until `remove_task`."""
        self._tasks.setdefault(agent.id, {})[task] = None

    def remove_task(self, agent: M, task: GivenTask) -> None:
        """Note that a task has ended."""
        tasks = self._tasks.get(agent.id, {})
        tasks.pop(task, None)
        if not tasks:
            self._tasks.pop(agent.id, None)

    def tasks_of(self, agent: M) -> tuple[GivenTask, ...]:
        """The tasks that a member works on."""
        return tuple(self._tasks.get(agent.id, ()))

    def give_up_tasks(self, agent: M) -> None:
        """End all tasks that a member works on, because it has stopped."""
        for task in self.tasks_of(agent):
            task.give_up()


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
    if team is None or team.is_over:
        team = _teams[session_id, team_id] = TeamMembers(team_id)
    return team


def enter_team(team: TeamMembers[Any] | None) -> None:
    """Note, in the context of a turn, which team its tools belong to."""
    _current.set(team)


def team_of(agent_id: str) -> TeamMembers[Any] | None:
    """The team of an agent that is not stopped, None if it is in no team.

    Two sessions of one process may have agents with the same id; inside a turn, it is the agent of that turn.
    """
    team = _current.get()
    if team is None or team.get(agent_id) is None:
        team = _by_agent.get(agent_id)
    return team if team is not None and team.get(agent_id) is not None else None

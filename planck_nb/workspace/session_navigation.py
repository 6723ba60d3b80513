"""Moves a workspace between sessions and between points of its session: resume, fork, rewind, return to a branch.

All end with the same step: agents that do not belong to the session are stopped, and missing ones are restored.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from planck_nb.agent.limits import SessionSpend
from planck_nb.ai.models import Model
from planck_nb.base.async_tasks import uninterrupted
from planck_nb.base.errors import AgentError, SessionError
from planck_nb.base.event_loops import LoopLock
from planck_nb.base.threads import run_in_thread
from planck_nb.sessions import (
    AgentRecord,
    Damage,
    Session,
    SessionInfo,
    SessionMembers,
    read_damage,
    read_members,
    read_unanswered,
)
from planck_nb.sessions.damage import say_once
from planck_nb.sessions.open_tasks import read_open_tasks
from planck_nb.teams import INTER_AGENT_TOOLS, Team
from planck_nb.workspace.agent_restorer import ToolResolver, restore_agents
from planck_nb.workspace.compactors import Compactors
from planck_nb.workspace.current_session import CurrentSession
from planck_nb.workspace.default_model import paced
from planck_nb.workspace.interrupted_tasks import close_tasks
from planck_nb.workspace.restorable_settings import (
    WAITING,
    RestorableSettings,
    left_out_sentence,
    read_restorable_settings,
)
from planck_nb.workspace.sessions import WorkspaceSessions, close_session
from planck_nb.workspace.stored_agents import AgentFinder, FoundAgent, LiveAgent, name_of
from planck_nb.workspace.teams import WorkspaceTeams, stored_teams
from planck_nb.workspace.trusted_config import TrustedConfig


class SessionNavigation:
    """Changes the open session and its agents, one change at a time.

    Args:
        current: The open session.
        config: The configuration.
        store: Opens other sessions.
        compactors: Finds compactors by name.
    """

    def __init__(
        self, current: CurrentSession, config: TrustedConfig, store: WorkspaceSessions, compactors: Compactors
    ) -> None:
        self._compactors = compactors
        self._current = current
        self.teams = WorkspaceTeams(current, config, compactors)
        """The teams of the open session."""
        self._config = config
        self._store = store
        self._changing = LoopLock()
        """Held while the agents are replaced, so that two such changes do not mix."""

    async def resume(
        self,
        id_or_name: str | None,
        *,
        find: ToolResolver | None,
        model: Model | None,
        trust: bool,
        take_over: bool,
    ) -> list[str]:
        """Continue a stored session, as `Workspace.resume` describes."""
        async with self._changing:
            reopened = False
            opened = self._current.opened
            if opened is not None and id_or_name in (opened.id, opened.name):
                if trust:
                    reopened = True  # which cannot be refused any more
                    id_or_name = opened.id
                    await self._current.leave()
                elif model is None:
                    raise AgentError(f"Session {id_or_name} is already open here.")
                else:
                    self._choose_model(model)
                    return []
            store = self._store
            session = store.open_last_used() if id_or_name is None else store.open(id_or_name, take_over=take_over)
            return await self._move_to(session, find, model=model, strict=not reopened, trusted=trust)

    async def rewind(self, message_id: int, *, find: ToolResolver | None) -> list[str]:
        """Return all agents to the point before a message, as `Workspace.rewind` describes."""
        async with self._changing:
            await self._session.truncate_after(message_id)
            self._current.unanswered.clear()  # like the prompts that wait in this process
            return await self._follow_session(find)

    async def return_to(self, branch_id: int, *, find: ToolResolver | None) -> list[str]:
        """Return to a branch, as `Workspace.return_to` describes."""
        async with self._changing:
            await self._session.return_to(branch_id)
            self._current.unanswered.clear()
            return await self._follow_session(find)

    async def fork(self, name: str | None, *, before: int | None, find: ToolResolver | None) -> list[str]:
        """Continue in a copy of the session, as `Workspace.fork` describes."""
        current = self._current
        async with self._changing:
            await current.save_settings()
            live = {**current.former, **{agent.id: LiveAgent.of(agent) for agent in current.registry}}
            copy = partial(self._session.fork, name=name, before=before, owner=self._store.owner)
            # Copying a long session takes seconds. A stop is delivered after it, so that the copy is closed, too.
            session = await uninterrupted(asyncio.ensure_future(run_in_thread(copy)))
            return await self._move_to(session, find, live=live, trusted=current.trusted, offer=before is None)

    async def remove(self, name: str) -> None:
        """Stop an agent outside teams permanently and remove it."""
        async with self._changing:
            await self._current.remove(self._current.registry.by_name(name))

    async def stop_team(self, name: str) -> Team:
        """Stop a team for good."""
        async with self._changing:
            return await self.teams.stop(name)

    async def leave(self) -> None:
        """Stop all agents and close the session."""
        async with self._changing:
            await self._current.leave()

    @property
    def _session(self) -> Session:
        return self._current.factory.session

    async def _move_to(
        self,
        session: Session,
        find: ToolResolver | None,
        *,
        live: Mapping[str, LiveAgent] | None = None,
        model: Model | None = None,
        strict: bool = False,
        trusted: bool = False,
        offer: bool = True,
    ) -> list[str]:
        """Replace the open session with `session`, and restore its agents. If that fails, nothing changes."""
        current = self._current
        try:
            await run_in_thread(session.catch_up)
            restorable = await self._read_restorable(session, trusted=trusted)
            members = restorable.members
            unanswered = await read_unanswered(session)
            open_tasks = await read_open_tasks(session) if _has_teams(members) else ()
            finder = self._finder(session, live or {}, model)
            found = await self._with_reported_windows(finder.find(_staying(members), strict=strict))
            await self._read_ahead(session, found)  # if that fails, the open session stays
            teams = await stored_teams(session)
            await current.leave()
        except BaseException:
            await close_session(session)
            raise
        # Without an await from here on until all names are reserved, so that no other task takes one.
        self.teams.forget()
        current.limits_are_set = bool(restorable.settings.limits)
        current.limits = restorable.limits(current.limits)
        spend = SessionSpend(members.tokens, members.cost + current.limits.unknown_cost(members.unpriced_tokens))
        current.open(session, spend, restorable.signed_settings, trusted=trusted)
        current.registry.former.update(member.identity.id for member in members.members)
        current.former = dict(live or {})
        current.readable_names.update({reader: set(names) for reader, names in restorable.settings.readable.items()})
        current.unanswered.replace(unanswered)
        current.approvals.policy = current.approvals.policy.with_rules(restorable.rules)
        problems = await self._restore(found, find)
        self.teams.adopt(teams, find)
        problems += await close_tasks(open_tasks, current.unanswered.take_of_agents(), current.registry)
        if offer:
            problems += current.unanswered.offers()
        else:  # what waited at that point of the past
            current.unanswered.forget()
        if restorable.left_out:
            problems.insert(0, left_out_sentence(session.name, restorable.left_out, self._store.key_problem))
            await session.save_metadata({WAITING: restorable.waiting})
        if not live and (damage := await damage_notice(session.info)):  # a fork was written a moment ago
            problems.insert(0, damage)
        await current.save_settings()
        return problems

    async def _follow_session(self, find: ToolResolver | None) -> list[str]:
        """Stop the agents that the session does not have any more, and restore those that it has again.

        Returns a sentence about each agent that was stopped, and about all that could not be restored.
        """
        current, session = self._current, self._session
        before = list(current.registry)  # an agent that is added from now on belongs to the session as it is now
        restorable = await self._read_restorable(session, trusted=current.trusted)
        staying = {member.identity.id: member for member in _staying(restorable.members)}
        gone = [agent for agent in before if agent.id not in staying and agent.id in current.registry]
        for agent in gone:
            await current.remove(agent)
        problems = [f"{agent.name} does not belong to this conversation and was stopped." for agent in gone]
        finder = self._finder(session, current.former, None)
        missing = [member for agent_id, member in staying.items() if agent_id not in current.registry]
        found = await self._with_reported_windows(finder.find(missing))
        await self._read_ahead(session, found)
        teams = await stored_teams(session)
        problems += await self._restore(found, find)
        self.teams.adopt(teams, find)
        return problems

    async def _restore(self, agents: Sequence[FoundAgent], find: ToolResolver | None) -> list[str]:
        """Create agents again.

        A stop is delivered when all are there.
        """
        current = self._current
        records = (agent.record for agent in agents)
        current.registry.reserved.update((record.identity.team_id, name_of(record)) for record in records)
        restoring = restore_agents(agents, current.factory, current.toolbox, find, self.teams)
        try:
            return await uninterrupted(asyncio.ensure_future(restoring))
        finally:
            current.registry.reserved.clear()

    @staticmethod
    async def _read_ahead(session: Session, found: Sequence[FoundAgent]) -> None:
        await run_in_thread(partial(session.read_ahead, [each.record.identity.id for each in found]))

    async def _with_reported_windows(self, found: Sequence[FoundAgent]) -> list[FoundAgent]:
        """The agents, with the context windows that the servers of their models have now."""
        client = self._current.client
        unique = {id(each.model): each.model for each in found}
        models = await asyncio.gather(*(client.with_reported_window(model, refresh=True) for model in unique.values()))
        known = dict(zip(unique, models, strict=True))
        return [replace(each, model=known[id(each.model)]) for each in found]

    async def _read_restorable(self, session: Session, *, trusted: bool) -> RestorableSettings:
        """Read what the session may give its agents."""
        known = self._current.toolbox.tools()
        members = await read_members(session)
        read = partial(
            read_restorable_settings,
            session,
            members,
            trusted=trusted,
            is_workspace_tool=lambda name: name in known or name in INTER_AGENT_TOOLS,
        )
        return await run_in_thread(read)

    def _finder(self, session: Session, live: Mapping[str, LiveAgent], model: Model | None) -> AgentFinder:
        return AgentFinder(
            session.name,
            tuple(self._config.config.models),
            finish=lambda found: paced(found, self._config.config),
            require_key=self._current.require_key,
            live=live,
            model=model,
            trusts=lambda record: record.authentic,
            find_compactor=self._compactors.find,
        )

    def _choose_model(self, model: Model) -> None:
        """Let the agents whose model was not found again continue with this one or, if all were found, all agents."""
        agents = list(self._current.registry)
        for agent in [agent for agent in agents if agent.model.unavailable] or agents:
            agent.model = model


def _has_teams(members: SessionMembers) -> bool:
    return any(member.identity.team_id is not None for member in members.members)


def _staying(members: SessionMembers) -> list[AgentRecord]:
    return [member for member in members.members if not member.removed]


async def damage_notice(session: SessionInfo, *, seconds: float = 0.5) -> str:
    """Check a session on another thread, and return a sentence about its damage; empty if none is known yet.

    Args:
        session: The session.
        seconds: How long to wait. A check that takes longer goes on, and what it finds is logged as a warning.
    """
    found: list[Damage] = []
    late = threading.Event()

    def check() -> None:
        with suppress(SessionError):  # the session could be read a moment before
            found.append(read_damage(session))
            if late.is_set():
                say_once(session.path, found[0])

    checking = asyncio.ensure_future(run_in_thread(check))
    try:
        await asyncio.wait([checking], timeout=seconds)
    finally:
        late.set()
        checking.cancel()
    return str(found[0]) if found else ""

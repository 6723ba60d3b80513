"""The session of a workspace that is open at the moment: what its agents share, and what ends with it."""

from __future__ import annotations

import asyncio
import atexit
from contextlib import suppress
from functools import partial
from pathlib import Path

from planck_nb.agent.agent import Agent
from planck_nb.agent.agent_access import use_usual_limits
from planck_nb.agent.approval.gate import Approvals
from planck_nb.agent.events import AgentEvent
from planck_nb.agent.limits import Limits, SessionSpend
from planck_nb.agent.team_members import REPLAY, STOPPED, team_of
from planck_nb.ai.client import Client
from planck_nb.ai.models import Model
from planck_nb.base.errors import SessionError
from planck_nb.base.event_log import EventLog
from planck_nb.base.ids import new_id, readable_name
from planck_nb.sessions import Session
from planck_nb.tools.changes import Changes
from planck_nb.workspace.agent_factory import AgentFactory
from planck_nb.workspace.agent_registry import AgentRegistry
from planck_nb.workspace.default_policy import default_policy
from planck_nb.workspace.session_settings import KEY, SessionSettings
from planck_nb.workspace.sessions import WorkspaceSessions, close_session
from planck_nb.workspace.sidecars import WorkspaceSidecars
from planck_nb.workspace.stored_agents import LiveAgent
from planck_nb.workspace.toolbox import Toolbox, ToolSource
from planck_nb.workspace.trusted_config import TrustedConfig
from planck_nb.workspace.unanswered_prompts import UnansweredPrompts


class CurrentSession:
    """The open session and its agents. It is created with the first agent; id and name are chosen before.

    Args:
        config: The configuration.
        store: Creates the session.
        approvals: Decides which calls may run; gets the policy of a new session whenever a session ends.
        client: Sends the requests to the models.
    """

    def __init__(self, config: TrustedConfig, store: WorkspaceSessions, approvals: Approvals, client: Client) -> None:
        self._config = config
        self._store = store
        self._factory: AgentFactory | None = None
        self._limits = config.config.limits
        self.limits_are_set = False
        """Whether the limits were set in this session rather than in the configuration."""
        self._settings = SessionSettings()
        self._unwritten = False
        self.readable_names: dict[str, set[str]] = {}
        """The only variables that agents and teams may list and inspect, by their id."""
        self.approvals = approvals
        self.client = client
        self.registry = AgentRegistry()
        self.events: EventLog[AgentEvent] = EventLog(limit=REPLAY)
        self.unanswered = UnansweredPrompts(self.registry)
        self.trusted = False
        """Whether the user has said that everything in the session is to be restored."""
        self.former: dict[str, LiveAgent] = {}
        """What removed agents of this session had, for a rewind or a return to a branch that restores them."""
        self.sidecars = WorkspaceSidecars(
            config,
            self.events,
            taken=self._tool_names,
            session_id=lambda: self.opened.id if self.opened else "",
            find_agent=self.registry.by_id,
        )
        """The sidecars, which stay when the session changes."""
        self.kernel: ToolSource | None = None
        """The tools for the kernel of the notebook."""
        self._reserve()

    @property
    def factory(self) -> AgentFactory:
        """Creates agents in the session, and first the session itself if necessary."""
        if self._factory is None:
            self._config.require_trusted_settings()
            self.open(self._start())
            self._record_settings()
        assert self._factory is not None  # noqa: S101 - for the type checker
        return self._factory

    @property
    def opened(self) -> Session | None:
        """The session, None until there is one."""
        return self._factory.session if self._factory else None

    @property
    def limits(self) -> Limits:
        """The limits of new agents."""
        return self._limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._limits = limits
        if self._factory is not None:
            self._factory.limits = limits
        for agent in self.registry:
            use_usual_limits(agent, limits)
        self._record_settings()

    def open(
        self,
        session: Session,
        session_spend: SessionSpend | None = None,
        settings: SessionSettings | None = None,
        *,
        trusted: bool = False,
    ) -> None:
        """Let agents write to the session.

        Args:
            session: The session.
            session_spend: What its agents have spent.
            settings: The settings that are stored with it.
            trusted: Whether the user has said that everything in it is to be restored.
        """
        if (session.id, session.name) != self._reserved:
            self._fill_toolbox(session.id, session.name)
        session.on_moved = partial(self._follow, f"{session.id}_{session.name}.changes")
        config = self._config
        self._settings, self.trusted = settings or SessionSettings(), trusted
        self._factory = AgentFactory(
            session=session,
            session_spend=session_spend or SessionSpend(),
            registry=self.registry,
            approvals=self.approvals,
            limits=self.limits,
            prompt_parts=self.toolbox.prompt_parts,
            client=self.client,
            observers=(self.events,),
            fallbacks=lambda: [config.model(reference) for reference in config.config.fallbacks],
            compact_ratio=config.config.compact_ratio,
        )
        self.sidecars.restore_name_owners(self._settings.owners)

    async def leave(self) -> None:
        """Stop all agents, close the session, and drop its settings."""
        self.registry.closed = "The workspace is changing to another session; add the agent when that is done."
        try:
            for agent in self.registry:
                await agent.stop()
            self.registry.clear()
            self.former = {}
            self.readable_names.clear()
            self.unanswered.clear()
            if self._factory is not None:
                await close_session(self._factory.session)
        finally:
            self.registry.closed = ""
        if self._factory is not None:
            self._factory = None
            self._settings, self.trusted = SessionSettings(), False
            self._limits, self.limits_are_set = self._config.config.limits, False
            self._reserve()
        self.approvals.policy = default_policy(self._config.config)
        # A cancellation that came while the session was being closed is delivered here, where all is consistent.
        await asyncio.sleep(0)

    async def remove(self, agent: Agent, *, reason: str = STOPPED) -> None:
        """Stop an agent permanently and remove it, and the workers of a team with their orchestrator."""
        team = team_of(agent.id) if agent.role == "orchestrator" else None
        for each in [agent] if team is None else team:
            self.former[each.id] = LiveAgent.of(each)
            self.registry.remove(each)
        await agent.stop(removed=True, reason=reason)

    async def save_settings(self) -> None:
        """Store changed rules, limits and readable variables of the session durably."""
        self._record_settings()
        if self._factory is not None and self._unwritten:
            await self._factory.session.flush()
            self._unwritten = False

    def _record_settings(self) -> None:
        """Store changed settings without waiting, so that each later message on disk has them before it."""
        if self._factory is None:
            return
        config = self._config.config
        always = set(default_policy(config).rules)
        rules = [rule for rule in self.approvals.policy.rules if rule not in always]
        limits, owners = self.limits.apart_from(config.limits), self.sidecars.name_owners()
        if self.limits_are_set:  # also where the configuration, which may change, has the same
            limits = {**self.limits.apart_from(Limits()), **limits}
        settings = SessionSettings.of(rules, self.readable_names, limits, owners)
        if settings != self._settings:
            self._factory.session.record_signed_metadata(KEY, settings.stored())
            self._settings, self._unwritten = settings, True

    async def flush(self) -> None:
        """Write the pending events of the session to disk."""
        if self._factory is not None:
            await self._factory.session.flush()

    def require_key(self, model: Model) -> None:
        """Raise `MissingCredentialError` if the key of the model is missing, and no recording answers instead."""
        if not self.is_replayed:
            self.client.key_for(model)

    @property
    def is_replayed(self) -> bool:
        """True if recorded answers may replace real ones."""
        cassette = self.client.cassette
        return cassette is not None and cassette.mode in ("replay", "auto")

    def apply_config(self) -> None:
        """Use the tools, skills and instructions of the current configuration, and its settings for new agents."""
        if self._factory is None:
            self._reserve()
        else:
            self.toolbox = self._new_toolbox()
            self._factory.prompt_parts = self.toolbox.prompt_parts
            self._factory.compact_ratio = self._config.config.compact_ratio

    def _tool_names(self) -> list[str]:
        return list(self.toolbox.tools())

    def _reserve(self) -> None:
        """Choose id and name of the next session, so that its toolbox can be inspected before it is created."""
        self._reserved = new_id(), readable_name()
        self._fill_toolbox(*self._reserved)

    def _fill_toolbox(self, session_id: str, name: str) -> None:
        self.changes = Changes(self._store.directory / f"{session_id}_{name}.changes")
        """The changes to files that the agents' tools made in this session, which can be undone."""
        self.toolbox = self._new_toolbox()
        """The tools, skills and instructions for agents."""

    def _follow(self, changes: str, directory: Path) -> None:
        """Go on where the sessions directory is now. Called on any thread."""
        self._store.follow(directory)
        self.changes.follow(directory / changes)

    def _new_toolbox(self) -> Toolbox:
        return Toolbox(self._config.config, self.changes, sidecars=self.sidecars, kernel=lambda: self.kernel)

    def _start(self) -> Session:
        directory = self._store.directory
        try:
            return self._store.start(*self._reserved)
        finally:
            if self._store.directory != directory:
                atexit.register(self._close_session)  # before the temporary directory is removed
                self._fill_toolbox(*self._reserved)

    def _close_session(self) -> None:
        if self._factory is not None:
            with suppress(SessionError):
                self._factory.session.close()

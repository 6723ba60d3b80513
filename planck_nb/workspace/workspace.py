"""A workspace: one session, its agents, and the store they share."""

from __future__ import annotations

import asyncio
import atexit
import os
import secrets
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from glob import escape
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from planck_nb.agent.agent import Agent, append_message, forget_queued, send_again
from planck_nb.agent.approval import Policy, Rule
from planck_nb.agent.approval.gate import Approvals
from planck_nb.agent.calling.tool import Tool
from planck_nb.agent.context.compactor import Compactor
from planck_nb.agent.events import AgentEvent
from planck_nb.agent.limits import Limits, SessionSpend
from planck_nb.agent.run import Run
from planck_nb.ai.cassettes import Cassette
from planck_nb.ai.catalogue import get_model
from planck_nb.ai.client import Client
from planck_nb.ai.messages import UserMessage
from planck_nb.ai.models import Model
from planck_nb.ai.request import Options
from planck_nb.base.aio import LoopLock, run_in_thread
from planck_nb.base.errors import (
    AgentError,
    ConfigError,
    SessionError,
    SessionLockedError,
    SessionNotFoundError,
)
from planck_nb.base.event_log import EventLog, Subscription
from planck_nb.base.ids import new_id, readable_name
from planck_nb.base.secrets import known_secrets, remember_secret
from planck_nb.base.text import one_line
from planck_nb.config import Config, FolderTrust, TrustItem, user_key
from planck_nb.sessions import (
    AgentRecord,
    Session,
    SessionInfo,
    SessionMembers,
    Signer,
    UnansweredPrompt,
    list_sessions,
    query,
    query_async,
    read_damage,
    read_members,
    read_unanswered,
)
from planck_nb.sessions.members import read_last_replies
from planck_nb.tools.changes import Changes
from planck_nb.tools.private_folders import make_private_folder
from planck_nb.workspace.agent_factory import AgentFactory
from planck_nb.workspace.agent_registry import AgentRegistry
from planck_nb.workspace.default_model import choose_model, paced
from planck_nb.workspace.folder_files import TrustedFile, directory_notice, listed, untrusted
from planck_nb.workspace.session_settings import KEY, SessionSettings
from planck_nb.workspace.stored_agents import AgentFinder, FoundAgent, LiveAgent, name_of
from planck_nb.workspace.stored_power import WAITING, StoredPower, left_out_sentence, read_power
from planck_nb.workspace.toolbox import Toolbox, tool_trust_items

if TYPE_CHECKING:
    import pandas as pd

ToolResolver: TypeAlias = Callable[[str], Tool | None]
"""Finds a tool of the program or the notebook by name; returns None if there is none."""

_SHOWN = 80
"""Characters of an unanswered prompt that a notice shows."""

REPLAY = 10_000
"""Events of the session that are kept for late subscribers."""

INTERRUPTED = (
    "Session resumed after interruption. Your last turn was cut off before it ended, and calls that had no result by "
    "then have none. Look at what is done before you go on."
)
"""The message that an agent gets once if the session is resumed after its last turn was interrupted."""


_RENAMED = {"equipment": "toolbox", "keep_choices": "save_session_settings"}
"""Attributes of 0.1.0 that remain as aliases, with their present names."""


class Workspace:
    """Agents that share a session. The session is created with the first agent, and `close` closes everything.

    Args:
        config: The settings; by default `Config.load()`.
        client: Sends the requests to the models; by default a client of the workspace, with the cassette that the
            configuration names. A client that is passed in is not closed.
        owner: Identifies this workspace to others that try to open the same session, such as the name of a notebook.
        trust: Whether files of the folder that can run or redirect something are used; by default as the configuration
            was loaded: if the user trusts them, or PLANCK_NB_TRUST is 1. Nothing is remembered; `trust` does that.
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        client: Client | None = None,
        owner: str = "",
        trust: bool | None = None,
    ) -> None:
        self.config = config or Config.load(trust=trust)
        if trust is not None and config is not None:
            self.config = _with_pace(config.reload(trust=trust), config)
        self._said: set[str] = set()
        self.owner = owner
        self._registry = AgentRegistry()
        self._temporary: Path | None = None
        self.approvals = Approvals(Policy.allow_all(), self.config.approval_deadline, attendance=asyncio.Event())
        """Decides which calls may run; asks a person after `attend` was called."""
        self.approvals.policy = self.policy()
        self._limits = self.config.limits
        self._owns_client = client is None
        for secret in known_secrets(self.config.environment()).items():
            remember_secret(*secret)
        self._client = client or Client(credentials=self.config.environment(), cassette=_cassette(self.config))
        self._events: EventLog[AgentEvent] = EventLog(limit=REPLAY)
        self._factory: AgentFactory | None = None
        self._session_settings = SessionSettings()
        self._trusts_session = False
        self._model: Model | None = None
        self._former: dict[str, LiveAgent] = {}
        """What removed agents of this session had, for a rewind or a return to a branch that restores them."""
        self._unanswered: dict[str, UnansweredPrompt] = {}
        """The prompts that waited when an earlier process ended, by id."""
        self._changing = LoopLock()
        """Held while the agents are replaced, so that two such changes do not mix."""
        self._reserve()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    if not TYPE_CHECKING:  # a type checker would accept any attribute

        def __getattr__(self, name: str) -> object:
            if name not in _RENAMED:
                raise AttributeError(f"'Workspace' object has no attribute {name!r}")
            warnings.warn(f"Workspace.{name} is now Workspace.{_RENAMED[name]}.", DeprecationWarning, stacklevel=2)
            return getattr(self, _RENAMED[name])

    @property
    def sessions_dir(self) -> Path:
        """The directory that contains the sessions; a temporary one if the session could not be created there."""
        return self._temporary or self.config.sessions_dir

    @property
    def session(self) -> Session:
        """The session that the agents write to; created on first access."""
        return self.agent_factory.session

    @property
    def agents(self) -> dict[str, Agent]:
        """The agents outside teams by name, in the order they were created."""
        return self._registry.named()

    @property
    def agent_factory(self) -> AgentFactory:
        """Creates agents of the session, those of teams included; creates the session if there is none yet."""
        if self._factory is None:
            self.require_trust()
            session_id, name = self._reserved
            self._open(self._start(session_id, name))
        assert self._factory is not None  # noqa: S101 - for the type checker
        return self._factory

    @property
    def session_id(self) -> str | None:
        """The id of the session, None until there is one."""
        return self._factory.session.id if self._factory else None

    def attend(self) -> None:
        """Declare that a person can answer requests for approval from now on."""
        self.approvals.attend()

    def policy(self) -> Policy:
        """Build the policy of a new session: ask before changes, with the rules of the settings.

        Returns:
            The policy. Reading the folders of skills is allowed.
        """
        folders = [folder for folder in self.config.skills_dirs if not self._leads_out(folder)]
        skills = (Rule("allow", kind="read", pattern=f"{escape(str(folder))}/**") for folder in folders)
        policy = Policy.ask_before_changes(self.config.root)
        for rule in (*self.config.rules, *skills):
            policy = policy.with_rule(rule)
        return policy

    @property
    def folder_trust(self) -> FolderTrust:
        """What the user trusts of the folder."""
        config = self.config
        if config.folder_trust is None:  # a configuration that a program has made itself
            self.config = config = replace(config, folder_trust=FolderTrust(config.root, config.user_folder))
        assert config.folder_trust is not None  # noqa: S101 - for the type checker
        return config.folder_trust

    def trust_items(self) -> tuple[TrustedFile, ...]:
        """List the files of the folder that can run or redirect something: tools, models, settings, variables.

        Returns:
            The files with their status, as they are now.
        """
        try:
            config = self.config.reload(trust=True)  # a file that is not trusted may name others
        except ConfigError:
            config = self.config
        return listed((*config.trust_items, *tool_trust_items(config)), self.folder_trust)

    def require_trust(self) -> None:
        """Check that all files of the folder that can run or redirect something are trusted.

        Raises:
            TrustError: Some are not; the sentence lists them.
        """
        self._require_accepted(*self.config.trust_items, *tool_trust_items(self.config))

    def trust(self) -> tuple[TrustedFile, ...]:
        """Trust the files of the folder that can run or redirect something, as they are now, and use them.

        That is remembered in the user's own folder. A file that is new or has changed needs trust again. Agents that
        exist keep the tools that they have.

        Returns:
            The files.

        Raises:
            ConfigError: A setting that is used from now on has a value that cannot be used.
        """
        self.folder_trust.add(file.item for file in self.trust_items())
        self._configure(self.config.reload())
        return self.trust_items()

    def distrust(self) -> None:
        """Trust nothing in the folder any more. Agents that exist keep what they have.

        Raises:
            ConfigError: A setting has a value that cannot be used.
        """
        self.folder_trust.clear()
        self._configure(self.config.reload())

    def notices(self) -> list[str]:
        """Return what the user should know about the folder and has not been told yet.

        Returns:
            A sentence about each text of another user that is not used, and about a directory that others can write.
        """
        found = [*self.toolbox.foreign_texts(), directory_notice(self.sessions_dir)]
        if self._temporary is not None:
            found.append(
                f"{self.config.sessions_dir} cannot be written, so this session ends with the kernel; "
                "set PLANCK_NB_SESSIONS_DIR to a directory that can."
            )
        new = [sentence for sentence in found if sentence and sentence not in self._said]
        self._said.update(new)
        return new

    def _configure(self, config: Config) -> None:
        """Use other settings of the same folder from now on."""
        before, config = self.config, _with_pace(config, self.config)
        added = [rule for rule in self.approvals.policy.rules if rule not in self.policy().rules]
        self.config = config
        self.approvals.policy = self.policy().with_rules(added)
        if self._limits == before.limits:
            self.limits = config.limits
        self._model = None
        if self._factory is None:
            if self._owns_client:
                cassette = _cassette(config) if config.cassette != before.cassette else self._client.cassette
                self._client = Client(credentials=config.environment(), cassette=cassette)
            self._reserve()
        else:
            self.toolbox = Toolbox(config, self.changes)
            self._factory.prompt_parts = self.toolbox.prompt_parts

    async def save_session_settings(self) -> None:
        """Store the session's rules and the URLs of its models with it, so that `resume` restores them.

        This does nothing before there is a session.

        Raises:
            SessionError: The settings cannot be written.
        """
        if self._factory is None:
            return
        settings = set(self.policy().rules)
        rules = [rule for rule in self.approvals.policy.rules if rule not in settings]
        session_settings = SessionSettings.of(rules, (agent.model for agent in self._registry))
        if session_settings != self._session_settings:
            await self._factory.session.save_signed_metadata(KEY, session_settings.stored())
            self._session_settings = session_settings

    @property
    def limits(self) -> Limits:
        """The limits of agents that are created from now on; `set_limits` changes those of all agents."""
        return self._limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._limits = limits
        if self._factory is not None:
            self._factory.limits = limits

    def set_limits(self, limits: Limits) -> None:
        """Set the limits of all agents, present and new ones, from their next turn on.

        Args:
            limits: The limits.
        """
        self.limits = limits
        for agent in self._registry:
            agent.limits = limits

    def model(self, reference: str, *, base_url: str | None = None) -> Model:
        """Find a model by name, among the user's own models first.

        Args:
            reference: An alias or "provider:id".
            base_url: The address of its server, None for the usual one.

        Returns:
            The model, with the settings of the configuration.

        Raises:
            ModelError: There is no such model.
            ConfigError: `base_url` is not a URL.
            TrustError: The folder has settings or models that are not trusted.
        """
        self._require_accepted(*self.config.trust_items)
        return paced(get_model(reference, base_url=base_url, own=self.config.models), self.config)

    @property
    def cassette(self) -> Cassette | None:
        """Records or replays the requests to models; None for neither."""
        return self._client.cassette

    @cassette.setter
    def cassette(self, cassette: Cassette | None) -> None:
        self._client.cassette = cassette

    async def default_model(self) -> tuple[Model, str]:
        """Find the model for agents that are created without one.

        It is the first that exists of: the configured one, the recorded one if a cassette is replayed, one of a
        provider whose API key is in the environment, one of a local server, and the demo model.

        Returns:
            The model, and a notice for the user, which is empty if there is nothing to say.

        Raises:
            ModelError: The configured model does not exist.
            TrustError: The folder has settings or models that are not trusted.
        """
        self._require_accepted(*self.config.trust_items)
        notice = ""
        if self._model is None and not self.config.default_model and (recorded := self._recorded_model()) is not None:
            self._model = get_model(recorded, own=self.config.models)
        if self._model is None:
            self._model, notice = await choose_model(self.config)
        return self._model, notice

    def set_default_model(self, model: Model) -> None:
        """Set the model for agents that are created without one.

        Args:
            model: The model.
        """
        self._model = model

    def _leads_out(self, folder: Path) -> bool:
        """Whether a link in the project leads to files that it does not have."""
        config = self.config
        return config.needs_trust("skills_dirs", folder) and not Path(os.path.realpath(folder)).is_relative_to(
            os.path.realpath(config.root)
        )

    def _require_accepted(self, *items: TrustItem) -> None:
        if not all(map(self.folder_trust.accepts, items)):
            raise untrusted(self.config.root, self.trust_items(), self.folder_trust)

    def add_agent(
        self,
        name: str,
        *,
        model: Model,
        system_prompt: str = "",
        tools: Iterable[Tool | Callable[..., object]] = (),
        options: Options | None = None,
        description: str = "",
        on_compact: Compactor | Callable[..., object] | None = None,
    ) -> Agent:
        """Create an agent whose messages are stored in the session.

        Args:
            name: Its name, unique among the agents outside teams.
            model: The model that answers.
            system_prompt: Instructions to the model, sent before the conversation.
            tools: Tools, or Python functions to convert to tools.
            options: Request options.
            description: What the agent is for, in a sentence.
            on_compact: Shortens the conversation before it outgrows the context window: a `Compactor` or a function;
                by default the model writes a summary. A function is not stored, so it is needed again after `resume`.

        Returns:
            The agent.

        Raises:
            AgentError: The name is taken, or the workspace is changing to another session at the moment.
            UsageError: `on_compact` is neither a compactor nor a function of the messages.
            TrustError: The folder has files that can run or redirect something and are not trusted.
        """
        self.require_trust()
        return self.agent_factory.create(
            name,
            model=model,
            system_prompt=system_prompt,
            tools=tools,
            options=options,
            description=description,
            on_compact=on_compact,
        )

    def agent(self, name: str, *, team_id: str | None = None) -> Agent:
        """Look up an agent by name.

        Args:
            name: Its name.
            team_id: The id of its team, None for an agent outside teams.

        Returns:
            The agent.

        Raises:
            AgentError: There is no agent of this name.
        """
        return self._registry.by_name(name, team_id)

    async def remove_agent(self, name: str) -> None:
        """Stop an agent permanently and remove it. Its messages stay in the session, and its name is free again.

        Args:
            name: Its name.

        Raises:
            AgentError: There is no agent of this name.
        """
        async with self._changing:
            await self._remove(self.agent(name))

    async def resume(
        self,
        id_or_name: str | None = None,
        *,
        find: ToolResolver | None = None,
        model: Model | str | None = None,
        trust: bool = False,
        take_over: bool = False,
    ) -> list[str]:
        """Continue a stored session with its agents, their history, usage and tools, and the remembered approvals.

        A session that the user did not write, or that was edited, continues without the rules, addresses, grants and
        functions in it, unless `trust` is set.

        The agents of the present session are stopped first. An agent whose last turn was interrupted gets a message
        about it, once. If the session cannot be opened, nothing changes.

        Each agent continues with the model that it had: the same alias, server and key variable. Nothing is resumed,
        and no request is sent anywhere, if that is not found again or its key is missing; then pass `model`.

        Args:
            id_or_name: The session; by default the newest one that is not open.
            find: Finds a tool by name, before the workspace's own tools are searched.
            model: The model to use in place of those that are not found again or, if all are found, of all: a `Model`,
                or its name. With it, the session may be the one that is open already.
            trust: Whether to restore everything that is in the session, as if the user had written all of it. With it,
                too, the session may be the one that is open already.
            take_over: Whether to open the named session even if a process on another computer may still have it open,
                as in `Session.open`. Use it only if that process has ended.

        Returns:
            A sentence about each agent, tool and model that could not be restored, and about what was left out.

        Raises:
            SessionNotFoundError: There is no such session.
            SessionLockedError: The session is open elsewhere.
            AgentError: The session is open in this workspace, and neither `model` nor `trust` is given.
            ModelError: A model is not found again as it was, or there is no model of the name `model`.
            TrustError: The folder has files that can run or redirect something and are not trusted.
        """
        self.require_trust()
        chosen = self.model(model) if isinstance(model, str) else model
        async with self._changing:
            reopened = False
            if self._factory and id_or_name in (self._factory.session.id, self._factory.session.name):
                if trust:
                    reopened = True  # which cannot be refused any more
                    id_or_name = self._factory.session.id
                    await self._leave()
                elif chosen is None:
                    raise AgentError(f"Session {id_or_name} is already open here.")
                else:
                    self._choose_model(chosen)
                    return []
            session = self._open_newest() if id_or_name is None else self._open_stored(id_or_name, take_over=take_over)
            return await self._move_to(session, find, model=chosen, strict=not reopened, trusted=trust)

    @property
    def unanswered(self) -> tuple[UnansweredPrompt, ...]:
        """The prompts that waited when the process of a resumed session ended, and were neither sent nor dropped."""
        return tuple(prompt for prompt in self._unanswered.values() if prompt.agent_id in self._registry)

    def send_unanswered(self, *prompt_ids: str) -> list[Run[Any]]:
        """Send prompts that waited when the process of the session ended, with their pictures and files.

        Prompts to the same agent are answered together, as they would have been.

        Args:
            prompt_ids: The ids of the prompts in `unanswered`; by default all.

        Returns:
            The runs, in the order of `unanswered`.

        Raises:
            AgentError: There is no such prompt.
            NoRunningLoopError: Outside an event loop.
        """
        chosen = self._choose_unanswered(prompt_ids)
        runs: dict[str, Run[Any]] = {}
        for agent_id in dict.fromkeys(prompt.agent_id for prompt in chosen):
            prompts = [prompt for prompt in chosen if prompt.agent_id == agent_id]
            again = [(prompt.id, UserMessage(prompt.content), prompt.output) for prompt in prompts]
            runs |= {run.id: run for run in send_again(self.find_agent(agent_id), again)}
            for prompt in prompts:
                del self._unanswered[prompt.id]
        return [runs[prompt.id] for prompt in chosen]

    async def drop_unanswered(self, *prompt_ids: str) -> None:
        """Remove prompts that waited when the process of the session ended, so that they are not offered again.

        Args:
            prompt_ids: The ids of the prompts in `unanswered`; by default all.

        Raises:
            AgentError: There is no such prompt.
            SessionError: This cannot be written.
        """
        for prompt in self._choose_unanswered(prompt_ids):
            forget_queued(self.find_agent(prompt.agent_id), prompt.id)
            del self._unanswered[prompt.id]
        if self._factory is not None:
            await self._factory.session.flush()

    def _choose_unanswered(self, prompt_ids: Sequence[str]) -> list[UnansweredPrompt]:
        for prompt_id in prompt_ids:
            if all(prompt.id != prompt_id for prompt in self.unanswered):
                raise AgentError(f"There is no unanswered prompt {prompt_id}; `%planck queue` lists them.")
        return [prompt for prompt in self.unanswered if not prompt_ids or prompt.id in prompt_ids]

    async def rewind(self, message_id: int, *, find: ToolResolver | None = None) -> list[str]:
        """Return all agents to the point before a message. The messages from there on become a branch.

        Agents that were created after that point are stopped, and agents that were removed after it are restored.
        `session.branches` lists the branches.

        Args:
            message_id: The message.
            find: Finds a tool by name, before the workspace's own tools are searched.

        Returns:
            A sentence about each agent that was stopped, and about all that could not be restored.

        Raises:
            SessionError: There is no such message, or the session cannot be written.
        """
        async with self._changing:
            await self.session.truncate_after(message_id)
            self._unanswered = {}  # as the prompts that wait in this process
            return await self._follow_session(find)

    async def return_to(self, branch_id: int, *, find: ToolResolver | None = None) -> list[str]:
        """Return to a branch: the conversation as it was before `rewind`, with the agents that it had.

        Args:
            branch_id: The branch, one of `session.branches`.
            find: Finds a tool by name, before the workspace's own tools are searched.

        Returns:
            A sentence about each agent that was stopped, and about all that could not be restored.

        Raises:
            SessionError: There is no such branch, or the session cannot be written.
        """
        async with self._changing:
            await self.session.return_to(branch_id)
            self._unanswered = {}
            return await self._follow_session(find)

    async def fork(
        self, name: str | None = None, *, before: int | None = None, find: ToolResolver | None = None
    ) -> list[str]:
        """Continue in a new session that begins with a copy of this one's conversation. This session is not changed.

        Args:
            name: The name of the new session; a generated one by default.
            before: The message before which the copy ends; by default everything is copied.
            find: Finds a tool by name, before the workspace's own tools are searched.

        Returns:
            A sentence about each agent, tool and model that could not be restored.

        Raises:
            SessionError: There is no such message, or the new session cannot be written.
        """
        async with self._changing:
            live = {**self._former, **{agent.id: LiveAgent.of(agent) for agent in self._registry}}
            session = self.session.fork(name=name, before=before, owner=self.owner)
            return await self._move_to(session, find, live=live, trusted=self._trusts_session, offer=before is None)

    def subscribe(
        self, *, session_id: str | None = None, agent_id: str | None = None, since: int | None = None
    ) -> Subscription[AgentEvent]:
        """Subscribe to the events of all agents, or of one.

        Args:
            session_id: The session, which must be the open one; by default that one.
            agent_id: The agent, None for all agents.
            since: The position of the first event to receive: 0 for the oldest event that is kept, None for the next.

        Returns:
            An async iterator of events, to be closed when it is no longer needed.

        Raises:
            AgentError: The agent or the session does not belong to this workspace.
        """
        if agent_id is not None:
            return self.find_agent(agent_id).subscribe(since=since)
        if session_id is not None and session_id != self.session.id:
            raise AgentError(f"Session {session_id} is not open in this workspace.")
        return self._events.subscribe(since)

    def find_agent(self, agent_id: str) -> Agent:
        """Look up an agent by its id, whatever its team.

        Args:
            agent_id: The id.

        Returns:
            The agent.

        Raises:
            AgentError: No agent of the workspace has this id.
        """
        return self._registry.by_id(agent_id)

    def sessions(self) -> list[SessionInfo]:
        """List the stored sessions.

        Returns:
            All sessions in the directory, the oldest first.
        """
        return list_sessions(self.sessions_dir)

    def query(self, sql: str, *, frames: Mapping[str, object] | None = None, limit: int | None = None) -> pd.DataFrame:
        """Query the stored sessions with SQL; see `planck_nb.sessions.query`.

        Args:
            sql: One SELECT statement in DuckDB's dialect, over the views of the sessions and the frames. In it,
                `getvariable('session')` is the id of this workspace's session, null before there is one.
            frames: DataFrames and Arrow tables by the names that the statement uses.
            limit: The highest number of rows to return; None for all.

        Returns:
            The rows of the result.

        Raises:
            QueryError: The statement is wrong, does not only read, or the sessions cannot be read.
        """
        return query(self.sessions_dir, sql, frames=frames, limit=limit, session=self.session_id)

    async def query_async(
        self, sql: str, *, frames: Mapping[str, object] | None = None, limit: int | None = None
    ) -> pd.DataFrame:
        """Query the stored sessions like `query`, without blocking the event loop. Cancelling ends the query.

        All events of this workspace are written first, so that the query sees them.

        Args:
            sql: One SELECT statement in DuckDB's dialect, as for `query`.
            frames: DataFrames and Arrow tables by the names that the statement uses.
            limit: The highest number of rows to return; None for all.

        Returns:
            The rows of the result.

        Raises:
            QueryError: The statement is wrong, does not only read, or the sessions cannot be read.
        """
        await self.flush()
        return await query_async(self.sessions_dir, sql, frames=frames, limit=limit, session=self.session_id)

    async def flush(self) -> None:
        """Write the pending events to disk, which are otherwise written with a delay. A full disk is no error here."""
        if self._factory is not None:
            with suppress(SessionError):  # the events that were written can be read anyway
                await self._factory.session.flush()

    async def close(self) -> None:
        """Stop all agents and close the session. Its messages are already on disk."""
        async with self._changing:
            await self._leave()
        self._events.close()
        if self._owns_client:
            await self._client.aclose()

    def _open(self, session: Session, session_spend: SessionSpend | None = None) -> None:
        """Let agents write to the session."""
        if (session.id, session.name) != self._reserved:
            self._fill_toolbox(session.id, session.name)
        self._factory = AgentFactory(
            session=session,
            session_spend=session_spend or SessionSpend(),
            registry=self._registry,
            approvals=self.approvals,
            limits=self.limits,
            prompt_parts=self.toolbox.prompt_parts,
            client=self._client,
            observers=(self._events,),
            fallbacks=lambda: [self.model(reference) for reference in self.config.fallbacks],
            compact_ratio=self.config.compact_ratio,
        )

    def _reserve(self) -> None:
        """Choose id and name of the next session, so that its toolbox can be inspected before it is created."""
        self._reserved = new_id(), readable_name()
        self._fill_toolbox(*self._reserved)

    def _fill_toolbox(self, session_id: str, name: str) -> None:
        self.changes = Changes(self.sessions_dir / f"{session_id}_{name}.changes")
        """The changes to files that the agents' tools made in this session, which can be undone."""
        self.toolbox = Toolbox(self.config, self.changes)
        """The tools, skills and instructions for agents."""

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
        """Replace the open session by `session`, and restore its agents. If that fails, nothing changes."""
        try:
            power = await self._read_power(session, trusted=trusted)
            members = power.members
            unanswered = await read_unanswered(session)
            damage = str(await run_in_thread(partial(read_damage, session.info)))
            finder = await self._finder(session, power, live or {}, model)
            found = finder.find(_staying(members), strict=strict)
            await self._leave()
        except BaseException:
            session.close()
            raise
        # Without an await from here on until all agents exist, so that no other task takes one of their names.
        spent = sum((member.usage.total_tokens for member in members.members), 0)
        self._open(session, SessionSpend(spent, sum(member.cost or 0.0 for member in members.members)))
        self._session_settings, self._trusts_session = power.signed_settings, trusted
        self._former = dict(live or {})
        self._unanswered = {prompt.id: prompt for prompt in unanswered}
        self.approvals.policy = self.approvals.policy.with_rules(power.rules)
        problems = await self._restore(found, find)
        if offer:
            problems += self._offers()
        else:  # what waited at that point of the past
            for prompt in self.unanswered:
                forget_queued(self.find_agent(prompt.agent_id), prompt.id)
            self._unanswered = {}
        if power.left_out:
            problems.insert(0, left_out_sentence(session.name, power.left_out, self._signing.problem))
            await session.save_metadata({WAITING: power.waiting})
        if damage:
            problems.insert(0, damage)
        # Rules of version 0.1.0 are for the agents that it recorded, and for no later one.
        await self.save_session_settings()
        return problems

    async def _follow_session(self, find: ToolResolver | None) -> list[str]:
        """Stop the agents that the session does not have any more, and restore those that it has again.

        Returns a sentence about each agent that was stopped, and about all that could not be restored.
        """
        before = list(self._registry)  # an agent that is added from now on belongs to the session as it is now
        power = await self._read_power(self.session, trusted=self._trusts_session)
        staying = {member.identity.id: member for member in _staying(power.members)}
        gone = [agent for agent in before if agent.id not in staying and agent.id in self._registry]
        for agent in gone:
            await self._remove(agent)
        problems = [f"{agent.name} does not belong to this conversation and was stopped." for agent in gone]
        finder = await self._finder(self.session, power, self._former, None)
        missing = [member for agent_id, member in staying.items() if agent_id not in self._registry]
        return problems + await self._restore(finder.find(missing), find)

    async def _read_power(self, session: Session, *, trusted: bool) -> StoredPower:
        """Read what the session may give its agents."""
        known = self.toolbox.tools()
        members = await read_members(session)
        return read_power(session, members, trusted=trusted, is_workspace_tool=known.__contains__)

    async def _finder(
        self, session: Session, power: StoredPower, live: Mapping[str, LiveAgent], model: Model | None
    ) -> AgentFinder:
        old = any(not member.model_source for member in power.members.members)
        return AgentFinder(
            session.name,
            tuple(self.config.models),
            finish=lambda found: paced(found, self.config),
            require_key=self._require_key,
            base_urls=power.base_urls,
            replies=await read_last_replies(session) if old else {},
            live=live,
            model=model,
            trusts=lambda record: record.authentic,
        )

    def _require_key(self, model: Model) -> None:
        """Raise `ModelError` if the key of the model is missing and answers do not come from a recording."""
        if self.cassette is None or self.cassette.mode != "replay":
            self._client.key_for(model)

    async def _restore(self, found: Sequence[FoundAgent], find: ToolResolver | None) -> list[str]:
        """Create agents of the session again. Returns a sentence about each part that could not be restored."""
        problems: list[str] = []
        unfinished: list[Agent] = []
        known = self.toolbox.tools() if found else {}  # which reads files, so once for all agents
        for each in found:
            name = name_of(each.record)
            tools, missing = _granted(each, find, known, self.toolbox)
            try:
                agent = self.agent_factory.restore(
                    each.record,
                    model=each.model,
                    tools=tools,
                    available_models=each.available_models,
                    on_compact=each.compactor,
                )
            except AgentError:
                problems.append(f"A second agent named {name} was left out.")
                continue
            if missing:
                problems.append(f"{name} lacks {', '.join(missing)}; pass them again with `--tools`.")
            problems += each.problems
            if each.record.unfinished:
                unfinished.append(agent)
        for agent in unfinished:
            await append_message(agent, UserMessage(INTERRUPTED))
        return problems

    def _offers(self) -> list[str]:
        """A sentence for each agent that has unanswered prompts."""
        said: list[str] = []
        for agent in self._registry:
            prompts = [prompt for prompt in self.unanswered if prompt.agent_id == agent.id]
            if not prompts:
                continue
            texts = ", ".join(f"“{one_line(prompt.text, _SHOWN)}”" for prompt in prompts)
            gone = "" if all(prompt.complete for prompt in prompts) else " Pictures and files were not stored with it."
            number, them = ("a prompt", "it") if len(prompts) == 1 else (f"{len(prompts)} prompts", "them")
            said.append(
                f"The session ended before {agent.name} answered {number}: {texts}.{gone} "
                f"`%planck queue {agent.name} --send` sends {them} now, "
                f"`%planck queue {agent.name} --drop` removes {them}."
            )
        return said

    def _choose_model(self, model: Model) -> None:
        """Let the agents whose model was not found again continue with this one or, if all were found, all agents."""
        agents = list(self._registry)
        for agent in [agent for agent in agents if agent.model.unavailable] or agents:
            agent.model = model

    async def _remove(self, agent: Agent) -> None:
        self._former[agent.id] = LiveAgent.of(agent)
        self._registry.remove(agent)
        await agent.stop(removed=True)

    async def _leave(self) -> None:
        """Stop all agents, close the session, and drop its settings."""
        self._registry.closed = "The workspace is changing to another session; add the agent when that is done."
        try:
            for agent in self._registry:
                await agent.stop()
        finally:
            self._registry.closed = ""
        self._registry.clear()
        self._former, self._unanswered = {}, {}
        if self._factory is not None:
            self._factory.session.close()
            self._factory = None
            self._session_settings = SessionSettings()
            self._trusts_session = False
            self._reserve()
        self.approvals.policy = self.policy()

    def _start(self, session_id: str, name: str) -> Session:
        signer = self._signing.signer
        try:
            return Session.start(session_id, name=name, directory=self.sessions_dir, owner=self.owner, signer=signer)
        except SessionError as error:
            if type(error) is not SessionError or not isinstance(error.__cause__, OSError) or self._temporary:
                raise
        self._temporary = make_private_folder()
        atexit.register(self._close_session)  # before the folder is removed
        self._fill_toolbox(session_id, name)
        return Session.start(session_id, name=name, directory=self.sessions_dir, owner=self.owner, signer=signer)

    def _close_session(self) -> None:
        if self._factory is not None:
            with suppress(SessionError):
                self._factory.session.close()

    def _open_stored(self, id_or_name: str, *, take_over: bool = False) -> Session:
        signer = self._signing.signer
        return Session.open(self.sessions_dir, id_or_name, owner=self.owner, signer=signer, take_over=take_over)

    @cached_property
    def _signing(self) -> _Signing:
        return _Signing.of(self.config.user_folder)

    def _open_newest(self) -> Session:
        for info in reversed(self.sessions()):
            with suppress(SessionLockedError):
                return self._open_stored(info.id)
        raise SessionNotFoundError("There is no other session to resume; `%planck sessions` lists them.")

    def _recorded_model(self) -> str | None:
        cassette = self.cassette
        return cassette.recorded_model if cassette is not None and cassette.mode in {"replay", "auto"} else None


def _staying(members: SessionMembers) -> list[AgentRecord]:
    return [member for member in members.members if not member.removed]


def _granted(
    found: FoundAgent, find: ToolResolver | None, known: Mapping[str, Tool], toolbox: Toolbox
) -> tuple[list[Tool], list[str]]:
    """The tools that the agent had, and the names of those that were not found.

    A function that this process still has is used as it is; a tool of the workspace is that of the present session.
    """
    if not found.record.authentic:  # its tools are those of the workspace
        return [known[name] for name in found.record.tools if name in known], []
    given = {name: _own_tool(found, name, known) or (find(name) if find else None) for name in found.record.tools}
    given = {name: tool or known.get(name) or toolbox.find_installed(name) for name, tool in given.items()}
    return [tool for tool in given.values() if tool], [name for name, tool in given.items() if not tool]


def _own_tool(found: FoundAgent, name: str, known: Mapping[str, Tool]) -> Tool | None:
    """The tool that the agent of this process has, unless it is one of the workspace, None if there is none."""
    tool = found.live.tools.get(name)
    return tool if tool is not None and (tool.function is not None or name not in known) else None


@dataclass(frozen=True, slots=True)
class _Signing:
    """The signer of sessions, and a sentence about the user's key if it cannot be used."""

    signer: Signer
    problem: str = ""

    @classmethod
    def of(cls, folder: Path | None) -> _Signing:
        problem = "There is no home folder for the key of your sessions; set HOME."
        if folder is not None:
            try:
                return cls(Signer(user_key(folder)))
            except ConfigError as error:
                problem = str(error)
        # With a key of its own, a fork or a return to a branch still finds what this process has written.
        return cls(Signer(secrets.token_bytes(32)), problem)


def _with_pace(config: Config, before: Config) -> Config:
    """The configuration with the pace of the one before if it has none: a notebook sets it after loading."""
    return config if config.demo_pace is not None else replace(config, demo_pace=before.demo_pace)


def _cassette(config: Config) -> Cassette | None:
    if config.cassette is None:
        return None
    return Cassette(config.cassette, config.cassette_mode, environment=config.environment())

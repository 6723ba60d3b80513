"""A workspace: one session, its agents, and the store they share."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from planck_nb.agent.agent import Agent
from planck_nb.agent.approval import Policy
from planck_nb.agent.approval.gate import Approvals
from planck_nb.agent.calling.functions import ToolLike
from planck_nb.agent.calling.user_code import mark_observer
from planck_nb.agent.context.compactor import Compactor
from planck_nb.agent.events import AgentEvent
from planck_nb.agent.limits import Limits
from planck_nb.agent.output import output_spec
from planck_nb.agent.run import Run
from planck_nb.agent.scoring import SCORER_SECONDS, named_scorers, read_cases
from planck_nb.ai.cassettes import Cassette
from planck_nb.ai.client import Client
from planck_nb.ai.engine import Engine
from planck_nb.ai.model_lookup.catalogue import get_model
from planck_nb.ai.model_lookup.discovery import absence
from planck_nb.ai.models import Model
from planck_nb.ai.request import Options
from planck_nb.ai.retries.retry import RetryPolicy
from planck_nb.base.errors import AgentError, SessionError, UsageError
from planck_nb.base.event_log import Subscription
from planck_nb.base.secrets import known_secrets, remember_secret
from planck_nb.base.threads import run_in_thread
from planck_nb.base.visible import visible
from planck_nb.config import Config, FolderTrust, TrustItem
from planck_nb.sessions import Session, SessionInfo, UnansweredPrompt, query, query_async
from planck_nb.teams import Team, TeamTemplate, TemplateProblem
from planck_nb.teams.saving import SavedTemplate
from planck_nb.teams.template_folders import TemplateReport
from planck_nb.tools.changes import Changes
from planck_nb.workspace.agent_factory import AgentFactory
from planck_nb.workspace.agent_restorer import INTERRUPTED, ToolResolver
from planck_nb.workspace.compactors import Compactors
from planck_nb.workspace.current_session import CurrentSession
from planck_nb.workspace.default_model import choose_model
from planck_nb.workspace.default_policy import default_policy
from planck_nb.workspace.evaluation import EvaluationParts, EvaluationPlan, EvaluationRun, model_settings
from planck_nb.workspace.folder_files import TrustedFile, directory_notice, left_out_notice
from planck_nb.workspace.map_run import MapRun
from planck_nb.workspace.map_settings import CONCURRENCY, ItemSettings, KeyFunction, MapPrompts
from planck_nb.workspace.session_navigation import SessionNavigation
from planck_nb.workspace.sessions import WorkspaceSessions
from planck_nb.workspace.sidecars import WorkspaceSidecars
from planck_nb.workspace.toolbox import Toolbox, ToolSource
from planck_nb.workspace.trusted_config import TrustedConfig, with_pace

if TYPE_CHECKING:
    import pandas as pd

    from planck_nb.sidecars.mcp_client.link.questions import Ask

__all__ = ["INTERRUPTED", "ToolResolver", "Workspace"]


class Workspace:
    """Agents that share a session. The session is created with the first agent, and `close` closes everything.

    Args:
        config: The settings; by default `Config.load()`.
        client: Sends the requests to the models; by default a client of the workspace, with the cassette that the
            configuration names. A client that is passed in is not closed.
        engine: Sends the requests from elsewhere, such as `planck_nb.engines.DaskEngine`. It is not closed.
        owner: Identifies this workspace to others that try to open the same session, such as the name of a notebook.
        trust: Whether to use files of the folder that can run code or redirect requests; by default as the
            configuration was loaded: if the user trusts them, or PLANCK_NB_TRUST is 1. This is not remembered; to
            remember trust, call `trust`.
        ask: Shows a question of a sidecar to a person and returns the answer; without it, and outside a notebook, all
            questions are declined.

    Example:
        >>> import asyncio, tempfile
        >>> from pathlib import Path
        >>> from planck_nb import Config
        >>> from planck_nb.testing import scripted_model
        >>> async def main(folder):
        ...     workspace = Workspace(Config.load(environment={}, directory=folder, home=folder))
        ...     agent = workspace.add_agent("ann", model=scripted_model(["Hello!"]))
        ...     await agent.prompt("Hi.")
        ...     rows = await workspace.query_async("SELECT role, text FROM messages ORDER BY id")
        ...     await workspace.close()
        ...     return list(zip(rows.role, rows.text))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     asyncio.run(main(Path(folder)))
        [('user', 'Hi.'), ('assistant', 'Hello!')]
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        client: Client | None = None,
        engine: Engine | None = None,
        owner: str = "",
        trust: bool | None = None,
        ask: Ask | None = None,
    ) -> None:
        loaded = config or Config.load(trust=trust)
        if trust is not None and config is not None:
            loaded = with_pace(config.reload(trust=trust), config)
        self._config = TrustedConfig(loaded)
        self._store = WorkspaceSessions(self._config, owner)
        approvals = Approvals(default_policy(loaded), loaded.approval_deadline, attendance=asyncio.Event())
        _remember_secrets(loaded)
        self._owns_client = client is None
        if client is None:
            cassette = _cassette(loaded)
            client = Client(credentials=self._config.environment, cassette=cassette, retries=_retries(loaded))
        if engine is not None:
            client.engine = engine
        self._current = CurrentSession(self._config, self._store, approvals, client)
        self._current.sidecars.ask = ask
        self.compactors = Compactors(sidecars=self._current.sidecars)
        """Finds compactors by name, for `add_agent` and `resume`; `compactors.own` has those of the program."""
        self._navigation = SessionNavigation(self._current, self._config, self._store, self.compactors)
        self._model: Model | None = None
        """The model of agents that are created without one, once it was found."""
        self._chosen_model: Model | None = None
        """The model passed to `set_default_model`, which takes precedence."""
        self._maps: weakref.WeakSet[MapRun] = weakref.WeakSet()
        self._evaluations: weakref.WeakSet[EvaluationRun] = weakref.WeakSet()
        self.show_map: Callable[[MapRun], object] | None = None
        """Shows new maps."""
        self._notices: set[str] = set()
        """The notices that the user has been given."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def config(self) -> Config:
        """The settings."""
        return self._config.config

    @config.setter
    def config(self, config: Config) -> None:
        self._config.config = config

    @property
    def approvals(self) -> Approvals:
        """Decides which calls may run; asks a person after `attend` was called."""
        return self._current.approvals

    @approvals.setter
    def approvals(self, approvals: Approvals) -> None:
        self._current.approvals = approvals

    @property
    def owner(self) -> str:
        """Identifies this workspace to others that try to open the same session."""
        return self._store.owner

    @property
    def sessions_dir(self) -> Path:
        """The directory that contains the sessions; a temporary one if the session could not be created there."""
        return self._store.directory

    @property
    def session(self) -> Session:
        """The session that the agents write to; created on first access."""
        return self.agent_factory.session

    @property
    def agents(self) -> dict[str, Agent]:
        """The agents outside teams by name, in the order they were created."""
        return self._current.registry.named()

    @property
    def agent_factory(self) -> AgentFactory:
        """Creates agents of the session, those of teams included; creates the session if there is none yet."""
        return self._current.factory

    @property
    def changes(self) -> Changes:
        """The changes to files that the agents' tools made in this session, which can be undone."""
        return self._current.changes

    @property
    def toolbox(self) -> Toolbox:
        """The tools, skills and instructions for agents."""
        return self._current.toolbox

    def offer_kernel_tools(self, tools: ToolSource) -> None:
        """Make the tools that work in the kernel of the notebook available to agents.

        Args:
            tools: The tools.
        """
        self._current.kernel = tools

    @property
    def sidecars(self) -> WorkspaceSidecars:
        """The sidecars: MCP servers whose tools and compactors agents use."""
        return self._current.sidecars

    @property
    def session_id(self) -> str | None:
        """The id of the session, None until there is one."""
        return self._current.opened.id if self._current.opened else None

    def attend(self) -> None:
        """Declare that a person can answer requests for approval from now on."""
        self.approvals.attend()

    def policy(self) -> Policy:
        """Build the policy of a new session: ask before changes, with the rules of the settings.

        Returns:
            The policy. Reading the folders of skills is allowed.
        """
        return default_policy(self.config)

    @property
    def folder_trust(self) -> FolderTrust:
        """What the user trusts of the folder."""
        return self._config.folder_trust

    def trust_items(self) -> tuple[TrustedFile, ...]:
        """List the files of the folder that can run code or redirect requests: tools, models, settings, variables.

        Returns:
            The files with their status, as they are now.
        """
        return self._config.items()

    def require_trust(self) -> None:
        """Check that all files of the folder that can run code or redirect requests are trusted.

        Raises:
            TrustError: Some are not; the sentence lists them.
        """
        self._config.require_trust()

    def require_trusted_settings(self) -> None:
        """Check the trust in all settings, models and variables.

        Raises:
            TrustError: Some are not; the sentence lists them.
        """
        self._config.require_trusted_settings()

    def trust(self, items: Iterable[TrustItem] | None = None) -> tuple[TrustedFile, ...]:
        """Trust files of the folder that can run code or redirect requests, and use them.

        This is remembered in the user's own folder. A file that is new or has changed needs trust again. Existing
        agents keep the tools that they have.

        Args:
            items: What a person has seen, from `trust_items`; by default everything, as it is now.

        Returns:
            The files.

        Raises:
            ConfigError: A setting that is used from now on has a value that cannot be used.
        """
        self._configure(self._config.trust(items))
        return self.trust_items()

    def distrust(self, items: Iterable[TrustItem] | None = None) -> None:
        """Stop trusting the folder. Existing agents keep what they have.

        Args:
            items: From `trust_items`; by default everything.

        Raises:
            ConfigError: A setting has a value that cannot be used.
        """
        self._configure(self._config.distrust(items))

    def notices(self) -> list[str]:
        """Return what the user should know about the folder and has not been told yet.

        Returns:
            A sentence about each text of another user that is not used, about a directory that others can write, about
            tools, teams and sidecars that are not trusted or cannot be used, and about what happened to sidecars since
            the last time.
        """
        found = [*self.toolbox.foreign_texts(), *self._replaced_skills(), directory_notice(self.sessions_dir)]
        events = self.sidecars.progress.take()  # which may happen again, unlike the rest
        found += [left_out_notice(self.config.root, self._config.left_out()), *self.sidecars.notices()]
        if problem := self._store.problem:
            found.append(
                f"No session can be stored in {self.config.sessions_dir} ({problem}), so this one is lost when the "
                "kernel ends; set PLANCK_NB_SESSIONS_DIR to another folder."
            )
        new = [sentence for sentence in found if sentence and sentence not in self._notices]
        self._notices.update(new)
        return [*new, *events]

    def _replaced_skills(self) -> Iterator[str]:
        """Yield a sentence for each replaced skill in the user's folder."""
        report = self.toolbox.skill_pool.report()
        for failure in report.skipped:
            skill = report.skills.get(failure.path.parent.name)
            if skill is not None and self._is_of_user(failure.path) and not self._is_of_user(skill.path):
                yield f"This folder's skill {skill.name} replaces your own, {failure.path}; rename one to use both."

    def _is_of_user(self, path: Path) -> bool:
        return self.config.user_folder is not None and path.is_relative_to(self.config.user_folder)

    def _configure(self, config: Config) -> None:
        """Use other settings of the same folder from now on."""
        before, current = self.config, self._current
        added = [rule for rule in self.approvals.policy.rules if rule not in self.policy().rules]
        self._config.config = config
        _remember_secrets(config)
        self.approvals.policy = self.policy().with_rules(added)
        if self.approvals.deadline == before.approval_deadline:
            self.approvals.deadline = config.approval_deadline
        if not current.limits_are_set:
            current.limits = config.limits
        self._model = None
        if self._owns_client:
            current.client.retries = _retries(config)
        if current.opened is None and self._owns_client and config.cassette != before.cassette:
            self.cassette = _cassette(config)
        current.apply_config()

    async def save_session_settings(self) -> None:
        """Store the session's rules and what its agents may read, so that `resume` restores them.

        Limits are stored at once. This does nothing before there is a session.

        Raises:
            SessionError: The settings cannot be written.
        """
        await self._current.save_settings()

    @property
    def readable_names(self) -> MutableMapping[str, set[str]]:
        """The only variables of the notebook that agents and teams may list and inspect, by the id of each.

        Those without an entry may read all. `save_session_settings` stores it, and `resume` restores it.
        """
        return self._current.readable_names

    @property
    def limits(self) -> Limits:
        """The limits of agents that are created from now on; `set_limits` changes those of all agents."""
        return self._current.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._current.limits_are_set = True
        self._current.limits = limits

    def set_limits(self, limits: Limits) -> None:
        """Set the limits of all agents, present and new ones, from their next turn on.

        Args:
            limits: The limits.
        """
        self.limits = limits
        for agent in self._current.registry:
            agent.limits = limits

    def model(self, reference: str, *, base_url: str | None = None, key_variable: str | None = None) -> Model:
        """Find a model by name, among the user's own models first.

        Args:
            reference: An alias or "provider:id".
            base_url: The address of its server, None for the usual one.
            key_variable: The environment variable with the key for that server, None for the usual one.

        Returns:
            The model, with the settings of the configuration.

        Raises:
            ModelError: There is no such model.
            ConfigError: `base_url` is not a URL.
            TrustError: The folder has settings or models that are not trusted.
        """
        return self._config.model(reference, base_url=base_url, key_variable=key_variable)

    async def find_model(
        self, reference: str, *, base_url: str | None = None, key_variable: str | None = None
    ) -> Model:
        """Find a model by name like `model`, with the context window that the server of a local model has now.

        Args:
            reference: An alias or "provider:id".
            base_url: The address of its server, None for the usual one.
            key_variable: The environment variable with the key for that server, None for the usual one.

        Returns:
            The model. Its window is unknown if its server does not answer within two seconds.

        Raises:
            ModelError: There is no such model.
            ConfigError: `base_url` is not a URL.
            TrustError: The folder has settings or models that are not trusted.
        """
        model = self.model(reference, base_url=base_url, key_variable=key_variable)
        return await self._current.client.with_reported_window(model, refresh=True)

    async def absence(self, model: Model) -> str:
        """Check a model's server on this machine.

        Args:
            model: The model.

        Returns:
            A sentence if the server is absent and a cassette cannot answer instead; else an empty text.
        """
        if self._current.is_replayed:
            return ""
        return await run_in_thread(lambda: absence(model))

    def require_key(self, model: Model) -> None:
        """Check that the model's API key is set, if it needs one. A cassette that is replayed needs none.

        Args:
            model: The model.

        Raises:
            MissingCredentialError: It is not set.
        """
        self._current.require_key(model)

    @property
    def cassette(self) -> Cassette | None:
        """Records or replays the requests to models; None for neither."""
        return self._current.client.cassette

    @cassette.setter
    def cassette(self, cassette: Cassette | None) -> None:
        self._current.client.cassette = cassette

    @property
    def engine(self) -> Engine | None:
        """Sender for requests; None for this process.

        May be changed at any time.
        """
        return self._current.client.engine

    @engine.setter
    def engine(self, engine: Engine | None) -> None:
        self._current.client.engine = engine

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
        self._config.require_trusted_settings()
        if self._chosen_model is not None:
            return self._chosen_model, ""
        notice = ""
        if self._model is None and not self.config.default_model and (recorded := self._recorded_model()) is not None:
            self._model = get_model(recorded, own=self.config.models)
        if self._model is None:
            model, notice = await choose_model(self.config)
            self._model = await self._current.client.with_reported_window(model)
        return self._model, notice

    def set_default_model(self, model: Model) -> None:
        """Set the model for agents that are created without one.

        Args:
            model: The model.
        """
        self._chosen_model = model

    def add_agent(
        self,
        name: str,
        *,
        model: Model,
        system_prompt: str = "",
        tools: Iterable[ToolLike] = (),
        options: Options | None = None,
        description: str = "",
        on_compact: Compactor | Callable[..., object] | str | None = None,
    ) -> Agent:
        """Create an agent whose messages are stored in the session.

        Args:
            name: Its name, unique among the agents outside teams.
            model: The model that answers.
            system_prompt: Instructions to the model, sent before the conversation.
            tools: Tools, or Python functions to convert to tools.
            options: Request options.
            description: What the agent is for, in a sentence.
            on_compact: Shortens the conversation before it outgrows the context window: a `Compactor`, a function, or
                the name of one in `compactors`; by default the model writes a summary. Only the name is stored, so a
                function is needed again after `resume`.

        Returns:
            The agent.

        Raises:
            AgentError: The name is taken, or the workspace is changing to another session at the moment.
            UsageError: The name has lookalike characters, or `on_compact` is neither a compactor nor a function of the
                messages, or names none.
            TrustError: The folder has settings or models that are not trusted.
        """
        self.require_trusted_settings()
        if (text := visible(name, lookalikes=True)) != name:
            raise UsageError(f"{text} cannot be the name of an agent, because it passes for another one; rename it.")
        return self.agent_factory.create(
            name,
            model=model,
            system_prompt=system_prompt,
            tools=tools,
            options=options,
            description=description,
            on_compact=self.compactors.named(on_compact) if isinstance(on_compact, str) else on_compact,
        )

    def map(
        self,
        prompts: Iterable[object] | AsyncIterable[object],
        *,
        agent: Agent | str | None = None,
        model: Model | str | None = None,
        output: Any = None,  # noqa: ANN401 - any type
        concurrency: int = CONCURRENCY,
        cost: float | None = None,
        key: KeyFunction | str | None = None,
        template: str | None = None,
        first: int | None = None,
        again: bool = False,
    ) -> MapRun:
        """Ask many prompts, each with a fresh agent, and store the answers.

        The same call in the same session goes on: an item is known by the digest of its prompt and all deciding
        settings, and only those without a stored answer are asked. Items that failed or were stopped are asked
        again. The view `map_items` has every item as soon as it has ended.

        Args:
            prompts: Texts, read as they are needed: a list, an iterator, an async iterator or a column. Or a frame,
                with a `template`.
            agent: The agent whose settings each item's agent gets, or its name. Its conversation is not sent.
            model: The model instead, or its name; by default new agents' model.
            output: A type or a JSON Schema for structured answers, as for `Agent.prompt`.
            concurrency: The most items in flight.
            cost: US dollars for all items together, earlier calls included. Items that are in
                flight when it is reached are finished.
            key: Returns what an item is known by instead of its prompt, from the prompt or the frame's row; or
                a column's name.
            template: The prompt for each row in a frame, with `{column}` where values belong.
            first: How many prompts to ask as a preview. The run's `estimate` then has the price and time for the
                rest, which `go_on` asks.
            again: Whether to ask items again that were answered under other settings, and interrupted ones whose tools
                may have changed something.

        Returns:
            The run, which has started. Await it, iterate over it, or read `frame()`.

        Raises:
            UsageError: An argument cannot be used.
            AgentError: There is no such agent.
            ModelError: There is no such model.
            TrustError: The folder has settings or models that are not trusted.

        Example:
            >>> import asyncio, tempfile
            >>> from pathlib import Path
            >>> from planck_nb import Config
            >>> from planck_nb.testing import scripted_model
            >>> async def main(folder):
            ...     config = Config.load(environment={}, directory=folder, home=folder)
            ...     async with Workspace(config) as workspace:
            ...         run = await workspace.map(["Is 7 prime?"], model=scripted_model(["Yes."]))
            ...         return (await run.frame()).answer.tolist()
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     asyncio.run(main(Path(folder)))
            ['Yes.']
        """
        self.require_trusted_settings()
        if agent is not None and model is not None:
            raise UsageError("Pass `agent` or `model`, not both: the agent has a model.")
        _require_whole("concurrency", concurrency)
        if first is not None:
            _require_whole("first", first)
        if cost is not None and not (isinstance(cost, int | float) and cost >= 0):
            raise UsageError(f"`cost` must be 0 or more US dollars, not {cost!r}.")
        template_agent = self.agent(agent) if isinstance(agent, str) else agent
        own_model = self.model(model) if isinstance(model, str) else model

        async def prepare() -> tuple[AgentFactory, ItemSettings]:
            factory = self.agent_factory
            if template_agent is not None:
                return factory, ItemSettings.of(template_agent, factory.prompt_parts)
            answering = own_model or (await self.default_model())[0]
            return factory, ItemSettings(answering, factory.prompt_parts, self.limits)

        run = MapRun(
            MapPrompts(prompts, key, template),
            prepare,
            output=output,
            spec=None if output is None else output_spec(output),
            concurrency=concurrency,
            cost=cost,
            again=again,
            first=first,
        )
        self._maps.add(run)
        if self.show_map is not None:
            self.show_map(run)
        return run

    def evaluate(
        self,
        task: Agent | str | None,
        cases: Iterable[object],
        scorers: Sequence[object] | Mapping[str, object],
        *,
        models: Sequence[Model | str] | Model | str = (),
        repeat: int = 1,
        output: Any = None,  # noqa: ANN401 - any type
        cost: float | None = None,
        concurrency: int = CONCURRENCY,
        name: str = "",
        scorer_seconds: float = SCORER_SECONDS,
        again: bool = False,
    ) -> EvaluationRun:
        """Ask cases, score the answers, and store both.

        The same call in the same session goes on: only what lacks an answer or a score is asked and scored. Another
        session, another `name`, changed cases and changed instructions are another evaluation. The views
        `evaluations`, `scores` and `score_rates` have them all.

        Args:
            task: The agent whose settings answer, or its name; None for new agents' defaults. Its conversation is not
                sent.
            cases: `planck_nb.testing.Case` objects, mappings with their fields, or a frame with such columns.
            scorers: Functions from a `planck_nb.testing.CaseAnswer` to a bool, a number or a mapping with up to 1,000,
                sync or async, and agents that judge; a list, or a mapping by name. Judging agents are told to answer
                with a verdict, and their costs are apart.
            models: Models to compare, or their names; by default the task's own.
            repeat: How often each model gets each case.
            output: A type or a JSON Schema for structured answers, as for `Agent.prompt`.
            cost: US dollars for answers and judges together, earlier calls included. What is in flight when it is
                reached is finished.
            concurrency: The most answers in flight.
            name: What to call it, by default the agent's name.
            scorer_seconds: A time limit for each scorer.
            again: Whether to ask interrupted cases again whose tools may have changed something.

        Returns:
            The run, which has started. Await it, then read `rates()` and `frame()`.

        Raises:
            UsageError: An argument cannot be used.
            AgentError: There is no such agent.
            ModelError: There is no such model.
            TrustError: The folder has settings or models that are not trusted.

        Example:
            >>> import asyncio, tempfile
            >>> from pathlib import Path
            >>> from planck_nb import Config
            >>> from planck_nb.testing import contains, scripted_model
            >>> async def main(folder):
            ...     config = Config.load(environment={}, directory=folder, home=folder)
            ...     async with Workspace(config) as workspace:
            ...         cases = [{"input": "6 times 7?", "expected": "42"}]
            ...         run = await workspace.evaluate(None, cases, [contains], models=scripted_model(["42."]))
            ...         rates = await run.rates()
            ...         return rates.loc[0, ["mean", "low", "high"]].astype(float).round(2).tolist()
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     asyncio.run(main(Path(folder)))
            [1.0, 0.21, 1.0]
        """
        self.require_trusted_settings()
        _require_whole("repeat", repeat)
        _require_whole("concurrency", concurrency)
        if cost is not None and not (isinstance(cost, int | float) and cost >= 0):
            raise UsageError(f"`cost` must be 0 or more US dollars, not {cost!r}.")
        if not (isinstance(scorer_seconds, int | float) and scorer_seconds > 0):
            raise UsageError(f"`scorer_seconds` must be more than 0, not {scorer_seconds!r}.")
        agent = self.agent(task) if isinstance(task, str) else task
        if agent is not None and not isinstance(agent, Agent):
            raise UsageError(f"`task` must be an agent, its name or None, not {type(agent).__name__}.")
        judges = named_scorers(scorers)
        if agent is not None and any(judge is agent for judge in judges.values()):
            raise UsageError(f"The agent {agent.name} cannot judge its own answers; let another agent judge.")
        answering = self._models_once(models)
        spec = None if output is None else output_spec(output)
        plan = EvaluationPlan(
            name or ("evaluation" if agent is None else agent.name),
            read_cases(cases),
            judges,
            repeat,
            spec,
            cost,
            concurrency,
            scorer_seconds,
            agent,
        )

        async def prepare() -> EvaluationParts:
            factory = self.agent_factory
            if agent is not None:
                settings = ItemSettings.of(agent, factory.prompt_parts)
            else:
                model = answering[0] if answering else (await self.default_model())[0]
                settings = ItemSettings(model, factory.prompt_parts, self.limits)
            judging = {
                name: ItemSettings.of(judge, factory.prompt_parts)
                for name, judge in judges.items()
                if isinstance(judge, Agent)
            }
            return EvaluationParts(factory, model_settings(settings, answering), judging)

        def start_map(prompts: pd.DataFrame, settings: ItemSettings, dollars: float | None) -> MapRun:
            async def settled() -> tuple[AgentFactory, ItemSettings]:
                return self.agent_factory, settings

            run = MapRun(
                MapPrompts(prompts, "key", "{input}"),
                settled,
                output=output,
                spec=spec,
                concurrency=concurrency,
                cost=dollars,
                again=again,
            )
            self._maps.add(run)
            return run

        run = EvaluationRun(plan, prepare, start_map)
        self._evaluations.add(run)
        return run

    def _models_once(self, models: Sequence[Model | str] | Model | str) -> list[Model]:
        """Find models, each of which may be there once."""
        references = [models] if isinstance(models, Model | str) else list(models)
        result = [self.model(reference) if isinstance(reference, str) else reference for reference in references]
        names = [str(model) for model in result]
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"The model {name} is there twice; `repeat` asks one several times.")
        return result

    @property
    def running_maps(self) -> tuple[MapRun, ...]:
        """Return the maps which have not ended."""
        return tuple(run for run in self._maps if not run.done)

    @property
    def teams(self) -> dict[str, Team]:
        """The running teams by name, in the order in which they were started."""
        return self._navigation.teams.by_name()

    def team_templates(self) -> TemplateReport:
        """List the team templates of the project and the user.

        Returns:
            The templates by alias, the project's first, and what cannot be used, with the reasons.
        """
        return self._navigation.teams.templates()

    def team_template(self, alias_or_path: str | Path) -> TeamTemplate:
        """Find a team template.

        Args:
            alias_or_path: Its alias, or the path of its folder or file.

        Returns:
            The template.

        Raises:
            ConfigError: There is none, or it cannot be used.
        """
        return self._navigation.teams.template(alias_or_path)

    def check_team(self, alias_or_path: str | Path, *, find: ToolResolver | None = None) -> tuple[TemplateProblem, ...]:
        """Find everything that is wrong with a team template: in its files, and names in it that do not exist.

        The template need not be trusted for this.

        Args:
            alias_or_path: Its alias, or the path of its folder or file.
            find: Finds a tool by name, before the workspace's own tools are searched.

        Returns:
            The problems. There are none if the template can be used exactly as it is written.

        Raises:
            ConfigError: There is no such template, or it cannot be read as one.
        """
        return self._navigation.teams.check(alias_or_path, find)

    async def start_team(
        self,
        template: TeamTemplate | str | Path,
        *,
        name: str = "",
        model: Model | None = None,
        find: ToolResolver | None = None,
    ) -> Team:
        """Start a team whose messages are stored in the session.

        Args:
            template: A template, or its alias or path.
            name: What the team is called here; by default the alias, with a number if that is taken.
            model: A model for all members, instead of their own.
            find: Finds a tool by name, before the workspace's own tools are searched.

        Returns:
            The team, running.

        Raises:
            AgentError: A running team has this name.
            ConfigError: There is no such template, or it cannot be used.
            ModelError: The model of a member does not exist.
            TrustError: The folder has files that can run code or redirect requests and are not trusted.
        """
        self.require_trust()
        found = template if isinstance(template, TeamTemplate) else self.team_template(template)
        return await self._navigation.teams.start(found, name=name, model=model, find=find)

    def team(self, name: str) -> Team:
        """Look up a running team.

        Args:
            name: Its name.

        Returns:
            The team.

        Raises:
            AgentError: No such team is running.
        """
        return self._navigation.teams.team(name)

    async def update_team(self, name: str) -> tuple[Agent, ...]:
        """Add the workers that the template of a running team has gained since it was started.

        All other members stay as they are, and none that was destroyed comes back.

        Args:
            name: The name of the team.

        Returns:
            The new members.

        Raises:
            AgentError: No such team is running.
            ModelError: The model of a new member does not exist.
            TrustError: The folder has files that can run code or redirect requests and are not trusted.
        """
        self.require_trust()
        return await self._navigation.teams.update(name)

    async def stop_team(self, name: str) -> Team:
        """Stop a team for good: it is not restored when the session is resumed. Its messages stay in the session.

        Args:
            name: Its name.

        Returns:
            The team, which is not running any more.

        Raises:
            AgentError: No such team is running.
        """
        return await self._navigation.stop_team(name)

    def save_team(self, name: str, path: str | Path | None = None, *, overwrite: bool = False) -> SavedTemplate:
        """Save a running team, with its current members, as a template.

        Args:
            name: The name of the team.
            path: The folder of the template; by default one in the project's folder of teams, named like the team.
            overwrite: Whether to replace existing files with other content.

        Returns:
            The template, and what was left out of it.

        Raises:
            AgentError: No such team is running.
            ConfigError: It cannot be saved there.
        """
        return self._navigation.teams.save(name, path, overwrite=overwrite)

    def new_team(self, alias: str) -> SavedTemplate:
        """Save a small team with the demo model in the project, trusted.

        Args:
            alias: Its name.

        Returns:
            The template.

        Raises:
            ConfigError: The name cannot be used or exists already, or a file cannot be written.
        """
        return self._navigation.teams.new(alias)

    def compactor(self, name: str) -> Compactor:
        """Find a compactor by name.

        Args:
            name: The name of one in `compactors`, or "default" for the built-in one with the ratio of the settings.

        Returns:
            The compactor.

        Raises:
            UsageError: There is no such compactor.
            ConfigError: The package that offers it cannot be used.
        """
        return self.compactors.named(name) or Compactor.build(ratio=self.config.compact_ratio)

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
        return self._current.registry.by_name(name, team_id)

    async def remove_agent(self, name: str) -> None:
        """Stop an agent permanently and remove it. Its messages stay in the session, and its name is free again.

        Args:
            name: Its name.

        Raises:
            AgentError: There is no agent of this name.
        """
        await self._navigation.remove(name)

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

        The agents of the current session are stopped first. An agent whose last turn was interrupted gets a message
        about it, once. If the session cannot be opened, nothing changes.

        Each agent continues with the model that it had: the same alias, server and key variable. If one is not found
        again, or its key is missing, nothing is resumed and no request is sent; then pass `model`.

        Args:
            id_or_name: The session; by default the last used one that is not open.
            find: Finds a tool by name, before the workspace's own tools are searched.
            model: A `Model`, or its name, for agents whose own model is not found again or, if all are found, for all
                agents. With it, the session may be the one that is already open.
            trust: Whether to restore everything that is in the session, as if the user had written all of it. With it,
                too, the session may be the one that is already open.
            take_over: Whether to open the named session even if a process on another computer may still have it open,
                as in `Session.open`. Use it only if that process has ended.

        Returns:
            A sentence about each agent, tool and model that could not be restored, and about what was left out.

        Raises:
            SessionNotFoundError: There is no such session.
            SessionLockedError: The session is open elsewhere.
            AgentError: The session is open in this workspace, and neither `model` nor `trust` is given.
            ModelError: A model is not found again as it was, or there is no model of the name `model`.
            TrustError: The folder has settings or models that are not trusted.
        """
        self.require_trusted_settings()
        chosen = self.model(model) if isinstance(model, str) else model
        return await self._navigation.resume(id_or_name, find=find, model=chosen, trust=trust, take_over=take_over)

    @property
    def unanswered(self) -> tuple[UnansweredPrompt, ...]:
        """The prompts that waited when the process of a resumed session ended, and were neither sent nor dropped."""
        return self._current.unanswered.all()

    def send_unanswered(self, *prompt_ids: str) -> list[Run[Any]]:
        """Send prompts that waited when the process of the session ended, with their images and files.

        Each has a turn of its own or is answered together with others, as it would have been.

        Args:
            prompt_ids: The ids of the prompts in `unanswered`; by default all.

        Returns:
            The runs, in the order of `unanswered`.

        Raises:
            AgentError: There is no such prompt.
            NoRunningLoopError: Outside an event loop.
        """
        return self._current.unanswered.send(prompt_ids)

    async def drop_unanswered(self, *prompt_ids: str) -> None:
        """Remove prompts that waited when the process of the session ended, so that they are not offered again.

        Args:
            prompt_ids: The ids of the prompts in `unanswered`; by default all.

        Raises:
            AgentError: There is no such prompt.
            SessionError: This cannot be written.
        """
        self._current.unanswered.drop(prompt_ids)
        await self._current.flush()

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
        return await self._navigation.rewind(message_id, find=find)

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
        return await self._navigation.return_to(branch_id, find=find)

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
        return await self._navigation.fork(name, before=before, find=find)

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
            raise AgentError(f"Session {session_id} is not open in this workspace; `resume` opens it.")
        mark_observer()
        return self._current.events.subscribe(since)

    def find_agent(self, agent_id: str) -> Agent:
        """Look up an agent by its id, whatever its team.

        Args:
            agent_id: The id.

        Returns:
            The agent.

        Raises:
            AgentError: No agent of the workspace has this id.
        """
        return self._current.registry.by_id(agent_id)

    def sessions(self) -> list[SessionInfo]:
        """List the stored sessions.

        Returns:
            All sessions in the directory, the oldest first.
        """
        return self._store.sessions()

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
        """Write the pending events to disk, which are otherwise written with a delay. A full disk is no error."""
        with suppress(SessionError):  # the events that were written can be read anyway
            await self._current.flush()

    async def close(self) -> None:
        """Stop all agents and close the session. Its messages are already on disk."""
        for evaluation in list(self._evaluations):
            await evaluation.aclose()
        for running in list(self._maps):
            await running.aclose()
        await self._navigation.leave()
        await self._current.sidecars.aclose()
        self._current.events.close()
        if self._owns_client:
            await self._current.client.aclose()

    def _recorded_model(self) -> str | None:
        cassette = self.cassette
        return cassette.recorded_model if cassette is not None and cassette.mode in {"replay", "auto"} else None


def _require_whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"`{name}` must be a whole number from 1, not {value!r}.")


def _retries(config: Config) -> RetryPolicy:
    return RetryPolicy(seconds=config.retry_seconds, first_seconds=config.first_retry_seconds)


def _remember_secrets(config: Config) -> None:
    for value, description in known_secrets(config.environment()).items():
        remember_secret(value, description)


def _cassette(config: Config) -> Cassette | None:
    if config.cassette is None:
        return None
    return Cassette(config.cassette, config.cassette_mode, environment=config.environment())

"""`Team`: agents that work together, made from a template."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, overload
from weakref import WeakKeyDictionary, WeakSet

from planck_nb.agent.agent import Agent
from planck_nb.agent.approval.gate import Approvals
from planck_nb.agent.calling.tool import Tool
from planck_nb.agent.calling.user_code import mark_observer
from planck_nb.agent.context.compactor import Compactor
from planck_nb.agent.events import AgentEvent
from planck_nb.agent.identity import Grants
from planck_nb.agent.limits import Limits, SessionSpend
from planck_nb.agent.message_log import SessionStore
from planck_nb.agent.run import Run
from planck_nb.agent.team_members import TeamMembers, team_of
from planck_nb.ai.client import Client
from planck_nb.ai.messages import UserPart
from planck_nb.ai.models import Model
from planck_nb.base.errors import AgentError
from planck_nb.base.event_log import EventLog, Subscription
from planck_nb.base.ids import new_id
from planck_nb.base.json_types import JsonObject
from planck_nb.teams.inter_agent_tools import orchestrator_tools, worker_tools
from planck_nb.teams.problems import TemplateProblem
from planck_nb.teams.spawning import MAX_WORKERS
from planck_nb.teams.spec import AgentSpec
from planck_nb.teams.start_options import CompactorPool, SkillSource, ToolPool, find_tools
from planck_nb.teams.team_host import TeamHost, TeammateHost, new_member_id
from planck_nb.teams.team_run import TeamRun
from planck_nb.teams.template import TeamTemplate, read_template

T = TypeVar("T")


class Team:
    """Agents that may address one another: an orchestrator, which gets the prompts, and workers.

    A team is loaded from a template. `start`, or an `async with` block, creates its agents. It ends when its
    orchestrator stops.

    Args:
        template: Describes the members.
        tool_pool: The tools that members can name; None for the built-in ones.
        skill_pool: The skills that members can name.
        compactors: The compactors that members can name.
        available_models: Models that exist already; members' models are looked up here first.
        own_models: The user's own models, which are looked up next.
        session: Stores the messages of all members. Without one, they are lost with the team.
        session_spend: What the agents of the session have spent together.
        approvals: Decides which calls may run; without it all may.
        client: Sends the requests to the models.
        limits: The limits of each run of the team, in addition to those that the template sets for a member.
        on_compact: Shortens the conversations of members that name no compactor.
        cwd: The working directory of the tools.
        max_workers: The orchestrator may spawn workers until the team has this many.
        host: Creates the members, with settings of its own in place of the arguments from `session` on.

    Example:
        >>> import asyncio
        >>> from planck_nb import Team, AgentSpec
        >>> lead = AgentSpec("orchestrator", "demo", "demo", name="lead")
        >>> async def main():
        ...     async with Team.from_specs([lead, AgentSpec("builder", "demo", "demo")]) as team:
        ...         return [(agent.name, agent.role) for agent in team.agents]
        >>> asyncio.run(main())
        [('lead', 'orchestrator'), ('builder', 'worker')]
    """

    def __init__(
        self,
        template: TeamTemplate,
        *,
        tool_pool: ToolPool | None = None,
        skill_pool: SkillSource | None = None,
        compactors: CompactorPool | None = None,
        available_models: Sequence[Model] = (),
        own_models: Iterable[Model] = (),
        session: SessionStore | None = None,
        session_spend: SessionSpend | None = None,
        approvals: Approvals | None = None,
        client: Client | None = None,
        limits: Limits | None = None,
        on_compact: Compactor | Callable[..., object] | None = None,
        cwd: Path | None = None,
        max_workers: int = MAX_WORKERS,
        host: TeamHost | None = None,
    ) -> None:
        self.template = template
        self.id: str | None = None
        """Its id, None until it was started."""
        self.report: tuple[TemplateProblem, ...] = template.report
        """What was ignored or replaced when the template was read, and names in it that do not exist."""
        self._tool_pool = tool_pool
        self._skill_pool = skill_pool
        self._compactors = compactors
        self._available_models = tuple(available_models)
        self._own_models = tuple(own_models)
        self._max_workers = max_workers
        self._shared: dict[str, Any] = {
            "session": session,
            "session_spend": session_spend or SessionSpend(),
            "approvals": approvals,
            "client": client,
            "limits": limits,
            "on_compact": on_compact,
            "cwd": cwd,
        }
        self._host: TeamHost = host or _TemplateHost(self._shared)
        self._members: TeamMembers[Agent] | None = None
        self._runs: WeakSet[Run[Any]] = WeakSet()
        self.described = {spec.name for spec in template.members}
        """The names of the members that its templates have had so far."""

    @classmethod
    def of_agents(cls, agents: Sequence[Agent], template: TeamTemplate, **options: Any) -> Team:  # noqa: ANN401
        """Make a team of agents that are already running, such as those of a resumed session.

        Args:
            agents: The agents, which share one `team_id` and session.
            template: What describes them.
            **options: Further arguments of `Team`.

        Returns:
            The team, running.

        Raises:
            AgentError: They are in no team.
        """
        team = cls(template, **options)
        team._members = team_of(agents[0].id) if agents else None
        team.id = team._running.team_id
        return team

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        tool_pool: ToolPool | None = None,
        skill_pool: SkillSource | None = None,
        strict: bool = False,
        **options: Any,  # noqa: ANN401 - the constructor's, which has them typed
    ) -> Team:
        """Load a team from a template. It is not running yet.

        Args:
            path: A folder with a TEAM.json, or a JSON file with an array of members.
            tool_pool: The tools that members can name; None for the built-in ones.
            skill_pool: The skills that members can name.
            strict: Whether to refuse a template in which anything is wrong.
            **options: Further arguments of `Team`.

        Returns:
            The team; its `report` has what was left out, and why.

        Raises:
            ConfigError: The template cannot be used.
        """
        return cls(read_template(path, strict=strict), tool_pool=tool_pool, skill_pool=skill_pool, **options)

    @classmethod
    def from_specs(
        cls,
        specs: Sequence[AgentSpec],
        *,
        name: str | None = None,
        description: str | None = None,
        **options: Any,  # noqa: ANN401 - the constructor's, which has them typed
    ) -> Team:
        """Make a team from descriptions of agents. It is not running yet.

        Args:
            specs: The members. If no role, tool or type says who orchestrates, the first one does.
            name: The name of the team.
            description: What it is for.
            **options: Further arguments of `Team`.

        Returns:
            The team.

        Raises:
            ConfigError: There are no members, two have the same name, or several orchestrate.
        """
        return cls(TeamTemplate.from_specs(specs, name=name, description=description), **options)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def __repr__(self) -> str:
        state = "not running" if self._members is None else f"{len(self._members)} agents"
        return f"<Team {self.alias or self.name or self.id} {state}>"

    @property
    def alias(self) -> str:
        """The name of its template."""
        return self.template.alias

    @property
    def name(self) -> str | None:
        """The name that its template gives it, None if it gives none."""
        return self.template.name

    @property
    def description(self) -> str | None:
        """What it is for, None if its template does not say."""
        return self.template.description

    @property
    def source(self) -> str:
        """Where its template is from: "filesystem" or "dynamic"."""
        return self.template.source

    @property
    def dir(self) -> Path | None:
        """The folder of its template, None if it was made by a program."""
        return self.template.dir

    @property
    def members(self) -> tuple[AgentSpec, ...]:
        """The descriptions of the members that its template has."""
        return self.template.members

    @property
    def is_running(self) -> bool:
        """Whether it was started and its orchestrator is not stopped."""
        return self._members is not None and self._members.orchestrator is not None

    @property
    def events(self) -> EventLog[AgentEvent]:
        """The newest events of all members, in one order. Raises `AgentError` before `start`."""
        return self._running.events

    @property
    def agents(self) -> tuple[Agent, ...]:
        """The agents that it has now, the orchestrator first."""
        if self._members is None:
            return ()
        return tuple(sorted(self._members, key=lambda agent: agent.role != "orchestrator"))

    @property
    def orchestrator(self) -> Agent:
        """The agent that gets the prompts. Raises `AgentError` if the team is not running."""
        found = self._running.orchestrator
        if found is None:
            raise AgentError(f"{self._title} has ended with its orchestrator; load it again.")
        return found

    @property
    def _running(self) -> TeamMembers[Agent]:
        if self._members is None:
            raise AgentError(f"{self._title} is not running; start it with `await team.start()`.")
        return self._members

    @property
    def _title(self) -> str:
        return f"The team {self.alias or self.name}" if self.alias or self.name else "The team"

    def agent(self, name: str) -> Agent:
        """Look up a member by name or id.

        Args:
            name: Its name or id.

        Returns:
            The agent.

        Raises:
            AgentError: There is none.
        """
        for agent in self.agents:
            if name in (agent.name, agent.id):
                return agent
        raise AgentError(f"The team has no agent {name}; it has {', '.join(agent.name for agent in self.agents)}.")

    async def start(self) -> Self:
        """Create the agents, unless the team is running already.

        Returns:
            The team.

        Raises:
            ModelError: The model of a member does not exist. No agent is left then.
            AgentError: A member cannot be created.
        """
        if self.is_running:
            return self
        self.id = self.id or new_id()
        seed = f"{self.alias or self.name or 'team'}"
        leader = self.template.orchestrator
        made: list[Agent] = []
        problems: list[TemplateProblem] = []
        try:
            for spec in (leader, *self.template.workers):
                agent, found = self._create(spec, seed, is_leader=spec is leader)
                made.append(agent)
                problems += found
        except BaseException:
            await asyncio.gather(*(agent.stop(removed=True) for agent in made))
            self.id = None
            raise
        self._members = team_of(made[0].id)
        self._running.seed = seed
        self.report = (*self.template.report, *problems)
        return self

    def add_new_members(self, template: TeamTemplate) -> tuple[Agent, ...]:
        """Add the workers that a changed template has and the team never had. All others stay as they are.

        Args:
            template: The template as it is now.

        Returns:
            The new members. `report` has what they name that does not exist.

        Raises:
            AgentError: The team is not running.
            ModelError: The model of a new member does not exist.
        """
        known = self.described | {agent.name for agent in self.agents}
        added: list[Agent] = []
        for spec in template.workers:
            if spec.name not in known:
                agent, problems = self._create(spec, self._running.seed, is_leader=False)
                self.described.add(spec.name)
                self.report = (*self.report, *problems)
                added.append(agent)
        return tuple(added)

    def _create(self, spec: AgentSpec, seed: str, *, is_leader: bool) -> tuple[Agent, tuple[TemplateProblem, ...]]:
        options = spec.to_start_opts(
            tool_pool=self._tool_pool,
            skill_pool=self._skill_pool,
            team_id=self.id,
            available_models=self._available_models,
            own_models=self._own_models,
            compactors=self._compactors,
            prompt_parts=self._host.prompt_parts,
            role="orchestrator" if is_leader else "worker",
            limits=self._host.limits,
        )
        own = options["tools"]
        if is_leader:
            grants: Grants | None = options["grants"]
            grantable = own if grants is None else self._grantable(own, grants.tools)
            skills = spec.skills if grants is None else grants.skills
            team_tools = orchestrator_tools(
                grantable_tools=grantable,
                grantable_skills=skills,
                available_models=options["available_models"],
                skill_pool=self._skill_pool,
                host=self._host,
                max_workers=self._max_workers,
            )
            options["grants"] = grants or Grants(tuple(tool.name for tool in grantable), tuple(skills))
        else:
            team_tools = worker_tools()
            options["grants"] = Grants()
            options["available_models"] = ()
        options["tools"] = [*own, *team_tools]
        options["id"] = new_member_id(self._host, self._members, seed, spec.name)
        arguments = {name: value for name, value in options.items() if name not in self._shared or value is not None}
        return self._host.create(arguments, None), options.problems

    def _grantable(self, own: Sequence[Tool], names: Sequence[str]) -> list[Tool]:
        """The tools of these names: the orchestrator's own, and those of the pool."""
        having = {tool.name: tool for tool in own}
        others, _ = find_tools([name for name in names if name not in having], self._tool_pool)
        return [*(having[name] for name in names if name in having), *others]

    async def stop(self) -> None:
        """Stop all agents. Their messages stay in the session."""
        if self._members is not None and (leader := self._members.orchestrator) is not None:
            await leader.stop()

    @overload
    def prompt(self, content: str | Sequence[UserPart], *, output: None = None) -> Run[str]: ...

    @overload
    def prompt(self, content: str | Sequence[UserPart], *, output: type[T]) -> Run[T]: ...

    @overload
    def prompt(self, content: str | Sequence[UserPart], *, output: JsonObject) -> Run[Any]: ...

    def prompt(self, content: str | Sequence[UserPart], *, output: type[T] | JsonObject | None = None) -> Run[Any]:
        """Send a prompt to the orchestrator, and follow it through the whole team.

        The run ends when the orchestrator is idle and no task, response or prompt that this one caused is still open.
        Stopping it stops all of them; the workers stay. The limits of tokens, cost and seconds apply to the whole run.

        Args:
            content: Text, or parts such as images.
            output: A type that pydantic can read from JSON, or a JSON Schema, for a structured final answer. It is
                asked for in a turn of its own when all else is done.

        Returns:
            The run. Its events are those of all members in one order; its result is a `TeamResult`.

        Raises:
            AgentError: The team is not running.
            NoRunningLoopError: Outside an event loop.
            UsageError: The prompt is empty.
        """
        run = TeamRun(self.orchestrator, content, output).run
        self._runs.add(run)
        return run

    async def abort(self) -> None:
        """Stop all that the team is doing: its runs, and the turns of its members. The members stay."""
        for run in tuple(self._runs):
            run.abort()
        await asyncio.gather(*(agent.abort() for agent in self.agents))

    def subscribe(self, *, since: int | None = None) -> Subscription[AgentEvent]:
        """Subscribe to the events of all members, in one order.

        Args:
            since: The position to start from: 0 is the oldest event still kept, None the next one.

        Returns:
            An async iterator, registered already, which is also an async context manager.
        """
        mark_observer()
        return self.events.subscribe(since)


_ids_of: WeakKeyDictionary[SessionStore, set[str]] = WeakKeyDictionary()
"""The ids of the members of all teams of a session: two teams of one template must not write to the same log."""


class _TemplateHost(TeammateHost):
    """Makes the members of a template with what the team was given."""

    def __init__(self, shared: Mapping[str, Any]) -> None:
        self._of_team = shared
        session: SessionStore | None = shared["session"]
        self._ids = set[str]() if session is None else _ids_of.setdefault(session, set())

    def create(self, options: Mapping[str, Any], parent: Agent | None) -> Agent:
        self._ids.add(options["id"])
        if parent is not None:
            return super().create(options, parent)
        return Agent(**{**self._of_team, **options})

    @property
    def limits(self) -> Limits | None:
        limits: Limits | None = self._of_team["limits"]
        return limits

    def is_taken(self, agent_id: str) -> bool:
        """Whether the session has an agent with this id, in a team that this process has made."""
        return agent_id in self._ids

"""The teams of a workspace: started from templates, stopped, saved, and found again when a session is resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from planck_nb.agent.agent import Agent
from planck_nb.agent.agent_access import compactor_of, skills_of
from planck_nb.agent.calling.tool import Tool
from planck_nb.agent.context.compactor import stored_compactor
from planck_nb.agent.context.system_prompt import SystemPromptParts
from planck_nb.agent.limits import Limits
from planck_nb.ai import list_models
from planck_nb.ai.models import Model
from planck_nb.base.errors import AgentError, ConfigError, ModelError, did_you_mean
from planck_nb.base.json_types import JsonObject
from planck_nb.base.threads import run_in_thread
from planck_nb.sessions import Session
from planck_nb.sessions.journal.stored_values import texts_in
from planck_nb.teams import (
    INTER_AGENT_TOOLS,
    AgentSpec,
    Team,
    TeamTemplate,
    TemplateProblem,
    orchestrator_tools,
    read_template,
    worker_tools,
)
from planck_nb.teams.problems import named
from planck_nb.teams.saving import SavedTemplate, save_example, save_template
from planck_nb.teams.template import TEAM_FILE
from planck_nb.teams.template_folders import TemplateReport
from planck_nb.workspace.compactors import Compactors
from planck_nb.workspace.current_session import CurrentSession
from planck_nb.workspace.default_model import paced
from planck_nb.workspace.team_files import find_team_templates, team_trust_item
from planck_nb.workspace.trusted_config import TrustedConfig

KEY = "team."
"""How the metadata's keys begin for what is known of teams apart from their agents; their ids follow."""

Resolver = Callable[[str], Tool | None]


class WorkspaceTeams:
    """The teams whose agents belong to the open session. It makes their members, as their `TeamHost`.

    Args:
        current: The open session.
        config: The configuration.
        compactors: Finds compactors by name.
    """

    def __init__(self, current: CurrentSession, config: TrustedConfig, compactors: Compactors) -> None:
        self._current = current
        self._config = config
        self._compactors = compactors
        self._teams: dict[str, Team] = {}
        self._models: dict[str | None, Model] = {}
        """The models that all members use instead of their own, by the id of the team."""

    # The host of the members.

    def create(self, options: Mapping[str, Any], parent: Agent | None) -> Agent:
        """Make a team's member in the open session. A worker without limits has its parent's."""
        limits = {} if parent is None else {"limits": parent.limits}
        return self._current.factory.create_member({**limits, **options})

    async def remove(self, agent: Agent, *, reason: str) -> None:
        """Stop a member for good: it is not restored when the session is resumed."""
        await self._current.remove(agent, reason=reason)

    def is_taken(self, agent_id: str) -> bool:
        """Whether an agent of the session has, or had, this id."""
        return agent_id in self._current.registry.former

    @property
    def limits(self) -> Limits:
        """New agents' limits."""
        return self._current.limits

    def prompt_parts(self) -> SystemPromptParts:
        """The instructions of the project."""
        return SystemPromptParts(self._current.toolbox.instructions.text)

    # The teams.

    def by_name(self) -> dict[str, Team]:
        """The running teams by name, in the order in which they were started."""
        for name, team in list(self._teams.items()):
            if not team.is_running:
                del self._teams[name]
        return dict(self._teams)

    def team(self, name: str) -> Team:
        """The running team of this name. Raises `AgentError` if there is none."""
        teams = self.by_name()
        if name not in teams:
            hint = did_you_mean(name, teams) if teams else "Start one with `%planck team start`."
            raise AgentError(f"No team named {name} is running. {hint}")
        return teams[name]

    def templates(self) -> TemplateReport:
        """Return the usable templates, and the others with the reasons."""
        return find_team_templates(self._config.config)

    def template(self, alias_or_path: str | Path) -> TeamTemplate:
        """The template with this alias or, if it looks like one, path. Raises `ConfigError` if there is none."""
        if is_path(alias_or_path):
            return read_template(self._config.config.root / Path(alias_or_path).expanduser())
        found = self.templates()
        if not found and not found.skipped and (folders := self._config.config.teams_dirs):
            folder = folders[0] / str(alias_or_path)
            raise ConfigError(
                f"There is no team named {named(str(alias_or_path))}, and there are no templates; describe one in "
                f"{folder / TEAM_FILE}."
            )
        return found.named(str(alias_or_path))

    def check(self, alias_or_path: str | Path, find: Resolver | None = None) -> tuple[TemplateProblem, ...]:
        """Find everything that is wrong with a template, including names in it that do not exist.

        Returns:
            The problems, without notes. There are none if the template can be used exactly as it is written.

        Raises:
            ConfigError: There is no such template, or it cannot be read as one.
        """
        template = self._template_to_check(alias_or_path)
        options = self._options(find)
        problems = list(template.mistakes)
        for spec in template.members:
            try:
                started = spec.to_start_opts(
                    tool_pool=options["tool_pool"],
                    skill_pool=options["skill_pool"],
                    compactors=options["compactors"],
                    own_models=options["own_models"],
                )
            except ModelError as error:
                problems.append(TemplateProblem(None, f"member ({named(spec.name)})", "model", str(error)))
            else:
                problems += started.problems
        return tuple(problems)

    def _template_to_check(self, alias_or_path: str | Path) -> TeamTemplate:
        """The template, also if it is not trusted yet. Raises `ConfigError` with all that is wrong with it."""
        try:
            return self.template(alias_or_path)
        except ConfigError:
            config = self._config.config
            if is_path(alias_or_path):
                places = [config.root / Path(alias_or_path).expanduser()]
            else:
                folders = (folder.expanduser() for folder in config.teams_dirs)
                places = [folder / f"{alias_or_path}{suffix}" for folder in folders for suffix in ("", ".json")]
            found = next((place for place in places if place.exists()), None)
            if found is None:
                raise
        try:
            return read_template(found)
        except ConfigError:
            return read_template(found, strict=True)  # whose error has the other problems, too

    async def start(
        self, template: TeamTemplate, *, name: str = "", model: Model | None = None, find: Resolver | None = None
    ) -> Team:
        """Start a team.

        Args:
            template: Describes its members.
            name: What it is called here; by default the alias of the template, with a number if that is taken.
            model: A model for all members, instead of their own.
            find: Finds a tool by name, before the workspace's own tools are searched.

        Returns:
            The team.

        Raises:
            AgentError: A running team has this name, or the workspace is changing to another session.
            ModelError: The model of a member does not exist.
        """
        teams = self.by_name()
        if name in teams:
            raise AgentError(f"A team named {name} is running already; stop it first, or choose another name.")
        name = name or _free_name(template.alias or template.name or "team", teams)
        template = _with_model(template, model)
        team = Team(template, available_models=() if model is None else (model,), **self._options(find))
        await team.start()
        self._teams[name] = team
        if model is not None:
            self._models[team.id] = model
        await self._remember(name, team)
        return team

    async def update(self, name: str) -> tuple[Agent, ...]:
        """Add the workers that the template of a running team has gained since it was started.

        Raises:
            AgentError: No such team is running.
            ModelError: The model of a new member does not exist.
        """
        team = self.team(name)
        template = self.templates().templates.get(team.alias)
        if template is None or team.dir not in {None, template.dir}:
            return ()
        added = team.add_new_members(_with_model(template, self._models.get(team.id)))
        if added:
            await self._remember(name, team)
        return added

    async def _remember(self, name: str, team: Team) -> None:
        """Store with the session what is known about a team apart from its agents."""
        session = self._current.factory.session
        described = {
            "name": name,
            "alias": team.alias,
            "title": team.name,
            "description": team.description,
            "members": sorted(team.described),
        }
        # A key for each team: to store all of them with each would take time in proportion to the square.
        await session.save_metadata({f"{KEY}{team.id}": described})

    async def stop(self, name: str) -> Team:
        """Stop a team for good: it is not restored when its session is resumed.

        Returns:
            The team, which is not running any more.

        Raises:
            AgentError: No such team is running.
        """
        team = self.team(name)
        agents = team.agents
        await self.remove(team.orchestrator, reason="its team was stopped")
        for agent in agents:
            self._current.registry.remove(agent)
        del self._teams[name]
        return team

    def save(self, name: str, path: str | Path | None = None, *, overwrite: bool = False) -> SavedTemplate:
        """Save a running team, with its current members, as a template; see `Workspace.save_team`."""
        team = self.team(name)
        config = self._config.config
        folder = config.root / Path(path).expanduser() if path is not None else config.teams_dirs[0] / name
        specs = self._descriptions(team.agents)
        return save_template(folder, team.name or name, team.description, specs, overwrite=overwrite)

    def new(self, alias: str) -> SavedTemplate:
        """Save and trust an example; see `Workspace.new_team`."""
        config = self._config.config
        if not config.teams_dirs:
            raise ConfigError("The setting teams_dirs names no folder for teams.")
        example = save_example(config.teams_dirs[0], alias)
        self._config.trust([team_trust_item(example.template)])
        return example

    def _descriptions(self, agents: Iterable[Agent]) -> tuple[AgentSpec, ...]:
        usual = self._current.limits
        return tuple(replace(_description(agent), limits=agent.limits.apart_from(usual)) for agent in agents)

    def adopt(self, known: JsonObject, find: Resolver | None = None) -> None:
        """Rebuild the teams of the session from its restored agents.

        `known` is what `stored_teams` returned for the session.
        """
        running = {team.id for team in self.by_name().values()}
        for team_id in dict.fromkeys(agent.team_id for agent in self._current.registry):
            agents = list(self._current.registry.named(team_id).values())
            if team_id is None or team_id in running or all(agent.role != "orchestrator" for agent in agents):
                continue
            facts = known.get(team_id)
            told: JsonObject = facts if isinstance(facts, dict) else {}
            texts = {key: value for key, value in told.items() if isinstance(value, str)}
            template = TeamTemplate(
                texts.get("alias", ""),
                self._descriptions(agents),
                tuple(agent.role for agent in agents),
                texts.get("title"),
                texts.get("description"),
                "session",
            )
            name = _free_name(texts.get("name") or template.alias or "team", self._teams)
            self._teams[name] = team = Team.of_agents(agents, template, **self._options(find))
            team.described.update(texts_in(told.get("members")))

    def forget(self) -> None:
        """Forget all teams, whose agents are gone with their session."""
        self._teams.clear()

    def tools_for(
        self, role: str, tools: Iterable[Tool], skills: Iterable[str], models: Iterable[Model]
    ) -> dict[str, Tool]:
        """The inter-agent tools of a member that is restored, by name.

        Args:
            role: Its role.
            tools: The tools that it may grant.
            skills: The names of the skills that it may grant.
            models: The models that it may grant.
        """
        made = (
            orchestrator_tools(
                grantable_tools=tools,
                grantable_skills=skills,
                available_models=tuple(models),
                skill_pool=self._current.toolbox.skill_pool,
                host=self,
                max_workers=self._config.config.max_workers,
            )
            if role == "orchestrator"
            else worker_tools()
        )
        return {tool.name: tool for tool in made}

    def _options(self, find: Resolver | None) -> dict[str, Any]:
        config, toolbox = self._config.config, self._current.toolbox

        def pool(name: str) -> Tool | None:
            return (find(name) if find is not None else None) or toolbox.find(name)

        return {
            "tool_pool": pool,
            "skill_pool": toolbox.skill_pool,
            "compactors": self._compactors.find,
            "own_models": (*config.models, *(paced(model, config) for model in list_models("demo"))),
            "max_workers": config.max_workers,
            "host": self,
        }


async def stored_teams(session: Session) -> JsonObject:
    """Return the stored facts about a session's teams, by their ids."""
    stored = await run_in_thread(session.get_metadata)
    return {key.removeprefix(KEY): facts for key, facts in stored.items() if key.startswith(KEY)}


def is_path(alias_or_path: str | Path) -> bool:
    """Whether this is the path of a template and not an alias."""
    name = str(alias_or_path)
    return (
        isinstance(alias_or_path, Path) or "/" in name or "\\" in name or name in {".", ".."} or name.endswith(".json")
    )


def _with_model(template: TeamTemplate, model: Model | None) -> TeamTemplate:
    """The template with this model for all members, None for their own."""
    if model is None:
        return template
    members = (
        replace(spec, provider=model.provider, model_id=model.id, base_url=model.base_url) for spec in template.members
    )
    return replace(template, members=tuple(members))


def _free_name(wanted: str, taken: Mapping[str, object]) -> str:
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}-{number}", number + 1
    return name


def _description(agent: Agent) -> AgentSpec:
    """Return the description of an agent as it is now, apart from its limits."""
    compactor = compactor_of(agent)
    name = None if compactor is None else stored_compactor(compactor).get("name")
    leads = agent.role == "orchestrator"
    return AgentSpec(
        type=agent.type or agent.name,
        provider=agent.model.provider,
        model_id=agent.model.alias or agent.model.id,
        name=agent.name,
        description=agent.description,
        system_prompt=agent.system_prompt,
        tools=tuple(tool.name for tool in agent.tools if tool.name not in INTER_AGENT_TOOLS),
        skills=skills_of(agent) or (),
        opts=agent.options.named(),
        base_url=agent.model.base_url if not agent.model.alias else None,
        compactor=str(name) if name else None,
        role=agent.role,
        grants=agent.grants if leads else None,
    )

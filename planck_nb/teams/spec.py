"""`AgentSpec`: the description of one agent of a team, and how to get from it to a running agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from planck_nb.agent.calling.functions import ToolLike, by_name
from planck_nb.agent.context.compactor import Compactor
from planck_nb.agent.context.system_prompt import SystemPromptParts
from planck_nb.agent.identity import Grants, Role, decide_role
from planck_nb.agent.limits import Limits
from planck_nb.agent.message_log import SessionStore
from planck_nb.ai.models import Model
from planck_nb.ai.request import Options
from planck_nb.base.errors import ConfigError, ModelError, UsageError, did_you_mean
from planck_nb.base.ids import new_id
from planck_nb.base.json_types import JsonObject
from planck_nb.teams.member_fields import MemberError, MemberReader
from planck_nb.teams.member_options import read_options
from planck_nb.teams.problems import TemplateProblem, named
from planck_nb.teams.prompt_files import PromptFiles
from planck_nb.teams.start_options import (
    DEFAULT_COMPACTOR,
    CompactorPool,
    MemberPromptParts,
    SkillSource,
    StartOptions,
    ToolPool,
    find_compactor,
    find_model,
    find_tools,
    skill_tools,
)


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """The description of an agent: all that is needed to start it, and nothing that is running.

    Args:
        type: What kind of agent it is, such as "builder".
        provider: The name of the provider of its model.
        model_id: The id of its model at the provider.
        name: What people call it; its type by default. Names are unique within a team.
        description: What it is for, in a sentence.
        system_prompt: Instructions for the model, sent before the conversation.
        tools: Names of tools. What they stand for is decided when the agent starts.
        skills: Names of the skills that its system prompt lists.
        opts: Request options by the names of the fields of `ai.Options`.
        base_url: The address of the model's server, None for the provider's own.
        compactor: The name of the compactor that shortens its conversation, None for the default one.
        role: Its role in its team, "orchestrator" or "worker"; empty if that follows from its tools or its type.
        grants: What it may give to the agents that it starts; None for what its team decides.
        limits: Limits of its turns by the names of the fields of `Limits`; others are those of its team.
        problems: What `from_map` has left out, with the reasons.

    Raises:
        UsageError: `tools` or `skills` is a single text, or `opts` or `limits` is not a mapping.

    Example:
        >>> AgentSpec("coder", "anthropic", "claude-sonnet-4-6", tools=["read", "edit"]).name
        'coder'
    """

    type: str
    provider: str
    model_id: str
    name: str = ""
    description: str = ""
    system_prompt: str = ""
    tools: Sequence[str] = ()
    skills: Sequence[str] = ()
    opts: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    base_url: str | None = None
    compactor: str | None = None
    role: Role = ""
    grants: Grants | None = None
    limits: Mapping[str, float | None] = field(default_factory=dict[str, "float | None"], hash=False)
    problems: tuple[TemplateProblem, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        for item in ("tools", "skills"):
            value: object = getattr(self, item)
            if isinstance(value, str):
                raise UsageError(f"{item} must be a list of names, such as [{value!r}], not one text.")
            object.__setattr__(self, item, tuple(getattr(self, item)))
        for item in ("opts", "limits"):
            value = getattr(self, item)
            if isinstance(value, Options):
                value = value.named()
            elif not isinstance(value, Mapping):
                raise UsageError(f"{item} must be a dictionary by name, not {value!r}.")
            object.__setattr__(self, item, dict(value))
        object.__setattr__(self, "name", self.name or self.type)

    @classmethod
    def from_map(cls, data: Mapping[str, Any], base_dir: str | Path | None = None) -> AgentSpec:
        """Make a description from an object of a team template.

        Args:
            data: The fields, as JSON has them.
            base_dir: The folder in which the prompt is looked up if `system_prompt` ends in .md or .txt; by default
                the working directory. Nothing outside of it is read.

        Returns:
            The description. Its `problems` say what was left out: unknown fields and options, and entries of `tools`
            and `skills` that are not names.

        Raises:
            ConfigError: A required field is missing, or a field has a value that cannot be used.

        Example:
            >>> AgentSpec.from_map({"type": "coder", "provider": "demo", "model_id": "demo"}).name
            'coder'
        """
        try:
            return cls(**MemberReader(data, _prompts(base_dir)).read())
        except MemberError as error:
            raise ConfigError(str(error)) from error

    @classmethod
    def from_list(cls, data: Iterable[object], base_dir: str | Path | None = None) -> SpecList:
        """Make descriptions from a list of objects, leaving out objects that cannot be used.

        Args:
            data: The objects, each as for `from_map`.
            base_dir: The folder in which prompts are looked up, as for `from_map`.

        Returns:
            A list of the descriptions, whose `skipped` has the reason for each object that was left out.

        Raises:
            ConfigError: `data` is not a list.

        Example:
            >>> specs = AgentSpec.from_list([{"type": "coder"}])
            >>> specs, str(specs.skipped[0])
            ([], 'member 1 (coder): missing required field: provider or model_id (provider is not there).')
        """
        if isinstance(data, str | bytes | Mapping) or not isinstance(data, Iterable):
            raise ConfigError("The members of a team must be a list of objects.")
        return read_members(data, _prompts(base_dir))

    def to_map(self) -> JsonObject:
        """Return the fields as an object of a team template has them; `from_map` is the inverse.

        Returns:
            The fields that are set, as JSON data. The system prompt is the text itself, which `from_map` takes for the
            path of a file if it looks like one; `save_template` writes it so that it does not.
        """
        grants = self.grants
        written: JsonObject = {
            "type": self.type,
            "name": self.name if self.name != self.type else "",
            "role": self.role,
            "description": self.description,
            "provider": self.provider,
            "model_id": self.model_id,
            "base_url": self.base_url,
            "system_prompt": self.system_prompt,
            "tools": list(self.tools),
            "skills": list(self.skills),
            "opts": dict(self.opts),
            "limits": dict(self.limits),
            "compactor": self.compactor,
        }
        if grants is not None:
            lists = {"tools": list(grants.tools), "skills": list(grants.skills), "models": list(grants.models)}
            return {**_without_empty(written), "grants": _without_empty(lists)}
        return _without_empty(written)

    def to_start_opts(
        self,
        *,
        tools: Iterable[ToolLike] = (),
        tool_pool: ToolPool | None = None,
        skill_pool: SkillSource | None = None,
        team_id: str | None = None,
        session: SessionStore | None = None,
        available_models: Sequence[Model] = (),
        own_models: Iterable[Model] = (),
        on_compact: Compactor | Callable[..., object] | None = None,
        compactors: CompactorPool | None = None,
        prompt_parts: Callable[[], SystemPromptParts] = SystemPromptParts,
        role: Role | None = None,
        parent_id: str | None = None,
        grants: Grants | None = None,
        limits: Limits | None = None,
        cwd: Path | None = None,
    ) -> StartOptions:
        """Return the arguments for `Agent(**options)` to start the agent; each call gives another id.

        Args:
            tools: Tools that the agent has in addition to those that it names.
            tool_pool: Where the names of its tools are looked up; None for the built-in tools.
            skill_pool: Where the names of its skills are looked up. If it has any skills, the agent can load them all.
            team_id: The team that it belongs to.
            session: Stores its messages.
            available_models: Models that were found already. The agent's own is looked for among them first, and it
                may give them to the agents that it starts, or those of them that its `grants` name.
            own_models: The user's own models, to look for next; the catalogue is last.
            on_compact: Shortens its conversation; takes precedence over its own `compactor`.
            compactors: The compactors that its `compactor` may name.
            prompt_parts: Returns what surrounds its system prompt; skills are added to it.
            role: Its role; by default the one that follows from its description and its tools: with `spawn_agent`
                among them, it orchestrates.
            parent_id: The agent that starts it.
            grants: What it may give to the agents that it starts if its description does not say.
            limits: The limits of its turns; those in its description take precedence.
            cwd: Its working directory.

        Returns:
            The arguments. Their `problems` name the tools, skills, options and the compactor that do not exist.

        Raises:
            UnknownModelError: There is no such model.

        Example:
            >>> options = AgentSpec("coder", "demo", "demo", tools=["read", "baash"]).to_start_opts()
            >>> [tool.name for tool in options["tools"]], str(options.problems[0])
            (['read'], "member (coder), tools: there is no tool 'baash'. Did you mean bash?")
        """
        problems: list[TemplateProblem] = []

        def ignored(where: str, what: str, hint: str = "") -> None:
            reason = f"there is no {what}. {hint}".rstrip()
            problems.append(TemplateProblem(None, f"member ({named(self.name)})", where, reason))

        model = find_model(self.provider, self.model_id, self.base_url, available=available_models, own=own_models)
        found, unknown = find_tools(self.tools, tool_pool)
        for name, hint in unknown:
            ignored("tools", f"tool {named(name)!r}", hint)
        for name in self.skills:
            if skill_pool is None or not skill_pool.section((name,)):
                ignored("skills", f"skill {named(name)!r}")
        options, wrong = read_options(self.opts)
        problems += [TemplateProblem(None, f"member ({named(self.name)})", f"opts.{name}", why) for name, why in wrong]
        compactor = on_compact
        if compactor is None and self.compactor not in {None, DEFAULT_COMPACTOR}:
            compactor = find_compactor(str(self.compactor), compactors)
            if compactor is None:
                ignored("compactor", f"compactor {named(str(self.compactor))!r}")
        granted, models = grants, tuple(available_models)
        if self.grants is not None:
            models, missing = _granted(self.grants.models, models, own_models)
            for name in missing:
                ignored("grants.models", f"model {named(name)!r}", did_you_mean(name, map(str, available_models)))
            granted = replace(self.grants, models=tuple(map(str, models)))
        all_tools = by_name([*found, *tools, *skill_tools(skill_pool)])
        own_role = decide_role(self.role, self.type, {*self.tools, *all_tools})
        if not team_id and own_role == "worker":
            own_role = self.role
        return StartOptions(
            {
                "id": new_id(),
                "type": self.type,
                "name": self.name,
                "description": self.description,
                "model": model,
                "system_prompt": self.system_prompt,
                "tools": list(all_tools.values()),
                "options": Options.from_named(options),
                "prompt_parts": MemberPromptParts(skill_pool, tuple(self.skills), prompt_parts),
                "skills": self.skills,
                "on_compact": compactor,
                "session": session,
                "team_id": team_id,
                "role": own_role if role is None else role,
                "parent_id": parent_id,
                "grants": granted,
                "available_models": models,
                "limits": replace(limits or Limits(), **self.limits) if self.limits else limits,  # type: ignore[arg-type]
                "cwd": cwd,
            },
            problems,
        )


class SpecList(list[AgentSpec]):
    """Descriptions of agents, and why others were left out.

    Args:
        found: The descriptions, and a problem instead of each one that was left out.
    """

    def __init__(self, found: Iterable[AgentSpec | TemplateProblem] = ()) -> None:
        found = tuple(found)
        super().__init__(item for item in found if isinstance(item, AgentSpec))
        self.skipped = tuple(item for item in found if isinstance(item, TemplateProblem))
        """The reason for each one that was left out."""
        problems = (item.problems if isinstance(item, AgentSpec) else (item,) for item in found)
        self.problems = tuple(problem for each in problems for problem in each)
        """Everything that was left out, in order: whole descriptions, and parts of those that are used."""


def read_members(data: Iterable[object], prompts: PromptFiles, path: Path | None = None) -> SpecList:
    """The descriptions of the members of a template, in their order."""
    return SpecList(_read_each(data, prompts, path))


def _read_each(
    data: Iterable[object], prompts: PromptFiles, path: Path | None
) -> Iterator[AgentSpec | TemplateProblem]:
    for index, item in enumerate(data):
        try:
            yield AgentSpec(**MemberReader(item, prompts, path, index).read())
        except MemberError as error:
            yield error.problem


def _prompts(base_dir: str | Path | None) -> PromptFiles:
    return PromptFiles(Path.cwd() if base_dir is None else Path(base_dir))


def _without_empty(values: JsonObject) -> JsonObject:
    return {name: value for name, value in values.items() if value not in (None, "", [], {})}


def _granted(
    names: Iterable[str], available: Sequence[Model], own: Iterable[Model]
) -> tuple[tuple[Model, ...], list[str]]:
    """The models of these names, and the names that no model has."""
    models: list[Model] = []
    missing: list[str] = []
    for name in names:
        provider, _, model_id = name.partition(":")
        matching = [model for model in available if name in {str(model), model.alias}]
        try:
            models.append(matching[0] if matching else find_model(provider, model_id, own=own))
        except ModelError:
            missing.append(name)
    return tuple(models), missing

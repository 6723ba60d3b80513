"""What an agent is started with: the model, the tools and the skills that a description of it names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from planck_nb.agent.calling.functions import ToolLike, by_name
from planck_nb.agent.calling.tool import Tool
from planck_nb.agent.context.compactor import Compactor
from planck_nb.agent.context.system_prompt import SystemPromptParts
from planck_nb.ai.model_lookup.catalogue import get_model
from planck_nb.ai.models import Model
from planck_nb.ai.providers import base_url_of
from planck_nb.ai.server_address import shown_url
from planck_nb.base.errors import ConfigError, ModelError, UnknownModelError, did_you_mean
from planck_nb.teams.problems import TemplateProblem, named
from planck_nb.teams.roles import INTER_AGENT_TOOLS
from planck_nb.tools.builtin import BuiltinTools

ToolPool: TypeAlias = Iterable[ToolLike] | Mapping[str, ToolLike] | Callable[[str], Tool | None]
"""The tools that agents may have: some tools, tools by name, or a function that finds a tool by its name."""

CompactorPool: TypeAlias = Mapping[str, Compactor] | Callable[[str], Compactor | None]
"""Compactors by name, or a function that finds one."""

DEFAULT_COMPACTOR = "default"
"""The name that stands for the compactor that an agent has anyway."""


class SkillSource(Protocol):
    """Skills by name; `planck_nb.resources.SkillPool` is one."""

    def section(self, names: Collection[str] | None = None) -> str:
        """Return the section of a system prompt about the skills of these names, by default about all; may be empty."""
        ...

    def tools(self) -> Sequence[Tool]:
        """Return the tools that load skills."""
        ...


class StartOptions(dict[str, Any]):
    """The arguments for `Agent(**options)` to start a member.

    Args:
        arguments: The arguments by name.
        problems: What the description names that does not exist, and so is not used.
    """

    def __init__(self, arguments: Mapping[str, Any], problems: Iterable[TemplateProblem] = ()) -> None:
        super().__init__(arguments)
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class MemberPromptParts:
    """Returns what surrounds the system prompt of a member, with its skills as they are at the time of the call.

    Args:
        pool: The skills, None for none.
        names: The names of the skills that the prompt lists. An agent can load the others, too.
        surroundings: Returns what else surrounds the prompt, such as the instructions of a project.
    """

    pool: SkillSource | None
    names: tuple[str, ...]
    surroundings: Callable[[], SystemPromptParts] = field(default=SystemPromptParts)

    def __call__(self) -> SystemPromptParts:
        """Return the parts as they are now."""
        parts = self.surroundings()
        if self.pool is None:
            return parts
        section = self.pool.section(self.names) if self.names else ""
        return replace(parts, skills=section, tools=skill_tools(self.pool))


def skill_tools(pool: SkillSource | None) -> tuple[Tool, ...]:
    """The tools that load skills; none while there are no skills."""
    return tuple(pool.tools()) if pool is not None and pool.section() else ()


def find_model(
    provider: str,
    model_id: str,
    base_url: str | None = None,
    *,
    available: Iterable[Model] = (),
    own: Iterable[Model] = (),
) -> Model:
    """Find the model of a member.

    Args:
        provider: The name of its provider.
        model_id: Its id at the provider, or the alias that its user gave it.
        base_url: The address of its server, None for the provider's own or the one that an available model has.
        available: Models that were found already. The first one that matches is used, with all of its settings.
        own: The user's own models, which come next. The catalogue is last.

    Returns:
        The model.

    Raises:
        UnknownModelError: There is no such model.
    """
    own = tuple(own)
    for model in (*available, *own):
        if model.provider == provider and model_id in {model.id, model.alias} and _is_at(model, base_url):
            return model
    try:
        return get_model(provider, model_id, base_url=base_url, own=own)
    except (ModelError, ConfigError) as error:
        at = f" at {shown_url(base_url)}" if base_url else ""
        raise UnknownModelError(f"model not found: {named(provider)}:{named(model_id)}{at}; {error}") from error


def find_tools(names: Iterable[str], pool: ToolPool | None) -> tuple[list[Tool], list[tuple[str, str]]]:
    """Find tools by name.

    Args:
        names: The names. Those of the inter-agent tools are left out: agents get these by their role.
        pool: The tools that there are; None for the built-in ones.

    Returns:
        The tools in the order of the names, and each name that no tool has with a hint.
    """
    wanted = [name for name in names if name not in INTER_AGENT_TOOLS]
    if not wanted:
        return [], []
    known: Mapping[str, ToolLike] = {}
    find: Callable[[str], Tool | None]
    if callable(pool):
        find = pool
    else:
        known = pool if isinstance(pool, Mapping) else by_name(BuiltinTools.all() if pool is None else pool)
        find = by_name(known.values()).get
    found = [(name, find(name)) for name in wanted]
    tools = [tool for _, tool in found if tool is not None]
    return tools, [(name, did_you_mean(name, known)) for name, tool in found if tool is None]


def find_compactor(name: str, pool: CompactorPool | None) -> Compactor | None:
    """The compactor of this name, None if there is none."""
    if pool is None:
        return None
    return pool(name) if callable(pool) else pool.get(name)


def _is_at(model: Model, base_url: str | None) -> bool:
    if base_url is None or base_url == model.base_url:
        return True
    try:
        return base_url_of(replace(model, base_url=base_url)) == base_url_of(model)
    except (ConfigError, ModelError):  # a model without a server
        return False

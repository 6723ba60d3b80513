"""Facts outside a run's events: its limits and its models' aliases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from planck_nb.agent.agent import Agent
from planck_nb.agent.agent_access import fallbacks_of
from planck_nb.agent.limits import Limits
from planck_nb.ai.models import Model


def chosen_limits(limits: Limits) -> tuple[int | None, float | None]:
    """Return the limits to show beside a run's usage.

    Args:
        limits: All limits for the run.

    Returns:
        Tokens and US dollars; None for the default limit and for an unlimited run.
    """
    usual = Limits()
    return (
        None if limits.tokens == usual.tokens else limits.tokens,
        None if limits.cost == usual.cost else limits.cost,
    )


def model_name(model: Model) -> str:
    """Return people's name for a model.

    Args:
        model: The model.

    Returns:
        Its alias, or else "provider:model".
    """
    return model.alias or str(model)


@dataclass(frozen=True, slots=True)
class Aliases:
    """People's names for a run's models, instead of "provider:model".

    Two aliases may stand for one model, with other options or at another server, so agents may call it differently.

    Args:
        common: The alias by "provider:model", for models which all agents call the same.
        of_agents: The other aliases: by agent id, and by "provider:model".
    """

    common: Mapping[str, str] = field(default_factory=dict[str, str])
    of_agents: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])

    def name(self, agent_id: str, model: str) -> str:
        """Return people's name for an agent's model.

        Args:
            agent_id: The agent's id.
            model: The model as "provider:model".

        Returns:
            The alias, or else "provider:model".
        """
        return self.of_agents.get(agent_id, {}).get(model) or self.common.get(model, model)


def aliases_of(agents: Iterable[Agent]) -> Aliases:
    """Return aliases for models which answer for the agents and their workers.

    Args:
        agents: The agents.
    """
    by_agent = {agent.id: _aliases_for(agent) for agent in agents}
    names: dict[str, set[str]] = {}
    for aliases_by_model in by_agent.values():
        for model, aliases in aliases_by_model.items():
            names.setdefault(model, set()).update(aliases)
    common = {model: min(aliases) for model, aliases in names.items() if len(aliases) == 1 and model not in aliases}
    differing = {
        agent_id: {model: aliases[0] for model, aliases in aliases_by_model.items() if len(names[model]) > 1}
        for agent_id, aliases_by_model in by_agent.items()
    }
    return Aliases(common, {agent_id: names for agent_id, names in differing.items() if names})


def _aliases_for(agent: Agent) -> dict[str, list[str]]:
    """Return people's names for the agent's models, by "provider:model".

    The usual model comes first.
    """
    names: dict[str, list[str]] = {}
    for model in (agent.model, *fallbacks_of(agent), *agent.available_models):
        names.setdefault(str(model), []).append(model_name(model))
    return names

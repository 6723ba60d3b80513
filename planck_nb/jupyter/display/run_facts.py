"""What is shown of a run that none of its events says: the limits that were set, and the aliases of its models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from planck_nb.agent.agent import Agent
from planck_nb.agent.agent_access import fallbacks_of
from planck_nb.agent.limits import Limits
from planck_nb.ai.models import Model


def chosen_limits(limits: Limits) -> tuple[int | None, float | None]:
    """Return the limits that are shown beside what a run has used.

    Args:
        limits: All limits of the run.

    Returns:
        Tokens and US dollars; None for the usual limit, which nobody chose, and for no limit.
    """
    usual = Limits()
    return (
        None if limits.tokens == usual.tokens else limits.tokens,
        None if limits.cost == usual.cost else limits.cost,
    )


def model_name(model: Model) -> str:
    """Return what people call a model.

    Args:
        model: The model.

    Returns:
        Its alias, or else "provider:model".
    """
    return model.alias or str(model)


@dataclass(frozen=True, slots=True)
class Aliases:
    """What people call the models of a run, whose events name them as "provider:model".

    Two aliases may stand for one model, with other options or at another server, so agents may call it differently.

    Args:
        common: The alias by "provider:model", of models that all agents call the same.
        of_agents: The other aliases: by the id of the agent, and by "provider:model".
    """

    common: Mapping[str, str] = field(default_factory=dict[str, str])
    of_agents: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])

    def name(self, agent_id: str, model: str) -> str:
        """Return what people call a model of an agent.

        Args:
            agent_id: The id of the agent.
            model: The model as "provider:model".

        Returns:
            The alias, or else "provider:model".
        """
        return self.of_agents.get(agent_id, {}).get(model) or self.common.get(model, model)


def aliases_of(agents: Iterable[Agent]) -> Aliases:
    """Return the aliases of the models that answer for these agents, and for those that they start.

    Args:
        agents: The agents.
    """
    by_agent = {agent.id: _aliases_for(agent) for agent in agents}
    names: dict[str, set[str]] = {}
    for found in by_agent.values():
        for model, aliases in found.items():
            names.setdefault(model, set()).update(aliases)
    common = {model: min(aliases) for model, aliases in names.items() if len(aliases) == 1 and model not in aliases}
    own = {
        agent_id: {model: aliases[0] for model, aliases in found.items() if len(names[model]) > 1}
        for agent_id, found in by_agent.items()
    }
    return Aliases(common, {agent_id: found for agent_id, found in own.items() if found})


def _aliases_for(agent: Agent) -> dict[str, list[str]]:
    """What people call the models of the agent, by "provider:model"; the model that answers first comes first."""
    found: dict[str, list[str]] = {}
    for model in (agent.model, *fallbacks_of(agent), *agent.available_models):
        found.setdefault(str(model), []).append(model_name(model))
    return found

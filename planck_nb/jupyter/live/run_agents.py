"""Agents in a run: one, or those in its team."""

from __future__ import annotations

from collections.abc import Mapping

from planck_nb.agent.agent import Agent
from planck_nb.agent.events import AgentEvent
from planck_nb.agent.team_members import team_of
from planck_nb.base.errors import UsageError
from planck_nb.base.event_log import EventLog
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import one_line
from planck_nb.jupyter.display.run_facts import Aliases, aliases_of, chosen_limits, model_name

_NAME_CHARACTERS = 200


class RunAgents:
    """Agents in a run.

    Args:
        agent: The run's agent.
        log: The run's events, from this agent and those which it sets to work.
    """

    def __init__(self, agent: Agent, log: EventLog[AgentEvent]) -> None:
        self._agent = agent
        self._log = log

    def members(self) -> list[JsonObject]:
        """Describe the agent's team for the browser; empty without a team."""
        members = self._team()
        if len(members) < 2:  # noqa: PLR2004 - a team of one looks like a single agent
            return []
        return [
            {
                "id": member.id,
                "name": one_line(member.name or member.id, _NAME_CHARACTERS),
                "type": one_line(member.type, _NAME_CHARACTERS),
                "role": member.role,
                "model": one_line(model_name(member.model), _NAME_CHARACTERS),
            }
            for member in members
        ]

    def aliases(self) -> Aliases:
        """Return people's names for the models in the run."""
        return aliases_of(self._team() or [self._agent])

    def facts(self) -> JsonObject:
        """Describe facts outside the run's events: limits and model aliases."""
        tokens, cost = chosen_limits(self._agent.limits)
        aliases = self.aliases()
        return {
            "limits": {"tokens": tokens, "cost": cost},
            "aliases": _short(aliases.common),
            "aliases_of_agents": {agent_id: _short(names) for agent_id, names in aliases.of_agents.items()},
        }

    def find(self, agent_id: str | None) -> Agent:
        """Return the agent with this id.

        Args:
            agent_id: The id; None for the run's agent.

        Raises:
            UsageError: The run does not include an agent with this id.
        """
        if agent_id in {None, self._agent.id}:
            return self._agent
        agent = next((member for member in self._team() if member.id == agent_id), None)
        if agent is None or all(event.agent_id != agent_id for event in self._log.since(0)):
            raise UsageError("That agent is not part of this run, so it cannot be controlled here.")
        return agent

    def take_part(self, agent_id: str) -> bool:
        """Return whether the agent with this id takes part in the run."""
        try:
            self.find(agent_id)
        except UsageError:
            return False
        return True

    def _team(self) -> list[Agent]:
        """Return the team, the orchestrator first; empty without the lead."""
        team = team_of(self._agent.id) if self._agent.role == "orchestrator" else None
        rest = [] if team is None else [member for member in team if member is not self._agent]
        return [] if team is None else [self._agent, *rest]


def _short(aliases: Mapping[str, str]) -> JsonObject:
    return {model: one_line(alias, _NAME_CHARACTERS) for model, alias in aliases.items()}

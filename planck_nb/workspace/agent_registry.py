"""The agents of a workspace by id, and by name, which is unique within a team."""

from __future__ import annotations

from collections.abc import Iterator

from planck_nb.agent.agent import Agent
from planck_nb.base.errors import AgentError, did_you_mean


class AgentRegistry:
    """Agents in the order they were added."""

    def __init__(self) -> None:
        self.closed = ""
        """Why no agent can be added at the moment, as a sentence; empty if agents can be added."""
        self.former: set[str] = set()
        """The ids of all agents of the session, including those that are gone."""
        self.reserved: set[tuple[str | None, str]] = set()
        """Teams and names which agents about to be restored have."""
        self._agents: dict[str, Agent] = {}
        self._by_name: dict[str | None, dict[str, Agent]] = {}

    def __iter__(self) -> Iterator[Agent]:
        return iter(tuple(self._agents.values()))

    def __contains__(self, agent_id: object) -> bool:
        return agent_id in self._agents

    def add(self, agent: Agent) -> None:
        """Add an agent. Its name must have been checked with `require_free`."""
        self._agents[agent.id] = agent
        self.former.add(agent.id)
        self._by_name.setdefault(agent.team_id, {})[agent.name] = agent

    def remove(self, agent: Agent) -> None:
        """Remove an agent; its name is free again."""
        self._agents.pop(agent.id, None)
        team = self._by_name.get(agent.team_id, {})
        if team.get(agent.name) is agent:
            del team[agent.name]

    def clear(self) -> None:
        """Remove all agents."""
        self._agents.clear()
        self._by_name.clear()
        self.former.clear()
        self.reserved.clear()

    def named(self, team_id: str | None = None) -> dict[str, Agent]:
        """The agents of a team by name; None for those outside teams."""
        return dict(self._by_name.get(team_id, {}))

    def require_free(self, name: str, team_id: str | None = None) -> None:
        """Raise `AgentError` if an agent of the team has this name, or no agent can be added at the moment."""
        if self.closed:
            raise AgentError(self.closed)
        if name in self._by_name.get(team_id, {}) or (team_id, name) in self.reserved:
            raise AgentError(f"An agent named {name} exists already; choose another name.")

    def by_name(self, name: str, team_id: str | None = None) -> Agent:
        """The agent of this name in the team. Raises `AgentError` if there is none."""
        agents = self._by_name.get(team_id, {})
        if name not in agents:
            raise AgentError(f"No agent is named {name}. {did_you_mean(name, agents)}".rstrip())
        return agents[name]

    def by_id(self, agent_id: str) -> Agent:
        """The agent with this id. Raises `AgentError` if there is none."""
        if agent_id not in self._agents:
            raise AgentError(f"No agent of this workspace has the id {agent_id}; `agents` lists them by name.")
        return self._agents[agent_id]

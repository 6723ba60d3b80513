"""Names of agents as people type them, including members of teams, and teams themselves."""

from __future__ import annotations

from planck_nb.agent.agent import Agent
from planck_nb.base.errors import AgentError, did_you_mean
from planck_nb.workspace.workspace import Workspace


def named_agents(workspace: Workspace) -> dict[str, Agent]:
    """All agents by unique names: an agent outside teams by its name, a member as `team/name`."""
    found = workspace.agents
    for team_name, team in workspace.teams.items():
        for agent in team.agents:
            found.setdefault(f"{team_name}/{agent.name}", agent)
    return found


def find_agent(workspace: Workspace, name: str) -> Agent:
    """Find an agent by what was typed.

    Args:
        workspace: The workspace.
        name: The name of an agent outside teams, `team/name`, the name of a running team for its orchestrator, or the
            name of a member that no other team has.

    Returns:
        The agent.

    Raises:
        AgentError: No agent has this name, or members of several teams have it.
    """
    known = named_agents(workspace)
    if name in known:
        return known[name]
    if (team := workspace.teams.get(name)) is not None:
        return team.orchestrator
    members = [full for full, agent in known.items() if agent.team_id is not None and agent.name == name]
    if len(members) > 1:
        raise AgentError(f"{len(members)} agents are named {name}; write one of {', '.join(members)}.")
    if not members:
        raise AgentError(f"No agent is named {name}. {did_you_mean(name, known)}".rstrip())
    return known[members[0]]


def full_name(workspace: Workspace, agent: Agent) -> str:
    """Return a name that only this agent has."""
    return next((name for name, other in named_agents(workspace).items() if other is agent), agent.name)

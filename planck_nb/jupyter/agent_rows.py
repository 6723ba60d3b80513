"""The rows of `%planck agents`."""

from __future__ import annotations

from typing import Any

from planck_nb.agent.agent import Agent
from planck_nb.agent.state import AgentState
from planck_nb.base.text import one_line
from planck_nb.base.visible import visible
from planck_nb.jupyter.display.run_facts import aliases_of
from planck_nb.workspace import Workspace
from planck_nb.workspace.agent_names import named_agents

COLUMNS = [
    *("agent", "team", "role", "parent", "status", "waits_for", "model"),
    *("turns", "messages", "tokens", "cost_usd"),
]

COLUMNS_WITHOUT_TEAMS = ["agent", "model", "status", "turns", "messages", "tokens", "cost_usd"]
"""The columns in a notebook without teams."""

_WAITS_CHARACTERS = 80


def columns_of(workspace: Workspace, *, teams: bool) -> list[str]:
    """Choose the table's columns.

    Args:
        workspace: The workspace, whose engine may have workers.
        teams: Whether there are teams.

    Returns:
        The names.
    """
    columns = COLUMNS if teams else COLUMNS_WITHOUT_TEAMS
    if workspace.engine is None:
        return [*columns]
    place = columns.index("status") + 1
    return [*columns[:place], "runs_on", *columns[place:]]


def agent_rows(workspace: Workspace) -> list[dict[str, Any]]:
    """Describe all agents.

    Args:
        workspace: The workspace.

    Returns:
        A row for each agent, with a value for each column: those outside teams first, then team by team.
    """
    agents = named_agents(workspace)
    teams = {team.id: name for name, team in workspace.teams.items()}
    names = {agent.id: agent.name for agent in agents.values()}
    return [_row(agent, teams, names) for agent in agents.values()]


def _row(agent: Agent, teams: dict[str | None, str], names: dict[str, str]) -> dict[str, Any]:
    state = agent.state
    return {
        "agent": agent.name,
        "team": teams.get(agent.team_id, "") if agent.team_id is not None else "",
        "role": state.role,
        "parent": "" if state.parent_id is None else names.get(state.parent_id, state.parent_id),
        "status": state.status,
        "runs_on": agent.info().runs_on.rpartition("//")[2],
        "waits_for": _awaited(state),
        "model": aliases_of([agent]).name(agent.id, state.model),
        "turns": state.turn + 1,
        "messages": len(state.messages),
        "tokens": state.usage.total_tokens,
        "cost_usd": state.cost,
    }


def _awaited(state: AgentState) -> str:
    """What the agent waits for: approval of calls, the answers of other agents, and its other tools."""
    waiting = {call.id for call in state.pending_approvals}
    awaited = [f"approval of {call.name}" for call in state.pending_approvals]
    awaited += [task.target_name for task in state.open_tasks]
    awaited += [call.name for call in state.running if call.id not in waiting and call.name != "ask_agent"]
    return one_line(visible(", ".join(dict.fromkeys(awaited))), _WAITS_CHARACTERS)

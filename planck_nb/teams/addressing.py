"""Finds the agent of a team that a tool call names."""

from __future__ import annotations

from planck_nb.agent.agent import Agent
from planck_nb.agent.team_members import TeamMembers, team_of, title
from planck_nb.base.errors import ToolError, did_you_mean
from planck_nb.base.json_types import JsonObject

LIST_HINT = "Call list_team to see who is there."

_KINDS = ("name", "type")
"""What can name an agent besides its id, in the order in which it is looked for."""


def calling_agent(agent_id: str) -> tuple[TeamMembers[Agent], Agent]:
    """The agent that calls a tool, and its team.

    Raises:
        ToolError: It is in no team.
    """
    team: TeamMembers[Agent] | None = team_of(agent_id)
    agent = None if team is None else team.get(agent_id)
    if team is None or agent is None:
        raise ToolError("This agent is in no team; give it a `team_id`.")
    return team, agent


def addressed_agent(team: TeamMembers[Agent], args: JsonObject) -> Agent:
    """The member of the team that the arguments of a call name.

    All ways of addressing that Planck has had are accepted: `agent_id`, which may also be a name or a type;
    `identifier` with `identifier_type`; and `id`, `name` or `type`. An id takes precedence over a name, and a name over
    a type.

    Raises:
        ToolError: No member is named, or there is none, or there are several.
    """
    for kinds, value in _names(args):
        if (agent := team.get(value)) is not None:
            return agent
        for kind in kinds:
            found = [each for each in team if value == (each.name if kind == "name" else each.type)]
            if len(found) == 1:
                return found[0]
            if found:
                choices = ", ".join(f"{title(agent)} ({agent.id})" for agent in found)
                raise ToolError(f"{value} is the {kind} of {len(found)} agents: {choices}. Use an id.")
        known = dict.fromkeys(name for agent in team for name in (agent.name, agent.type) if name)
        raise ToolError(f"Agent not found: {value}. {did_you_mean(value, known)} {LIST_HINT}".replace("  ", " "))
    raise ToolError(f"Say which agent: pass its id or name as `agent_id`. {LIST_HINT}")


def _names(args: JsonObject) -> list[tuple[tuple[str, ...], str]]:
    """The names in the arguments: what kind of name each may be, besides an id, and its value."""
    found: list[tuple[tuple[str, ...], str]] = []
    kind = args.get("identifier_type")
    for key, kinds in (
        ("agent_id", _KINDS),
        ("identifier", () if kind == "id" else (kind,) if kind in _KINDS else _KINDS),
        ("id", ()),
        ("name", ("name",)),
        ("type", ("type",)),
    ):
        value = args.get(key)
        if isinstance(value, str) and value.strip():
            found.append((kinds, value.strip()))
    return found

"""Who an agent is, and what it may hand on to the agents that it starts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, TypeAlias

Role: TypeAlias = Literal["", "orchestrator", "worker"]
"""An agent's role in its team; empty for an agent that is in no team."""


SPAWN_AGENT = "spawn_agent"
"""The name of the tool that makes an agent without a given role the orchestrator of its team."""


def decide_role(role: Role, agent_type: str, tools: Collection[str]) -> Role:
    """The role of an agent in a team: the given one, or else derived from its tools and type.

    Args:
        role: The given role, empty for none.
        agent_type: What kind of agent it is.
        tools: The names of its tools.
    """
    if role:
        return role
    return "orchestrator" if SPAWN_AGENT in tools or agent_type == "orchestrator" else "worker"


@dataclass(frozen=True, slots=True)
class Grants:
    """What an agent may give to the agents that it starts.

    Args:
        tools: Names of tools.
        skills: Names of skills.
        models: Models as "provider:model".
    """

    tools: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentIdentity:
    """Who an agent is. Only the id is unique; names are unique within a team.

    Args:
        id: The agent's id.
        name: What people call it; may be empty.
        type: What kind of agent it is, such as "builder"; may be empty.
        role: Its role in its team.
        team_id: The team that it belongs to, None if it is in no team.
        parent_id: The agent that started it, None if a person or a program did.
    """

    id: str
    name: str = ""
    type: str = ""
    role: Role = ""
    team_id: str | None = None
    parent_id: str | None = None

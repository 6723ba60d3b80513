"""Makes and removes the members of teams, and chooses their ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from planck_nb.agent.agent import Agent
from planck_nb.agent.agent_access import teammate_settings
from planck_nb.agent.context.system_prompt import SystemPromptParts
from planck_nb.agent.limits import Limits
from planck_nb.agent.team_members import TeamMembers
from planck_nb.base.ids import NewId, derived_id


class TeamHost(Protocol):
    """Makes and removes teams' members."""

    def create(self, options: Mapping[str, Any], parent: Agent | None) -> Agent:
        """Make a member.

        Args:
            options: Arguments of `Agent`.
            parent: The agent that spawns it, None for one of a template.

        Raises:
            PlanckError: It cannot be made.
        """
        ...

    async def remove(self, agent: Agent, *, reason: str) -> None:
        """Stop a member for good."""
        ...

    def is_taken(self, agent_id: str) -> bool:
        """Whether an agent has this id, or had it."""
        ...

    @property
    def limits(self) -> Limits | None:
        """A member's usual limits; None for the defaults."""
        ...

    def prompt_parts(self) -> SystemPromptParts:
        """Return the surroundings for every member's system prompt."""
        ...


class TeammateHost:
    """Makes members that share the session, budget, approvals and client of the agent that spawns them."""

    def create(self, options: Mapping[str, Any], parent: Agent | None) -> Agent:
        """Make a member that shares what its parent has."""
        shared = {} if parent is None else teammate_settings(parent)
        return Agent(**{**shared, **options})

    async def remove(self, agent: Agent, *, reason: str) -> None:
        """Stop a member for good."""
        await agent.stop(removed=True, reason=reason)

    def is_taken(self, agent_id: str) -> bool:  # noqa: ARG002 - of the protocol
        """Return False: agents outside the team are not known here."""
        return False

    @property
    def limits(self) -> Limits | None:
        """Return None: the defaults."""
        return None

    def prompt_parts(self) -> SystemPromptParts:
        """Return no parts."""
        return SystemPromptParts()


def new_member_id(host: TeamHost, team: TeamMembers[Agent] | None, seed: str, name: str) -> NewId:
    """The id of a new member: the same in each run of a notebook, because models read it, and never one used before.

    Args:
        host: Knows the ids of agents outside the team.
        team: The team, None if it has no members yet.
        seed: What tells the team from others.
        name: The name of the member.
    """
    former = set[str]() if team is None else team.former
    number = 0
    while (found := derived_id(seed, name, number)) in former or host.is_taken(found):
        number += 1
    return NewId(found)

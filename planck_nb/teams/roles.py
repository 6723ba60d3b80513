"""Who orchestrates a team: decided in one place, from the descriptions of its members."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

from planck_nb.agent.identity import SPAWN_AGENT, Role, decide_role
from planck_nb.base.errors import ConfigError
from planck_nb.teams.problems import named

INTER_AGENT_TOOLS = frozenset(
    "ask_agent delegate_task send_response list_team spawn_agent destroy_agent interrupt_agent list_models "
    "call_agent send_agent respond_agent".split()
)
"""The tools by which the agents of a team work together. Agents get them by their role, not from a pool of tools."""

RoleRule: TypeAlias = Literal["role", "spawn_agent", "type", "first"]
"""What decides who orchestrates: the field `role`, the tool `spawn_agent`, the type "orchestrator", or the order."""


class RoleSource(Protocol):
    """What `decide_roles` reads of a member."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def type(self) -> str: ...  # noqa: D102
    @property
    def role(self) -> Role: ...  # noqa: D102
    @property
    def tools(self) -> Collection[str]: ...  # noqa: D102


class RoleDecision(NamedTuple):
    """The roles of the members of a team, in their order, and the rule that decided who orchestrates."""

    roles: tuple[Role, ...]
    rule: RoleRule

    @property
    def orchestrator(self) -> int:
        """The index of the member that orchestrates."""
        return self.roles.index("orchestrator")


def decide_roles(members: Sequence[RoleSource], *, first: bool = False) -> RoleDecision:
    """Decide who orchestrates a team; all others are workers.

    The first of these rules that applies to a member decides: its `role` is "orchestrator"; it has no `role`, and
    `spawn_agent` is among its tools; it has no `role`, and its type is "orchestrator".

    Args:
        members: The members.
        first: Whether the first member without a role orchestrates if none of the rules applies.

    Returns:
        The roles.

    Raises:
        ConfigError: No member orchestrates, or the same rule applies to several.
    """
    for rule, applies in _RULES:
        found = [index for index, member in enumerate(members) if applies(member)]
        if len(found) > 1:
            names = ", ".join(named(members[index].name) for index in found[:_SHOWN])
            more = f" and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
            raise ConfigError(
                f"a team needs exactly one orchestrator, found {len(found):,} ({names}{more}); "
                'give one of them "role": "orchestrator" and the others "role": "worker".'
            )
        if found:
            return _decided(len(members), found[0], rule)
    if first and (free := [index for index, member in enumerate(members) if not member.role]):
        return _decided(len(members), free[0], "first")
    raise ConfigError(
        'a team needs exactly one orchestrator, found 0; give one member "role": "orchestrator", '
        'the tool spawn_agent or "type": "orchestrator".'
    )


def role_alone(member: RoleSource) -> Role:
    """The role that follows from a member's own description; empty if none does."""
    role = decide_role(member.role, member.type, member.tools)
    return role if role == "orchestrator" else member.role


_SHOWN = 5

_RULES: tuple[tuple[RoleRule, Callable[[RoleSource], bool]], ...] = (
    ("role", lambda member: member.role == "orchestrator"),
    ("spawn_agent", lambda member: not member.role and SPAWN_AGENT in member.tools),
    ("type", lambda member: not member.role and member.type == "orchestrator"),
)


def _decided(count: int, orchestrator: int, rule: RoleRule) -> RoleDecision:
    roles: list[Role] = ["worker"] * count
    roles[orchestrator] = "orchestrator"
    return RoleDecision(tuple(roles), rule)

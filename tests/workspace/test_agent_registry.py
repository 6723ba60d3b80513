"""Agents are found by id, and by name within their team."""

from __future__ import annotations

import pytest

from planck_nb import Agent
from planck_nb.base.errors import AgentError
from planck_nb.testing import scripted_model
from planck_nb.workspace.agent_registry import AgentRegistry


def make(name: str, team_id: str | None = None) -> Agent:
    return Agent(model=scripted_model([]), name=name, team_id=team_id)


def test_names_are_unique_within_a_team_only() -> None:
    registry = AgentRegistry()
    alone, north, south = make("ann"), make("ann", "north"), make("ann", "south")
    for agent in (alone, north, south):
        registry.require_free("ann", agent.team_id)
        registry.add(agent)
    assert [registry.by_name("ann", team) for team in (None, "north", "south")] == [alone, north, south]
    assert [registry.by_id(agent.id) for agent in (alone, north, south)] == [alone, north, south]
    assert list(registry) == [alone, north, south]
    with pytest.raises(AgentError, match="named ann exists already"):
        registry.require_free("ann", "north")


def test_a_removed_agent_frees_its_name_and_no_other() -> None:
    registry = AgentRegistry()
    first, second = make("ann"), make("ann", "north")
    registry.add(first)
    registry.add(second)
    registry.remove(first)
    registry.require_free("ann")
    assert registry.by_name("ann", "north") is second
    assert first.id not in registry
    with pytest.raises(AgentError, match="No agent is named ann"):
        registry.by_name("ann")
    successor = make("ann")
    registry.add(successor)
    registry.remove(first)  # again: the name belongs to another now
    assert registry.by_name("ann") is successor


def test_an_unknown_name_suggests_one_of_the_same_team() -> None:
    registry = AgentRegistry()
    registry.add(make("analyst"))
    with pytest.raises(AgentError, match="Did you mean analyst"):
        registry.by_name("analist")
    with pytest.raises(AgentError, match=r"^No agent is named analist\.$"):
        registry.by_name("analist", "north")

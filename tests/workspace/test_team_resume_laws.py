"""Random teams whose process ends at a random moment, and that are resumed from what was on disk then."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.ledger import check_ledger
from support.random_teams import NAMES, scripted, scripts

from planck_nb import AgentSpec, Config, Workspace
from planck_nb.agent.agent import Agent
from planck_nb.ai.models import Model
from planck_nb.base.errors import PlanckError
from planck_nb.teams import Team, TeamTemplate
from planck_nb.testing import scripted_model

LOST = "no one works on them any"

SPECS = [
    AgentSpec("orchestrator" if name == "lead" else "worker", "demo", name, name=name, tools=["read"]) for name in NAMES
]


def models(program: dict[str, list[Any]]) -> tuple[Model, ...]:
    return tuple(replace(scripted_model(scripted(name, program[name])), alias=name) for name in NAMES)


def config(folder: Path, program: dict[str, list[Any]]) -> Config:
    loaded = Config.load(directory=folder, home=folder, trust=True, sessions_dir=folder / "sessions")
    return replace(loaded, models=models(program))


def members(team: Team) -> list[tuple[object, ...]]:
    return [
        (agent.id, agent.name, agent.role, agent.parent_id, agent.grants, [tool.name for tool in agent.tools])
        for agent in team.agents
    ]


def waiting(team: Team, agent: Agent, *, surely: bool) -> bool:
    """Whether the agent waits for the response to a task that it delegated.

    Surely, or also for a response that was to be sent in this moment: the worker has done all that there was to do.
    A question that has no answer yet belongs to a turn that was interrupted, and is told with that.
    """
    delegated = {task.target_id for task in agent.state.open_tasks if task.kind == "delegate"}
    at_work = {
        worker.id
        for worker in team.agents
        if worker.status != "idle"
        or worker.state.queue
        or any(task.kind == "delegate" for task in worker.state.open_tasks)
    }
    return bool(delegated & at_work if surely else delegated)


def notes(agent: Agent) -> int:
    """How often the agent was told that tasks were lost."""
    found = (entry.message for entry in agent.state.messages if entry.message.type == "user")
    return sum(LOST in message.text for message in found)


async def play(program: dict[str, list[Any]], moment: int, first: Path, later: Path) -> None:
    async with asyncio.timeout(60):
        async with Workspace(config(first, program)) as workspace:
            team = await workspace.start_team(TeamTemplate.from_specs(SPECS, name="crew"))
            run = team.prompt("person")
            with suppress(PlanckError):
                async for _ in run:
                    moment -= 1
                    if moment < 0:
                        break
            workspace.session.close()  # what is on disk now is all that there was in memory
            shutil.copytree(first, later, dirs_exist_ok=True)
            before = members(team)
            surely = {agent.id for agent in team.agents if waiting(team, agent, surely=True)}
            perhaps = {agent.id for agent in team.agents if waiting(team, agent, surely=False)}
            run.abort()
        for told in (False, True):
            async with Workspace(config(later, program)) as workspace:
                problems = await workspace.resume()
                team = workspace.teams["crew"]
                assert members(team) == before
                for agent in team.agents:
                    assert (agent.id in surely) <= notes(agent) <= (agent.id in perhaps), agent.name
                    assert agent.state.open_tasks == ()
                    assert agent.status == "idle"
                lost = [problem for problem in problems if "had a response" in problem]
                assert bool(lost) == (any(map(notes, team.agents)) and not told)
                stored = await workspace.query_async("select status from delegations")
                assert "open" not in set(stored["status"])
                await check_ledger(workspace)
                if told:
                    with suppress(PlanckError):
                        await team.prompt("Go on.")
                    assert all(agent.status == "idle" for agent in team.agents)
                    await check_ledger(workspace)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_team_is_resumed_as_it_was_at_any_moment() -> None:
    @settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
    @given(scripts, st.integers(0, 60))
    def law(program: dict[str, list[Any]], moment: int) -> None:
        program["lead"].insert(0, [("delegate_task", "ann"), ("delegate_task", "cem"), ("ask_agent", "ben")])
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as later:
            asyncio.run(play(program, moment, Path(first), Path(later)))

    law()

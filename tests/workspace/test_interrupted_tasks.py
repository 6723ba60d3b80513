"""What a worker said before its process ended is its response to a task only if it had nothing more to do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from planck_nb import AgentSpec, Config, Workspace
from planck_nb.agent.agent import Agent
from planck_nb.ai.models import Model
from planck_nb.teams import Team, TeamTemplate
from planck_nb.testing import Call, Reply, scripted_model

LOST = "no one works on them any"
NEVER = 1e6
"""Seconds between the words of a reply that does not come to its end."""


def delegate(name: str) -> Reply:
    return Reply(calls=[Call("delegate_task", {"agent_id": name, "task": f"Work, {name}."})])


def texts(agent: Agent) -> list[str]:
    return [entry.message.text for entry in agent.state.messages if entry.message.type == "user"]


async def resumed(
    folder: Path, models: dict[str, Model], holds: Callable[[Team], bool], *, before: bytes = b""
) -> dict[str, list[str]]:
    """Run a team until it holds, and resume it from what was on disk then. Returns what each agent was told.

    The journal is cut off `before` the first line that contains these bytes.
    """
    specs = [AgentSpec("worker" if name != "lead" else "orchestrator", "demo", name, name=name) for name in models]
    first, later = folder / "first", folder / "later"
    first.mkdir()

    def config(at: Path) -> Config:
        loaded = Config.load(directory=at, home=at, trust=True, sessions_dir=at / "sessions")
        return replace(loaded, models=tuple(replace(model, alias=name) for name, model in models.items()))

    async with Workspace(config(first)) as workspace:
        team = await workspace.start_team(TeamTemplate.from_specs(specs, name="crew"))
        run = team.prompt("Go.")
        async for _ in run:
            if holds(team):
                break
        workspace.session.close()
        shutil.copytree(first, later)
        run.abort()
    for journal in later.rglob("*.jsonl") if before else ():
        lines = journal.read_bytes().splitlines(keepends=True)
        cut = next((at for at, line in enumerate(lines) if before in line), len(lines))
        journal.write_bytes(b"".join(lines[:cut]))
    async with Workspace(config(later)) as workspace:
        await workspace.resume()
        return {agent.name: texts(agent) for agent in workspace.teams["crew"].agents}


async def test_what_a_worker_says_while_others_work_for_it_is_not_its_response(tmp_path: Path) -> None:
    models = {
        "lead": scripted_model([delegate("ann"), "I wait for ann."]),
        "ann": scripted_model([delegate("ben"), "I wait for ben."]),
        "ben": scripted_model(["It takes long."], pace=NEVER),
    }

    def waiting(team: Team) -> bool:
        return team.agent("ben").status == "streaming" and team.agent("ann").status == "idle"

    told = await resumed(tmp_path, models, waiting)
    for delegator, worker in (("lead", "ann"), ("ann", "ben")):
        [note] = [text for text in told[delegator] if LOST in text]
        assert f"- {worker}, which was cut off: Work, {worker}." in note
    assert "I wait for ben." not in told["lead"]


async def test_the_last_reply_of_a_worker_that_was_done_is_its_response(tmp_path: Path) -> None:
    models = {"lead": scripted_model([delegate("ann"), "I wait for ann."]), "ann": scripted_model(["All is done."])}
    told = await resumed(tmp_path, models, lambda _team: False, before=b'"responded"')
    assert [text for text in told["lead"] if "All is done." in text]
    assert not [text for text in told["lead"] if LOST in text]

"""A team whose process was killed continues as it was, and is told once about what was lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from planck_nb import Config, ToolError, Workspace
from planck_nb.agent.agent import Agent

pytestmark = pytest.mark.process

TEAM = {
    "name": "Builders",
    "description": "Builds.",
    "members": [
        {
            "type": "orchestrator",
            "name": "lead",
            "provider": "demo",
            "model_id": "demo",
            "system_prompt": "Lead.",
            "tools": ["read", "bash"],
            "grants": {"tools": ["read"]},
        },
        {"type": "builder", "provider": "demo", "model_id": "demo", "tools": ["read", "edit"]},
        {"type": "tester", "provider": "demo", "model_id": "demo"},
    ],
}

KILLED = """
import asyncio, os, signal, sys
from planck_nb import Config, Workspace

async def call(agent, name, **args):
    [tool] = [tool for tool in agent.tools if tool.name == name]
    return (await tool.run(args, agent_id=agent.id, call_id="call")).text

async def main():
    workspace = Workspace(Config.load(), trust=True)
    team = await workspace.start_team("builders")
    lead = team.orchestrator
    await call(lead, "spawn_agent", type="helper", tools=["read", "edit"])
    await call(lead, "spawn_agent", type="former")
    await call(lead, "destroy_agent", agent_id="former")
    slow = team.agent("builder").prompt("Think.")
    await call(lead, "delegate_task", agent_id="tester", task="Test it.")
    await call(lead, "delegate_task", agent_id="builder", task="Build it.")
    await workspace.session.flush()
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project" / ".planck" / "teams" / "builders"
    folder.mkdir(parents=True)
    (folder / "TEAM.json").write_text(json.dumps(TEAM))
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / "project"


def kill_in_the_middle(project: Path) -> None:
    environment = {**os.environ, "PLANCK_NB_DEMO_PACE": "60"}  # every turn still runs at the end
    process = subprocess.run([sys.executable, "-c", KILLED], cwd=project, env=environment, timeout=100, check=False)
    assert process.returncode == -9


def texts(agent: Agent) -> list[str]:
    return [entry.message.text for entry in agent.state.messages if entry.message.type == "user"]


def described(workspace: Workspace) -> list[tuple[object, ...]]:
    return [
        (agent.id, agent.name, agent.role, agent.parent_id, agent.grants, [tool.name for tool in agent.tools])
        for agent in workspace.teams["builders"].agents
    ]


async def test_a_killed_team_continues_as_it_was_and_is_told_once(project: Path) -> None:
    kill_in_the_middle(project)
    async with Workspace(Config.load(), trust=True) as workspace:
        problems = await workspace.resume()
        team = workspace.teams["builders"]
        assert (team.name, team.description) == ("Builders", "Builds.")
        assert [agent.name for agent in team.agents] == ["lead", "builder", "tester", "helper"]
        lead = team.orchestrator
        assert lead.grants.tools == ("read",)
        assert "spawn_agent" in [tool.name for tool in lead.tools]
        helper = team.agent("helper")
        assert helper.parent_id == lead.id
        assert [tool.name for tool in helper.tools if tool.name in {"read", "edit"}] == ["read"]
        told = [text for text in texts(lead) if "no one works on them any" in text]
        assert len(told) == 1
        assert "- tester, which" in told[0]
        assert "- builder, which had not started: Build it." in told[0]
        assert any("before 2 tasks of lead had a response" in problem for problem in problems)
        assert not workspace.unanswered
        assert [task.id for task in lead.state.open_tasks] == []
        found = await workspace.query_async("select to_agent_name, status from delegations order by to_agent_name")
        assert found.values.tolist() == [["builder", "failed"], ["tester", "failed"]]
        before = described(workspace)
    async with Workspace(Config.load(), trust=True) as workspace:
        assert not [problem for problem in await workspace.resume() if "was told" in problem]
        team = workspace.teams["builders"]
        assert described(workspace) == before
        assert len([text for text in texts(team.orchestrator) if "no one works on them any" in text]) == 1


async def test_the_id_of_a_destroyed_worker_is_never_given_again(project: Path) -> None:
    kill_in_the_middle(project)
    async with Workspace(Config.load(), trust=True) as workspace:
        await workspace.resume()
        lead = workspace.teams["builders"].orchestrator
        [spawn] = [tool for tool in lead.tools if tool.name == "spawn_agent"]
        again = (await spawn.run({"type": "former"}, agent_id=lead.id)).text
        ids = await workspace.query_async("select agent_id from team_members where name = 'former'")
        assert again in set(ids["agent_id"])
        assert len(set(ids["agent_id"])) == 2


async def test_a_spawned_worker_can_load_after_a_resume_only_the_skills_that_it_was_given(project: Path) -> None:
    for name in ("review", "deploy"):
        folder = project / ".planck" / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: How to {name}.\n---\nThe way to {name}.\n")
    template = json.loads(json.dumps(TEAM))
    template["members"][0]["grants"] = {"skills": ["review"]}
    (project / ".planck" / "teams" / "builders" / "TEAM.json").write_text(json.dumps(template))

    async def load(workspace: Workspace, name: str) -> str:
        worker = workspace.teams["builders"].agent("helper")
        assert "deploy" not in worker.request().system
        [tool] = [tool for tool in worker.tools if tool.name == "load_skill"]
        return (await tool.run({"name": name}, agent_id=worker.id)).text

    async with Workspace(Config.load(trust=True), trust=True) as workspace:
        lead = (await workspace.start_team("builders")).orchestrator
        [spawn] = [tool for tool in lead.tools if tool.name == "spawn_agent"]
        await spawn.run({"type": "helper", "skills": ["review", "deploy"]}, agent_id=lead.id)
        assert "The way to review." in await load(workspace, "review")
        with pytest.raises(ToolError, match="You were not given the skill deploy"):
            await load(workspace, "deploy")
        await workspace.team("builders").prompt("Hello.")
    async with Workspace(Config.load(trust=True), trust=True) as workspace:
        await workspace.resume()
        assert "The way to review." in await load(workspace, "review")
        with pytest.raises(ToolError, match="You were not given the skill deploy"):
            await load(workspace, "deploy")


async def test_an_untrusted_team_is_not_started(project: Path) -> None:
    async with Workspace(Config.load(trust=False), trust=False) as workspace:
        report = workspace.team_templates()
        assert not report.templates
        assert "not trusted" in report.skipped[0].reason


async def test_a_changed_template_adds_new_members_and_changes_no_other(project: Path) -> None:
    file = project / ".planck" / "teams" / "builders" / "TEAM.json"

    def change(**member: object) -> None:
        template = json.loads(file.read_text())
        template["members"][1]["system_prompt"] = "Another prompt."
        template["members"].append({"provider": "demo", "model_id": "demo", **member})
        file.write_text(json.dumps(template))

    async with Workspace(Config.load(trust=True), trust=True) as workspace:
        team = await workspace.start_team("builders")
        await team.prompt("Hello.")
        assert await workspace.update_team("builders") == ()
        change(type="reviewer")
        assert [agent.name for agent in await workspace.update_team("builders")] == ["reviewer"]
        assert await workspace.update_team("builders") == ()
        assert team.agent("builder").system_prompt == ""
        lead = team.orchestrator
        [destroy] = [tool for tool in lead.tools if tool.name == "destroy_agent"]
        await destroy.run({"agent_id": "reviewer"}, agent_id=lead.id)
        assert await workspace.update_team("builders") == ()
    async with Workspace(Config.load(trust=True), trust=True) as workspace:
        await workspace.resume()
        assert await workspace.update_team("builders") == ()
        change(type="writer")
        assert [agent.name for agent in await workspace.update_team("builders")] == ["writer"]
        assert "reviewer" not in [agent.name for agent in workspace.teams["builders"].agents]


async def test_a_stopped_team_stays_gone(project: Path) -> None:
    async with Workspace(Config.load(), trust=True) as workspace:
        team = await workspace.start_team("builders")
        await team.prompt("Hello.")
        await workspace.stop_team("builders")
        assert not workspace.teams
        assert all(agent.state.stopped for agent in team.agents)
    async with Workspace(Config.load(), trust=True) as workspace:
        await workspace.resume()
        assert not workspace.teams


async def test_a_team_is_saved_and_started_again_from_its_own_template(project: Path) -> None:
    async with Workspace(Config.load(), trust=True) as workspace:
        team = await workspace.start_team("builders", name="first")
        lead = team.orchestrator
        [spawn] = [tool for tool in lead.tools if tool.name == "spawn_agent"]
        await spawn.run({"type": "reviewer", "system_prompt": "Review."}, agent_id=lead.id)
        saved = workspace.save_team("first", "saved/reviewers")
        assert not saved.left_out
        again = await workspace.start_team("saved/reviewers")
        assert [(agent.name, agent.system_prompt) for agent in again.agents] == [
            ("lead", "Lead."),
            ("builder", ""),
            ("tester", ""),
            ("reviewer", "Review."),
        ]
        assert not {agent.id for agent in team.agents} & {agent.id for agent in again.agents}

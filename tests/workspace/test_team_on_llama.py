"""A team on real llama.cpp servers fixes a small project: tasks, a question, responses and approvals, all stored."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.agents import calling
from support.fixing_team import MEMBERS, SCRIPTS, call, model_servers, run_tests, write_project

from planck_nb import AgentSpec, Config, Workspace
from planck_nb.agent import events as ev
from planck_nb.agent.agent import Agent
from planck_nb.teams import Team, TeamTemplate
from planck_nb.testing import scripted_model

DELEGATES: list[dict[str, Any]] = [
    {
        "thinking": "Two of us can work at once.",
        "calls": [
            call("delegate_task", agent_id="coder", task="Correct the sum in calc.py, please."),
            call("delegate_task", agent_id="tester", task="Run all tests once before the change."),
        ],
    },
    {"text": "I wait for what the others will say."},
]
NAMES = ("lead", "coder", "tester")

pytestmark = pytest.mark.process


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    write_project(folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path))
    return folder


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[dict[str, str]]:
    with model_servers(tmp_path, {"lead": DELEGATES, "coder": SCRIPTS["coder"], "tester": SCRIPTS["tester"]}) as found:
        yield found


@pytest.mark.timeout(300)
async def test_a_team_on_llama_cpp_fixes_a_project(project: Path, servers: dict[str, str]) -> None:
    specs = [
        AgentSpec(MEMBERS[name][0], "llama_cpp", "default", name=name, tools=MEMBERS[name][1], base_url=servers[name])
        for name in NAMES
    ]
    report = "Final report: the sum is right, and its tests pass."
    question: dict[str, object] = {"agent_id": "tester", "question": "Do the tests pass at last?"}
    config = Config.load()
    async with Workspace(config, trust=True) as workspace:
        workspace.attend()
        team = await workspace.start_team(TeamTemplate.from_specs(specs, name="fixers"))
        lead = team.orchestrator
        run = team.prompt("Fix the project.")
        asked: list[tuple[Agent, ev.ApprovalRequest]] = []
        has_delegated = False
        async for event in run:
            agent = team.agent(event.agent_id)
            if isinstance(event, ev.ApprovalRequest):
                asked.append((agent, event))
            if isinstance(event, ev.TurnEnd) and agent is lead and not has_delegated:
                has_delegated = True
                # The model of the server says the same to every message: another one goes on from here.
                lead.model = scripted_model(["-", "-", *calling(("ask_agent", question), then=report), report, report])
            while has_delegated and asked:
                worker, request = asked.pop()
                worker.decide(request.id, allow=True, reason="It is a test.")
        result = await run

        assert result.text == report
        assert (project / "calc.py").read_text() == "def add(a, b):\n    return a + b\n"
        assert (await asyncio.to_thread(run_tests, project)) == 0
        found = await workspace.query_async(
            "select kind, from_agent_name, to_agent_name, status, response from delegations where kind = 'delegate' "
            "order by to_agent_name"
        )
        assert found.values.tolist() == [
            ["delegate", "lead", "coder", "answered", "The minus became a plus."],
            ["delegate", "lead", "tester", "answered", "Tester ran the whole suite."],
        ]
        asks = await workspace.query_async("select to_agent_name, status from delegations where kind = 'ask'")
        assert set(map(tuple, asks.values.tolist())) == {("tester", "answered")}
        costs = await workspace.query_async("select name, messages from team_members order by name")
        assert costs["name"].tolist() == ["coder", "lead", "tester"]
        assert _open_turns(team) == []


def _open_turns(team: Team) -> list[str]:
    return [agent.name for agent in team.agents if agent.status != "idle" or agent.state.open_tasks]

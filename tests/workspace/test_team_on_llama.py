"""A team on real llama.cpp servers mends a small project: tasks, questions, responses and approvals, all stored."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.llama import llama_server

from planck_nb import AgentSpec, Config, Workspace
from planck_nb.agent import events as ev
from planck_nb.agent.agent import Agent
from planck_nb.teams import Team, TeamTemplate

TESTS = """\
import unittest
from calc import add

class Sums(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(add(2, 3), 5)

unittest.main()
"""

RUN = f"{sys.executable} tests.py"


def call(tool: str, **arguments: str) -> dict[str, object]:
    return {"name": tool, "arguments": arguments}


SCRIPTS: dict[str, list[dict[str, Any]]] = {
    "lead": [
        {
            "thinking": "Three of us can work at once.",
            "calls": [
                call("delegate_task", agent_id="coder", task="Correct the sum in calc.py, please."),
                call("delegate_task", agent_id="writer", task="Describe the module in NOTES.md now."),
                call("delegate_task", agent_id="tester", task="Run all tests once before the change."),
            ],
        },
        {"text": "I wait for what the others will say."},
    ],
    "reporter": [
        {"calls": [call("ask_agent", agent_id="tester", question="Do the tests pass at last?")]},
        {"text": "Final report: the sum is right, and its tests pass."},
    ],
    "coder": [
        {"calls": [call("read", path="calc.py")]},
        {"calls": [call("edit", path="calc.py", old_string="a - b", new_string="a + b")]},
        {"calls": [call("send_response", response="The minus became a plus.")]},
        {"text": "Coder has nothing left."},
    ],
    "writer": [
        {"calls": [call("write", path="NOTES.md", content="calc adds two numbers.")]},
        {"text": "NOTES.md describes it."},
    ],
    "tester": [
        {"calls": [call("bash", command=RUN)]},
        {"text": "Tester ran the whole suite."},
    ],
}

MEMBERS = {
    "lead": ("orchestrator", ()),
    "coder": ("coder", ("read", "edit")),
    "writer": ("writer", ("write",)),
    "tester": ("tester", ("bash",)),
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (folder / "tests.py").write_text(TESTS)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path))
    return folder


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[dict[str, str]]:
    with ExitStack() as stack:
        found: dict[str, str] = {}
        for name, script in SCRIPTS.items():
            (folder := tmp_path / name).mkdir()
            found[name] = stack.enter_context(llama_server(folder, script, window=16_384))
        yield found


@pytest.mark.timeout(300)
async def test_a_team_on_llama_cpp_mends_a_project(project: Path, servers: dict[str, str]) -> None:
    specs = [
        AgentSpec(kind, "llama_cpp", "default", name=name, tools=tools, base_url=servers[name])
        for name, (kind, tools) in MEMBERS.items()
    ]
    config = Config.load()
    async with Workspace(config, trust=True) as workspace:
        workspace.attend()
        team = await workspace.start_team(TeamTemplate.from_specs(specs, name="menders"))
        lead = team.orchestrator
        run = team.prompt("Mend the project.")
        asked: list[tuple[Agent, ev.ApprovalRequest]] = []
        has_delegated = False
        async for event in run:
            agent = team.agent(event.agent_id)
            if isinstance(event, ev.ApprovalRequest):
                asked.append((agent, event))
            if isinstance(event, ev.TurnEnd) and agent is lead and not has_delegated:
                has_delegated = True
                # A scripted model says the same to every message: another one goes on where this one has delegated.
                lead.model = workspace.model("llama_cpp:default", base_url=servers["reporter"])
            while has_delegated and asked:
                worker, request = asked.pop()
                worker.decide(request.id, allow=True, reason="It is a test.")
        result = await run

        assert result.text == "Final report: the sum is right, and its tests pass."
        assert (project / "calc.py").read_text() == "def add(a, b):\n    return a + b\n"
        assert (project / "NOTES.md").read_text() == "calc adds two numbers."
        assert (await asyncio.to_thread(run_tests, project)) == 0
        found = await workspace.query_async(
            "select kind, from_agent_name, to_agent_name, status, response from delegations where kind = 'delegate' "
            "order by to_agent_name"
        )
        assert found.values.tolist() == [
            ["delegate", "lead", "coder", "answered", "The minus became a plus."],
            ["delegate", "lead", "tester", "answered", "Tester ran the whole suite."],
            ["delegate", "lead", "writer", "answered", "NOTES.md describes it."],
        ]
        asks = await workspace.query_async("select to_agent_name, status from delegations where kind = 'ask'")
        assert set(map(tuple, asks.values.tolist())) == {("tester", "answered")}
        costs = await workspace.query_async("select name, messages from team_members order by name")
        assert costs["name"].tolist() == ["coder", "lead", "tester", "writer"]
        assert _open_turns(team) == []


def run_tests(project: Path) -> int:
    return subprocess.run([sys.executable, "tests.py"], cwd=project, check=False, capture_output=True).returncode


def _open_turns(team: Team) -> list[str]:
    return [agent.name for agent in team.agents if agent.status != "idle" or agent.state.open_tasks]

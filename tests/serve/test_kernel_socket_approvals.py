"""Prompts over the socket of a kernel: calls that need approval, teams, and values that no client should send."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from support.agents import calling

from planck_nb import BuiltinTools, Config, Workspace
from planck_nb.base.errors import PlanckError
from planck_nb.serve import open_kernel_socket
from planck_nb.serve.kernel_client import KernelClient
from planck_nb.testing import scripted_model


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A folder whose path is short, as those of sockets have to be."""
    with tempfile.TemporaryDirectory(prefix="pk-") as folder:
        yield Path(folder) / "run"


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[Workspace]:
    """A workspace with an agent that writes a file, and a team whose leader asks a worker."""
    team = tmp_path / ".planck" / "teams" / "crew"
    team.mkdir(parents=True)
    members = [
        {"type": "lead", "role": "orchestrator", "provider": "demo", "model_id": "demo", "tools": []},
        {"type": "builder", "provider": "demo", "model_id": "demo"},
    ]
    (team / "TEAM.json").write_text(json.dumps({"members": members}))
    async with Workspace(Config.load(directory=tmp_path, home=tmp_path), trust=True) as made:
        script = calling(("write", {"path": "made.txt", "content": "x"}), then="{result}")
        made.add_agent("writer", model=scripted_model(script), tools=BuiltinTools.all(cwd=tmp_path))
        await made.start_team("crew")
        yield made


async def test_a_call_that_nobody_decides_is_denied_at_the_deadline(
    workspace: Workspace, runtime: Path, tmp_path: Path
) -> None:
    workspace.attend()  # a notebook is open, and its person does not answer
    workspace.approvals.deadline = 0.2
    client = KernelClient(runtime, workspace.config.root, workspace.sessions_dir)
    told: list[str] = []

    async def progress(text: str) -> None:
        told.append(text)

    async with open_kernel_socket(workspace, folder=runtime):
        answer = await client.call("prompt", {"name": "writer", "text": "write"}, progress)
        watched = await client.call("watch", {"since": 0, "seconds": 0, "name": "writer"})
    assert "0.2 s" in answer["text"], answer
    assert "write of writer waits for approval in the notebook" in told
    [decided] = [event for event in watched["events"] if event["type"] == "approval_decision"]
    assert (decided["allowed"], decided["by"]) == (False, "deadline")
    assert not (tmp_path / "made.txt").exists()


async def test_a_team_is_prompted_and_watched(workspace: Workspace, runtime: Path) -> None:
    client = KernelClient(runtime, workspace.config.root, workspace.sessions_dir)
    async with open_kernel_socket(workspace, folder=runtime):
        listed = await client.call("list_agents", {})
        begin = (await client.call("watch", {"since": None, "seconds": 0}))["next"]
        answer = await client.call("prompt", {"name": "crew", "text": "hi"})
        of_team = await client.call("watch", {"since": begin, "seconds": 0, "name": "crew"})
        of_other = await client.call("watch", {"since": begin, "seconds": 0, "name": "writer"})
    [team] = listed["teams"]
    assert team["name"] == "crew"
    assert {team["orchestrator"], *team["members"]} <= {agent["name"] for agent in listed["agents"]}
    assert answer["text"]
    assert [event["type"] for event in of_team["events"]][-1] == "turn_end"
    assert {event["agent"] for event in of_team["events"]} == {team["orchestrator"]}
    assert of_other["events"] == []


async def watched(client: KernelClient, given: dict[str, object]) -> tuple[dict[str, object], str]:
    """What a client gets that watches with these parameters, or the sentence."""
    try:
        return await client.call("watch", given), ""
    except PlanckError as error:
        return {}, str(error)


HOSTILE_VALUES = ["x", [1], {"a": 1}, True, float("nan"), float("inf"), -1, 10**30, "9" * 10_000, "a\nb\u202e"]


@pytest.mark.parametrize("name", ["since", "seconds", "max_events", "name", "deltas"])
async def test_values_that_no_client_should_send_change_nothing(workspace: Workspace, runtime: Path, name: str) -> None:
    client = KernelClient(runtime, workspace.config.root, workspace.sessions_dir)
    async with open_kernel_socket(workspace, folder=runtime):
        for value in HOSTILE_VALUES:
            given = {"since": 0, "seconds": 0, "max_events": 1, name: value}
            answer, problem = await watched(client, given)
            if problem:
                assert problem.startswith(("No agent is named", f"{name} must be a number"))
                assert len(problem) <= 1_000
                assert "\n" not in problem
                assert "\u202e" not in problem
            else:
                assert set(answer) == {"events", "next", "missed"}
        assert (await client.call("list_agents", {}))["agents"]

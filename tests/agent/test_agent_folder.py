"""The folder that an agent works in, and what else it is given when it is created."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.agents import calling, said

from planck_nb import Agent, BuiltinTools
from planck_nb.agent.approval import Policy
from planck_nb.agent.approval.gate import Approvals
from planck_nb.testing import Call, Reply, scripted_model
from planck_nb.tools.external import ExternalTool


@pytest.mark.process
async def test_tools_without_a_folder_work_in_the_agents(tmp_path: Path) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    for folder in (mine, theirs):
        folder.mkdir()
        (folder / "a.txt").write_text(folder.name)
    (tmp_path / "tool/where").mkdir(parents=True)
    described = {"name": "where", "description": "Where.", "command": "cat a.txt", "parameters": {}}
    (tmp_path / "tool/where/TOOL.json").write_text(json.dumps(described))
    where = ExternalTool.from_file(tmp_path / "tool/where/TOOL.json")
    calls = [
        Call("read", {"path": "a.txt"}),
        Call("bash", {"command": "cat a.txt"}),
        Call("where", {}),
        Call("write", {"path": "b.txt", "content": "new"}),
        Call("edit", {"path": "a.txt", "old_string": "mine", "new_string": "ours"}),
    ]
    script: list[Reply | str] = [Reply(calls=calls[:3]), Reply(calls=calls[3:4]), Reply(calls=calls[4:]), "done"]
    agent = Agent(model=scripted_model(script), tools=[*BuiltinTools.all(), where], cwd=mine)
    await agent.prompt("go")
    assert said(agent)[2] == "tool_result: mine|mine|mine"
    assert (mine / "b.txt").read_text() == "new"
    assert (mine / "a.txt").read_text() == "ours"
    own = Agent(
        model=scripted_model(calling(("read", {"path": "a.txt"}))), tools=[BuiltinTools.read(cwd=theirs)], cwd=mine
    )
    own.add_tool(BuiltinTools.bash())
    await own.prompt("go")
    assert said(own)[2] == "tool_result: theirs"
    own.model = scripted_model(["-", "-", *calling(("bash", {"command": "cat a.txt"}))])
    await own.prompt("go")
    assert "tool_result: ours" in said(own)


async def test_what_is_asked_about_is_the_file_that_would_be_touched(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    approvals = Approvals(Policy.ask_before_changes(mine), deadline=0.01)
    agent = Agent(
        model=scripted_model(calling(("read", {"path": "../secret.txt"}))),
        tools=[BuiltinTools.read()],
        cwd=mine,
        approvals=approvals,
    )
    await agent.prompt("go")
    assert said(agent)[2].startswith("tool_result: Error: Nobody approved read")


def test_an_agent_knows_its_team_and_the_models_it_may_give_away() -> None:
    models = [scripted_model(["x"])]
    agent = Agent(model=models[0], team_id="t1", available_models=models)
    assert (agent.team_id, agent.available_models, agent.cwd) == ("t1", tuple(models), None)
    assert Agent(model=models[0]).available_models == ()

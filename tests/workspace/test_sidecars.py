"""Sidecars of a workspace: found in files, started when they are trusted, and offered to agents."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest
from support.agents import calling
from support.sidecar_links import SERVERS

from planck_nb import Config, Workspace
from planck_nb.agent.agent import Agent
from planck_nb.agent.agent_access import compactor_of
from planck_nb.agent.approval import Rule
from planck_nb.agent.context.compactor import stored_compactor
from planck_nb.ai.messages import ToolResultMessage
from planck_nb.base.errors import ConfigError, TrustError, UsageError
from planck_nb.jupyter.controller import Controller
from planck_nb.testing import scripted_model

pytestmark = pytest.mark.process

HOSTILE = ["-I", "-S", str(SERVERS / "hostile_sidecar.py")]
SERVER = {"command": sys.executable, "args": HOSTILE}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / ".planck").mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("STATE", str(tmp_path))
    return folder


def write(file: Path, **servers: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"mcpServers": servers}))


def tools(agent: Agent) -> set[str]:
    return {tool.name for tool in agent.tools}


def rows(workspace: Workspace) -> dict[object, tuple[object, ...]]:
    return {row["sidecar"]: (row["state"], row["remark"]) for row in workspace.sidecars.rows()}


@pytest.mark.parametrize("file", [".planck/mcp.json", ".mcp.json"])
async def test_a_projects_sidecar_is_listed_and_started_only_when_it_is_trusted(project: Path, file: str) -> None:
    write(project / file, near=SERVER)
    async with Workspace(Config.load()) as workspace:
        assert rows(workspace)["near"] == ("idle", "not trusted; look at it, then run `%planck trust`")
        await workspace.sidecars.start_configured()
        assert await workspace.sidecars.start() == []
        with pytest.raises(TrustError, match=r"near runs what a file of this folder names and is not trusted"):
            await workspace.sidecars.start(["near"])
        agent = workspace.add_agent("a", model=scripted_model(["hi"]))  # an untrusted sidecar keeps nobody from working
        await agent.prompt("hello")
        [listed] = workspace.trust_items()
        assert (listed.item.kind, listed.status) == ("sidecar", "new")
        assert f"command: {shlex.join([sys.executable, *HOSTILE])}" in listed.item.text
        workspace.trust()
        [status] = await workspace.sidecars.start(["near"])
        assert status.state == "connected"
        assert "echo" in workspace.sidecars.tools()
    write(project / file, near={**SERVER, "env": {"MORE": "1"}})
    async with Workspace(Config.load()) as workspace:
        assert "not trusted" in str(rows(workspace)["near"][1])
        assert (
            next(file.status for file in workspace.trust_items() if file.item.path.name.endswith("near")) == "changed"
        )
        workspace.trust()
        [status] = await workspace.sidecars.start()
        assert status.state == "connected", "its tools are not asked for a second time"


async def test_agents_of_the_notebook_get_the_tools_of_sidecars_and_lose_them(project: Path, tmp_path: Path) -> None:
    write(tmp_path / ".planck/mcp.json", near=SERVER)  # the user's own
    async with Workspace(Config.load()) as workspace:
        controller = Controller(workspace)
        script = [*calling(("echo", {"text": "over there"})), "again"]
        workspace.set_default_model(scripted_model(script))
        workspace.approvals.remember(Rule.parse("allow", "execute:sidecar:near/*"))
        started = await controller.start("go", {}, {})
        await started.run
        agent = started.agent
        assert {"echo", "progress", "big"} <= tools(agent)
        [result] = [e.message for e in agent.state.messages if isinstance(e.message, ToolResultMessage)]
        assert result.content[0].text == "over there"
        other = workspace.add_agent("own", model=scripted_model(["x"]))
        assert tools(other) == set()
        [echo] = workspace.toolbox.named(["echo"])
        assert echo is workspace.sidecars.tools()["echo"]
        assert {tool.name for tool in workspace.toolbox.named(["near"])} == set(workspace.sidecars.tools())
        await workspace.sidecars.stop(["near"])
        assert tools(agent) == set()
        await workspace.sidecars.start(["near"])
        assert "echo" in tools(agent)


async def test_members_of_a_team_get_only_the_tools_that_they_declare(project: Path, tmp_path: Path) -> None:
    write(tmp_path / ".planck/mcp.json", near=SERVER)
    members = [
        {"type": "orchestrator", "provider": "demo", "model_id": "demo"},
        {"type": "worker", "provider": "demo", "model_id": "demo", "tools": ["echo"]},
    ]
    place = project / ".planck/teams/crew"
    place.mkdir(parents=True)
    (place / "TEAM.json").write_text(json.dumps({"members": members}))
    async with Workspace(Config.load(), trust=True) as workspace:
        await workspace.sidecars.start()
        team = await workspace.start_team("crew")
        assert "echo" in tools(team.agent("worker"))
        assert "big" not in tools(team.agent("worker"))
        assert "echo" not in tools(team.orchestrator)


async def test_changed_tools_are_not_used_until_they_are_trusted(project: Path, tmp_path: Path) -> None:
    write(tmp_path / ".planck/mcp.json", near=SERVER)
    async with Workspace(Config.load()) as workspace:
        await workspace.sidecars.start()
        tool = workspace.sidecars.tools()["rename"]
        await asyncio.gather(tool.run({}), return_exceptions=True)
        async with asyncio.timeout(30):
            while rows(workspace)["near"][0] != "failed":  # noqa: ASYNC110 - the notification comes by itself
                await asyncio.sleep(0.01)
        assert workspace.sidecars.tools() == {}
        assert [(file.item.kind, file.status) for file in workspace.trust_items()] == [("sidecar", "changed")]
        workspace.trust()
        assert [file.status for file in workspace.trust_items()] == ["trusted"]


async def test_a_file_that_the_user_names_is_used_at_once(project: Path, tmp_path: Path) -> None:
    file = tmp_path / "elsewhere" / "claude.json"
    write(file, near=SERVER, broken={"command": "${NOT_SET_ANYWHERE}"})
    async with Workspace(Config.load()) as workspace:
        names, problems = workspace.sidecars.add_file(file)
        assert names == ["near"]
        assert problems[0].startswith("The sidecar broken")
        assert "NOT_SET_ANYWHERE" in problems[0]
        [status] = await workspace.sidecars.start()
        assert status.state == "connected"
        process = status.process
        with pytest.raises(UsageError, match=r"There is no sidecar skd; known are: near"):
            await workspace.sidecars.start(["skd"])
        with pytest.raises(ConfigError, match="There is no file"):
            workspace.sidecars.add_file(Path("nowhere.json"))
        (project / "bad.json").write_text("{")
        with pytest.raises(ConfigError, match="cannot be read"):
            workspace.sidecars.add_file(Path("bad.json"))
    assert process is not None
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


async def test_a_sidecar_that_does_not_start_is_one_sentence_and_the_first_prompt_is_answered(
    project: Path, tmp_path: Path
) -> None:
    write(tmp_path / ".planck/mcp.json", gone={"command": "no-such-program-anywhere"})
    async with Workspace(Config.load()) as workspace:
        workspace.set_default_model(scripted_model(["hello"]))
        started = await Controller(workspace).start("go", {}, {})
        assert (await started.run).text == "hello"
        state, remark = rows(workspace)["gone"]
        assert state == "failed"
        assert "no-such-program-anywhere" in str(remark)


async def test_trusting_the_folder_keeps_the_model_that_was_chosen(project: Path) -> None:
    async with Workspace(Config.load()) as workspace:
        chosen = scripted_model(["hello"])
        workspace.set_default_model(chosen)
        workspace.trust()
        assert await workspace.default_model() == (chosen, "")


async def test_a_key_that_a_file_asks_for_is_not_shown(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-" + "k3y" * 10)
    write(project / ".mcp.json", far={"url": "https://example.com/mcp?key=${OPENAI_API_KEY}"})
    write(project / ".planck/mcp.json", near={"command": "server", "args": ["--key", "${OPENAI_API_KEY}"]})
    async with Workspace(Config.load()) as workspace:
        described = " ".join(file.item.text for file in workspace.trust_items())
        assert "example.com" in described
        assert "k3yk3y" not in described
        assert "OPENAI_API_KEY" in described
        assert "k3yk3y" not in str(workspace.sidecars.rows())


async def test_a_resumed_agent_of_the_notebook_gets_the_tools_again(project: Path, tmp_path: Path) -> None:
    write(tmp_path / ".planck/mcp.json", near=SERVER)
    async with Workspace(Config.load()) as workspace:
        await (await Controller(workspace).start("go", {"model": "demo"}, {})).run
    async with Workspace(Config.load()) as workspace:
        await workspace.resume()
        started = await Controller(workspace).start("again", {}, {})
        await started.run
        assert "echo" in tools(started.agent)
        assert len(started.agent.state.messages) == 4
        await workspace.sidecars.stop()
        assert tools(started.agent) == set()


async def test_tools_come_to_agents_that_were_there_before_and_stay_when_settings_are_read_again(
    project: Path, tmp_path: Path
) -> None:
    async with Workspace(Config.load()) as workspace:
        workspace.set_default_model(scripted_model(["hello", "again"]))
        started = await Controller(workspace).start("go", {}, {})
        await started.run
        assert "echo" not in tools(started.agent)
        write(tmp_path / ".planck/mcp.json", near=SERVER)
        await workspace.sidecars.start()
        kept = workspace.sidecars.tools()["echo"]
        assert "echo" in tools(started.agent)
        workspace.trust()  # reads all settings again
        assert workspace.sidecars.tools()["echo"] is kept
        assert "echo" in tools(started.agent)
        assert (await kept.run({"text": "hi"})).text == "hi"


async def test_a_template_names_the_compactor_of_a_sidecar(project: Path, tmp_path: Path) -> None:
    server = {
        "command": sys.executable,
        "args": HOSTILE,
        "env": {"STATE": str(tmp_path)},
    }
    write(tmp_path / ".planck/mcp.json", odd=server)
    members = [
        {"type": "orchestrator", "provider": "demo", "model_id": "demo", "compactor": "short"},
        {"type": "worker", "provider": "demo", "model_id": "demo", "compactor": "shrt"},
    ]
    place = project / ".planck/teams/crew"
    place.mkdir(parents=True)
    (place / "TEAM.json").write_text(json.dumps({"members": members}))
    async with Workspace(Config.load(), trust=True) as workspace:
        await workspace.sidecars.start()
        team = await workspace.start_team("crew")
        leader, worker = compactor_of(team.orchestrator), compactor_of(team.agent("worker"))
        assert leader is not None
        assert "'short'" in str(stored_compactor(leader))
        assert worker is None or "shrt" not in str(stored_compactor(worker))
        assert any("shrt" in str(problem) for problem in team.report)


OBSERVER = """
import json, os
from pathlib import Path
from planck_nb.sidecars import Sidecar

sidecar = Sidecar("watcher")

@sidecar.observer
async def watch(events, session_id):
    with open(Path(os.environ["SEEN"]), "a") as file:
        file.writelines(event.type + "\\n" for event in events)
"""


def observing() -> int:
    """How many tasks look at the events of agents for sidecars."""
    return sum(task.get_name() == "planck-sidecars-observe" and not task.done() for task in asyncio.all_tasks())


async def test_events_are_looked_at_only_while_a_sidecar_observes(project: Path, tmp_path: Path) -> None:
    (tmp_path / "watcher.py").write_text(OBSERVER)
    env = {"PYTHONPATH": f"{Path(__file__).parents[2]}:{tmp_path}", "SEEN": str(tmp_path / "seen")}
    watcher = {"command": sys.executable, "args": ["-m", "planck_nb.sidecars", "watcher"], "env": env}
    without_observers = {**SERVER, "args": [*HOSTILE, "many"]}
    write(tmp_path / ".planck/mcp.json", near=without_observers, watcher=watcher)
    async with Workspace(Config.load(sidecar_observers="watcher")) as workspace:
        agent = workspace.add_agent("a", model=scripted_model(["one", "two"]))
        await workspace.sidecars.start(["near"])
        assert observing() == 0
        await agent.prompt("hello")
        assert not (tmp_path / "seen").exists()
        await workspace.sidecars.start(["watcher"])
        assert observing() == 1
        await agent.prompt("again")
        await asyncio.sleep(0)
        await workspace.sidecars.manager.flush()
        seen = (tmp_path / "seen").read_text().split()
        assert seen.count("turn_start") == 1, "only the turn after it was started"
        assert "turn_end" in seen
        await workspace.sidecars.stop(["watcher"])
        await asyncio.sleep(0)
        assert observing() == 0
        await workspace.sidecars.start(["watcher"])
        assert observing() == 1
    await asyncio.sleep(0)
    assert observing() == 0


@pytest.mark.parametrize("file", ["user", "project"])
async def test_a_sidecar_that_no_setting_names_observes_nothing(project: Path, tmp_path: Path, file: str) -> None:
    (tmp_path / "watcher.py").write_text(OBSERVER)
    env = {"PYTHONPATH": f"{Path(__file__).parents[2]}:{tmp_path}", "SEEN": str(tmp_path / "seen")}
    watcher = {"command": sys.executable, "args": ["-m", "planck_nb.sidecars", "watcher"], "env": env}
    own = {"observers": True, "observing": True, "sampling": True}  # no file can say it
    write((tmp_path if file == "user" else project) / ".planck/mcp.json", watcher={**watcher, **own})
    async with Workspace(Config.load(sidecar_observers="other"), trust=True) as workspace:
        agent = workspace.add_agent("a", model=scripted_model(["one"]))
        await workspace.sidecars.start()
        assert rows(workspace)["watcher"][0] == "connected"
        assert observing() == 0
        await agent.prompt("secret words")
        await workspace.sidecars.manager.flush()
        assert not (tmp_path / "seen").exists()
        [note] = workspace.sidecars.manager.notes()
        assert "sidecar_observers does not name watcher" in note


async def test_what_is_renamed_or_left_out_is_in_every_list(project: Path, tmp_path: Path) -> None:
    tools_listed = [
        {"name": "天气", "description": "Forecasts.", "inputSchema": {"type": "object"}},
        {"name": "🌦", "inputSchema": {"type": "object"}},
        {"name": "get_天气", "inputSchema": {"type": "object"}},
        {"name": "get_温度", "inputSchema": {"type": "object"}},
        {"name": "odd", "inputSchema": {"type": "string"}},
        {"name": "plain", "inputSchema": {"type": "object"}},
    ]
    prompts = [{"description": "x"}, {"name": "ask"}]
    started = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "prompts": {}}}
    answers = {"initialize first": started, "tools/list first": {"tools": tools_listed}}
    answers |= {"prompts/list first": {"prompts": prompts}, "other": {}}
    written = {
        key: base64.b64encode(json.dumps({"jsonrpc": "2.0", "id": "@id@", "result": result}).encode()).decode()
        for key, result in answers.items()
    }
    (tmp_path / "answers.json").write_text(json.dumps(written))
    server = {
        "command": sys.executable,
        "args": ["-I", "-S", str(SERVERS / "raw_server.py"), str(tmp_path / "answers.json")],
    }
    write(tmp_path / ".planck/mcp.json", near=server)
    async with Workspace(Config.load()) as workspace:
        sidecars = workspace.sidecars
        await sidecars.start()
        names = {own: name for name, own in sidecars.tool_names("near").items()}
        assert set(names) == {"天气", "🌦", "get_天气", "get_温度", "plain"}
        assert len(set(names.values())) == 5
        assert all(re.fullmatch("(tool|get)_[0-9a-f]{6}|plain", name) for name in names.values())
        assert sidecars.tools()[names["天气"]].description == "[sidecar near, as 天气] Forecasts."
        [connected] = sidecars.progress.take()
        assert f"{names['天气']} for 天气, {names['🌦']} for 🌦" in connected
        assert connected.endswith("Left out: odd (its arguments are not a JSON object).")
        described = await sidecars.described("near")  # by then its prompts are listed
        [row] = sidecars.rows()
        assert (row["tools"], row["remark"]) == (5, "2 left out; see `%planck sidecar list near`")
        listed = {row["name"]: row["remark"] for row in described}
        assert listed == {
            **{name: f"{own} on the server" for own, name in names.items() if own != name},
            "plain": "",
            "ask": "",
            "odd": "left out, because its arguments are not a JSON object",
            "number 1": "left out, because its name is missing",
        }
        notes = "\n".join(sidecars.manager.notes())
        assert f"The tool 天气 of the sidecar near is called {names['天气']} here." in notes
        assert "The tool odd of the sidecar near is left out, because its arguments are not a JSON object." in notes
        assert "The prompt number 1 is left out, because its name is missing." in sidecars.logs("near", 50)

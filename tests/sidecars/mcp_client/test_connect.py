"""`connect`: an MCP server in a Python program, by its command, its address or a spec."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.http_servers import app_server
from support.sidecar_links import SERVERS, hostile

from planck_nb import Agent, Approvals, Policy, Rule
from planck_nb.ai.messages import Message, TextPart, ToolResultPart
from planck_nb.base.errors import ConfigError, PlanckError, SidecarError, ToolError, UsageError
from planck_nb.sidecars import ConnectedSidecar, SidecarSpec, connect
from planck_nb.testing import Call, Reply, scripted_model

pytestmark = pytest.mark.process

HOSTILE = [sys.executable, "-I", "-S", str(SERVERS / "hostile_sidecar.py")]
SPEC = SidecarSpec("mine", command=HOSTILE[0], args=tuple(HOSTILE[1:]))


def script(*calls: Call) -> Any:
    return scripted_model([*(Reply(calls=[call]) for call in calls), Reply("done")])


def results(messages: tuple[Message, ...]) -> list[ToolResultPart]:
    return [part for message in messages if message.type == "tool_result" for part in message.content]


@pytest.mark.parametrize("server", [shlex.join(HOSTILE), HOSTILE, SPEC])
async def test_an_agent_calls_a_server_that_ends_with_the_block(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where the server keeps its notes
    async with connect(server) as calc:
        assert isinstance(calc, ConnectedSidecar)
        assert calc.name == ("mine" if server is SPEC else Path(sys.executable).stem)
        async with Agent(model=script(Call("echo", {"text": "hi"})), tools=calc.tools()) as agent:
            [result] = results((await agent.prompt("go")).messages)
        assert (result.text, result.is_error) == ("hi", False)
        assert (await calc.call("echo", {"text": "directly"})).text == "directly"
        assert [item.uri for item in await calc.list_resources()] == ["file:///notes.md"]
        assert (await calc.read_resource("file:///notes.md"))[0] == TextPart("my notes")
        assert [prompt.name for prompt in await calc.list_prompts()] == ["review"]
        assert await calc.get_prompt("review", {"topic": "it"}) == [TextPart("Review it.")]
        process = int((tmp_path / "ran").read_text())
        assert psutil.pid_exists(process)
    assert not psutil.pid_exists(process)


async def test_a_server_at_an_address_is_reached() -> None:
    from mcp.server import MCPServer

    server = MCPServer("calc")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    async with app_server(server.streamable_http_app()) as address, connect(f"{address}/mcp") as calc:
        assert calc.name == "127.0.0.1"
        async with Agent(model=script(Call("add", {"a": 2, "b": 40})), tools=calc.tools()) as agent:
            [result] = results((await agent.prompt("go")).messages)
        assert result.text == "42"


async def test_the_limits_and_approvals_of_a_notebooks_sidecars_hold(tmp_path: Path) -> None:
    rules = [Rule.parse("allow", "execute:sidecar:hostile/*"), Rule.parse("deny", "execute:sidecar:hostile/meta")]
    policy = Policy.ask_before_changes(tmp_path).with_rule(rules[0]).with_rule(rules[1])
    async with connect(hostile(tmp_path)) as server:
        model = script(Call("echo", {"text": "hi"}), Call("meta", {}))
        async with Agent(model=model, tools=server.tools(), approvals=Approvals(policy)) as agent:
            allowed, denied = results((await agent.prompt("go")).messages)
        assert (allowed.text, denied.is_error) == ("hi", True)
        with pytest.raises(SidecarError, match=r"did not answer within 0\.1 s"):
            await server.call("never", timeout_ms=100)
        with pytest.raises(ToolError, match="the file is missing"):
            await server.call("fails")


async def test_a_tool_that_changes_is_not_called(tmp_path: Path) -> None:
    async with connect(hostile(tmp_path)) as server:
        await server.call("rename")

        async def call() -> None:
            while True:  # until its new list has arrived
                await server.call("echo", {"text": "hi"})

        with pytest.raises(SidecarError, match=r"has changed|no longer offers"):
            await call()


@pytest.mark.parametrize(
    ("server", "options", "error", "sentence"),
    [
        ("no-such-program-anywhere --x", {}, SidecarError, "there is no program no-such-program-anywhere"),
        ("", {}, ConfigError, "neither a command nor an address"),
        ([], {}, ConfigError, "neither a command nor an address"),
        ("python 'x", {}, UsageError, "give its words as a list"),
        ("http://127.0.0.1:9/mcp", {}, SidecarError, "cannot be reached"),
        (SPEC, {"env": {"A": "1"}}, UsageError, "A spec has its own"),
        ([*HOSTILE, "exit"], {}, SidecarError, "the licence has expired"),
    ],
)
async def test_what_cannot_be_connected_is_one_sentence(
    server: Any, options: dict[str, Any], error: type[PlanckError], sentence: str
) -> None:
    with pytest.raises(error) as caught:
        async with connect(server, **options):
            raise AssertionError
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_what_is_renamed_or_left_out_is_said(tmp_path: Path) -> None:
    async with connect(hostile(tmp_path, "names")) as server:
        assert "The tool bash of the sidecar hostile is called hostile__bash here." in server.notes()

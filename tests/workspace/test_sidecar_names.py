"""A tool's name stays its sidecar's for a session, and what was allowed to one sidecar is not allowed to another."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.agents import calling
from support.sidecar_links import SERVERS, impatient, until

from planck_nb import Agent, Config, Workspace
from planck_nb.agent.approval import Rule
from planck_nb.ai.messages import ToolResultMessage
from planck_nb.testing import scripted_model

pytestmark = pytest.mark.process

ECHO: tuple[str, dict[str, object]] = ("echo", {"text": "over there"})


HOSTILE = ["-I", "-S", str(SERVERS / "hostile_sidecar.py")]


def server(**env: str) -> dict[str, object]:
    """A server; another variable makes it another one."""
    return {"command": sys.executable, "args": HOSTILE, "env": env}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("STATE", str(tmp_path))
    return tmp_path


def configure(home: Path, **servers: Mapping[str, object]) -> None:
    (home / ".planck").mkdir(exist_ok=True)
    (home / ".planck/mcp.json").write_text(json.dumps({"mcpServers": servers}))


async def place(session: str = "") -> Workspace:
    workspace = Workspace(Config.load(environment={}))
    workspace.approvals.deadline = 0.2
    if session:
        await workspace.resume(session)
    await workspace.sidecars.start()
    return workspace


def results(agent: Agent) -> list[str]:
    return [
        "".join(part.text for part in entry.message.content)
        for entry in agent.state.messages
        if isinstance(entry.message, ToolResultMessage)
    ]


async def call(workspace: Workspace, tool: str = "echo") -> str:
    """The result of a call that a model makes."""
    workspace.attend()
    agent = workspace.add_agent("caller", model=scripted_model(calling((tool, {"text": "over there"}))))
    workspace.sidecars.follow(agent)
    await agent.prompt("go")
    await workspace.remove_agent("caller")
    return results(agent)[0]


async def first_session(*rules: str) -> str:
    """A session in which a tool was shown to a model and the rules were remembered."""
    workspace = await place()
    for rule in rules:
        workspace.approvals.remember(Rule.parse("allow", rule))
    assert "over there" in await call(workspace)
    await workspace.save_session_settings()
    session_id = workspace.session.id
    await workspace.close()
    return session_id


ALLOWED = ["echo", "execute:sidecar:near/*", "execute:sidecar:near/echo", "execute@echo"]


@pytest.mark.parametrize("change", ["none", "another of this name", "another in its place"])
async def test_what_was_allowed_to_a_sidecar_is_not_allowed_to_another(home: Path, change: str) -> None:
    configure(home, near=server())
    session_id = await first_session(*ALLOWED)
    configure(
        home,
        **{
            "none": {"near": server()},
            "another of this name": {"near": server(OTHER="1")},
            "another in its place": {"far": server(OTHER="1")},
        }[change],
    )
    workspace = await place(session_id)
    owner = "near" if change == "another of this name" else "far"
    if change == "none":
        assert await call(workspace) == "over there"
    else:
        assert "echo" not in workspace.sidecars.tools()
        assert "Nobody approved" in await call(workspace, f"{owner}__echo")
    await workspace.close()


async def test_another_session_gives_the_name_anew(home: Path) -> None:
    configure(home, near=server())
    await first_session("echo")
    configure(home, far=server(OTHER="1"))
    workspace = await place()
    assert "echo" in workspace.sidecars.tools()
    await workspace.close()


async def test_names_that_somebody_else_wrote_into_a_session_are_not_kept(home: Path) -> None:
    configure(home, near=server())
    session_id = await first_session("echo")
    [journal] = (home / "project/.planck/sessions").glob(f"{session_id}*.journal.jsonl")
    text = journal.read_text().replace('"near ', '"evil ')
    for database in journal.parent.glob("*.duckdb*"):
        database.unlink()
    journal.write_text(text)
    workspace = await place(session_id)
    assert "echo" in workspace.sidecars.tools()
    await workspace.close()


async def test_a_model_that_calls_a_tool_of_a_stopped_sidecar_is_told_so(home: Path) -> None:
    configure(home, near=server())
    workspace = await place()
    agent = workspace.add_agent("caller", model=scripted_model(calling(ECHO)))
    workspace.sidecars.follow(agent)
    await workspace.sidecars.stop()
    await agent.prompt("go")
    assert results(agent) == ["Error: echo belongs to the sidecar near, which is not running; go on without it."]
    await workspace.close()


async def test_an_approval_that_waits_is_withdrawn_when_its_sidecar_stops(home: Path) -> None:
    configure(home, near=server())
    workspace = await place()
    workspace.approvals.deadline = 60
    workspace.attend()
    agent = workspace.add_agent("caller", model=scripted_model(calling(ECHO)))
    workspace.sidecars.follow(agent)
    run = agent.prompt("go")
    await until(lambda: agent.state.pending_approvals)
    await workspace.sidecars.stop()
    await run
    assert results(agent) == ["Error: echo was removed or replaced while the call waited for approval; it did not run."]
    await workspace.close()


async def test_a_tool_that_an_agent_was_given_never_calls_another_sidecar_of_the_name(home: Path) -> None:
    configure(home, near=server())
    workspace = await place()
    workspace.approvals.remember(Rule.parse("allow", "execute:sidecar:near/*"))
    agent = workspace.add_agent("caller", model=scripted_model(calling(ECHO)), tools=workspace.toolbox.named(["near"]))
    configure(home, near=server(OTHER="1"))
    await workspace.sidecars.start()
    await agent.prompt("go")
    assert results(agent) == ["Error: The sidecar near was replaced by another one, so echo was not called."]
    await workspace.close()


@pytest.mark.parametrize("shown", [True, False])
async def test_a_name_that_was_shown_stays_although_an_earlier_sidecar_starts_later(home: Path, *, shown: bool) -> None:
    slow = ["-c", 'until [ -e ../go ]; do sleep 0.02; done; exec "$@"', "sh", sys.executable, *HOSTILE]
    configure(home, near={"command": "sh", "args": slow}, far=server())
    workspace = Workspace(Config.load(environment={}))
    sidecars = workspace.sidecars
    starting = asyncio.create_task(sidecars.start())
    await until(lambda: "echo" in sidecars.tools())
    if shown:
        await sidecars.start_configured(show=impatient)  # as before a prompt
    (home / "go").touch()
    await starting
    assert sidecars.manager.owner("echo") == ("far" if shown else "near", "echo")
    await workspace.close()

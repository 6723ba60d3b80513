from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from support.loopback import Exchange, serving
from support.wire import CHAT

from planck_nb import Agent, Config, Limits, Workspace
from planck_nb.base.errors import AgentError, ConfigError, ProviderUnavailableError
from planck_nb.testing import scripted_model
from planck_nb.workspace import default_model
from planck_nb.workspace.agent_registry import AgentRegistry
from planck_nb.workspace.default_model import DEMO_NOTICE, choose_model


def config(folder: Path, **settings: Any) -> Config:
    return Config.load(environment={}, directory=folder, **settings)


async def test_agents_of_a_workspace_share_a_stored_session(tmp_path: Path) -> None:
    async with Workspace(config(tmp_path)) as workspace:
        assert not (tmp_path / ".planck").exists()
        ann = workspace.add_agent("ann", model=scripted_model(["hello"]))
        bob = workspace.add_agent("bob", model=scripted_model(["hi"]))
        await ann.prompt("one")
        await bob.prompt("two")
        rows = workspace.query("SELECT agents.name, text FROM messages JOIN agents USING (agent_id) ORDER BY id")
        assert rows.to_numpy().tolist() == [["ann", "one"], ["ann", "hello"], ["bob", "two"], ["bob", "hi"]]
        mine = await workspace.query_async(
            "SELECT count(*) AS n FROM sessions WHERE session_id = getvariable('session')"
        )
        assert mine["n"][0] == 1
    assert len(Workspace(config(tmp_path)).sessions()) == 1


async def test_a_query_sees_the_end_of_a_turn_that_has_just_ended(tmp_path: Path) -> None:
    async with Workspace(config(tmp_path)) as workspace:
        workspace.session._writer._gather_seconds = 600.0
        await workspace.add_agent("ann", model=scripted_model(["hello"])).prompt("one")
        assert list((await workspace.query_async("SELECT outcome FROM turns"))["outcome"]) == ["turn_end"]


async def test_events_of_the_session_and_of_one_agent(tmp_path: Path) -> None:
    async with Workspace(config(tmp_path)) as workspace:
        ann = workspace.add_agent("ann", model=scripted_model(["hello"]))
        bob = workspace.add_agent("bob", model=scripted_model(["hi"]))
        everyone = workspace.subscribe(session_id=workspace.session.id, since=0)
        only_bob = workspace.subscribe(agent_id=bob.id)
        await ann.prompt("x")
        await bob.prompt("x")
    seen = [event async for event in everyone]
    assert {event.agent_id for event in seen} == {ann.id, bob.id}
    assert {event.session_id for event in seen} == {seen[0].session_id}
    assert {event.agent_id async for event in only_bob} == {bob.id}


async def test_names_are_taken_once_and_unknown_ones_suggest(tmp_path: Path) -> None:
    async with Workspace(config(tmp_path)) as workspace:
        workspace.add_agent("analyst", model=scripted_model([]))
        with pytest.raises(AgentError, match="exists already"):
            workspace.add_agent("analyst", model=scripted_model([]))
        with pytest.raises(AgentError, match="Did you mean analyst"):
            workspace.agent("analist")
        with pytest.raises(AgentError, match="has the id nobody"):
            workspace.subscribe(agent_id="nobody")


async def test_new_limits_reach_the_agents_that_are_created_afterwards(tmp_path: Path) -> None:
    async with Workspace(config(tmp_path)) as workspace:
        before = workspace.add_agent("ann", model=scripted_model([]))
        earlier = before.limits
        workspace.limits = Limits(rounds=3)
        after = workspace.add_agent("bob", model=scripted_model([]))
        created = workspace.agent_factory.create("eve", model=scripted_model([]))
        assert (before.limits, after.limits.rounds, created.limits.rounds) == (earlier, 3, 3)
        workspace.set_limits(Limits(rounds=5))
        assert [agent.limits.rounds for agent in (before, after, created)] == [5, 5, 5]


def test_settings_come_from_arguments_then_environment_then_defaults(tmp_path: Path) -> None:
    assert Config.load(environment={}, directory=tmp_path).sessions_dir == tmp_path / ".planck/sessions"
    environment = {"PLANCK_NB_SESSIONS_DIR": "kept", "PLANCK_NB_MODEL": "demo", "PLANCK_NB_DEMO_PACE": "0.5"}
    found = Config.load(environment=environment, directory=tmp_path, default_model="demo:script")
    assert (found.sessions_dir, found.default_model, found.demo_pace) == (tmp_path / "kept", "demo:script", 0.5)
    with pytest.raises(ConfigError, match="PLANCK_NB_DEMO_PACE is 'slow'"):
        Config.load(environment={"PLANCK_NB_DEMO_PACE": "slow"}, directory=tmp_path)


@pytest.fixture
def llama_like() -> Iterator[str]:
    """A server that lists one model, as llama.cpp does."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"data": [{"id": "qwen", "meta": {"n_ctx_train": 4096}}]}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


async def test_the_default_model_is_looked_for_in_order(tmp_path: Path, llama_like: str) -> None:
    settings = config(tmp_path)
    keys = {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "b"}
    assert str((await choose_model(config(tmp_path, default_model="demo:demo"), keys))[0]) == "demo:demo"
    assert (await choose_model(settings, keys))[0].provider == "anthropic"
    assert (await choose_model(settings, {"OPENAI_API_KEY": "b"}))[0].provider == "openai"
    assert (await choose_model(settings, {}, local=()))[1] == DEMO_NOTICE

    from planck_nb.ai import discover

    assert [model.id for model in await discover("llama_cpp", llama_like)] == ["qwen"]
    assert await discover("llama_cpp", "http://127.0.0.1:9") == []


async def test_the_models_that_are_chosen_by_default_exist() -> None:
    from planck_nb.ai import list_models

    for _, provider, model_id in default_model.WITH_KEY:
        assert model_id in {model.id for model in list_models(provider)}


# The settings of retries reach the requests of a workspace, also when they change.


@pytest.mark.parametrize(("seconds", "requests"), [("0", 1), ("0.3", 2)])
async def test_settings_decide_how_long_requests_are_sent_again(seconds: str, requests: int, tmp_path: Path) -> None:
    async def overloaded(exchange: Exchange) -> None:
        await exchange.answer("529 Overloaded", "{}")

    environment = {"PLANCK_NB_FIRST_RETRY_SECONDS": seconds, "OPENAI_API_KEY": "k"}
    config = Config.load(environment=environment, directory=tmp_path, home=tmp_path)
    async with serving(overloaded) as server, Workspace(config) as workspace:
        agent = workspace.add_agent("ann", model=replace(CHAT, base_url=server.url))
        with pytest.raises(ProviderUnavailableError):
            await agent.prompt("hi")
    assert len(server.exchanges) == requests


# Agents are found by id, and by name within their team.


def make(name: str, team_id: str | None = None) -> Agent:
    return Agent(model=scripted_model([]), name=name, team_id=team_id)


def test_names_are_unique_within_a_team_only() -> None:
    registry = AgentRegistry()
    alone, north, south = make("ann"), make("ann", "north"), make("ann", "south")
    for agent in (alone, north, south):
        registry.require_free("ann", agent.team_id)
        registry.add(agent)
    assert [registry.by_name("ann", team) for team in (None, "north", "south")] == [alone, north, south]
    assert [registry.by_id(agent.id) for agent in (alone, north, south)] == [alone, north, south]
    assert list(registry) == [alone, north, south]
    with pytest.raises(AgentError, match="named ann exists already"):
        registry.require_free("ann", "north")


def test_a_removed_agent_frees_its_name_and_no_other() -> None:
    registry = AgentRegistry()
    first, second = make("ann"), make("ann", "north")
    registry.add(first)
    registry.add(second)
    registry.remove(first)
    registry.require_free("ann")
    assert registry.by_name("ann", "north") is second
    assert first.id not in registry
    with pytest.raises(AgentError, match="No agent is named ann"):
        registry.by_name("ann")
    successor = make("ann")
    registry.add(successor)
    registry.remove(first)  # again: the name belongs to another now
    assert registry.by_name("ann") is successor


def test_an_unknown_name_suggests_one_of_the_same_team() -> None:
    registry = AgentRegistry()
    registry.add(make("analyst"))
    with pytest.raises(AgentError, match="Did you mean analyst"):
        registry.by_name("analist")
    with pytest.raises(AgentError, match=r"^No agent is named analist\.$"):
        registry.by_name("analist", "north")


# A workspace whose sessions directory cannot be written.

RUN = """
import asyncio, os, sys
from pathlib import Path
from planck_nb.config import Config
from planck_nb.workspace import Workspace
async def main():
    async with Workspace(Config.load(directory=Path(sys.argv[1]))) as workspace:
        for name in ("one", "two"):
            agent = workspace.add_agent(name, model=workspace.model("demo"))
            print(len((await agent.prompt("hello")).text) > 0)
        print(*workspace.notices(), sep="|")
        print(workspace.notices())
        print(len(await workspace.query_async("from messages")), workspace.sessions()[0].name == workspace.session.name)
        print(workspace.sessions_dir)
asyncio.run(main())
"""


@pytest.mark.slow
def test_prompts_and_queries_work_if_no_session_can_be_stored_in_the_folder(tmp_path: Path) -> None:
    blocked = tmp_path / "file"  # also root cannot create a directory in it
    blocked.touch()
    environment = {**os.environ, "PLANCK_NB_DEMO_PACE": "0", "PLANCK_NB_SESSIONS_DIR": str(blocked / "sessions")}
    command = [sys.executable, "-c", RUN, str(tmp_path)]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    *answers, notice, again, found, directory = done.stdout.splitlines()
    assert answers == ["True", "True"]
    assert notice == (
        f"No session can be stored in {blocked / 'sessions'} (Not a directory), so this one is lost when the kernel "
        "ends; set PLANCK_NB_SESSIONS_DIR to another folder."
    )
    assert again == "[]", "it is said once"
    assert found == "4 True"
    assert not Path(directory).exists(), "the temporary directory is removed"

"""What takes seconds with a long session is done in threads, so that agents, views and a stop go on meanwhile."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planck_nb import Agent, AgentSpec, Config, Session, Tool, Workspace
from planck_nb.base.errors import AgentError
from planck_nb.base.event_loops import has_running_loop
from planck_nb.sessions.database.materialize import Materializer
from planck_nb.sessions.database.paging import Pager
from planck_nb.teams import TeamTemplate
from planck_nb.testing import scripted_model
from planck_nb.workspace.teams import stored_teams

SLOW = [
    (Session, "fork"), (Session, "branches"), (Session, "close"), (Session, "get_metadata"),
    (Session, "get_signed_metadata"), (Session, "read_ahead"), (Pager, "conversation"), (Materializer, "materialize"),
]  # fmt: skip
"""Methods whose time grows with the session."""


@pytest.fixture
def on_loop(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the slow methods that were called on an event loop."""
    names: list[str] = []

    def noting(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if has_running_loop():
                names.append(name)
            return method(*arguments, **options)

        return call

    for owner, name in SLOW:
        monkeypatch.setattr(owner, name, noting(f"{owner.__name__}.{name}", getattr(owner, name)))
    return names


def workspace_in(folder: Path) -> Workspace:
    return Workspace(Config.load(environment={}, directory=folder))


def count(agent: Agent) -> int:
    return len(agent.state.messages)


@pytest.mark.slow
async def test_moving_between_sessions_and_in_one_reads_none_on_the_loop(tmp_path: Path, on_loop: list[str]) -> None:
    async with workspace_in(tmp_path) as workspace:
        ann = workspace.add_agent("ann", model=scripted_model(["one", "two", "three", "four"]))
        await ann.prompt("1")
        await ann.prompt("2")
        first = workspace.session.name
        second = ann.state.messages[2].id
        on_loop.clear()
        await workspace.rewind(second)
        assert count(ann) == 2
        [branch] = await asyncio.to_thread(workspace.session.branches)
        await workspace.return_to(branch.id)
        assert count(ann) == 4
        await ann.rewind_to_message(second)
        assert count(ann) == 2
        await workspace.fork("copy")
        await workspace.resume(first)
    assert on_loop == []


def crew(name: str) -> TeamTemplate:
    specs = [AgentSpec(type_, "demo", "demo", name=type_) for type_ in ("orchestrator", "worker")]
    return TeamTemplate.from_specs(specs, name=name)


async def test_a_team_is_started_and_found_again_without_reading_on_the_loop(
    tmp_path: Path, on_loop: list[str]
) -> None:
    async with workspace_in(tmp_path) as workspace:
        await workspace.start_team(crew("crew"))
    async with workspace_in(tmp_path) as workspace:
        await workspace.resume()
        assert list(workspace.teams) == ["crew"]
    assert on_loop == []


async def test_teams_that_are_started_at_once_are_all_found_again(tmp_path: Path) -> None:
    names = [f"crew{number}" for number in range(5)]
    async with workspace_in(tmp_path) as workspace:
        await asyncio.gather(*(workspace.start_team(crew(name)) for name in names))
    async with workspace_in(tmp_path) as workspace:
        await workspace.resume()
        assert sorted(workspace.teams) == names


@pytest.mark.slow
async def test_a_stop_while_the_session_is_closed_leaves_no_session_half_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing, released, close = asyncio.Event(), threading.Event(), Session.close
    loop = asyncio.get_running_loop()

    def slowly(session: Session) -> None:
        loop.call_soon_threadsafe(closing.set)
        assert released.wait(20)
        close(session)

    async with workspace_in(tmp_path) as workspace:
        for text in ("one", "two"):
            await workspace.add_agent(text, model=scripted_model([text])).prompt("go")
        first = workspace.session.name
        await workspace.fork("copy")
        monkeypatch.setattr(Session, "close", slowly)
        resuming = asyncio.create_task(workspace.resume(first))
        await closing.wait()
        with pytest.raises(AgentError, match="changing to another session"):
            workspace.add_agent("three", model=scripted_model([]))
        resuming.cancel()
        released.set()
        with pytest.raises(asyncio.CancelledError):
            await resuming
        assert workspace.session_id is None
        await workspace.resume(first)
        assert list(workspace.agents) == ["one", "two"]


async def test_a_stopped_team_leaves_as_little_as_the_first_one_did(tmp_path: Path) -> None:
    async with workspace_in(tmp_path) as workspace:
        left: list[tuple[int, int]] = []
        for _ in range(4):
            team = await workspace.start_team(crew("pair"))
            await workspace.stop_team("pair")
            del team
            gc.collect()
            kept = sum(isinstance(each, Tool) for each in gc.get_objects())
            lines = workspace.session.path.read_bytes().split(b"\n")
            described = [len(line) for line in lines if b'"metadata"' in line and b'"team.' in line]
            left.append((kept, described[-1]))
        assert {kept for kept, _ in left[1:]} == {left[1][0]}
        assert max(size for _, size in left) - min(size for _, size in left) < 10
        stored = await stored_teams(workspace.session)
        assert len(stored) == 4


async def test_agents_are_restored_while_other_tasks_run(tmp_path: Path) -> None:
    names = [f"a{number}" for number in range(200)]
    async with workspace_in(tmp_path) as workspace:
        for name in names:
            workspace.add_agent(name, model=scripted_model([]))
        first = workspace.session.name
    async with workspace_in(tmp_path) as workspace:
        resuming = asyncio.create_task(workspace.resume(first, model=scripted_model([])))
        counts = set[int]()
        refused: AgentError | None = None
        while not resuming.done():
            counts.add(len(workspace.agents))
            if "a0" in workspace.agents and names[-1] not in workspace.agents:
                with pytest.raises(AgentError) as caught:
                    workspace.add_agent(names[-1], model=scripted_model([]))
                refused = caught.value
            await asyncio.sleep(0)
        await resuming
        assert refused is not None
        assert len(counts - {0, 200}) > 1
        assert list(workspace.agents) == names

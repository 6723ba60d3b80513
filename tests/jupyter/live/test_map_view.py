"""A map's view in the cell: its facts, its buttons, and the summary that the notebook saves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from io import StringIO
from pathlib import Path

import pytest

from planck_nb import Config, Tool, Workspace
from planck_nb.agent.effect import Effect
from planck_nb.base.errors import UsageError
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.live.map_view import MapView, saved_summary
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.kinds import waiting_calls
from planck_nb.jupyter.terminal.map_line import MapLine
from planck_nb.testing import scripted_model

YES = scripted_model(["Yes."])


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[Workspace]:
    async with Workspace(Config.load(environment={}, directory=tmp_path, home=tmp_path)) as opened:
        yield opened


async def until(view: MapView, holds: Callable[[], bool]) -> None:
    """Wait for an update after which this holds."""
    while not holds():
        changed = asyncio.Event()
        view.observe(lambda _, seen=changed: seen.set(), "facts")
        if not holds():
            await changed.wait()


async def endless(started: asyncio.Event) -> AsyncIterator[str]:
    yield "a"
    yield "b"
    started.set()
    await asyncio.Event().wait()


@pytest.mark.timeout(60)
async def test_stop_ends_the_map_and_keeps_all(workspace: Workspace) -> None:
    run = workspace.map(endless(asyncio.Event()), model=YES)
    view = MapView(run, attend=workspace.attend, interval=0.01)
    await until(view, lambda: view.facts["headline"] == "2 items")
    assert view.facts["actions"] == ["stop"]
    view._handle({"type": "stop"})
    await run
    await until(view, lambda: view.facts["actions"] == [])
    assert view.facts["state"] == "stopped"
    assert saved_summary(run)[1] == "2 items · stopped · demo:script · $0"


@pytest.mark.timeout(60)
async def test_the_rest_is_asked_by_a_click(workspace: Workspace) -> None:
    run = workspace.map(["a", "b", "c"], model=YES, first=1)
    view = MapView(run, attend=workspace.attend, interval=0.01)
    await run
    await until(view, lambda: view.facts["actions"] == ["go on"])
    assert view.facts["sentence"].startswith("The other 2 items will cost nothing")
    view._handle({"type": "go on"})
    view._handle({"type": "go on"})
    await until(view, lambda: view.facts["headline"] == "3 of 3 items")


@pytest.mark.timeout(60)
async def test_answers_with_other_settings_are_asked_again_by_a_click(workspace: Workspace) -> None:
    ann = workspace.add_agent("ann", model=YES)
    await workspace.map(["a", "b"], agent=ann)
    bob = workspace.add_agent("bob", model=YES, system_prompt="Be brief.")
    run = workspace.map(["a", "b", "c"], agent=bob)
    view = MapView(run, attend=workspace.attend, interval=0.01)
    with pytest.raises(UsageError, match="changed since 2 of these items were answered"):
        await run
    await until(view, lambda: view.facts["go_on"] == "Ask them again")
    assert run.asked == 0
    view._handle({"type": "go on"})
    await run
    assert (run.asked, run.progress.state) == (3, "done")


@pytest.mark.timeout(60)
async def test_a_call_is_decided_in_the_view(workspace: Workspace) -> None:
    def pay(args: dict[str, object]) -> str:
        return f"paid {args}"

    model = scripted_model([{"calls": [{"name": "pay", "arguments": {"amount": 7}}]}, "Done."])
    tool = Tool(name="pay", description="Pay.", execute_fn=pay, touches=lambda _: [Effect("network", "bank.example")])
    run = workspace.map(["a"], agent=workspace.add_agent("ann", model=model, tools=[tool]))
    view = MapView(run, attend=workspace.attend, interval=0.01)
    view._handle({"type": "shown"})
    await until(view, lambda: bool(view.facts["calls"]))
    [call] = view.facts["calls"]
    assert call["text"].startswith("pay of item 1 waits for approval")
    assert "amount: 7" in call["text"]
    assert run.progress.waiting == 1
    assert waiting_calls(Notebook(Controller(workspace))) == run.waiting_calls()
    view._handle({"type": "decide", "agent": call["agent"], "call": "another", "decision": "allow"})
    assert len(run.waiting_calls()) == 1
    view._handle({"type": "decide", "agent": call["agent"], "call": call["id"], "decision": "allow"})
    await run
    assert (run.waiting_calls(), run.progress.waiting) == ([], 0)
    rows = await workspace.query_async("select result from tool_calls")
    assert rows["result"].tolist() == ["paid {'amount': 7}"]


async def test_the_saved_summary_has_the_most_frequent_reasons(workspace: Workspace) -> None:
    run = await workspace.map(["a", "b"], model=scripted_model([{"error": "The server is on <fire>."}]))
    html, text = saved_summary(run)
    assert text.splitlines()[0] == "2 of 2 items · 2 items failed · demo:script · $0"
    assert "<p>2 items: The server is on &lt;fire&gt;.</p>" in html


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.timeout(60)
async def test_a_terminal_has_one_line(workspace: Workspace) -> None:
    output, plain = _Terminal(), StringIO()
    run = workspace.map(["a", "b"], model=YES)
    for where in (output, plain):
        run.at_end.append(MapLine(run, where, interval=0.01).finish)
    await run
    assert plain.getvalue().startswith("2 of 2 items · $0 · ")
    assert plain.getvalue().count("\n") == output.getvalue().count("\n") == 1
    assert output.getvalue().startswith("\r")

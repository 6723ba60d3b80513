"""The table of agents that follows them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from planck_nb import Config, Workspace
from planck_nb.ai.models import Pricing
from planck_nb.jupyter.agents_frame import AgentsFrame
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.live.agents_table import MAX_ROWS, AgentsTable
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.verbs import VERBS
from planck_nb.testing import scripted_model


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[Workspace]:
    async with Workspace(Config(tmp_path, root=tmp_path)) as workspace:
        yield workspace


def column(table: AgentsTable, name: str) -> list[str]:
    place = table.columns.index(name)
    return [row[place] for row in table.rows]


async def changed(table: AgentsTable) -> None:
    """Wait for the next update."""
    seen = asyncio.Event()
    table.observe(lambda _: seen.set(), "rows")
    await asyncio.wait_for(seen.wait(), 30)


async def test_it_follows_agents_with_few_updates(workspace: Workspace) -> None:
    entered, gate = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        """Work."""
        entered.set()
        await gate.wait()
        return "done"

    model = scripted_model([{"calls": [{"name": "work"}]}, "word " * 500])
    agent = workspace.add_agent("ann", model=model, tools=[work])
    table = AgentsTable(workspace, interval=0.01)
    assert column(table, "status") == ["idle"]
    updates: list[object] = []
    table.observe(updates.append, "rows")
    run = agent.prompt("Work.")
    await entered.wait()
    while column(table, "waits_for") != ["work"]:
        await changed(table)
    assert column(table, "status") == ["executing_tools"]
    gate.set()
    await run
    while column(table, "turns") != ["1"] or column(table, "status") != ["idle"]:
        await changed(table)
    assert len(updates) < 50, "five hundred words are no five hundred updates"
    table.finish()


async def test_a_new_table_ends_the_one_before(workspace: Workspace) -> None:
    controller = Controller(workspace)
    first, second = AgentsTable(workspace, interval=0), AgentsTable(workspace, interval=0)
    controller.replace_live_table(first)
    controller.replace_live_table(second)
    agent = workspace.add_agent("ann", model=scripted_model(["Hello."]))
    await agent.prompt("Hi.")
    while column(second, "turns") != ["1"]:
        await changed(second)
    assert first.rows == []
    await controller.close()


@pytest.mark.slow
async def test_of_many_agents_those_that_work_are_shown(workspace: Workspace) -> None:
    gate = asyncio.Event()

    async def work() -> None:
        """Work."""
        await gate.wait()

    for number in range(MAX_ROWS + 5):
        workspace.add_agent(f"idle {number}", model=scripted_model([]))
    busy = workspace.add_agent("busy", model=scripted_model([{"calls": [{"name": "work"}]}, "Done."]), tools=[work])
    run = busy.prompt("Work.")
    async with busy.subscribe(since=0) as events:
        async for event in events:
            if event.type == "tool_start":
                break
    table = AgentsTable(workspace)
    assert (len(table.rows), table.hidden) == (MAX_ROWS, 6)
    assert column(table, "agent")[0] == "busy"
    gate.set()
    await run
    table.finish()


async def test_the_value_is_a_data_frame(workspace: Workspace) -> None:
    workspace.add_agent("ann", model=scripted_model([]))
    agents = await VERBS["agents"].run(Notebook(Controller(workspace)))
    assert isinstance(agents, AgentsFrame)
    assert type(agents[["agent", "model"]]).__name__ == "DataFrame"
    assert agents._repr_mimebundle_() == {}
    assert dict(zip(agents["agent"], agents["status"], strict=True)) == {"ann": "idle"}


async def test_a_terminal_shows_the_columns_that_say_something(workspace: Workspace) -> None:
    model = replace(scripted_model(["Hello."]), alias="quick", pricing=Pricing(1_000.0, 1_000.0))
    asked = workspace.add_agent("ann", model=model)
    workspace.add_agent("bob", model=scripted_model([]))
    await asked.prompt("Hi. " * 500)
    agents = await VERBS["agents"].run(Notebook(Controller(workspace)))
    head, ann, bob = (line.split() for line in repr(agents).splitlines())
    assert head == ["agent", "model", "status", "turns", "messages", "tokens", "cost_usd"]
    assert ann[:5] == ["ann", "quick", "idle", "1", "2"]
    assert ann[6].startswith("$")
    assert bob == ["bob", "demo:script", "idle", "0", "0", "0"], "an unknown cost is an empty cell"
    assert isinstance(agents, AgentsFrame)
    assert agents["cost_usd"].isna().tolist() == [False, True], "the value has the numbers"
    assert "NaN" not in str(agents._repr_html_())


def test_it_looks_for_the_saved_table_where_the_live_view_looks_for_its_output() -> None:
    root = Path(__file__).parents[3]
    built = (root / "labextension/src/view/static-output.ts").read_text(encoding="utf-8")
    plain = (root / "planck_nb/jupyter/live/agents_table.js").read_text(encoding="utf-8")
    [areas] = re.findall("AREAS = '(.+)'", built)
    assert re.findall(r'AREAS = ":is\((.+)\)"', plain) == [areas]

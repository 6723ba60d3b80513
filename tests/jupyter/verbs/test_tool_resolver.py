"""Which functions of a notebook the agents of a resumed, forked or rewound session get back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planck_nb import Config, Tool, Workspace, tool
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.verbs.navigation_verbs import resume
from planck_nb.tools.reserved_names import RESERVED_NAMES


def lookup(path: str) -> str:
    """Look something up."""
    return path


def planted(path: str) -> str:
    """Take the place of a built-in tool."""
    return path


def load(tmp_path: Path) -> Workspace:
    return Workspace(Config.load(environment={}, directory=tmp_path, home=tmp_path / "home"))


async def resumed(tmp_path: Path, names: dict[str, Any], stored: list[str]) -> dict[str, Tool]:
    """The tools that an agent has after `%planck resume` in a notebook with these variables."""
    async with load(tmp_path) as workspace:
        tools = [Tool(name=name, description="As it was.", execute_fn=planted) for name in stored]
        workspace.add_agent("ann", model=workspace.model("demo"), tools=tools)
    async with load(tmp_path) as workspace:
        await resume.run(Notebook(Controller(workspace), names))
        return {tool.name: tool for tool in workspace.agent("ann").tools}


async def test_a_function_of_the_notebook_is_restored(tmp_path: Path) -> None:
    tools = await resumed(tmp_path, {"lookup": lookup}, ["lookup"])
    assert tools["lookup"].function is lookup


async def test_a_function_with_the_name_of_a_built_in_tool_is_not(tmp_path: Path) -> None:
    names = sorted(RESERVED_NAMES)
    tools = await resumed(tmp_path, dict.fromkeys(names, planted), names)
    assert all(found.function is not planted for found in tools.values())
    assert set(tools) == RESERVED_NAMES & set(load(tmp_path).toolbox.tools())


@pytest.mark.slow
async def test_a_tool_of_such_a_name_that_the_user_made_is_deliberate(tmp_path: Path) -> None:
    made = replace(tool(planted), name="read")
    tools = await resumed(tmp_path, {"read": made}, ["read"])
    assert tools["read"].function is planted

"""Which of several tools of one name agents get: functions of the person, then built-in tools, files, and the rest."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.agents import calling, said

from planck_nb import Config, Workspace
from planck_nb.agent.calling.functions import as_tool
from planck_nb.agent.calling.tool import Tool
from planck_nb.testing import scripted_model
from planck_nb.tools.changes import Changes
from planck_nb.workspace.toolbox import Toolbox

NAME = "look_up"


def config(folder: Path, **settings: Any) -> Config:
    return Config.load(environment={}, directory=folder, trust=True, **settings)


class Source:
    """A source of one tool that says where it comes from."""

    def __init__(self, origin: str, name: str = NAME) -> None:
        self._tool = saying(origin, name)

    def tools(self) -> Mapping[str, Tool]:
        return {self._tool.name: self._tool}

    def groups(self) -> Mapping[str, tuple[str, ...]]:
        return {}


def saying(text: str, name: str = NAME) -> Tool:
    """A tool whose description and result are a text."""

    def function() -> str:
        return text

    function.__name__, function.__doc__ = name, f"{text}."
    return as_tool(function)


def describe(folder: Path, name: str) -> None:
    """A TOOL.json."""
    path = folder / ".planck/tools" / name / "TOOL.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"name": name, "description": "of a file.", "command": "echo", "parameters": {}}))


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A package with an entry point."""
    info = folder / "site/planck_nb_pool-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: planck-nb-pool\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[planck_nb.tools]\n{name} = pool_of_a_package:{name}\n")
    (folder / "site/pool_of_a_package.py").write_text(f'def {name}() -> str:\n    """of a package."""\n    return ""\n')
    monkeypatch.syspath_prepend(str(folder / "site"))
    monkeypatch.delitem(sys.modules, "pool_of_a_package", raising=False)


@pytest.mark.parametrize(
    ("there", "counts"),
    [
        ({"file", "kernel", "sidecar", "package"}, "of a file."),
        ({"kernel", "sidecar", "package"}, "of the kernel."),
        ({"sidecar", "package"}, "of a sidecar."),
        ({"package"}, "of a package."),
    ],
    ids=lambda value: value if isinstance(value, str) else "+".join(sorted(value)),
)
def test_the_order_of_what_was_not_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: set[str], counts: str
) -> None:
    if "file" in there:
        describe(tmp_path, NAME)
    if "package" in there:
        install(tmp_path, monkeypatch, NAME)
    kernel = Source("of the kernel") if "kernel" in there else None
    toolbox = Toolbox(
        config(tmp_path),
        Changes(),
        sidecars=Source("of a sidecar") if "sidecar" in there else None,
        kernel=lambda: kernel,
    )
    assert [tool.description for tool in toolbox.named([NAME])] == [counts]
    found = toolbox.find(NAME)
    assert found is not None
    assert found.description == counts


def test_nothing_that_is_found_replaces_a_built_in_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Elsewhere whatever is loaded last counts. Here it does not: a file or a server could take the place of a tool
    # whose calls the person has learnt to approve.
    describe(tmp_path, "read")
    install(tmp_path, monkeypatch, "read")
    kernel = Source("of the kernel", "read")
    toolbox = Toolbox(config(tmp_path), Changes(), sidecars=Source("of a sidecar", "read"), kernel=lambda: kernel)
    assert toolbox.named(["read"]) == [toolbox.builtin["read"]]
    assert toolbox.find("read") is toolbox.builtin["read"]
    assert any("read" in str(skipped.path) for skipped in toolbox.skipped())


async def test_a_function_that_is_handed_over_replaces_everything_for_its_agent_only(tmp_path: Path) -> None:
    async with Workspace(config(tmp_path, allow="read")) as workspace:
        tools = [*workspace.toolbox.named(["read"]), saying("mine", "read")]
        mine = workspace.add_agent("mine", model=scripted_model(calling(("read", {}))), tools=tools)
        other = workspace.add_agent("other", model=scripted_model(["done"]), tools=workspace.toolbox.named(["read"]))
        await mine.prompt("read")
        assert "tool_result: mine" in said(mine)
        assert mine.tools[-1] is tools[1]
        assert other.tools[0] is workspace.toolbox.builtin["read"]


async def test_tools_that_were_handed_over_replace_found_ones_when_a_session_is_resumed(tmp_path: Path) -> None:
    async with Workspace(config(tmp_path)) as workspace:
        describe(tmp_path, NAME)
        tools = workspace.toolbox.named([NAME])
        agent = workspace.add_agent("a", model=scripted_model(["done"]), tools=tools)
        await agent.prompt("hello")
        session = workspace.session_id
    mine = saying("mine")
    async with Workspace(config(tmp_path)) as workspace:
        assert session is not None
        await workspace.resume(session, find={NAME: mine}.get)
        assert workspace.agent("a").tools[0] is mine
    async with Workspace(config(tmp_path)) as workspace:  # and otherwise what is found
        await workspace.resume(session)
        assert workspace.agent("a").tools[0].description == "of a file."


async def test_settings_that_are_read_again_change_no_tool_that_an_agent_has(tmp_path: Path) -> None:
    async with Workspace(config(tmp_path)) as workspace:
        tool = saying("mine")
        agent = workspace.add_agent("a", model=scripted_model(["done"]), tools=[tool])
        describe(tmp_path, NAME)
        workspace.config = config(tmp_path)
        assert agent.tools[0] is tool
        assert workspace.toolbox.named([NAME])[0].description == "of a file."

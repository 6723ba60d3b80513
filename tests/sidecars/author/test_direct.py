"""Tools of a sidecar without a server; numbers are those of the clauses in the original's tests of sidecars."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from planck_nb import Tool
from planck_nb.base.errors import ConfigError, ToolError, UsageError
from planck_nb.sidecars import (
    Sidecar,
    SidecarModule,
    ToolOutput,
    aexecute_tool,
    compactor,
    discover,
    execute_tool,
    list_tools,
    observer,
    tool,
)
from planck_nb.sidecars.author.entry_point import forget_discovered

MODULE = """
from planck_nb import Tool

def _echo(agent_id, call_id, args):
    return f"{agent_id}/{call_id}/{args['text']}"

def _fail(agent_id, call_id, args):
    return ("error", "it went wrong")

def tools():
    return [
        Tool(name="echo", description="Echo.", parameters={"type": "object", "properties": {"text": {}}},
             execute_fn=_echo),
        Tool(name="fail", description="Fail.", execute_fn=_fail),
    ]
"""


class PlanckStyle(SidecarModule):
    """As Planck writes it: closures with agent, call and arguments."""

    def tools(self) -> list[object]:
        def run(agent_id: str, call_id: str, args: dict[str, Any]) -> str:
            return f"{agent_id} {call_id} {args['word']}"

        async def run_async(agent_id: str, call_id: str, args: dict[str, Any]) -> str:
            return run(agent_id, call_id, args)

        def fail(_agent_id: str, _call_id: str, _args: dict[str, Any]) -> tuple[str, str]:
            return ("error", "boom")

        schema: dict[str, Any] = {"type": "object", "properties": {"word": {"type": "string"}}}
        return [
            Tool(name="run", description="Run.", parameters=schema, execute_fn=run),
            Tool(name="run_async", description="Run.", parameters=schema, execute_fn=run_async),
            Tool(name="fail", description="Fail.", execute_fn=fail),
        ]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages, empty at first."""
    monkeypatch.syspath_prepend(str(tmp_path))
    forget_discovered()
    yield tmp_path
    forget_discovered()
    sys.modules.pop("seed_sidecar", None)


def install(folder: Path, value: str = "seed_sidecar", source: str = MODULE) -> None:
    (folder / "seed_sidecar.py").write_text(source, encoding="utf-8")
    info = folder / "seed_sidecar-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: seed-sidecar\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[planck_nb.sidecars]\nmain = {value}\n", encoding="utf-8")


def test_1_tools_have_functions() -> None:
    found = PlanckStyle().tools()
    assert [item.name for item in found if isinstance(item, Tool)] == ["run", "run_async", "fail"]
    assert all(callable(item.execute_fn) for item in found if isinstance(item, Tool))


def test_no_tools_by_default() -> None:
    class Nothing(SidecarModule):
        pass

    assert Nothing().tools() == []
    assert list_tools(Nothing) == []
    assert list_tools(types.ModuleType("empty")) == []


def test_2_3_listed_tools_are_data_without_functions() -> None:
    listed = list_tools(PlanckStyle)
    assert (listed[0].name, listed[0].description) == ("run", "Run.")
    data = json.loads(json.dumps([asdict(spec) for spec in listed]))
    assert data[0]["parameters"] == {"type": "object", "properties": {"word": {"type": "string"}}}
    assert set(data[0]) == {"name", "description", "parameters"}


@pytest.mark.parametrize("name", ["run", "run_async"])
async def test_4_the_function_gets_agent_call_and_arguments(name: str) -> None:
    assert await aexecute_tool(name, "agent", "call", {"word": "hi"}, module=PlanckStyle) == "agent call hi"


@pytest.mark.parametrize("name", ["run", "run_async"])
def test_4_also_from_sync_code(name: str) -> None:
    assert execute_tool(name, "agent", "call", {"word": "hi"}, module=PlanckStyle) == "agent call hi"
    assert execute_tool(PlanckStyle(), name, "agent", "call", {"word": "hi"}) == "agent call hi"
    assert execute_tool(PlanckStyle, name, "agent", {"word": "hi"}) == "agent  hi"


async def test_a_sync_tool_can_be_called_while_a_loop_runs_and_an_async_one_names_its_sibling() -> None:
    assert execute_tool("run", "agent", "call", {"word": "hi"}, module=PlanckStyle) == "agent call hi"
    with pytest.raises(UsageError, match="await aexecute_tool"):
        execute_tool("run_async", "agent", "call", {"word": "hi"}, module=PlanckStyle)


def test_5_its_error_comes_back() -> None:
    with pytest.raises(ToolError, match=r"^boom$"):
        execute_tool("fail", "agent", "call", {}, module=PlanckStyle)


def test_6_unknown_tool() -> None:
    with pytest.raises(ToolError, match=r"^unknown tool: ghost$"):
        execute_tool("ghost", "agent", "call", {}, module=PlanckStyle)


def test_7_9_discovery_remembers_what_it_found(installed: Path) -> None:
    install(installed)
    found = discover()
    assert isinstance(found, types.ModuleType)
    (installed / "seed_sidecar-1.0.dist-info" / "entry_points.txt").unlink()
    assert discover() is found


def test_8_11_nothing_is_found_and_not_remembered(installed: Path) -> None:
    assert discover() is None
    assert list_tools() == []
    install(installed)
    assert discover() is not None


def test_10_list_tools_through_discovery(installed: Path) -> None:
    install(installed)
    assert [spec.name for spec in list_tools()] == ["echo", "fail"]


def test_12_13_14_execute_through_discovery(installed: Path) -> None:
    install(installed)
    assert execute_tool("echo", "a", "c", {"text": "hi"}) == "a/c/hi"
    assert execute_tool("echo", "a", {"text": "hi"}) == "a//hi"  # the form with three arguments
    with pytest.raises(ToolError, match="it went wrong"):
        execute_tool("fail", "a", {})
    with pytest.raises(ToolError, match=r"^unknown tool: ghost$"):
        execute_tool("ghost", "a", {})


async def test_12_async_through_discovery(installed: Path) -> None:
    install(installed)
    assert await aexecute_tool("echo", "a", {"text": "hi"}) == "a//hi"


def test_15_no_module(installed: Path) -> None:
    with pytest.raises(ToolError, match=r"^no sidecar entry module found$"):
        execute_tool("echo", "a", "c", {"text": "hi"})


def test_a_class_and_an_object_can_be_entries(installed: Path) -> None:
    source = (
        "from planck_nb.sidecars import *\nclass Entry(SidecarModule):\n    def tools(self):\n        return [add]\n"
    )
    install(installed, "seed_sidecar:Entry", source + "@tool\ndef add(a: int, b: int) -> int:\n    return a + b\n")
    assert execute_tool("add", "a", {"a": 1, "b": 2}) == 3


def test_a_sidecar_that_cannot_be_imported_is_reported_and_not_remembered(installed: Path) -> None:
    install(installed, source="import no_such_package_at_all\n")
    with pytest.raises(ConfigError, match=r"seed_sidecar.*No module named 'no_such_package_at_all'"):
        discover()
    (installed / "seed_sidecar.py").write_text(MODULE + "#\n", encoding="utf-8")
    assert discover() is not None


@pytest.mark.parametrize("returned", ["tools", 3, ["no such tool"], [3]])
def test_what_is_not_a_list_of_tools_is_refused(returned: object) -> None:
    module = types.ModuleType("odd")
    module.tools = lambda: returned  # type: ignore[attr-defined]
    with pytest.raises(UsageError):
        list_tools(module)


def test_two_tools_of_one_name_are_refused() -> None:
    sidecar = Sidecar("twice")
    sidecar.add(Tool(name="a", description="", execute_fn=lambda args: "1"))
    with pytest.raises(UsageError, match="two tools named a"):
        sidecar.add(Tool(name="a", description="", execute_fn=lambda args: "2"))


def test_arguments_are_checked_and_results_are_as_returned() -> None:
    sidecar = Sidecar("calculator")

    @sidecar.tool
    def half(number: int) -> dict[str, float]:
        return {"half": number / 2}

    assert execute_tool("half", "a", {"number": 3}, module=sidecar) == {"half": 1.5}
    with pytest.raises(ToolError, match="number"):
        execute_tool("half", "a", {"number": "many"}, module=sidecar)


def test_an_exception_is_named_with_its_type() -> None:
    sidecar = Sidecar("failing")

    @sidecar.tool
    def divide(by: int) -> float:
        return 1 / by

    with pytest.raises(ToolError, match=r"^ZeroDivisionError: division by zero$"):
        execute_tool("divide", "a", {"by": 0}, module=sidecar)


def test_compactors_and_observers_are_not_listed() -> None:
    @compactor
    def short(messages: object) -> None:
        return None

    @observer
    def watch(events: object) -> None:
        return None

    @tool
    def plain() -> ToolOutput:
        return ToolOutput("x")

    class Entry(SidecarModule):
        def tools(self) -> list[object]:
            return [short, watch, plain]

    assert [spec.name for spec in list_tools(Entry)] == ["plain"]


def test_the_guidance_of_a_tool_is_part_of_its_description() -> None:
    made = Tool(name="a", description="Do it.", guidance="Do it once.", execute_fn=lambda args: "")
    sidecar = Sidecar("s")
    sidecar.add(made)
    assert list_tools(sidecar)[0].description == "Do it.\n\nDo it once."


def test_a_module_with_one_sidecar_stands_for_it() -> None:
    module = types.ModuleType("declares")
    sidecar = Sidecar("s")
    sidecar.add(Tool(name="a", description="", execute_fn=lambda args: "1"))
    vars(module).update(first=sidecar, same=sidecar)
    assert [spec.name for spec in list_tools(module)] == ["a"]
    assert execute_tool("a", "agent", {}, module=module) == "1"
    vars(module)["second"] = Sidecar("t")
    with pytest.raises(UsageError, match="several sidecars; name one of them: declares:first or declares:second"):
        list_tools(module)
    vars(module)["tools"] = list
    assert list_tools(module) == []

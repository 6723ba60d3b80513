"""What the built-in tools say that a call would touch."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.agents import plain

from planck_nb import BuiltinTools, Effect, Tool
from planck_nb.agent.approval import Policy
from planck_nb.agent.effect import EffectKind


@pytest.fixture
def tools(tmp_path: Path) -> dict[str, Tool]:
    (tmp_path / "inside").mkdir()
    return {tool.name: tool for tool in BuiltinTools.all(cwd=tmp_path / "inside")}


@pytest.mark.parametrize(("name", "kind"), [("read", "read"), ("write", "write"), ("edit", "write")])
def test_a_file_tool_touches_the_file_that_the_path_leads_to(
    tools: dict[str, Tool], tmp_path: Path, name: str, kind: EffectKind
) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("x")
    (inside / "folder").symlink_to(outside)
    (inside / "file").symlink_to("../outside/secret")
    (inside / "hanging").symlink_to(outside / "new")
    cases = {
        "a/b": inside / "a/b",
        "./a/../b": inside / "b",
        "../c": tmp_path / "c",
        "~/d": Path.home().resolve() / "d",
        "/etc/hostname/..": Path("/etc"),
        "folder/new": outside / "new",
        "folder/../c": tmp_path / "c",
        "file": outside / "secret",
        "hanging": outside / "new",
    }
    assert {path: tools[name].touched({"path": path}) for path in cases} == {
        path: (Effect(kind, str(target)),) for path, target in cases.items()
    }


def test_what_is_touched_is_what_the_call_then_touches(tools: dict[str, Tool], tmp_path: Path) -> None:
    loose = BuiltinTools.write()
    os.chdir(tmp_path)
    assert loose.touched({"path": "x"}) == (Effect("write", str(tmp_path / "x")),)
    os.chdir(tmp_path / "inside")
    assert loose.touched({"path": "x"}) == (Effect("write", str(tmp_path / "inside/x")),)


def test_a_path_that_leads_nowhere_counts_as_anything(tools: dict[str, Tool]) -> None:
    for args in ({"path": "a\0b"}, {"path": 3}, {}):
        assert tools["write"].touched(args) == (Effect("execute"),)


def test_bash_executes_its_command(tools: dict[str, Tool]) -> None:
    assert plain(tools["bash"].touched({"command": "ls; rm x"})) == [Effect("execute", "ls; rm x")]


def test_a_command_elsewhere_is_another_command(tools: dict[str, Tool], tmp_path: Path) -> None:
    bash = tools["bash"]
    (tmp_path / "inside/a b").mkdir()
    (tmp_path / "inside/link").symlink_to("..")
    for same in (".", str(tmp_path / "inside"), "../inside", "link/inside", ""):
        assert plain(bash.touched({"command": "rm *", "cwd": same})) == [Effect("execute", "rm *")]
    for cwd, folder in {"..": f"{tmp_path}", "link": f"{tmp_path}", "a b": f"{tmp_path}/inside/a b"}.items():
        assert plain(bash.touched({"command": "rm *", "cwd": cwd})) == [Effect("execute", "rm *", folder)]
    assert bash.touched({"command": "rm *", "cwd": "\0"}) == (Effect("execute"),)
    policy = Policy.ask_before_changes(tmp_path)
    policy = policy.with_rule(policy.remembering("bash", bash.touched({"command": "rm *", "cwd": "a b"})))
    cases = {"a b": "allow", "..": "ask", ".": "ask"}
    assert {
        cwd: policy.decide("bash", bash.touched({"command": "rm *", "cwd": cwd}), {}).action for cwd in cases
    } == cases


def test_every_tool_has_guidance(tools: dict[str, Tool]) -> None:
    for name, tool in tools.items():
        assert f"`{name}`" in tool.guidance

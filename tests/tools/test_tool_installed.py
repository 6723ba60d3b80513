"""Tools that an installed package offers by entry points."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

TESTS = str(Path(__file__).parents[1])

SHOUT = """
print("imported planck_nb_shout")

from collections.abc import Iterator

from planck_nb import Tool, tool


def shout(text: str) -> str:
    "Say it loudly."
    return text.upper()


@tool(name="whisper", touches=[])
def quiet(text: str) -> str:
    "Say it quietly."
    return text.lower()


both = [shout, quiet]


def made() -> Iterator[Tool]:
    yield Tool(name="made_a", description="A.", execute_fn=lambda args: "a")
    yield Tool(name="made_b", description="B.", execute_fn=lambda args: "b")


def read(path: str) -> str:
    "Not the built-in one."
    return path


number = 7
"""

ENTRY_POINTS = """
[planck_nb.tools]
shout = planck_nb_shout:shout
whisper = planck_nb_shout:quiet
voices = planck_nb_shout:both
made = planck_nb_shout:made
read = planck_nb_shout:read
number = planck_nb_shout:number
broken = planck_nb_broken:tool
gone = planck_nb_shout:nothing
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder on the path with a small installed package."""
    site = tmp_path / "site"
    (site / "planck_nb_shout-1.0.dist-info").mkdir(parents=True)
    (site / "planck_nb_shout.py").write_text(SHOUT)
    (site / "planck_nb_broken.py").write_text("raise RuntimeError('no licence\\nfound')")
    (site / "planck_nb_shout-1.0.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: planck-nb-shout\nVersion: 1.0\n"
    )
    (site / "planck_nb_shout-1.0.dist-info/entry_points.txt").write_text(ENTRY_POINTS)
    return site


def run(site: Path, statements: str) -> list[str]:
    """The lines that a fresh interpreter prints, with the package installed and a workspace's `toolbox`."""
    code = f"""
import asyncio, sys
sys.path[:0] = [{str(site)!r}, {TESTS!r}]
from pathlib import Path
from planck_nb import Config, Workspace
from planck_nb.base.errors import PlanckError
from planck_nb.testing import scripted_model
from support.agents import calling, said

async def main():
    async with Workspace(Config.load(environment={{}}, directory=Path({str(site.parent)!r}))) as workspace:
        toolbox = workspace.toolbox
        try:
{statements}
        except PlanckError as error:
            print(type(error).__name__, error)

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_an_agent_uses_a_tool_of_a_package(installed: Path) -> None:
    lines = run(
        installed,
        """
            print("shout" in toolbox.described(), toolbox.has("whisper"))
            tools = toolbox.named(["bash"])
            print("not imported yet")
            tools += toolbox.named(["shout"])
            model = scripted_model([*calling(("shout", {"text": "hi"}))])
            workspace.approvals.policy = workspace.approvals.policy.allow_all()
            agent = workspace.add_agent("ann", model=model, tools=tools)
            await agent.prompt("go")
            print([tool.name for tool in agent.tools], said(agent)[2])
        """,
    )
    assert lines == [
        "True True",
        "not imported yet",
        "imported planck_nb_shout",
        "['bash', 'shout'] tool_result: HI",
    ]


def test_an_entry_point_may_offer_several_and_replaces_no_built_in_tool(installed: Path) -> None:
    lines = run(
        installed,
        """
            print([tool.name for tool in toolbox.named(["voices", "made"])])
            print([tool.name for tool in toolbox.named(["made_b"])], toolbox.find("made_b").description)
            print(toolbox.find("voices"), toolbox.find("broken"))
            print(toolbox.named(["read"])[0] is toolbox.builtin["read"])
        """,
    )
    assert lines[1:] == ["['shout', 'whisper', 'made_a', 'made_b']", "['made_b'] B.", "None None", "True"]


def test_what_cannot_be_used_is_one_sentence_each(installed: Path) -> None:
    lines = run(
        installed,
        """
            for skipped in toolbox.skipped():
                print(skipped.reason)
            toolbox.named(["broken"])
        """,
    )
    read, number, broken, gone, error = lines[1:]
    assert read == (
        "The tool read of the package planck-nb-shout cannot be used: "
        "read is a reserved name, so the package must give another name."
    )
    assert number == (
        "The tool number of the package planck-nb-shout cannot be used: "
        "A int is not a tool; pass a Python function or a Tool."
    )
    assert broken == ("The tool broken of the package planck-nb-shout cannot be used: RuntimeError: no licence found.")
    assert gone.startswith("The tool gone of the package planck-nb-shout cannot be used: AttributeError: ")
    assert error == f"ConfigError {broken}"


def test_an_unknown_name_gets_the_nearest_one(installed: Path) -> None:
    (line,) = run(installed, '            toolbox.named(["shuot"])')[1:]
    assert line.startswith("UsageError There is no tool named shuot. Did you mean shout")

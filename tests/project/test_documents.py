"""Everything that the documentation names exists."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from notebooks import save_pages
from planck_nb import Config, Workspace
from planck_nb.config import SETTINGS
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.interpretation import VerbLine, interpret
from planck_nb.jupyter.parsing.arguments import read_arguments
from planck_nb.jupyter.verbs import Notebook

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "planck_nb" / "FORMATS.md",
    *sorted((ROOT / "planck_nb").rglob("README.md")),
    ROOT / "labextension" / "README.md",
    *sorted((ROOT / "notebooks").glob("*.md")),
]
REPOSITORY = "https://github.com/planck-nb/planck-nb/blob/main/"
NOT_SETTINGS = {
    "PLANCK_NB_ANSWERS",
    "PLANCK_NB_COMMAND",
    "PLANCK_NB_FIXED_SOURCES",
    "PLANCK_NB_NPX_FOLDER",
    "PLANCK_NB_SANDBOX_ALLOW",
    "PLANCK_NB_SIDECAR_TOKEN",
    "PLANCK_NB_TRUST",
}
PATH = re.compile(r"`((?:[\w.-]+/)*[\w.-]+(?:/|\.(?:css|ipynb|js|json|jsonl|md|py|sql|toml|ts|txt)))`")
NOT_OURS = re.compile(r"(AGENTS|SKILL)\.md|(TEAM|TOOL)\.json|\.(planck|catalogue)/.*|.*live-DIGEST\.js")
"""Paths in the folders of users, and one that stands for many."""

FOR_TESTS = {f"PLANCK_NB_{name}" for name in ("LABS", "MCP_SERVERS", "REQUIRE", "SCREENSHOTS", "SOAK", "TESTDATA")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", prose)
    assert [link for link in links if not (page.parent / link).exists()] == []
    ours = re.findall(rf"{re.escape(REPOSITORY)}([^)\s#]+)", prose)
    assert [path for path in ours if not (ROOT / path).exists()] == []


def test_links_of_the_first_page_work_on_the_package_index() -> None:
    text = (ROOT / "README.md").read_text()
    assert re.findall(r"\]\((?!https?:)[^)]+", text) == []
    defined = set(re.findall(r"^\[([^\]]+)\]: https://", text, re.MULTILINE))
    assert len(defined) > 10
    prose = re.sub(r"```.*?```|`[^`]*`|^\[.*$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert set(re.findall(r"(?<!\])\[([^\]]+)\](?![\[(])", prose)) - defined == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_variables_are_settings(page: Path) -> None:
    known = {setting.variable for setting in SETTINGS} | NOT_SETTINGS | FOR_TESTS
    assert set(re.findall(r"PLANCK_NB_[A-Z_]+", page.read_text())) - known == set()


def test_every_variable_that_the_code_reads_is_a_setting() -> None:
    read = {
        name
        for file in (ROOT / "planck_nb").rglob("*.py")
        for name in re.findall(r"\bPLANCK_NB_[A-Z_]+[A-Z]\b", file.read_text())
    }
    assert read == {setting.variable for setting in SETTINGS} | NOT_SETTINGS


@pytest.mark.parametrize("name", save_pages.PAGES)
def test_the_pages_on_verbs_and_options_are_those_of_the_help(name: str) -> None:
    assert (ROOT / "notebooks" / name).read_text() == save_pages.PAGES[name](), (
        "run `python tests/notebooks/save_pages.py`"
    )


LINES = [
    pytest.param(line, id=line)
    for page in (ROOT / "README.md", ROOT / "notebooks" / "guide.md")
    for line in dict.fromkeys(re.findall(r"(?:`|^)%planck ([^`\n]+)(?:`|$)", page.read_text(), re.MULTILINE))
]


@pytest.mark.parametrize("line", LINES)
async def test_lines_that_the_first_pages_show_can_be_written(line: str, tmp_path: Path) -> None:
    async with Workspace(Config.load(environment={}, directory=tmp_path, home=tmp_path)) as workspace:
        notebook = Notebook(Controller(workspace), {"orders": 1, "late_orders": print})
        meaning = interpret(line, None, notebook)
        if isinstance(meaning, VerbLine):
            assert meaning.verb.name == line.split(maxsplit=1)[0]
            read_arguments(meaning.verb.declared, meaning.argument, None, notebook)


def unknown_paths(text: str, folder: Path) -> Iterator[str]:
    """The paths in backticks that are in none of the folders that they may start in.

    A name alone may be that of any file. A path may start in a folder that the same line names, too.
    """
    sources = [ROOT / "planck_nb", ROOT / "tests", ROOT / "labextension/src"]
    names = {path.name for source in sources for path in source.rglob("*")}
    for line in text.splitlines():
        starts = [folder, ROOT, ROOT / "planck_nb", *(ROOT / named for named in re.findall(r"`([\w/]+)`", line))]
        for path in PATH.findall(line):
            is_name = path in names or NOT_OURS.fullmatch(path)
            if not is_name and not any((start / path).exists() for start in starts):
                yield path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_paths_that_a_page_names_are_there(page: Path) -> None:
    assert list(unknown_paths(page.read_text(), page.parent)) == []


def test_paths_that_are_not_there_are_found() -> None:
    text = "`loop.py`, `lop.py`, `agent/loop.py`, `ai/loop.py` and `TOOL.json`\n| `tests` | `support/`, `suport/` |"
    assert list(unknown_paths(text, ROOT)) == ["lop.py", "ai/loop.py", "suport/"]


def test_contributors_find_every_folder_of_the_package() -> None:
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    folders = [path.parent.name for path in (ROOT / "planck_nb").glob("*/__init__.py")]
    assert [name for name in folders if f"| `planck_nb/{name}` |" not in contributing] == []


def test_contributors_are_told_the_order_of_layers_that_is_checked() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    checked = [
        {name.strip().removeprefix("planck_nb.") for name in line.split("|") if "(" not in name}
        for line in contracts[0]["layers"]
    ]
    [told] = re.findall(r"\*\*Imports point downward\*\*: ([^.;]*)\.", (ROOT / "CONTRIBUTING.md").read_text())
    assert [set(re.findall(r"`(\w+)`", line)) for line in told.split(">")] == [line for line in checked if line]

"""What the pages for people name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from planck_nb.config import SETTINGS
from planck_nb.jupyter.verbs import VERBS

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "planck_nb").glob("*/README.md")),
    ROOT / "labextension" / "README.md",
]
REPOSITORY = "https://github.com/planck-nb/planck-nb/blob/main/"
NOT_SETTINGS = {"PLANCK_NB_COMMAND", "PLANCK_NB_SANDBOX_ALLOW", "PLANCK_NB_SIDECAR_TOKEN", "PLANCK_NB_TRUST"}
FOR_TESTS = {"PLANCK_NB_MCP_SERVERS", "PLANCK_NB_REQUIRE", "PLANCK_NB_SOAK", "PLANCK_NB_TESTDATA"}


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


def test_the_readme_and_the_help_name_the_same_verbs() -> None:
    rows = [
        line.split("|")[1] for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("| `%planck ")
    ]
    named = {name for row in rows for name in re.findall(r"`(?:%planck )?([a-z][a-z-]*)[^`]*`", row)}
    assert named - set(VERBS) == set()
    assert set(VERBS) - named == {"help"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_modules_that_a_page_lists_are_there(page: Path) -> None:
    listed = re.findall(r"^\| `([\w/]+\.\w+)`", page.read_text(), re.MULTILINE)
    assert [name for name in listed if not (page.parent / name).exists()] == []


@pytest.mark.parametrize(
    "folder",
    [
        "ai",
        "base",
        "jupyter",
        "jupyter/parsing",
        "jupyter/prompts",
        "jupyter/terminal",
        "jupyter/verbs",
        "sessions",
        "sidecars/mcp_client",
        "teams",
        "workspace",
    ],
)
def test_the_page_of_a_folder_names_its_modules(folder: str) -> None:
    package = ROOT / "planck_nb"
    own = package / folder / "README.md"
    text = (own if own.is_file() else own.parents[1] / "README.md").read_text()
    names = [path.name for path in (package / folder).glob("*.py") if path.name not in {"__init__.py", "__main__.py"}]
    assert [name for name in names if name not in text] == []

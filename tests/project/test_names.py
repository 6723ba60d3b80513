"""Names of modules, folders and tests, and words in messages."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from planck_nb import Agent

PACKAGE = Path(__file__).parents[2] / "planck_nb"

UNTESTED_FOLDERS = {
    "ai/model_lookup/data": "the catalogue is tested through the models that it describes",
    "testing": "every test that has a scripted model uses it",
}
"""Folders of the package that have no folder of tests, each with the reason."""

TESTS_OF_MORE = {
    "browser": "the live view in JupyterLab",
    "browser/lab_extension": "the JupyterLab extension",
    "labextension": "the code of the browser",
    "notebooks": "the tutorials",
    "project": "the project as a whole",
}
"""Folders of tests that belong to no folder of the package, each with what they test."""

NOT_A_FOLDER = re.compile(r"\b(an?|another|sessions|team|the|this) director(y|ies)\b")
SAID_BY_OTHERS = {"Is a directory", "team directory not found: "}
"""What the operating system says, and what Planck says, whose words programs may know."""

AGENT_NAMES = 27
"""Names that a handle of an agent has at most, besides its data attributes."""


def hidden_modules(folder: Path) -> list[str]:
    """The modules that cannot be imported because a folder beside them has the same name."""
    return [str(file.relative_to(folder)) for file in sorted(folder.rglob("*.py")) if file.with_suffix("").is_dir()]


def test_no_module_has_the_name_of_a_folder_beside_it() -> None:
    assert hidden_modules(PACKAGE) == []


def test_hidden_modules_are_found(tmp_path: Path) -> None:
    for path in ("one/__init__.py", "one/one.py", "one/two.py", "two.py", "two/three.py", "two/three/four.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    assert hidden_modules(tmp_path) == ["two/three.py", "two.py"]


def directories(source: str) -> list[str]:
    """The texts in the code, without docstrings, that call a folder a directory. A working directory is called that."""
    tree = ast.parse(source)
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in statements)
    sentences = (node.value for node in texts if isinstance(node.value, str) and " " in node.value)
    return [text for text in sentences if text not in SAID_BY_OTHERS and NOT_A_FOLDER.search(text)]


@pytest.mark.slow
def test_messages_call_a_folder_a_folder() -> None:
    code = (
        '"""Of a directory."""\nx = f"{y} in another directory"\nz = "the working directory"\ndirectory = "directory"'
    )
    assert directories(code) == [" in another directory"]
    assert {path.name: texts for path in PACKAGE.rglob("*.py") if (texts := directories(path.read_text()))} == {}


def test_an_agent_is_a_handle_with_few_names() -> None:
    assert len([name for name in dir(Agent) if not name.startswith("_")]) <= AGENT_NAMES


def test_tests_lie_where_the_folders_of_the_package_lie() -> None:
    root = PACKAGE.parent
    package = {path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("__init__.py")} - {"."}
    tests = {path.parent.relative_to(root / "tests").as_posix() for path in (root / "tests").rglob("test_*.py")} - {"."}
    assert package - tests == set(UNTESTED_FOLDERS)
    assert tests - package == set(TESTS_OF_MORE)

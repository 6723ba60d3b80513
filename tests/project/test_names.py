"""One name, one meaning: no two classes, and no two modules, of the package have the same name."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

from planck_nb import Agent

PACKAGE = Path(__file__).parents[2] / "planck_nb"

SAME_MODULES = {
    "__main__": "each is run with `python -m`, which prescribes the name",
    "errors": "planck_nb.errors is the public name of base.errors",
    "events": "planck_nb.events is the public name of agent.events",
}
"""Modules that share a name because they share a meaning, each with the reason."""

SAME_CLASSES: dict[str, str] = {}
"""Classes that share a name because they share a meaning, each with the reason."""

UNTESTED_FOLDERS = {
    "ai/model_lookup/data": "the catalogue is tested through the models that it describes",
    "testing": "every test that has a scripted model uses it",
}
"""Folders of the package that have no folder of tests, each with the reason."""

TESTS_OF_MORE = {
    "browser": "the live view in JupyterLab",
    "labextension": "the code of the browser",
    "notebooks": "the tutorials",
    "project": "the project as a whole",
}
"""Folders of tests that belong to no folder of the package, each with what they test."""

NOT_A_FOLDER = re.compile(r"\b(an?|another|sessions|team|the|this) director(y|ies)\b")
SAID_BY_OTHERS = {"Is a directory", "team directory not found: "}
"""What the operating system says, and what Planck says, whose words programs may know."""

AGENT_NAMES = 26
"""Names that a handle of an agent has at most, besides its data attributes."""


def duplicates(names: list[tuple[str, str]]) -> dict[str, list[str]]:
    """The names that stand in several places, with the places."""
    places = defaultdict(list)
    for name, place in names:
        places[name].append(place)
    return {name: where for name, where in places.items() if len(where) > 1}


def modules(package: Path) -> list[tuple[str, str]]:
    """Each module's name and path; one that is named after its package belongs to it."""
    files = [file.relative_to(package.parent) for file in sorted(package.rglob("*.py"))]
    names = [(file.parent.name if file.name == "__init__.py" else file.stem, file) for file in files]
    return [(name, str(file)) for name, file in names if file.name == "__init__.py" or name != file.parent.name]


def classes(package: Path) -> list[tuple[str, str]]:
    """Each class's name and path."""
    return [
        (node.name, str(file.relative_to(package.parent)))
        for file in sorted(package.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef)
    ]


def test_no_module_name_has_two_meanings() -> None:
    assert {name: where for name, where in duplicates(modules(PACKAGE)).items() if name not in SAME_MODULES} == {}


@pytest.mark.slow
def test_no_class_name_has_two_meanings() -> None:
    assert {name: where for name, where in duplicates(classes(PACKAGE)).items() if name not in SAME_CLASSES} == {}


@pytest.mark.slow
def test_allowed_duplicates_are_duplicates() -> None:
    assert set(SAME_MODULES) <= set(duplicates(modules(PACKAGE)))
    assert set(SAME_CLASSES) <= set(duplicates(classes(PACKAGE)))


def test_duplicates_are_found(tmp_path: Path) -> None:
    for path in ("pack/__init__.py", "pack/one/__init__.py", "pack/one/one.py", "pack/one/same.py", "pack/same.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("class Twice: ..." if path.endswith("same.py") else "")
    assert duplicates(modules(tmp_path / "pack")) == {"same": ["pack/one/same.py", "pack/same.py"]}
    assert duplicates(classes(tmp_path / "pack")) == {"Twice": ["pack/one/same.py", "pack/same.py"]}


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


def test_no_two_test_files_have_the_same_name() -> None:
    # pytest imports test files as modules without packages: of two with the same name, one is not collected.
    files = [(file.name, str(file)) for file in Path(__file__).parents[1].rglob("test_*.py")]
    assert duplicates(files) == {}

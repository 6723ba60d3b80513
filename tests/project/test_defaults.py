"""A default is written in one place: whoever changes it there sees the effect everywhere."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import NamedTuple

import pytest

from planck_nb.config import SETTINGS, Config

PACKAGE = Path(__file__).parents[2] / "planck_nb"

LITERAL = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.unaryop, ast.operator)
"""What a number such as `-1` or `64 * 1024` consists of."""

FORMATS = {"framing", "type"}
"""Attributes with a literal as their only value: names in a format, which nobody chooses."""

COINCIDENCES = {
    "default": "the source of a setting, and a compactor",
    "max_bytes": "the limits of files that have nothing to do with each other",
    "max_name": "of a skill, and of a team member",
    "max_images": "of a tool's result, and of a prompt",
}
"""Names with the same value and different meanings, each with what tells them apart."""


class Default(NamedTuple):
    """A literal with its name and place."""

    name: str
    value: object
    place: str


def literal(node: ast.expr | None) -> object:
    """The number or text in an expression; None for others, and for 0, 1 and empty texts, which are no choices."""
    if node is None or not all(isinstance(part, LITERAL) for part in ast.walk(node)):
        return None
    value = eval(ast.unparse(node))
    return value if isinstance(value, (int, float, str, bytes)) and value not in (0, 1, "", b"") else None


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, ast.expr | None]]:
    """The parameters of a function with their defaults."""
    listed = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    yield from zip(reversed(listed), reversed(function.args.defaults), strict=False)
    yield from zip((argument.arg for argument in function.args.kwonlyargs), function.args.kw_defaults, strict=True)


def assignments(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr | None]]:
    """The names that get a value in the body of a module or class, with the value."""
    for statement in body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        yield from ((name.id, getattr(statement, "value", None)) for name in targets if isinstance(name, ast.Name))


def defaults(folder: Path) -> Iterator[Default]:
    """The literals that are defaults of parameters or fields, or public constants."""
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            named: Iterator[tuple[str, ast.expr | None]] = iter(())
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                named = parameters(node)
            elif isinstance(node, ast.ClassDef):
                named = assignments(node.body)
            elif isinstance(node, ast.Module):
                named = (item for item in assignments(node.body) if item[0].isupper() and not item[0].startswith("_"))
            for name, expression in named:
                if (value := literal(expression)) is not None:
                    yield Default(name.lower().removeprefix("default_"), value, f"{file.name}:{expression.lineno}")  # type: ignore[union-attr]


def repeated(folder: Path) -> dict[str, list[str]]:
    """The names that have the same literal in several places, with the places."""
    places = defaultdict(list)
    for default in defaults(folder):
        places[default.name, default.value].append(default.place)
    return {name: where for (name, _), where in places.items() if len(where) > 1 and name not in FORMATS}


@pytest.mark.slow
def test_a_default_is_written_once() -> None:
    names = repeated(PACKAGE)
    assert {name: places for name, places in names.items() if name not in COINCIDENCES} == {}
    assert set(names) == set(COINCIDENCES)


def test_config_refers_to_the_defaults_of_others() -> None:
    tree = ast.parse((PACKAGE / "config" / "config.py").read_text())
    [config] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Config"]
    assert {name: value for name, node in assignments(config.body) if (value := literal(node)) is not None} == {}


def test_a_setting_has_a_default_only_if_its_field_has_none() -> None:
    of_fields = {field.name for field in fields(Config) if field.default not in (MISSING, None, ())}
    assert {setting.field for setting in SETTINGS if setting.default is not None} & of_fields == set()


def test_repeated_defaults_are_found(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("SECONDS = 3.0\n_HIDDEN = 5\ndef wait(a, depth=7, *, hidden=5, flag=1): ...\n")
    (tmp_path / "two.py").write_text("class Two:\n    seconds: float = 6 / 2\n    flag: int = 1\n    depth = -7\n")
    (tmp_path / "three.py").write_text("seconds = 3.0\nasync def run(seconds=4.0, *, level, depth=7): ...\n")
    assert repeated(tmp_path) == {"seconds": ["one.py:1", "two.py:2"], "depth": ["one.py:3", "three.py:2"]}

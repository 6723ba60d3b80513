"""Tests pass limits as parameters: what a test patches is not what users run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]+")


def patched_constants(source: str) -> Iterator[str]:
    """Yield lines that replace a constant of a module or class."""
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        line = getattr(node, "lineno", 0)
        match node:
            case ast.Call(func=ast.Name(id="setattr" | "patch") | ast.Attribute(attr="setattr" | "patch" | "object")):
                texts = (part.value for part in node.args if isinstance(part, ast.Constant))
                names = [text.rpartition(".")[2] for text in texts if isinstance(text, str)]
            case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()):
                names = [name]
        yield from (f"{line}: {name}" for name in names if CONSTANT.fullmatch(name))


def test_tests_pass_limits_instead_of_patching_constants() -> None:
    patched = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        for line in patched_constants(path.read_text("utf-8"))
    ]
    assert not patched, "pass them to a constructor or function; the constant is its default"


def test_patched_constants_are_noticed() -> None:
    source = """
patch.setattr(module, "_LIMIT", 1)
patch.setattr("package.module.LIMIT_2", 1)
setattr(Class, "LIMIT", 1)
mock.patch("package.LIMIT")
Class.LIMIT, Class.other = 1, 2
module.LIMIT += 1
patch.setattr(os, "fsync", fail)
patch.setattr(made, "limit", "LIMIT of")
"""
    assert sorted(line.partition(":")[0] for line in patched_constants(source)) == list("234567")

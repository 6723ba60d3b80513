"""Tables that map what the original documents say to the tests that show it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]


def exists(named: str) -> bool:
    """Whether there is a test of this name: `agent/test_loop.py::test_…`."""
    path, _, function = named.partition("::")
    return function in _functions(TESTS / path)


@cache
def _functions(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))

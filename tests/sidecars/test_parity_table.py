"""The table in the README of this folder names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NAMED = re.compile(r"([\w./]+\.py)::(\w+|\*)")


@pytest.mark.process
def test_the_table_names_tests_that_exist() -> None:
    rows = [line for line in (HERE / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    missing = []
    for row in rows:
        named = NAMED.findall(row)
        assert named or row.startswith("| a sidecar … "), row
        for file, test in named:
            path = HERE / file
            definition = "def test_" if test == "*" else f"def {test}("
            if not path.is_file() or definition not in path.read_text(encoding="utf-8"):
                missing.append(f"{file}::{test}")
    assert not missing

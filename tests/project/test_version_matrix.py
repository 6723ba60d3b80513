"""Everything that `tests/project/try_versions.py` names exists; no other test runs that script."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "tests/project/try_versions.py"))


def test_the_test_files_of_the_version_matrix_are_there() -> None:
    assert [path for path in SCRIPT["TESTS"] if not (ROOT / path).is_file()] == []


def test_the_tests_that_older_versions_cannot_pass_are_there() -> None:
    """Each is named by a part of its name, which would otherwise deselect nothing."""
    names = [name for path in SCRIPT["TESTS"] for name in re.findall(r"def (test_\w+)", (ROOT / path).read_text())]
    parts = [part for _, tests in SCRIPT["IMPOSSIBLE"].values() for part in tests.split(" or ")]
    assert [part for part in parts if not any(part in name for name in names)] == []


def test_the_tests_of_the_version_matrix_can_be_collected_without_xdist() -> None:
    """The environments that the script makes have only the plugins that those tests need."""
    command = [sys.executable, "-m", "pytest", *SCRIPT["OPTIONS"], "--collect-only", "-p", "no:xdist"]
    found = subprocess.run([*command, SCRIPT["TESTS"][-1]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr

"""What a long session takes of memory: its rows are read in a stream, by every operation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")]

TESTS = Path(__file__).parents[1]
DATABASE = {"catch_up": 100, "read_ahead": 100}
"""Megabytes for what DuckDB keeps, however long the session is."""


def growth(directory: Path, size: int) -> dict[str, int]:
    """The megabytes that each operation on a session of so many bytes takes while it runs."""
    printed = subprocess.run(
        [sys.executable, "-m", "support.memory_of_verbs", str(directory), str(size)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    print(printed)
    rows = (line.split() for line in printed.splitlines())
    return {verb: int(megabytes) for name, verb, megabytes, _ in rows if name == "long"}


@pytest.mark.timeout(180)
def test_memory_stays_below_the_size_of_the_journal(tmp_path: Path) -> None:
    found = growth(tmp_path, 24_000_000)
    assert {verb for verb, megabytes in found.items() if megabytes > DATABASE.get(verb, 24)} == set()
    assert found.keys() >= {"branches", "return", "fork", "import", "export.jsonl", "export.md", *DATABASE}


@pytest.mark.soak
@pytest.mark.skipif(not os.environ.get("PLANCK_NB_SOAK"), reason="takes minutes; set PLANCK_NB_SOAK")
@pytest.mark.timeout(3600)
def test_memory_at_half_a_gigabyte_stays_below_half_a_gigabyte(tmp_path: Path) -> None:
    found = growth(tmp_path, 500_000_000)
    assert {verb for verb, megabytes in found.items() if megabytes > 500} == set()

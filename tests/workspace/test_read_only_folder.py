"""A workspace whose sessions directory cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = """
import asyncio, os, sys
from pathlib import Path
from planck_nb.config import Config
from planck_nb.workspace import Workspace
async def main():
    async with Workspace(Config.load(directory=Path(sys.argv[1]))) as workspace:
        for name in ("one", "two"):
            agent = workspace.add_agent(name, model=workspace.model("demo"))
            print(len((await agent.prompt("hello")).text) > 0)
        print(*workspace.notices(), sep="|")
        print(workspace.notices())
        print(len(await workspace.query_async("from messages")), workspace.sessions()[0].name == workspace.session.name)
        print(workspace.sessions_dir)
asyncio.run(main())
"""


@pytest.mark.slow
def test_prompts_and_queries_work_if_no_session_can_be_stored_in_the_folder(tmp_path: Path) -> None:
    blocked = tmp_path / "file"  # also root cannot create a directory in it
    blocked.touch()
    environment = {**os.environ, "PLANCK_NB_DEMO_PACE": "0", "PLANCK_NB_SESSIONS_DIR": str(blocked / "sessions")}
    command = [sys.executable, "-c", RUN, str(tmp_path)]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    *answers, notice, again, found, directory = done.stdout.splitlines()
    assert answers == ["True", "True"]
    assert notice == (
        f"{blocked / 'sessions'} cannot be written, so this session is lost when the kernel ends; "
        "set PLANCK_NB_SESSIONS_DIR to a folder that you can write."
    )
    assert again == "[]", "it is said once"
    assert found == "4 True"
    assert not Path(directory).exists(), "the temporary directory is removed"

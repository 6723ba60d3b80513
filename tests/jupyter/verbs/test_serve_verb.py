"""`%planck serve` opens the socket of the kernel for `planck-nb mcp`, and closes it."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest

from planck_nb import Config, Workspace
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.verbs import VERBS
from planck_nb.serve.kernel_client import KernelClient
from planck_nb.testing import scripted_model
from planck_nb.tools.private_folders import runtime_folder


async def said(notebook: Notebook, line: str = "") -> str:
    return str(await VERBS["serve"].run(notebook, line))


def sockets(path: Path) -> list[Path]:
    """The sockets in the folder of this one."""
    return [each for each in path.parent.iterdir() if each.suffix == path.suffix]


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def test_the_kernel_is_reached_by_the_command_that_is_said_until_it_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="planck-") as runtime:  # a path that a socket may have
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        await _serve_and_close(tmp_path)


async def _serve_and_close(tmp_path: Path) -> None:
    project = tmp_path / "my project"
    project.mkdir()
    workspace = Workspace(Config.load(environment={}, directory=project, home=tmp_path))
    notebook = Notebook(Controller(workspace), {})
    assert await said(notebook, "status") == (
        "No other program can reach this kernel; `%planck serve` lets MCP clients of the same user do so."
    )
    assert await said(notebook, "off") == "No other program can reach this kernel."
    workspace.add_agent("ada", model=scripted_model(["hi"]))
    opened = await said(notebook)
    assert opened == await said(notebook, "on") == await said(notebook, "status"), "one socket"
    found = re.search(r"planck-nb mcp --folder '(.+)' --kernel (\d+)\n", opened)
    assert found is not None
    assert found[1] == str(project)

    client = KernelClient(runtime_folder(), Path(found[1]), workspace.sessions_dir, found[2])
    listed = await client.call("list_agents", {})
    assert [agent["name"] for agent in listed["agents"]] == ["ada"]

    path = Path(re.search(r"The socket is (.+?);", opened)[1])  # type: ignore[index]
    assert mode_of(path) == 0o600
    await said(notebook, "off")
    assert path not in sockets(path)
    await said(notebook, "on")
    assert len(sockets(path)) == 1
    await notebook.controller.close()
    assert sockets(path) == [], "it ends with the notebook"


def test_it_is_listed_in_help() -> None:
    assert "serve" in VERBS
    assert "let the same user's MCP clients" in VERBS["serve"].help

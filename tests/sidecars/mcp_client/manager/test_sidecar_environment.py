"""Environments of a project's own sidecar, built with venv and pip and without a network."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path

import pytest
from support.sidecar_links import FAST, SERVERS, Events, hostile, until, until_file
from support.sidecar_server import until_ended

import planck_nb
from planck_nb.base.errors import SidecarError
from planck_nb.sidecars.mcp_client.manager import Sidecars
from planck_nb.sidecars.mcp_client.manager.environment import SidecarEnvironment

pytestmark = pytest.mark.process

PROJECT = """
[build-system]
requires = []
build-backend = "build_backend"
backend-path = ["."]

[project]
name = "my-sidecar"
version = "0.1"

[tool.planck_nb.sidecar]
setup = [["sh", "-c", "echo ready > set-up"]]
"""

MODULE = """
import sys
import planck_nb
from planck_nb.sidecars import Sidecar

sidecar = Sidecar("my-sidecar")

@sidecar.tool(process=False)
def where() -> str:
    return f"{sys.prefix} {planck_nb.__file__} {planck_nb.__version__}"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with a sidecar."""
    folder = tmp_path / ".planck" / "sidecar"
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "my_sidecar_module.py").write_text(MODULE)
    shutil.copy(SERVERS / "build_backend.py", folder)
    return folder


def kernel(**more: str) -> dict[str, str]:
    secrets = {"OPENAI_API_KEY": "sk-1", "VIRTUAL_ENV": "/v", "PYTHONPATH": "/p", "PIP_TARGET": "/t"}
    return {**os.environ, **secrets, "PIP_NO_INDEX": "1", "HTTPS_PROXY": "http://proxy", **more}


@pytest.fixture
def uv(tmp_path: Path) -> str:
    """A program that does what the link has uv do."""
    path = tmp_path / "uv"
    program = shlex.join([sys.executable, str(SERVERS / "uv_stand_in.py")])
    path.write_text(f'#!/bin/sh\nexec {program} "$@"\n')
    path.chmod(0o755)
    return str(path)


def builds(folder: Path) -> int:
    return (folder / "builds").read_text().count("built") if (folder / "builds").exists() else 0


async def test_a_project_is_built_started_and_built_again_only_if_it_changed(folder: Path) -> None:
    environment = SidecarEnvironment(folder, environment=kernel(), requirements=(), uv="")
    events = Events()
    sidecars = Sidecars(timing=FAST, on_event=events, environment=kernel())
    sidecars.add(environment.spec(), environment=environment)

    (folder / "uv.lock").write_text("version = 1\n")
    lines: list[str] = []
    build = asyncio.create_task(environment.build(lines.append))
    await until((folder / ".venv" / "bin" / "python").exists)
    start = asyncio.create_task(sidecars.start())  # waits for the other build
    await events.until("progress")
    assert sidecars.status()[0].state == "building"
    await build
    # What an index would have given.
    (site,) = (folder / ".venv" / "lib").glob("python*/site-packages")
    (site / "kernel.pth").write_text(sysconfig.get_path("purelib"))
    (status,) = await start
    assert (status.state, status.reason) == ("connected", "")
    assert [kind for kind in events.kinds if kind != "progress"] == ["building", "starting", "connected"]
    assert events.all[1].text == "another kernel is building this environment"

    where = (await sidecars.link("sidecar").call("where", {})).text
    assert where == f"{folder}/.venv {site}/planck_nb/__init__.py {planck_nb.__version__}"
    assert (folder / "set-up").read_text() == "ready\n"
    assert "uv.lock is not used, because uv is not installed; the newest versions are installed" in lines
    assert builds(folder) == 1
    await sidecars.restart()
    assert builds(folder) == 1
    await sidecars.aclose()

    seen = json.loads((folder / "environment.json").read_text())
    assert seen["HTTPS_PROXY"] == "http://proxy"
    assert not {"OPENAI_API_KEY", "PIP_TARGET"} & seen.keys()
    assert seen.get("VIRTUAL_ENV") != "/v"
    assert seen.get("PYTHONPATH") != "/p"  # pip sets its own


async def test_an_environment_behind_a_link_is_not_used(folder: Path, uv: str) -> None:
    """It may lead to a folder in which commands write."""
    environment = SidecarEnvironment(folder, environment=kernel(), uv=uv, requirements=())
    await environment.build()
    elsewhere = folder.parent.parent / "data"
    (folder / ".venv").rename(elsewhere)
    (folder / ".venv").symlink_to(elsewhere)
    assert not environment.is_current()
    await environment.build()
    assert (environment.is_current(), (folder / ".venv").is_symlink()) == (True, False)
    assert (elsewhere / "bin/python").exists()


async def test_an_environment_is_out_of_date_when_what_it_is_made_of_changes(folder: Path, uv: str) -> None:
    def made(**more: object) -> SidecarEnvironment:
        return SidecarEnvironment(folder, environment=kernel(), uv=uv, **{"requirements": (), **more})  # type: ignore[arg-type]

    environment = made()
    assert not environment.is_current()
    lines: list[str] = []
    await environment.build(lines.append)
    assert environment.is_current()
    assert made().is_current()
    assert not made(requirements=("mcp",)).is_current()
    assert any("planck_nb" in line and "is copied" in line for line in lines)
    assert any("Successfully installed my-sidecar-0.1" in line for line in lines)
    calls = (folder / "uv-calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["venv", "pip"]
    (folder / "pyproject.toml").write_text(PROJECT + "# changed\n")
    assert not environment.is_current()
    await environment.build()
    assert (builds(folder), environment.is_current()) == (2, True)
    shutil.rmtree(folder / ".venv")
    assert not environment.is_current()


async def test_an_environment_that_does_not_build_is_one_sentence_and_others_work(
    folder: Path, tmp_path: Path, uv: str
) -> None:
    environment = SidecarEnvironment(folder, environment=kernel(PIP_NEED="no-such-package-1"), requirements=(), uv=uv)
    sidecars = Sidecars(timing=FAST)
    sidecars.add(environment.spec(), environment=environment)
    sidecars.add(hostile(tmp_path))
    project, other = await sidecars.start()
    assert other.state == "connected"
    assert project.state == "failed"
    assert project.reason.startswith(
        f"The environment of the sidecar in {folder} could not be built: `{uv} pip install"
    )
    assert "ended with status 1" in project.reason
    assert "No matching distribution found for no-such-package-1" in project.reason
    assert "\n" not in project.reason
    assert any("no-such-package-1" in line for line in sidecars.logs("sidecar"))
    assert not environment.is_current()
    await sidecars.aclose()


@pytest.mark.parametrize(
    ("name", "content"), [("uv.toml", ""), ("pyproject.toml", "[tool.uv.workspace]"), ("pyproject.toml", "[")]
)
async def test_uv_follows_no_settings_of_folders_above(folder: Path, uv: str, name: str, content: str) -> None:
    (folder.parents[1] / name).write_text(content)
    with pytest.raises(
        SidecarError, match=r"^uv would follow the settings in .*; add the line \[tool\.uv\.workspace\] to"
    ):
        await SidecarEnvironment(folder, environment=kernel(), uv=uv, requirements=()).build()
    (folder / "pyproject.toml").write_text(f"{PROJECT}\n[tool.uv.workspace]\n")
    with suppress(SidecarError):  # this uv may build nothing
        await SidecarEnvironment(folder, environment=kernel(), uv=uv, requirements=()).build()
    assert (folder / ".venv").exists()


async def test_a_stopped_build_ends_everything_that_it_started(folder: Path, uv: str) -> None:
    (folder / "hang").touch()
    environment = SidecarEnvironment(folder, environment=kernel(), requirements=(), uv=uv)
    sidecars = Sidecars(timing=FAST)
    sidecars.add(environment.spec(), environment=environment)
    start = asyncio.create_task(sidecars.start())
    child = int(await until_file(folder / "child"))
    assert sidecars.status()[0].state == "building"
    await sidecars.stop()
    await asyncio.wait([start])
    await until_ended([child])
    assert sidecars.status()[0].state == "idle"
    (folder / "hang").unlink()
    await environment.build()  # the lock is free, and what was left is replaced
    assert environment.is_current()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, r"has no pyproject\.toml; write one, or a new sidecar with `planck-nb new sidecar NAME`\.$"),
        ("[project\n", r"pyproject\.toml cannot be read: .*; correct it\.$"),
        ("\0", r"pyproject\.toml cannot be read"),
    ],
)
async def test_a_project_that_cannot_be_read_is_one_sentence(folder: Path, content: str | None, sentence: str) -> None:
    if content is None:
        (folder / "pyproject.toml").unlink()
    else:
        (folder / "pyproject.toml").write_text(content)
    environment = SidecarEnvironment(folder)
    assert not environment.is_current()
    with pytest.raises(SidecarError, match=sentence):
        await environment.build()

"""Environments of a project's own sidecar, built by the real uv from a folder of packages, without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from support.evidence import missing
from support.sidecar_links import FAST, SERVERS

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
requires-python = ">=3.11"
dependencies = ["small-package"]

[dependency-groups]
dev = ["only-for-tests"]

[tool.uv]
no-index = true
find-links = ["packages"]
"""

MODULE = """
import importlib.metadata
import planck_nb
from planck_nb.sidecars import Sidecar

sidecar = Sidecar("my-sidecar")

@sidecar.tool(process=False)
def versions() -> str:
    names = {item.name for item in importlib.metadata.distributions()}
    return f"{importlib.metadata.version('small-package')} {'only-for-tests' in names} {planck_nb.__file__}"
"""


@pytest.fixture
def uv() -> str:
    """The program, which `tests/mcp_servers/install.py` installs."""
    program = Path(os.environ.get("PLANCK_NB_MCP_SERVERS", "nowhere"), "venv/bin/uv")
    found = str(program) if program.is_file() else shutil.which("uv")
    if found is None:
        missing(
            "uv is not installed; run `python tests/mcp_servers/install.py FOLDER` and set PLANCK_NB_MCP_SERVERS.",
            "mcp-servers",
        )
    return str(found)


def write_wheel(folder: Path, name: str, version: str) -> None:
    """Write a package without content."""
    stem = f"{name.replace('-', '_')}-{version}"
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{stem}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{stem}.dist-info/RECORD", "")


async def test_a_project_is_built_with_and_without_a_lock_file(tmp_path: Path, uv: str) -> None:
    folder = tmp_path / "my project" / ".planck" / "sidecar"
    packages = folder / "packages"
    packages.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "my_sidecar_module.py").write_text(MODULE)
    shutil.copy(SERVERS / "build_backend.py", folder)
    write_wheel(packages, "small-package", "1.0")
    write_wheel(packages, "only-for-tests", "1.0")
    settings = {
        "UV_OFFLINE": "1",
        "UV_PYTHON": sys.executable,
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "UV_PROJECT_ENVIRONMENT": str(tmp_path / "elsewhere"),  # would build another environment
        "VIRTUAL_ENV": "/v",
    }
    kernel = {**os.environ, **settings}
    environment = SidecarEnvironment(folder, environment=kernel, requirements=(), uv=uv)

    async def installed() -> str:
        """Build what is not up to date, and look which version of the package is there."""
        await environment.build()
        (found,) = (folder / ".venv" / "lib").glob("python*/site-packages/small_package-*.dist-info")
        return found.name

    async def versions() -> list[str]:
        """Build what is not up to date, start the sidecar, and ask it what is installed."""
        await environment.build()
        (site,) = (folder / ".venv" / "lib").glob("python*/site-packages")
        (site / "kernel.pth").write_text(sysconfig.get_path("purelib"))  # what an index would have given
        sidecars = Sidecars(timing=FAST, environment=kernel)
        sidecars.add(environment.spec(), environment=environment)
        (status,) = await sidecars.start()
        assert (status.state, status.reason) == ("connected", "")
        found = (await sidecars.link("sidecar").call("versions", {})).text
        await sidecars.aclose()
        *versions, place = found.split(" ", 2)
        assert Path(place).is_relative_to(site)  # the kernel's planck_nb stays, although no lock file names it
        return versions

    assert await installed() == "small_package-1.0.dist-info"
    own = {name: value for name, value in kernel.items() if name not in ("UV_PROJECT_ENVIRONMENT", "VIRTUAL_ENV")}
    subprocess.run([uv, "lock", "-q"], cwd=folder, env=own, check=True)  # noqa: ASYNC221 - nothing else runs
    write_wheel(packages, "small-package", "2.0")
    assert not environment.is_current()
    assert await versions() == ["1.0", "False"]  # the locked version, although there is a newer one
    (folder / "uv.lock").unlink()
    assert await installed() == "small_package-2.0.dist-info"
    assert not (tmp_path / "elsewhere").exists()

    subprocess.run([uv, "lock", "-q"], cwd=folder, env=own, check=True)  # noqa: ASYNC221 - as above
    (folder / "pyproject.toml").write_text(PROJECT.replace('["small-package"]', '["small-package<2"]'))
    with pytest.raises(SidecarError, match=r"could not be built: `.*uv sync .*lockfile .*needs to be updated"):
        await environment.build()
    (folder / "pyproject.toml").write_text(PROJECT.replace('["small-package"]', '["no-such-package"]'))
    (folder / "uv.lock").unlink()
    with pytest.raises(SidecarError, match=r"could not be built: `.*uv pip install .*no-such-package"):
        await environment.build()

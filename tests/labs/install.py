"""Installs this project's wheel beside several versions of JupyterLab; only the standard library is needed.

    python tests/labs/install.py FOLDER

The folder is what `PLANCK_NB_LABS` then names. It has a virtual environment for each file with requirements beside this
one. Their JupyterLab stays from run to run, and the wheel is new each time.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def install(folder: Path) -> None:
    """Install all environments into a folder."""
    with tempfile.TemporaryDirectory() as built:
        _pip(Path(sys.executable), "wheel", "--no-deps", "--wheel-dir", built, str(ROOT))
        [wheel] = Path(built).glob("*.whl")
        for requirements in sorted(HERE.glob("*.txt")):
            _install(folder / requirements.stem, requirements, wheel)


def _install(environment: Path, requirements: Path, wheel: Path) -> None:
    mark = environment / "installed"
    needed = hashlib.sha256(requirements.read_bytes() + (ROOT / "pyproject.toml").read_bytes()).hexdigest()
    python = environment / "bin" / "python"
    if mark.is_file() and mark.read_text() == needed:
        _pip(python, "install", "--no-deps", "--force-reinstall", str(wheel))
        return
    venv.create(environment, with_pip=True, clear=True)
    _pip(python, "install", "-r", str(requirements), str(wheel))
    mark.write_text(needed)


def _pip(python: Path, *arguments: str) -> None:
    subprocess.run([python, "-m", "pip", "-q", *arguments], check=True)


if __name__ == "__main__":
    install(Path(sys.argv[1]))

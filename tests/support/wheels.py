"""Builds wheels with the build backend of the project, without the network."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

from support.evidence import missing


def build_wheel(project: Path, into: Path) -> ZipFile:
    """The wheel of the project in this folder; the test is skipped where the build backend is not installed."""
    if find_spec("hatchling") is None:
        missing("hatchling is not installed; install the extra test.", "hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(into)]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [wheel] = into.glob("*.whl")
    return ZipFile(wheel)

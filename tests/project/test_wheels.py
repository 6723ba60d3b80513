"""What the wheels contain: that of this project, and that of the provider package in the tests."""

from __future__ import annotations

import json
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest
from support.node import labextension_script
from support.wheels import build_wheel

from planck_nb.jupyter.command import QUICKSTARTS
from planck_nb.jupyter.live.view import code_of

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]


def test_the_wheel_contains_the_package_the_quickstart_and_the_command(tmp_path: Path) -> None:
    with build_wheel(ROOT, tmp_path) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name and ".data/" not in name}
        [points] = [name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt")]
        assert "planck-nb = planck_nb.cli:main" in wheel.read(points).decode()
        installed, in_a_clone = (path.relative_to(ROOT).as_posix() for path in QUICKSTARTS)
        assert wheel.read(installed) == (ROOT / in_a_clone).read_bytes()
    sources = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "planck_nb").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert names == sources | {installed}


def test_the_wheel_contains_the_jupyterlab_extension_with_the_files_of_the_view(tmp_path: Path) -> None:
    hook = labextension_script("hatch_build")
    folder = f"planck_nb-{version('planck-nb')}.data/data/share/jupyter/labextensions/{hook.EXTENSION}/"
    with build_wheel(ROOT, tmp_path) as wheel:
        found = {name.removeprefix(folder): wheel.read(name) for name in wheel.namelist() if name.startswith(folder)}
    assert found == {path: file.read_bytes() for file, path in hook.extension_files().items()}
    manifest = json.loads(found["package.json"])
    assert manifest["jupyterlab"]["_build"]["load"] in found
    assert manifest["version"] == version("planck-nb")
    [view] = [path for path in found if path.startswith("static/live-")]
    assert code_of(view.removeprefix("static/").removesuffix(".js")) == found[view]


def test_the_wheel_of_the_provider_package_has_its_module_and_its_entry_point(tmp_path: Path) -> None:
    project = shutil.copytree(ROOT / "tests/ai/third_party_provider", tmp_path / "project")
    with build_wheel(project, tmp_path) as wheel:
        assert wheel.read("planck_acme.py") == (project / "planck_acme.py").read_bytes()
        points = wheel.read("planck_acme-1.0.dist-info/entry_points.txt").decode()
    assert points.split() == ["[planck_nb.providers]", "acme", "=", "planck_acme:register"]

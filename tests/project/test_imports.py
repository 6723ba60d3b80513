"""Importing the package is cheap, and every public name is there."""

from __future__ import annotations

import subprocess
import sys

import pytest

import planck_nb

HEAVY = {"duckdb", "pandas", "httpx", "aiohttp", "IPython", "ipywidgets", "anywidget", "nest_asyncio2", "jsonschema"}


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has after `statement`."""
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.process
@pytest.mark.parametrize(
    "statement",
    [
        "import planck_nb; assert planck_nb.get_workspace() is None",
        "from planck_nb import Agent, ai, errors, events, run_sync, tool",
        "from planck_nb.testing import scripted_model",
    ],
)
def test_importing_loads_nothing_heavy(statement: str) -> None:
    assert not loaded_by(statement) & HEAVY


def test_every_public_name_resolves() -> None:
    for name in planck_nb.__all__:
        assert getattr(planck_nb, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = planck_nb.nothing

"""The public names: each has one meaning."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from support.public_api import FACES, face

import planck_nb
from planck_nb import errors, events

SAME_NAME = {
    "discover": "sidecars.discover finds the sidecar of this environment; ai.discover finds the models of a server.",
    "tool": "sidecars.tool adds what a sidecar needs, such as timeout_ms and process, to what planck_nb.tool makes.",
}
"""Names that two public modules use for different things, each with the reason. Users write the module's name too."""

RE_EXPORTED = {
    "Decoder": {"planck_nb.ai", "planck_nb.ai.dialects"},
    "Dialect": {"planck_nb.ai", "planck_nb.ai.dialects"},
    "LocalModel": {"planck_nb.ai", "planck_nb.ai.dialects"},
    "Pause": {"planck_nb.ai", "planck_nb.ai.dialects"},
    "PlanckError": {"planck_nb", "planck_nb.errors"},
    "Session": {"planck_nb", "planck_nb.sessions"},
    "ToolContext": {"planck_nb", "planck_nb.sidecars"},
    "ToolError": {"planck_nb", "planck_nb.errors", "planck_nb.sidecars"},
    "ToolOutput": {"planck_nb", "planck_nb.sidecars"},
    "WireRequest": {"planck_nb.ai", "planck_nb.ai.dialects"},
    "Workspace": {"planck_nb", "planck_nb.workspace"},
}
"""Names that several public modules export; each other name is exported from one place."""


@pytest.mark.parametrize("suffix", FACES)
def test_every_listed_name_is_there_in_order(suffix: str) -> None:
    module = face(suffix)
    assert [name for name in module.__all__ if getattr(module, name, None) is None] == []
    assert len(module.__all__) == len(set(module.__all__))


def test_a_name_means_the_same_wherever_it_is_exported() -> None:
    meanings: dict[str, list[object]] = {}
    for suffix in FACES:
        module = face(suffix)
        for name in module.__all__:
            known = meanings.setdefault(name, [])
            value = getattr(module, name)
            if not any(value is other for other in known):
                known.append(value)
    assert {name for name, values in meanings.items() if len(values) > 1} == set(SAME_NAME)


def test_each_name_is_exported_from_one_place_unless_it_is_named_here() -> None:
    places: dict[tuple[str, int], set[str]] = {}
    for suffix in FACES:
        module = face(suffix)
        for name in module.__all__:
            places.setdefault((name, id(getattr(module, name))), set()).add(module.__name__)
    assert {name: modules for (name, _), modules in places.items() if len(modules) > 1} == RE_EXPORTED


def test_the_package_and_the_page_for_contributors_list_the_same_public_modules() -> None:
    listed = re.search(r"The public API is.*?\.\n", planck_nb.__doc__ or "", re.DOTALL)
    assert listed is not None
    assert sorted(re.findall(r"`planck_nb(\.[\w.]+)`", listed[0])) == FACES[1:]
    page = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
    told = re.search(r"\*\*The public API\*\* is.*?\.\s", page.replace("`.`", ""), re.DOTALL)
    assert told is not None
    names = set(re.findall(r"`([\w.]+)`", told[0])) - {"__all__", "planck_nb"}
    assert sorted(f".{name}" for name in names) == FACES[1:]


def test_no_public_function_hides_a_module() -> None:
    hidden = []
    for suffix in FACES:
        module = face(suffix)
        modules = {found.name for found in pkgutil.iter_modules(getattr(module, "__path__", []))}
        hidden += [f"{module.__name__}.{name}" for name in modules if inspect.isroutine(getattr(module, name, None))]
    assert hidden == []


def test_errors_lists_every_exception() -> None:
    known: set[type[Exception]] = set()
    unseen: list[type[Exception]] = [errors.PlanckError]
    for found in pkgutil.walk_packages(planck_nb.__path__, "planck_nb."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    while unseen:
        error = unseen.pop()
        known.add(error)
        unseen += error.__subclasses__()
    shipped = {error.__name__ for error in known if error.__module__.startswith("planck_nb.")}
    private = {name for name in shipped if name.startswith("_")}
    assert set(errors.__all__) == shipped - private


def test_events_lists_every_event() -> None:
    classes = {event.__name__ for event in get_args(events.AgentEvent)}
    assert set(events.__all__) - classes == {"AgentEvent", "EventBase", "decode_event", "encode_event"}
    assert classes <= set(events.__all__)
    assert dir(events) == sorted(events.__all__)


def test_outside_a_notebook_there_is_no_workspace() -> None:
    assert planck_nb.get_workspace() is None


# Importing the package is cheap, and every public name is there.

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

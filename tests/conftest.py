"""What holds for all tests: nothing of the machine's owner is seen or touched."""

from __future__ import annotations

import gc
import os
import pathlib
import signal
import sys
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from planck_nb.base.iri_parser import without_iri_parser

with without_iri_parser():  # 2 s in each process of a run
    import jsonschema  # noqa: F401
from support import forked_kernels
from support.forked_kernels import KernelTemplate
from support.llama import llama_server

# No deadline: a slow machine is no defect, and pytest-timeout bounds each test.
settings.register_profile("planck", deadline=None, max_examples=50)
settings.load_profile("planck")

# Hundreds of kernels and servers are started here; without files of bytecode each would compile all modules.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in background jobs of a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ("support.own_processes", "support.failure_report")

_FOLDER = pathlib.Path(__file__).parent
_LONG = ("browser", "sidecars", "jupyter", "notebooks", "project", "serve", "sessions", "workspace", "teams", "tools")
"""Folders with tests that take long, in the order in which they start."""
_MARKED_FIXTURES = {"kernel": "kernel", "llama": "process"}
_OURS = {f"PLANCK_NB_{name}" for name in ("LABS", "MCP_SERVERS", "TESTDATA", "REQUIRE", "SCREENSHOTS", "SOAK")}


@pytest.hookimpl(optionalhook=True)  # pytest-xdist may be missing, as where other versions are tried
def pytest_xdist_auto_num_workers() -> int:
    """At least three processes, because tests also wait: for browsers, kernels and servers."""
    return max(3, len(os.sched_getaffinity(0)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Give a third of the processes all tests in browsers: JupyterLab and Chromium take long to start."""
    from xdist.scheduler import LoadFileScheduling

    shares = max(1, int(config.getvalue("numprocesses")) // 3)

    class Scheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            file = str(super()._split_scope(nodeid))
            return f"browser {zlib.crc32(file.encode()) % shares}" if file.startswith("tests/browser/") else file

    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let scripted models answer from Dask workers, which is tried by hand."""
    parser.addoption("--engine", choices=("local", "dask"), default="local", help="where scripted models answer from")


def pytest_configure(config: pytest.Config) -> None:
    """Collect in each process from another folder on, so that each compiles some files and finds the others compiled.

    Garbage collections wait until the tests are there.
    """
    gc.disable()
    worker = getattr(config, "workerinput", None)
    if config.getoption("engine") == "dask" and (worker is not None or not config.getoption("numprocesses", None)):
        config.pluginmanager.import_plugin("support.remote_models")
    if worker is not None and config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        folders = sorted(str(path) for path in _FOLDER.iterdir() if path.is_dir() and path.name != "__pycache__")
        first = len(folders) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        config.args[:] = folders[first:] + folders[:first]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their fixtures; start with files that take long, so that all processes end at about one time."""
    for item in items:
        for fixture, marker in _MARKED_FIXTURES.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(marker)

    def place(file: pathlib.Path) -> int:
        return next((at for at, name in enumerate(_LONG) if _FOLDER / name in file.parents), len(_LONG))

    places = {file: place(file) for file in {item.path for item in items}}
    items.sort(key=lambda item: (places[item.path], item.path))


def pytest_collection_finish() -> None:
    """Leave the tests themselves out of garbage collections: there are more than a million objects."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def clean_environment(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No API key, no setting, no proxy; the home and the working directory are empty folders."""
    for name in list(os.environ):
        setting = name.startswith("PLANCK_NB_") and name not in _OURS
        if setting or name.endswith("_API_KEY") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    folder = tmp_path_factory.mktemp("user")
    for name in ("home", "work"):
        (folder / name).mkdir()
    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.chdir(folder / "work")


@pytest.fixture(scope="session", autouse=True)
def kernel_template() -> Iterator[KernelTemplate]:
    """Starts the kernels of all tests."""
    template = KernelTemplate()
    forked_kernels.start_from(template.address)
    yield template
    forked_kernels.start_as_usual()
    template.close()


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real llama.cpp server."""
    with llama_server(pathlib.Path(tmp_path_factory.mktemp("llama"))) as url:
        yield url

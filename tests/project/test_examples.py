"""The examples in docstrings and in the pages run."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import planck_nb
from planck_nb import Config, Workspace, ai
from planck_nb.ai.registry import REGISTRY
from planck_nb.serve import KernelSocket

ROOT = Path(__file__).parents[2]
MODULES = [
    file for file in sorted((ROOT / "planck_nb").rglob("*.py")) if re.search(r"^ *>>> ", file.read_text(), re.MULTILINE)
]


def blocks(page: Path) -> list[str]:
    """The Python of a page, without the magics in it."""
    found = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    return [re.sub(r"^%.*\n", "", block, flags=re.MULTILINE) for block in found]


PROGRAMS = {
    heading: list[str](re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
    for heading, text in re.findall(
        r"^## (.*?)\n(.*?)(?=^## |\Z)", (ROOT / "notebooks" / "python.md").read_text(), re.DOTALL | re.MULTILINE
    )
    if "```python" in text
}
"""The programs of a page by their headings. The last block is run; each before it is a file, which it names first."""

TYPED = {"Approval in a script": "y\n"}
PRINTED = {
    "A tool with dependencies": "`order_total` returned `42.0`.",
    "A structured answer, streamed": "{'customer': 'Ada', 'total': 42.5, 'paid': True}\n42.5 ",
    "Agents that hand over": "`add` returned `42`.",
    "Approval in a script": "Written notes.md",
    "An MCP server in a script": "Emma is on shelf 12",
    "Requests from Dask's workers": "100 answers from workers",
    "Test what you build": "",
}

PAGES = [page.relative_to(ROOT).as_posix() for page in sorted((ROOT / "planck_nb").rglob("README.md")) if blocks(page)]


@pytest.mark.process
@pytest.mark.parametrize("file", MODULES, ids=lambda file: file.relative_to(ROOT / "planck_nb").as_posix())
def test_examples_in_docstrings(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    before = set(ai.list_providers())
    failed, tried = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    for provider in set(ai.list_providers()) - before:
        REGISTRY.unregister(provider)
    assert tried, "the docstring with the example is not reached"
    assert failed == 0


@pytest.mark.process
@pytest.mark.parametrize("heading", PROGRAMS)
def test_programs_of_the_page_on_python_run_as_files(heading: str, tmp_path: Path) -> None:
    *files, program = PROGRAMS[heading]
    for file in files:
        (tmp_path / file.split()[1]).write_text(file)
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "-W", "error", "program.py"],
        cwd=tmp_path,
        input=TYPED.get(heading, ""),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert PRINTED[heading] in done.stdout


Names = dict[str, Any]


async def store_a_session(folder: Path) -> None:
    async with Workspace(Config.load(environment={}, directory=folder)) as workspace:
        await workspace.add_agent("planck", model=ai.get_model("demo")).prompt("hello")


@asynccontextmanager
async def with_a_stored_session(folder: Path, _patch: pytest.MonkeyPatch) -> AsyncIterator[Names]:
    await store_a_session(folder)
    names: Names = {}
    yield names
    with names["store"] as store:
        assert store.execute("SELECT count(*) > 1 FROM messages").fetchone() == (True,)


@asynccontextmanager
async def with_the_workspace_of_a_notebook(folder: Path, patch: pytest.MonkeyPatch) -> AsyncIterator[Names]:
    names: Names = {}
    with tempfile.TemporaryDirectory(prefix="pk-") as short:  # the paths of sockets have to be
        patch.setenv("XDG_RUNTIME_DIR", short)
        async with Workspace(Config.load(environment={}, directory=folder)) as workspace:
            patch.setattr(planck_nb, "get_workspace", lambda: workspace)
            yield names
            assert isinstance(names["socket"], KernelSocket)
            names["socket"].close()


@asynccontextmanager
async def with_what_the_kernel_provides(folder: Path, _patch: pytest.MonkeyPatch) -> AsyncIterator[Names]:
    functions = dict.fromkeys("ask sample accept on_event on_tools add_tools path".split())
    names: Names = {
        **functions,
        "root": folder,
        "folder": folder,
        "names": (),
        "text": '{"mcpServers": {}}',
        "session_id": str,
    }
    yield names
    assert [status.state for status in names["statuses"]] == ["failed"]  # the folder has no sidecar
    await names["sidecars"].aclose()


@asynccontextmanager
async def with_nothing(_folder: Path, _patch: pytest.MonkeyPatch) -> AsyncIterator[Names]:
    yield {}


PREPARED: dict[str, Callable[[Path, pytest.MonkeyPatch], AbstractAsyncContextManager[Names]]] = {
    "planck_nb/jupyter/README.md": with_a_stored_session,
    "planck_nb/serve/README.md": with_the_workspace_of_a_notebook,
    "planck_nb/sidecars/mcp_client/README.md": with_what_the_kernel_provides,
}
"""What the examples of a page take for granted, and what must be there after them."""


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
async def test_python_blocks_of_the_page_of_a_folder_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with PREPARED.get(page, with_nothing)(tmp_path, monkeypatch) as names:
        for block in blocks(ROOT / page):
            code = compile(block, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            if inspect.isawaitable(awaited := eval(code, names)):
                await awaited

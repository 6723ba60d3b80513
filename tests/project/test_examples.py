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


BLOCKS = blocks(ROOT / "README.md")
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
@pytest.mark.parametrize("code", BLOCKS, ids=range(1, len(BLOCKS) + 1))
def test_python_blocks_of_the_readme_run_as_files(code: str, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(code)
    command = [sys.executable, "-W", "error", str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


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

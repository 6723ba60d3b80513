"""Older versions of IPython, simulated; `tests/project/try_versions.py` tries real ones."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from IPython.core import async_helpers, completer

from planck_nb.config import Config
from planck_nb.jupyter.completion import matcher
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.ipython.compat import idle_loop
from planck_nb.jupyter.notebook import Notebook
from planck_nb.workspace import Workspace


@pytest.mark.parametrize(
    ("line", "text", "offered"),
    [
        ("%planck mod", "mod", ["model", "models"]),
        ("%planck model demo:s", "s", ["script"]),  # IPython takes what follows a colon for a word
        ("%%planck --mo", "--mo", ["--model"]),
        ("x = 1 + mod", "mod", []),
    ],
)
async def test_completion_before_ipython_8(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, text: str, offered: list[str]
) -> None:
    for name in ("context_matcher", "SimpleCompletion", "SimpleMatcherResult", "CompletionContext"):
        monkeypatch.delattr(completer, name)
    async with Workspace(Config(root=tmp_path, sessions_dir=tmp_path)) as workspace:
        notebook = Notebook(Controller(workspace))
        shell: Any = SimpleNamespace(Completer=SimpleNamespace(text_until_cursor=line))
        assert matcher(shell, lambda: notebook)(text) == offered


def test_the_event_loop_before_ipython_8(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.new_event_loop()
    monkeypatch.delattr(async_helpers, "get_asyncio_loop")
    monkeypatch.setattr(async_helpers, "_asyncio_runner", SimpleNamespace(loop=loop))
    assert idle_loop() is loop
    loop.close()


def test_the_event_loop_of_ipython() -> None:
    assert idle_loop() is async_helpers.get_asyncio_loop()

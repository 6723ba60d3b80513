"""Lines after `%planck`: those in two lists are sent to an agent or not, each as its list says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pandas as pd
import pytest

from planck_nb import Config, Workspace
from planck_nb.base.errors import PlanckError
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.interpretation import VerbLine, interpret
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.options import Prompt
from planck_nb.sessions import Session

LISTS = Path(__file__).parents[2] / "fixtures" / "language"
KEY = "x" * 40


def lines_of(name: str) -> list[str]:
    """Return the lines of a list, without comments."""
    lines = (LISTS / name).read_text(encoding="utf-8").splitlines()
    return [line.replace("{key}", KEY) for line in lines if line.strip("-") and not line.startswith("# ")]


NOT_PROMPTS, PROMPTS = lines_of("not_prompts.txt"), lines_of("prompts.txt")


def convert(amount: float) -> float:
    """Convert an amount."""
    return amount


@pytest.fixture
async def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Notebook]:
    """A notebook with two agents, variables, files, and a stored session."""
    (tmp_path / "data").mkdir()
    for name in ("sales.csv", "my notes.txt", "data/prices.parquet"):
        (tmp_path / name).write_text("city,price\nOslo,3\n")
    with Session.create(tmp_path / "sessions", name="calm-fox"):
        pass
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"price": [1]})
    names = {"df": frame, "orders": frame, "sales": [1], "rates": {"a": 1}, "notes": "none", "convert": convert}
    async with Workspace(Config(tmp_path / "sessions", root=tmp_path, default_model="demo", demo_pace=0)) as workspace:
        for name in ("planck", "analyst"):
            workspace.add_agent(name, model=workspace.model("demo"))
        yield Notebook(Controller(workspace), names)


async def answer_to(line: str, notebook: Notebook) -> str:
    """Return what happens to a line: the verb, the sentence which refuses it, or an empty text if it is sent."""
    try:
        read = interpret(line, None, notebook)
        if isinstance(read, VerbLine):
            return f"verb {read.verb.name} {read.argument}".strip()
        if read != Prompt({}, line):
            return f"changed to {read}"
        started = await notebook.controller.start(read.text, read.options, notebook.names)
    except PlanckError as error:
        return str(error)
    await started.agent.abort()
    return ""


def test_the_lists_are_long() -> None:
    assert min(len(NOT_PROMPTS), len(PROMPTS)) >= 100
    assert len(set(NOT_PROMPTS)) == len(NOT_PROMPTS)
    assert len(set(PROMPTS)) == len(PROMPTS)


@pytest.mark.slow
async def test_no_line_is_sent_which_is_no_prompt(notebook: Notebook) -> None:
    assert [line for line in NOT_PROMPTS if not await answer_to(line, notebook)] == []


@pytest.mark.slow
async def test_every_prompt_is_sent_as_it_is(notebook: Notebook) -> None:
    refused = {line: answer for line in PROMPTS if (answer := await answer_to(line, notebook))}
    assert refused == {}

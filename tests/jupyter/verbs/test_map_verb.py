"""`%planck map`: the prompt, the options, the table, and sentences about what cannot be asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from planck_nb import Config, Workspace
from planck_nb.base.errors import UsageError
from planck_nb.jupyter.completion import suggest
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.interpretation import VerbLine, interpret
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.verbs import VERBS
from planck_nb.testing import scripted_model
from planck_nb.workspace import MapRun

TICKETS = pd.DataFrame({"text": ["too hot", "too cold"], "ticket": ["t1", "t2"]})


@pytest.fixture
async def notebook(tmp_path: Path) -> AsyncIterator[Notebook]:
    async with Workspace(Config.load(environment={}, directory=tmp_path, home=tmp_path)) as workspace:
        workspace.add_agent("ann", model=scripted_model(["Oven."]), system_prompt="Be brief.")
        names: dict[str, object] = {"tickets": TICKETS, "questions": ["Is 7 prime?", "Is 9?"], "number": 7}
        yield Notebook(Controller(workspace), names, put=names.__setitem__)


async def asked(notebook: Notebook, line: str, cell: str | None = None) -> Any:
    read = interpret(f"map {line}", cell, notebook)
    assert isinstance(read, VerbLine)
    return await read.verb.run(notebook, read.argument, read.cell)


@pytest.mark.parametrize(
    ("line", "cell", "prompts"),
    [
        ("tickets --agent ann", "Product? {text}", ["Product? too hot", "Product? too cold"]),
        ("tickets --agent ann --column text", "Product?", ["Product?\n\ntoo hot", "Product?\n\ntoo cold"]),
        ("tickets --agent ann --column text", "", ["too hot", "too cold"]),
        ("--agent ann tickets Product? {text}", None, ["Product? too hot", "Product? too cold"]),
        ("questions --agent ann", None, ["Is 7 prime?", "Is 9?"]),
        ("questions --agent ann", "Answer with one word.", ["Answer with one word.\n\nIs 7 prime?"]),
        ("questions --agent ann --first 1", None, ["Is 7 prime?"]),
    ],
)
async def test_the_table_has_an_answer_for_each_row(
    notebook: Notebook, line: str, cell: str | None, prompts: list[str]
) -> None:
    table = await asked(notebook, line, cell)
    assert table["prompt"].tolist()[: len(prompts)] == prompts
    assert set(table["answer"]) == {"Oven."}
    assert "seconds" not in table, "a saved table is the same each time"


async def test_the_table_goes_into_a_variable(notebook: Notebook) -> None:
    assert await asked(notebook, "tickets --agent ann --into labels --key ticket --cost 5", "Product? {text}") is None
    labels = notebook.names["labels"]
    assert isinstance(labels, pd.DataFrame)
    assert labels.index.tolist() == ["t1", "t2"]


@pytest.mark.parametrize("option", ["--first 1", "--output Product"])
async def test_the_variable_is_stored_again_after_a_click(notebook: Notebook, option: str) -> None:
    @dataclass
    class Product:
        name: str

    stored: list[pd.DataFrame] = []
    again = asyncio.Event()

    def put(_: str, frame: Any) -> None:
        stored.append(frame)
        if len(frame) == len(TICKETS):
            again.set()

    names = {**notebook.names, "Product": Product}
    runs: list[MapRun] = []
    notebook.workspace.show_map = runs.append
    await asked(notebook, "tickets --agent ann --first 1", "Product? {text}")
    clicked = replace(notebook, names=names, put=put)
    with suppress(UsageError):  # one answer has other settings
        await asked(clicked, f"tickets --agent ann --into labels {option}", "Product? {text}")
    assert [len(frame) for frame in stored] == ([1] if option == "--first 1" else [])
    await runs[-1].go_on()
    await again.wait()
    assert stored[-1]["prompt"].tolist() == ["Product? too hot", "Product? too cold"]


@pytest.mark.parametrize(
    ("line", "cell", "sentence"),
    [
        ("ticket", "x", "There is no table ticket in the notebook. Did you mean tickets?"),
        ("number", "x", "There is no table number in the notebook."),
        ("tickets", "", "There is no prompt. Write it on the lines below `%%planck map tickets`"),
        ("tickets", "Which?", "The prompt is the same for every row."),
        ("tickets", "Which? {txt}", "tickets has no column 'txt'. Did you mean text?"),
        ("tickets", 'As {"json": {text}}', "Write {{ and }} for braces."),
        ("tickets", "Which? {text", "The prompt cannot be read: "),
        ("tickets --column text", "Which? {text}", "leave --column out"),
        ("tickets --column txt", "Which?", "tickets has no column txt. Did you mean text?"),
        ("tickets --cost free", "Which? {text}", "--cost cannot be 'free'"),
        ("tickets --first 0", "Which? {text}", "--first cannot be '0'"),
        ("tickets --into 7", "Which? {text}", "--into cannot be '7'"),
    ],
)
async def test_what_cannot_be_asked_gets_a_sentence(
    notebook: Notebook, line: str, cell: str | None, sentence: str
) -> None:
    with pytest.raises(UsageError) as raised:
        await asked(notebook, line, cell)
    assert sentence in str(raised.value)


async def test_stop_ends_a_map_in_the_background(notebook: Notebook) -> None:
    async def endless() -> AsyncIterator[str]:
        yield "a"
        await asyncio.Event().wait()

    run = notebook.workspace.map(endless(), agent="ann")
    async for _ in run:
        break
    assert str(await VERBS["stop"].run(notebook)) == "Stopped a map at 1 item. Its answers are kept."
    assert run.progress.state == "stopped"
    assert str(await VERBS["stop"].run(notebook)) == "Nothing is running."


async def test_a_sentence_that_begins_with_map_is_a_prompt(notebook: Notebook) -> None:
    assert not isinstance(interpret("map the sites in Hamburg for me", None, notebook), VerbLine)


async def test_tables_and_columns_are_completed(notebook: Notebook) -> None:
    line = "%%planck map ti"
    assert list(suggest(line, 0, line, notebook)[1]) == ["tickets"]
    line = "%%planck map tickets --column t"
    _, columns = suggest(line, 0, line, notebook)
    assert columns == {"text": "column of tickets", "ticket": "column of tickets"}

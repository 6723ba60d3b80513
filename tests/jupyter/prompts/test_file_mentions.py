"""`@path` in a prompt sends a file, or nothing is sent."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from planck_nb import Config, Workspace
from planck_nb.ai.messages import ImagePart
from planck_nb.base.errors import UsageError
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.prompts.file_mentions import MentionedFiles, mentioned_files
from planck_nb.tools.files import Files

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
NAMES = {"sales": [1], "orders": [2], "data": {}, "plain": 3}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "sales.csv").write_text("city,price\nOslo,3\n")
    (tmp_path / "data" / "prices.json").write_text("[1]\n")
    (tmp_path / "my notes.txt").write_text("Ann and Bob\n")
    (tmp_path / "my_long_name.py").write_text("print(1)\n")
    (tmp_path / "Makefile").write_text("all:\n")
    (tmp_path / "plain").write_text("a file\n")
    (tmp_path / "photo.png").write_bytes(PIXEL)
    (tmp_path / "prices.parquet").write_bytes(b"PAR1\0\0")
    (tmp_path / "empty.txt").touch()
    (tmp_path / ".env").write_text("KEY=1\n")
    return tmp_path


def found(prompt: str, folder: Path) -> MentionedFiles:
    return mentioned_files(prompt, folder, NAMES, Files.text)


@pytest.mark.parametrize(
    ("prompt", "name", "content"),
    [
        ("what is in @sales.csv?", "sales.csv", "Oslo,3"),
        ("look at @sales.csv.", "sales.csv", "Oslo,3"),
        ("(see @sales.csv)", "sales.csv", "Oslo,3"),
        ("@sales.csv, in short", "sales.csv", "Oslo,3"),
        ("@./sales.csv", "./sales.csv", "Oslo,3"),
        ("@data/prices.json", "data/prices.json", "[1]"),
        ("@my_long_name.py does what?", "my_long_name.py", "print(1)"),
        ("@Makefile", "Makefile", "all:"),
        ('read @"my notes.txt" now', "my notes.txt", "Ann and Bob"),
        ("read @'my notes.txt' now", "my notes.txt", "Ann and Bob"),
        ("\u8bf7\u770b @sales.csv\u7684\u5217", "sales.csv", "Oslo,3"),
    ],
)
def test_a_file_is_sent_with_its_text(folder: Path, prompt: str, name: str, content: str) -> None:
    files = found(prompt, folder)
    (text,) = files.texts
    assert text.startswith(f"`{name}` is this file:")
    assert content in text
    assert f"With: {name} (" in files.notice
    assert "sales" not in files.prompt
    assert "notes" not in files.prompt


@pytest.mark.parametrize(
    "prompt",
    [
        "@orders",
        "@plain",  # the variable
        "@sales.price",
        "@alice and @property",
        "@functools.lru_cache",
        "@types/node",
        "ann@sales.csv",
        "`@sales.csv`",
        "```\n@nosuch.csv\n```",
        '"@nosuch.csv"',
        "\\@nosuch.csv",
        "@dataclass\nclass A: ...",
    ],
)
def test_other_words_with_an_at_sign_are_no_files(folder: Path, prompt: str) -> None:
    assert found(prompt, folder) == MentionedFiles(prompt)


@pytest.mark.parametrize(
    ("prompt", "sentence"),
    [
        ("@nosuch.csv", "There is no file nosuch.csv. Nothing was sent; write \\@nosuch.csv if it is no file."),
        ("@slaes.csv", "Did you mean @sales.csv?"),
        ("@sales.txt", "Did you mean @sales.csv?"),
        ("@data/price.json", "Did you mean @data/prices.json?"),
        ("@orders.csv", "Did you mean the variable @orders?"),
        ("@./nosuch", "There is no file ./nosuch."),
        ("@data/", "data/ is a folder; mention a file in it, such as @data/prices.json."),
        ("@prices.parquet", "The file prices.parquet is no text."),
        ("@empty.txt", "The file empty.txt is empty."),
        ("@.env", ".env looks like a file of secrets."),
    ],
)
def test_what_cannot_be_sent_is_refused(folder: Path, prompt: str, sentence: str) -> None:
    with pytest.raises(UsageError) as raised:
        found(prompt, folder)
    assert sentence in str(raised.value)
    assert "Nothing was sent" in str(raised.value)


def test_keys_in_a_file_are_replaced(folder: Path) -> None:
    (folder / "log.txt").write_text(f"key sk-ant-api03-{'x' * 40}\n")
    assert "xxxx" not in found("@log.txt", folder).texts[0]


def test_a_long_file_is_cut_like_that_of_a_tool(folder: Path) -> None:
    (folder / "long.txt").write_text("line\n" * 5_000)
    (text,) = found("@long.txt", folder).texts
    assert "[… cut here; read on with offset=" in text


def test_a_notebook_is_sent_as_cells(folder: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {"cell_type": "code", "source": "1 + 1", "outputs": [{"data": {"text/plain": "2", "image/png": "iVBOR"}}]},
        {"cell_type": "code", "source": "x", "outputs": [{"ename": "NameError", "evalue": "no x"}]},
    ]
    (folder / "work.ipynb").write_text(json.dumps({"cells": cells}))
    (text,) = found("@work.ipynb", folder).texts
    assert "# %% cell 1 [markdown]\n# Title\ntext" in text
    assert "1 + 1\n# output\n2" in text
    assert "no x" in text
    assert "iVBOR" not in text
    (folder / "broken.ipynb").write_text("{}")
    assert "{}" in found("@broken.ipynb", folder).texts[0]


def test_too_many_files_are_refused(folder: Path) -> None:
    for number in range(21):
        (folder / f"f{number}.txt").write_text("x")
    with pytest.raises(UsageError, match="21 files, more than 20"):
        found(" ".join(f"@f{number}.txt" for number in range(21)), folder)


@pytest.fixture
async def controller(folder: Path) -> AsyncIterator[Controller]:
    async with Workspace(Config(folder / "s", root=folder, default_model="demo", demo_pace=0)) as workspace:
        yield Controller(workspace)


async def test_the_agent_gets_the_file_and_not_the_variable(controller: Controller) -> None:
    started = await controller.start("what is odd in @sales.csv and @orders?", {}, NAMES)
    await started.run
    sent = started.agent.state.messages[0].message
    text = "".join(part.text for part in sent.content if part.type == "text")
    assert "Oslo,3" in text
    assert "`orders` is a list" in text
    assert "`sales` is" not in text
    assert "With: sales.csv (2 lines)" in started.notice
    assert "With: orders (list" in started.notice


async def test_a_picture_is_sent_like_that_of_the_option(controller: Controller) -> None:
    started = await controller.start("what is on @photo.png?", {}, {})
    await started.run
    sent = started.agent.state.messages[0].message
    assert any(isinstance(part, ImagePart) for part in sent.content)
    assert "As images: " in started.notice
    assert "photo.png (1 x 1 PNG)" in started.notice

"""Lines after `%planck`: those in two lists are sent to an agent or not, each as its list says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pandas as pd
import pytest

from planck_nb import Config, Workspace
from planck_nb.base.errors import PlanckError, UsageError
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.interpretation import VerbLine, interpret
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.options import Prompt
from planck_nb.jupyter.verbs import VERBS
from planck_nb.jupyter.verbs.verb_registry import TASKS
from planck_nb.sessions import Session
from planck_nb.testing import scripted_model

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


ANSWERS = {
    "stop": "verb stop",
    "cancel that": "verb stop that",
    "cost": "verb cost",
    "status": "verb agents",
    "list": "verb models",
    "list agents": "verb agents",
    "models list": "verb models",
    "show tools": "verb tools",
    "diff": "verb changes",
    "mcp list": "verb sidecar list",
    "budget 1": "verb config cost 1",
    "limits": "verb config limits",
    "allow bash": "verb permissions allow bash",
    "pending": "verb approve --list",
    "branches": "verb rewind --list",
    "compact-store": "verb sessions compact",
    "abort analyst": "verb stop analyst",
    "show request analyst": "verb request analyst",
    "--version": "verb version",
    "?": "verb help",
    "-h": "verb help",
    "gpt-4o": "`--model openai:gpt-4o` before a prompt",
    "openai": "`%planck models openai`",
    "anthropic:claude-sonnet-4-6 hi": "`%planck --model anthropic:claude-sonnet-4-6 hi`",
    "sales.csv": "@sales.csv",
    "orders": "@orders",
    "clear": "`%planck --new PROMPT`",
    "/clear": "`%planck --new PROMPT`",
    "/cost": "`%planck cost`",
    "/model demo": "`%planck model demo`",
    "/nosuch/file.txt what is it?": "there is no such file",
    "!ls": "a command of the shell",
    "?orders": "IPython's help",
    "Stop": "`%planck stop`",
    "hello": "`%planck -- hello`",
    "what is in @sales.txt?": "Did you mean @sales.csv?",
    "read @nosuch.csv": "There is no file nosuch.csv.",
    "--tools": "web_search",
    "--allow all tidy up": "--allow all names no tool.",
    "analyst": "write it after the name analyst",
}


async def test_a_line_which_is_not_sent_gets_its_sentence(notebook: Notebook) -> None:
    for line, expected in ANSWERS.items():
        assert expected in await answer_to(line, notebook), line


async def test_two_dashes_insist(notebook: Notebook) -> None:
    for line in (line for line in NOT_PROMPTS if "@" not in line):
        assert interpret(f"-- {line}", None, notebook) == Prompt({}, line)


@pytest.mark.parametrize("text", ["plot", "stop", "/fix", "!ls", "sales.csv"])
async def test_the_body_of_a_cell_is_always_a_prompt(notebook: Notebook, text: str) -> None:
    assert interpret("", f"{text}\n", notebook) == Prompt({}, f"{text}\n")


@pytest.mark.parametrize(
    ("answer", "is_asked"),
    [
        ("Shall I go on?", True),
        ("Which one?\n\n- small\n- large", True),
        ("どれですか\uff1f", True),
        ("Is it so? Yes.\n\nIt is.\n\nSo it is.", False),
        ("Done.", False),
    ],
)
async def test_one_word_answers_a_question(tmp_path: Path, answer: str, *, is_asked: bool) -> None:
    async with Workspace(Config(tmp_path / "sessions", root=tmp_path)) as workspace:
        notebook = Notebook(Controller(workspace), {})
        agent = workspace.add_agent("planck", model=scripted_model([answer]))
        await agent.prompt("Begin.")
        if is_asked:
            assert interpret("small", None, notebook) == Prompt({}, "small")
        else:
            with pytest.raises(UsageError, match="One word is not sent"):
                interpret("small", None, notebook)
        assert isinstance(interpret("stop", None, notebook), VerbLine), "a verb is a verb"


def test_only_what_can_be_taken_back_has_synonyms() -> None:
    for name in ("remove", "delete", "undo", "deny", "compact", "steer", "trust", "import"):
        assert not VERBS[name].synonyms, name
        assert not VERBS[name].shortcuts, name


def test_no_word_means_two_verbs() -> None:
    words = [word for verb in VERBS.values() for word in (verb.name, *verb.synonyms, *verb.shortcuts)]
    assert len(set(words)) == len(words)
    assert {"stop", "cancel", "cost", "status", "version", "mcp", "list", "diff", "budget"} <= set(words)


async def test_help_knows_synonyms(notebook: Notebook) -> None:
    for word, meaning in VERBS.synonyms.items():
        page = str(await VERBS["help"].run(notebook, word))
        name = meaning.partition(" ")[0]
        assert name in page
        assert word in page.lower()


async def test_the_first_page_of_help_has_eight_tasks(notebook: Notebook) -> None:
    page = str(await VERBS["help"].run(notebook)).splitlines()
    assert len(TASKS) == 8
    for (task, lines), row in zip(TASKS, page, strict=False):
        assert task in row
        assert lines in row
        for line in lines.split("    "):
            assert interpret(line.removeprefix("%planck "), None, notebook)

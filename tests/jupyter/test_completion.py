from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.kernel import TIMEOUT, Kernel, running_kernel

from planck_nb import Config, Workspace
from planck_nb.jupyter.completion import names, suggest, verbs
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.verbs import VERBS
from planck_nb.sessions import Session


def add() -> None:
    """A function of the notebook."""


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two stored sessions, to be copied."""
    directory = tmp_path_factory.mktemp("stored")
    for name in ("calm-owl", "calm-fox"):
        with Session.create(directory, name=name):
            pass
    return directory


@pytest.fixture
async def notebook(stored: Path, tmp_path: Path) -> AsyncIterator[Notebook]:
    """A notebook with three agents, two stored sessions, a function and a table."""
    shutil.copytree(stored, tmp_path, dirs_exist_ok=True)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "prices.csv").touch()
    (tmp_path / ".hidden").touch()
    async with Workspace(Config(tmp_path, root=tmp_path)) as workspace:
        for name in ("ann", "bob", "data cruncher"):
            workspace.add_agent(name, model=workspace.model("demo"))
        yield Notebook(Controller(workspace), {"add": add, "orders": pd.DataFrame({"price": [1]})})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "word", "found"),
    [
        ("%planck sql -", "-", ["--output", "--as", "--limit", "--debug", "--help"]),
        ("%planck exp", "exp", ["explain", "export"]),
        ("%planck read @dat", "@dat", ["@data/"]),
        ("%planck read @data/", "@data/", ["@data/prices.csv"]),
        ("%planck read @.h", "@.h", ["@.hidden"]),
        ("x = %planck comp", "comp", ["compact", "compact-store"]),
        ("rows['a'], y = %planck permi", "permi", ["permissions"]),
        ("for i in range(2):\n    %planck ag", "ag", ["agents"]),
        ("%planck abort ", "", ["ann", "bob", '"data cruncher"']),
        ("%planck stop da", "da", ['"data cruncher"']),
        ("%planck stop 'da", "'da", ['"data cruncher"']),
        ("%planck show mod", "mod", ["model", "models"]),
        ("%planck request b", "b", ["bob"]),
        ("%planck skills ", "", []),
        ("%planck delete calm-f", "calm-f", ["calm-fox"]),
        ("%planck delete calm-fox ", "", []),
        ("%planck delete calm-fox --", "--", ["--older-than", "--keep-mb", "--yes", "--debug", "--help"]),
        ("%planck fork --before 3 --", "--", ["--before", "--debug", "--help"]),
        ("%planck export calm-f", "calm-f", ["calm-fox"]),
        ("%planck help mod", "mod", ["model", "models"]),
        ("%planck help pro", "pro", ["prompt"]),
        ("%planck models goo", "goo", ["google"]),
        ("%planck approve --", "--", ["--always", "--list", "--debug", "--help"]),
        ("%planck approve --always ", "", ["agent", "role", "all", "prompt"]),
        ("%planck permissions ", "", ["allow", "ask", "deny", "forget"]),
        ("%planck cassette re", "re", ["record", "replay"]),
        ("%planck search pump --session calm-o", "calm-o", ["calm-owl"]),
        ("%planck search pump -a ", "", ["ann", "bob", '"data cruncher"']),
        ("%planck sql --as ", "", ["df", "pl", "arrow"]),
        ("%planck sql --as=a", "--as=a", ["--as=arrow"]),
        ("%planck sql --limit ", "", []),
        ("%planck sql SELECT * FROM mes", "mes", ["messages"]),
        ("%planck sql --limit 3 SELECT * FROM ord", "ord", ["orders"]),
        ("%planck --mod", "--mod", ["--model", "--models"]),
        ("%planck --thinking l", "l", ["low"]),
        ("%planck --tools a", "a", ["add"]),
        ("%planck --tools re", "re", ["read"]),
        ("%planck --tools add,re", "add,re", ["add,read"]),
        ("%planck --new what is @o", "@o", ["@orders"]),
        ("%planck what is ex", "ex", []),
        ("%planck an", "an", ["answer", "ann"]),
        ("%planck usa", "usa", ["usage"]),
        ("%planck usage --", "--", ["--agent", "--table", "--debug", "--help"]),
        ("%planck --quiet an", "an", ["ann"]),
        ("%planck ann --mod", "--mod", ["--model", "--models"]),
        ("%%planck a", "a", ["ann"]),
        ("%%planck s", "s", ["sql"]),
        ("%%planck help ", "", []),
        ("%%planck --quiet -m demo s", "s", ["sql"]),
        ("%%planck ann --model demo:d", "demo:d", ["demo:demo"]),
        ("%%planck sql --a", "--a", ["--as"]),
        ("%%planck\nlook at @o", "@o", ["@orders"]),
        ("%%planck\nlook at or", "or", []),
        ("%%planck sql\nSELECT *\nFROM or", "or", ["orders"]),
        ("%planckish sql ", "", []),
        ("print('%planck') or ex", "ex", []),
        ("'", "'", []),
        ("", "", []),
    ],
)
async def test_a_word_may_become(notebook: Notebook, cell: str, word: str, found: list[str]) -> None:
    begun, offered = suggest(cell, cell.count("\n"), cell.rpartition("\n")[2], notebook)
    assert (begun, list(offered)) == (word, found)


@pytest.mark.slow
async def test_every_verb_and_every_option_is_offered_with_a_description(notebook: Notebook) -> None:
    _, offered = suggest("%planck ", 0, "%planck ", notebook)
    assert list(offered) == [*VERBS, "ann", "bob", '"data cruncher"']
    assert offered["stop"] == VERBS["stop"].summary
    assert offered["ann"] == "demo:demo, idle"
    for name, verb in VERBS.items():
        line = f"%planck {name} --"
        _, options = suggest(line, 0, line, notebook)
        assert all(options.values())
        assert set(options) >= {f"--{option.name}" for option in verb.options} | {"--debug", "--help"}


async def test_a_page_knows_what_the_kernel_offers(notebook: Notebook) -> None:
    known, named = verbs(), names(notebook)
    _, first = suggest("%planck ", 0, "%planck ", notebook)
    assert {**{name: verb.about for name, verb in known.verbs.items()}, **named.agents} == {
        text.strip('"'): described for text, described in first.items()
    }
    _, stopped = suggest("%planck stop ", 0, "%planck stop ", notebook)
    assert known.verbs["stop"].takes_agent
    assert [text.strip('"') for text in stopped] == list(named.agents)
    assert {name for name, verb in known.verbs.items() if verb.is_cell} == {
        name for name, verb in VERBS.items() if verb.cell
    }
    for line, options in (("%planck --", known.options), ("%planck stop --", known.verbs["stop"].options)):
        assert suggest(line, 0, line, notebook)[1] == options
    assert set(named.variables) == {"@add", "@orders"}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    folder = tmp_path_factory.mktemp("notebook")
    with Session.create(folder / ".planck" / "sessions", name="calm-fox"):
        pass
    with running_kernel(folder, PLANCK_NB_DEMO_PACE="0", PLANCK_NB_MODEL="demo") as kernel:
        kernel.run("%load_ext planck_nb\n%planck --agent ann hello")
        yield kernel


def tab(kernel: Kernel, code: str, cursor: int | None = None) -> dict[str, Any]:
    """What the kernel answers a frontend."""
    sent = kernel.client.complete(code, len(code) if cursor is None else cursor)
    while True:
        reply = kernel.client.get_shell_msg(timeout=TIMEOUT)
        if reply["parent_header"]["msg_id"] == sent:
            content: dict[str, Any] = reply["content"]
            return content


def test_tab_in_a_kernel(kernel: Kernel) -> None:
    reply = tab(kernel, "%planck compact-")
    assert reply["matches"] == ["compact-store"]
    assert (reply["cursor_start"], reply["cursor_end"]) == (8, 16), "the whole word gives way"
    assert "calm-fox" in tab(kernel, "%planck delete ")["matches"]
    (described,) = tab(kernel, "%planck delete calm-fox --y")["metadata"]["_jupyter_types_experimental"]
    assert (described["text"], described["type"]) == ("--yes", "delete them, instead of showing what would be deleted")
    assert tab(kernel, "%planck stop ")["matches"] == ["ann"]
    reply = tab(kernel, "x = %planck model demo:")
    assert reply["matches"], reply
    assert reply["cursor_start"] == len("x = %planck model "), "a colon does not part a word"
    assert tab(kernel, "%%planck sql\nSELECT * FROM tool_")["matches"] == ["tool_calls"]
    assert tab(kernel, "%planck expo tra", 12)["matches"] == ["export"]
    assert tab(kernel, "impor")["matches"] == ["import"], "everything else is as before"


def test_nothing_is_offered_once_the_extension_is_gone(kernel: Kernel) -> None:
    kernel.run("%unload_ext planck_nb")
    assert "compact-store" not in tab(kernel, "%planck compact-")["matches"]
    kernel.run("%load_ext planck_nb")
    assert tab(kernel, "%planck compact-")["matches"] == ["compact-store"]

"""`%%planck --models` and `--repeat` in a real kernel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.kernel import Cell, Kernel, running_kernel, touching, wait_until_blocked
from support.terminal import running_terminal

AGENTS = """from planck_nb import get_workspace
from planck_nb.testing import scripted_model
workspace = get_workspace()
def agent(name, *replies):
    return workspace.add_agent(name, model=scripted_model(replies), system_prompt=f"You are {name}.")
ann = agent("ann", "One.", "Two.", "Three.")
broken = agent("broken", {"error": "The server is on fire."})"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    folder = tmp_path_factory.mktemp("notebook")
    with running_kernel(folder, PLANCK_NB_DEMO_PACE="0", PLANCK_NB_MODEL="demo") as kernel:
        kernel.run("%load_ext planck_nb")
        kernel.run(AGENTS)
        yield kernel


def saved(cell: Cell) -> dict[str, str]:
    """Return the only table in a cell's outputs."""
    [data] = [
        output["data"] for output in cell.outputs if "side by side" in output.get("data", {}).get("text/plain", "")
    ]
    return dict(data)


def test_answers_are_one_table_and_a_mapping(kernel: Kernel) -> None:
    cell = kernel.run("x = %planck ann --repeat 3 hello\nprint({n: (a.text, a.outcome) for n, a in x.items()})")
    assert (
        cell.text.strip()
        == "{'script-1': ('One.', 'done'), 'script-2': ('One.', 'done'), 'script-3': ('One.', 'done')}"
    )
    data = saved(cell)
    assert data["text/html"].count("<tr>") == 4
    assert data["text/html"].count("<summary>script-") == 3
    assert data["text/plain"].splitlines()[0] == "3 answers side by side"
    assert "**script-2**" in data["text/markdown"]
    assert kernel.run("print([a.system_prompt for a in workspace.agents.values()])").text.count("You are ann.") == 4
    assert kernel.run("print(ann.state.turn)").text.strip() == "-1"
    assert kernel.run("x").outputs[-1]["data"]["text/plain"].startswith("3 answers side by side")


def test_models_are_asked_and_go_on_by_name(kernel: Kernel) -> None:
    cell = kernel.run("%%planck --models demo:demo,demo:script\nhello")
    assert [line.split()[0] for line in saved(cell)["text/plain"].splitlines()[2:4]] == ["demo", "script"]
    kernel.run("%%planck --models demo:demo,demo:script\nhello again")
    kernel.run("%%planck demo\nand then?")
    turns = kernel.run("print({name: agent.state.turn for name, agent in workspace.agents.items()})").text
    assert "'demo': 1" in turns
    assert "'script': 0" in turns


def test_an_agent_of_another_name_keeps_its_conversation(kernel: Kernel) -> None:
    kernel.run("mine = agent('script-9', 'Mine.')")
    kernel.run("%planck script-9 hello")
    cell = kernel.run("y = %planck script-9 --repeat 2 hello\nprint(list(y), mine.state.turn)")
    assert cell.text.strip() == "['script-1', 'script-2'] 0"


def test_failures_are_rows_and_an_error_only_if_all_fail(kernel: Kernel) -> None:
    cell = kernel.run("%%planck broken --repeat 2\nhello")
    assert "the transcript above says what happened" in cell.error
    assert saved(cell)["text/plain"].count("The server is on fire.") >= 2


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--models demo:demo,nosuch:model", "nosuch"),
        ("--models demo:demo,demo:demo", "The model demo:demo is there twice; --repeat asks it several times."),
        ("--models demo,demo:demo", "The model demo:demo is there twice; --repeat asks it several times."),
        ("--repeat 0", "--repeat"),
        ("--repeat 13", "13 answers are too many side by side, at most 12 fit"),
        ("--models demo:demo,demo:script --repeat 7", "14 answers are too many"),
        ("--models demo:demo --model demo", "--model is for a single answer; leave it out"),
        ("--repeat 2 --background", "--background is for a single answer"),
        ("--models", "--models"),
    ],
)
def test_what_does_not_fit_is_one_sentence_and_asks_nothing(kernel: Kernel, line: str, sentence: str) -> None:
    count = "print(len(workspace.agents))"
    before = kernel.run(count).text
    error = kernel.run(f"%%planck {line}\nhello").error
    assert sentence in error
    assert "Traceback" not in error
    assert kernel.run(count).text == before


WAITING = """import asyncio
from planck_nb import tool
begun = []
@tool(touches="read")
async def wait() -> str:
    "Wait."
    begun.append(1)
    if len(begun) == 2:
        {touch}
    await asyncio.Event().wait()
replies = [{{"text": "First half.", "calls": [{{"name": "wait", "arguments": {{}}}}]}}]
waiter = workspace.add_agent("waiter", model=scripted_model(replies), tools=[wait])"""


def test_an_interrupt_stops_all_and_keeps_what_was_said(kernel: Kernel, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    kernel.run(WAITING.format(touch=touching(begun)))
    cell = kernel.start("%%planck waiter --repeat 2 --allow wait\nhello")
    wait_until_blocked(kernel, begun, "")
    kernel.interrupt()
    done = kernel.finish(cell)
    assert "the cell was interrupted; what was said so far is kept" in done.error
    assert saved(done)["text/plain"].count("stopped: First half.") == 2
    assert kernel.run("print({a.status for a in workspace.agents.values()})").text.strip() == "{'idle'}"


@pytest.mark.process
def test_a_terminal_prints_the_table(tmp_path: Path) -> None:
    settings = {"PLANCK_NB_MODEL": "demo", "PLANCK_NB_DEMO_PACE": "0", "HOME": str(tmp_path)}
    with running_terminal(tmp_path, "--simple-prompt", **settings) as terminal:
        terminal.run("%load_ext planck_nb")
        shown = terminal.run("x = %planck --repeat 2 hello")
    assert "2 answers side by side" in shown
    assert shown.count("demo-1") >= 2

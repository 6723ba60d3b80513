"""Going on with a session in another kernel: after a clean end, after a crash, and while somebody has it open."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import ExitStack
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from support.kernel import Kernel, running_kernel

from planck_nb.agent.state import AgentState, fold
from planck_nb.sessions import Session

pytestmark = pytest.mark.kernel

PRELUDE = """
%load_ext planck_nb
import asyncio, threading
from functools import reduce
from planck_nb.agent.state import AgentState, fold
from planck_nb.jupyter.extension import _loaded

def workspace():
    return next(iter(_loaded.values()))._controller.workspace

def agent():
    return workspace().agents['planck']

def texts():
    return [getattr(entry.message, 'text', '') for entry in agent().state.messages]

def totals(state):
    return state.turn, state.usage.total_tokens, state.cost, len(state.messages), state.model, state.tools

def as_stored(one):
    folded = reduce(fold, workspace().session.events(one.id), AgentState())
    return folded == one.state
"""

TOOLS = """
entered, gate = threading.Event(), threading.Event()

def work(number: int) -> int:
    "Work on a number."
    entered.set()
    assert gate.wait(30)
    return number + 1

def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b
"""


class Place:
    """One folder, and the kernels that work in it."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack

    def kernel(self, notebook: str = "", *, tools: bool = True, **environment: str) -> Kernel:
        settings = {"PLANCK_NB_DEMO_PACE": "0", "PLANCK_NB_MODEL": "demo", **environment}
        kernel = self._stack.enter_context(running_kernel(self.folder, JPY_SESSION_NAME=notebook, **settings))
        said(kernel, PRELUDE + (TOOLS if tools else ""))
        return kernel

    @property
    def sessions(self) -> Path:
        return self.folder / ".planck/sessions"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(tmp_path, stack)


def said(kernel: Kernel, code: str) -> str:
    """What a cell shows; it must not fail."""
    cell = kernel.run(code)
    assert cell.status == "ok", cell.error
    return cell.plain


def value(kernel: Kernel, code: str) -> Any:
    """The value of an expression of plain values."""
    return ast.literal_eval(said(kernel, code))


def test_after_a_clean_end_everything_goes_on(place: Place) -> None:
    first = place.kernel()
    said(first, "%planck --system 'Be brief.' --tools add,read add 1 and 2 with @add")
    said(first, "%planck --agent helper hello")
    said(first, "%planck --agent gone hello")
    said(first, "%planck remove gone")
    said(first, "%planck --agent planck add 20 and 22 with @add")
    name, before = value(first, "workspace().session.name"), value(first, "totals(agent().state)")
    assert value(first, "as_stored(agent())")
    said(first, "%unload_ext planck_nb")

    second = place.kernel()
    assert (
        said(second, "%planck resume")
        == f"This notebook continues {name} with planck (8 messages), helper (2 messages)."
    )
    assert value(second, "totals(agent().state)") == before
    assert value(second, "agent().system_prompt") == "Be brief."
    assert value(second, "[as_stored(one) for one in workspace().agents.values()]") == [True, True]
    assert "`add` returned `5`." in said(second, "%planck add 2 and 3 with add")
    assert value(second, "agent().state.turn") == before[0] + 1
    assert value(second, "agent().state.usage.total_tokens > " + str(before[1]))
    assert value(second, "[as_stored(one) for one in workspace().agents.values()]") == [True, True]
    turns = value(
        second,
        "rows = %planck sql SELECT turn, agents.name AS agent FROM messages JOIN agents USING (session_id, agent_id) "
        "WHERE role = 'user' ORDER BY id\n[int(turn) for turn in rows[rows['agent'] == 'planck']['turn']]",
    )
    assert turns == [0, 1, 2]


def test_a_turn_that_a_crash_cut_off_is_told_once(place: Place) -> None:
    first = place.kernel()
    said(first, "%planck add 1 and 2 with @add")
    said(first, "run = %planck --background work 1 with @work\nassert await asyncio.to_thread(entered.wait, 30)")
    first.kill()

    second = place.kernel()
    assert "with planck (7 messages)." in said(second, "%planck resume latest")
    notice = "[text for text in texts() if text.startswith('Session resumed after interruption')]"
    assert value(second, f"len({notice})") == 1
    assert value(second, "as_stored(agent())")
    assert said(second, "%planck -- hello").count("demo model") >= 1
    assert value(second, "as_stored(agent())")
    said(second, "%unload_ext planck_nb")

    third = place.kernel()
    assert "with planck (9 messages)." in said(third, "%planck resume")
    assert value(third, f"len({notice})") == 1
    third.kill()

    fourth = place.kernel()
    assert "with planck (9 messages)." in said(fourth, "%planck resume")
    assert value(fourth, f"len({notice})") == 1


def test_what_is_missing_is_said_and_comes_back_where_it_is_there(place: Place) -> None:
    first = place.kernel(PLANCK_NB_MODEL="demo:demo")
    said(first, "from planck_nb import ai\nfrom dataclasses import replace")
    said(first, "%planck --tools add,work,read hello")
    said(first, "agent().model = replace(agent().model, provider='closed', id='down')")
    name = value(first, "workspace().session.name")
    said(first, "%unload_ext planck_nb")

    second = place.kernel(tools=False)
    refused = second.run(f"%planck resume {name}").error
    assert f"ModelError: {name} cannot be resumed as it was: planck (closed:down): There is no provider" in refused
    assert f"`%planck resume {name} --model MODEL`" in refused
    lines = said(second, f"%planck resume {name} --model demo:demo").splitlines()
    assert lines == [
        f"This notebook continues {name} with planck (2 messages).",
        "planck lacks add, work; pass them again with `--tools`.",
    ]
    assert value(second, "str(agent().model)") == "demo:demo"
    assert value(second, "[tool.name for tool in agent().tools]") == ["read"]
    said(second, TOOLS)
    assert "`add` returned `3`." in said(second, "%planck --tools add,work add 1 and 2 with add")
    said(second, "%unload_ext planck_nb")

    third = place.kernel()
    assert said(third, "%planck resume") == f"This notebook continues {name} with planck (6 messages)."
    assert value(third, "sorted(tool.name for tool in agent().tools)") == ["add", "read", "work"]
    assert "`add` returned `42`." in said(third, "%planck add 20 and 22 with add")


def test_what_was_allowed_or_denied_for_the_session_stays_so(place: Place) -> None:
    first = place.kernel()
    said(first, "workspace().attend()")
    said(first, 'run = %planck --background --tools write write "a.txt" with "hello"')
    said(
        first,
        "async with asyncio.timeout(30), workspace().subscribe(since=0) as events:\n"
        "    async for event in events:\n        if event.type == 'approval_request': break\n"
        "agent().decide(event.id, allow=True, remember=True)\nawait run",
    )
    said(first, "%planck permissions deny write:c.txt")
    said(first, "%planck --deny network hello")
    rules = "shown = %planck permissions\nshown[shown['from'] == 'session'][['what', 'action']].values.tolist()"
    remembered = value(first, rules)
    assert [row for row in remembered if row[1] == "deny"] == [["write:c.txt", "deny"], ["network", "deny"]]
    said(first, "%unload_ext planck_nb\n%load_ext planck_nb")
    assert value(first, rules) == []

    second = place.kernel()
    said(second, "%planck resume")
    assert sorted(value(second, rules)) == sorted(remembered)
    denied = said(second, 'answer = %planck --quiet write "c.txt" with "no"\nprint(answer.text)')
    assert "forbidden by the rule 'deny write:c.txt'" in denied
    assert "returned" in said(second, 'answer = %planck --quiet write "b.txt" with "again"\nprint(answer.text)')
    assert (place.folder / "b.txt").read_text() == "again"


def test_an_open_session_is_refused_and_everything_stays(place: Place) -> None:
    owner, other = place.kernel("/home/me/analysis.ipynb"), place.kernel()
    said(owner, "%planck add 1 and 2 with @add")
    name = value(owner, "workspace().session.name")
    said(other, "%planck -- mine")
    mine = value(other, "(workspace().session.name, agent().id, len(texts()))")
    error = other.run(f"%planck resume {name}").error
    assert error.startswith(f"SessionLockedError: Session {name!r} is open in process ")
    assert re.search(
        r" \(analysis\.ipynb\), started [-\d]+ [\d:]+ UTC; close it there, or query it with SQL from here\.$", error
    )
    refused = other.run(f"%planck resume {name} --take-over").error
    assert refused == f"{error} It cannot be taken over while that process is running."
    assert "UsageError: --take-over needs the name of the session." in other.run("%planck resume --take-over").error
    assert "SessionNotFoundError: There is no other session to resume" in other.run("%planck resume").error
    assert value(other, "(workspace().session.name, agent().id, len(texts()))") == mine
    said(other, "%planck mine, too")
    assert value(other, "len(texts())") == 4
    assert "`add` returned `5`." in said(owner, "%planck add 2 and 3 with @add")
    said(owner, "%unload_ext planck_nb")
    assert said(other, "%planck resume") == f"This notebook continues {name} with planck (8 messages)."
    assert value(other, f"workspace().session.name == {name!r}")


def test_of_two_kernels_one_gets_the_session(place: Place) -> None:
    first = place.kernel()
    said(first, "%planck add 1 and 2 with @add")
    name = value(first, "workspace().session.name")
    said(first, "%unload_ext planck_nb")
    racers = [place.kernel(), place.kernel()]
    for racer in racers:
        said(racer, "%planck models demo")  # what is imported at first use takes no part in the race
    for _ in range(3):
        cells = [racer.start(f"%planck resume {name}") for racer in racers]
        ended = [racer.finish(cell) for racer, cell in zip(racers, cells, strict=True)]
        assert sorted(cell.status for cell in ended) == ["error", "ok"]
        (error,) = (cell.error for cell in ended if cell.error)
        assert error.startswith(f"SessionLockedError: Session {name!r} is open in ")
        winner = racers[0] if ended[0].status == "ok" else racers[1]
        assert value(winner, "texts()[0]") == "add 1 and 2 with @add"
        said(winner, "%unload_ext planck_nb\n%load_ext planck_nb")


def test_the_newest_that_nobody_has_open_is_resumed(place: Place) -> None:
    kernels = [place.kernel() for _ in range(3)]
    names = []
    for kernel in kernels:
        said(kernel, "%planck -- hello")
        names.append(value(kernel, "workspace().session.name"))
    said(kernels[0], "%unload_ext planck_nb\n%load_ext planck_nb")
    said(kernels[1], "%unload_ext planck_nb\n%load_ext planck_nb")
    assert said(kernels[0], "%planck resume") == f"This notebook continues {names[1]} with planck (2 messages)."
    assert said(kernels[1], "%planck resume") == f"This notebook continues {names[0]} with planck (2 messages)."
    assert "no other session" in kernels[1].run("%planck resume").error
    assert "is already open here" in kernels[1].run(f"%planck resume {names[0]}").error


def test_what_a_kernel_wrote_is_what_others_read(place: Place) -> None:
    kernel = place.kernel()
    for text in ("one", "two"):
        said(kernel, f"%planck -- {text}")
    said(kernel, "%planck rewind last add 1 and 2 with @add")
    live = value(kernel, "totals(agent().state)")
    name = value(kernel, "workspace().session.name")
    said(kernel, "%unload_ext planck_nb")
    with Session.open(place.sessions, str(name)) as session:
        state = reduce(fold, session.events(), AgentState())
    assert (state.turn, state.usage.total_tokens, state.cost, len(state.messages), state.model, state.tools) == live


def test_deleting_takes_what_undoing_needs_with_it(place: Place) -> None:
    first = place.kernel()
    said(first, '%planck --quiet --tools write --allow write write "a.txt" with "hello"')
    name = value(first, "workspace().session.name")
    folder = next(place.sessions.glob("*.changes"))
    said(first, "%planck export kept.jsonl")
    said(first, "%planck fork copy")
    assert folder.is_dir()
    assert value(first, "shown = %planck changes\nlen(shown)") == 0
    said(first, f"%planck resume {name}")
    assert value(first, "shown = %planck changes\nlen(shown)") == 1
    said(first, "%planck resume copy")
    assert "Nothing was deleted yet" in said(first, f"%planck delete {name}")
    assert folder.is_dir()
    assert said(first, f"%planck delete {name} --yes").startswith(f"Deleted {name}")
    assert not folder.exists()
    assert not list(place.sessions.glob(f"*_{name}.*"))
    assert (place.folder / "a.txt").read_text() == "hello"

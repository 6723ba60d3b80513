"""Agents that work in a real kernel: what they are shown, what is asked before code runs, and what stops them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.kernel import Cell, Kernel, running_kernel, touching, wait_until_blocked

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(180)]

HARNESS = """
import planck_nb
from IPython.display import display
from planck_nb.testing import Call, Reply, scripted_model

agents = []

def agent(*replies):
    "A new agent, with the name a0, a1 and so on, that makes these calls or says these texts."
    script = [reply if isinstance(reply, str) else Reply(calls=[Call(*each) for each in reply]) for reply in replies]
    name = f"a{len(agents)}"
    workspace = planck_nb.get_workspace()
    agents.append(workspace.add_agent(name, model=scripted_model(script)))
    return agents[-1]

def results():
    "The results of the calls of the newest agent."
    messages = [entry.message for entry in agents[-1].state.messages]
    parts = [part for message in messages if message.type == "tool_result" for part in message.content]
    return [[part.text, part.is_error, len(part.images)] for part in parts]

def show(data):
    display({"application/json": data, "text/plain": ""}, raw=True)
"""


class Notebook:
    def __init__(self, kernel: Kernel, folder: Path) -> None:
        self.kernel = kernel
        self.folder = folder
        self.count = 0

    def make(self, *replies: str | list[tuple[str, dict[str, Any]]]) -> str:
        """Make an agent; its name."""
        assert self.kernel.run(f"agent(*{list(replies)!r}, 'done');").status == "ok"
        self.count += 1
        return f"a{self.count - 1}"

    def prompt(self, name: str, options: str = "--allow run_python") -> Cell:
        return self.kernel.run(f"%%planck {name} --tools kernel {options}\ngo")

    def results(self) -> list[tuple[str, bool, int]]:
        cell = self.kernel.run("show(results())")
        assert cell.status == "ok", cell.error
        return [tuple(each) for each in cell.data("application/json")[0]]

    def tool(self, name: str, args: dict[str, Any], options: str = "--allow run_python") -> tuple[str, bool, int]:
        """The result of one call."""
        cell = self.prompt(self.make([(name, args)]), options)
        assert cell.status == "ok", cell.error
        [result] = self.results()
        return result

    def python(self, code: str, options: str = "--allow run_python", **args: object) -> tuple[str, bool, int]:
        return self.tool("run_python", {"code": code, **args}, options)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    folder = tmp_path_factory.mktemp("kernel")
    (folder / "harness.py").write_text(HARNESS)
    settings = {"PLANCK_NB_MODEL": "demo", "PLANCK_NB_DEMO_PACE": "0", "SOME_API_KEY": "sk-test-a1b2c3d4e5f6a7b8"}
    with running_kernel(folder, **settings) as kernel:
        cell = kernel.run("%load_ext planck_nb\nimport asyncio, pandas as pd, polars as pl\nfrom harness import *")
        assert cell.status == "ok", cell.error
        yield Notebook(kernel, folder)


def test_code_works_with_the_variables_of_the_notebook(notebook: Notebook) -> None:
    notebook.kernel.run("df = pd.DataFrame({'city': ['Rome', 'Oslo'], 'warm': [30.5, None]})")
    text, failed, images = notebook.python("mean = df.warm.mean()\nprint('mean', mean)\ndf.plot()\ndf")
    assert not failed
    assert "mean 30.5" in text
    assert "[DataFrame, 2 rows x 2 columns: city: " in text
    assert images == 1
    assert notebook.kernel.run("float(mean)").plain == "30.5"


def test_without_a_grant_nothing_runs_where_nobody_can_be_asked(notebook: Notebook) -> None:
    text, failed, _ = notebook.python("leaked = 1", options="--deny write")
    assert failed
    assert "needs approval and there is nobody to ask; the user can allow it up front with `--allow run_python`" in text
    assert notebook.kernel.run("leaked").status == "error"


def test_a_grant_lasts_for_its_cell(notebook: Notebook) -> None:
    name = notebook.make([("run_python", {"code": "ran = 1"})], "first", [("run_python", {"code": "ran = 2"})])
    notebook.prompt(name)
    notebook.kernel.run(f"%%planck {name}\nagain")
    assert [failed for _, failed, _ in notebook.results()] == [False, True]
    assert notebook.kernel.run("ran").plain == "1"
    assert "run_python" not in notebook.kernel.run("%planck permissions").plain


def test_no_rule_allows_it(notebook: Notebook) -> None:
    text, failed, _ = notebook.python("5", options="--allow * --allow execute --allow run_* --allow execute:*")
    assert failed
    assert "needs approval" in text


@pytest.mark.parametrize("rule", ["run_python:print*", "*@run_python:x", "execute@run_python", "'agent=a0 run_python'"])
def test_it_cannot_be_allowed_in_part(notebook: Notebook, rule: str) -> None:
    cell = notebook.prompt(notebook.make(), f"--allow {rule}")
    assert "UsageError: run_python runs any code with your rights, so it cannot be allowed in part" in cell.error


def test_it_cannot_be_allowed_by_the_policy(notebook: Notebook) -> None:
    cell = notebook.kernel.run("%planck permissions allow bash:git *, run_python")
    assert "UsageError: run_python runs any code with your rights, so no rule can allow it" in cell.error
    assert "git" not in notebook.kernel.run("%planck permissions").plain


def test_the_approval_shows_all_of_the_code_and_offers_no_always(notebook: Notebook) -> None:
    code = "for line in range(30):\n    print(line)\nlast_line = 'here'"
    name = notebook.make([("run_python", {"code": code})])
    notebook.kernel.run(f"planck_nb.get_workspace().attend()\n%planck {name} --tools kernel --background go")
    notebook.kernel.run("while not agents[-1].state.pending_approvals:\n    await asyncio.sleep(0.01)")
    cell = notebook.kernel.run("%planck approve --list")
    assert "It can do everything that you can" in cell.plain
    assert "last_line = 'here'" in cell.plain
    assert "`--always` allows" not in cell.plain
    assert "`--always prompt` allows all calls of run_python until this prompt is answered." in cell.plain
    refused = notebook.kernel.run(f"%planck approve --always agent {name}")
    assert "one call at a time" in refused.error
    assert "runs" in notebook.kernel.run(f"%planck approve {name}").plain
    notebook.kernel.run("while agents[-1].status != 'idle':\n    await asyncio.sleep(0.01)")
    notebook.kernel.run("planck_nb.get_workspace().approvals.leave()")
    assert notebook.kernel.run("last_line").plain == "'here'"


def test_secrets_are_not_shown(notebook: Notebook) -> None:
    secret = "zx9-" + "k3y8" * 5
    notebook.kernel.run(f"api_key = {secret!r}\nconfig = {{'password': 'opensesame1', 'host': 'db'}}\nkey = 'city'")
    text, _, _ = notebook.python("import os\nprint(os.environ['SOME_API_KEY'], api_key, 'city')")
    assert "sk-test" not in text
    assert secret not in text
    assert "city" in text
    listed, _, _ = notebook.tool("list_variables", {})
    assert "api_key" not in listed
    assert "config: dict of 2" in listed
    assert notebook.tool("inspect_variable", {"name": "api_key"})[:2] == (
        "Error: api_key looks like a secret by its name, so it is not shown.",
        True,
    )
    text, _, _ = notebook.tool("inspect_variable", {"name": "config"})
    assert "opensesame1" not in text
    notebook.kernel.run(f"copied = 'with {secret} in it'")
    assert secret not in notebook.tool("inspect_variable", {"name": "copied"})[0]
    assert secret not in notebook.python("raise ValueError(copied)")[0]


def test_variables_are_listed_and_described(notebook: Notebook) -> None:
    notebook.kernel.run(
        "table = pd.DataFrame({'a': [1, None, 3], 'b': list('xyz')})\nlazy = pl.LazyFrame({'a': [1]})\n_own = 1"
    )
    text, _, _ = notebook.tool("list_variables", {})
    assert "table: DataFrame 3 \u00d7 2" in text
    assert "lazy: LazyFrame" in text
    assert "_own" not in text
    assert "get_ipython" not in text
    text, _, _ = notebook.tool("inspect_variable", {"name": "table"})
    for shown in ("DataFrame 3 \u00d7 2", "float64", "missing"):
        assert shown in text
    text, failed, _ = notebook.tool("inspect_variable", {"name": "tabel"})
    assert failed
    assert "did you mean table" in text.lower()


HOSTILE = """
import sqlite3, time
class Raises:
    def __repr__(self): raise ValueError("no")
    __str__ = __repr__
class Slow:
    def __repr__(self): time.sleep(60); return "late"
class Endless:
    def __repr__(self):
        while True: pass
class Lies:
    __module__ = "pandas"
    __class__ = property(lambda self: touched.append("class"))
    shape = property(lambda self: touched.append("shape"))
    def __getattr__(self, name): touched.append(name)
class Exits:
    def __repr__(self): raise SystemExit
touched = []
raises, slow, endless, lies, exits = Raises(), Slow(), Endless(), Lies(), Exits()
huge = "x" * 50_000_000
deep = []
for _ in range(100_000): deep = [deep]
loop = []; loop.append(loop)
numbers = (touched.append(n) for n in range(3))
handle = open("harness.py")
cursor = sqlite3.connect(":memory:").execute("SELECT 1")
lazy_frame = pl.LazyFrame({"a": [1]}).map_batches(lambda frame: touched.append("computed") or frame)
objects = pd.DataFrame({"a": [raises, slow, lies]})
"""


def test_hostile_values_do_no_harm(notebook: Notebook) -> None:
    assert notebook.kernel.run(HOSTILE).status == "ok"
    names = "raises slow endless lies exits huge deep loop numbers handle cursor lazy_frame objects".split()
    name = notebook.make(*([("inspect_variable", {"name": each})] for each in names), [("list_variables", {})])
    assert notebook.prompt(name).status == "ok"
    results = notebook.results()
    assert len(results) == len(names) + 1
    assert not any(failed for _, failed, _ in results)
    assert all(len(text) < 12_000 for text, _, _ in results)
    cell = notebook.kernel.run("show([touched, next(numbers), handle.tell(), cursor.fetchone()])")
    touched, first, position, row = cell.data("application/json")[0]
    assert (touched, first, position, row) == ([0], None, 0, [1])
    notebook.kernel.run("del raises, slow, endless, lies, exits, huge, deep, loop, objects")


def test_with_limits_what_can_be_read(notebook: Notebook) -> None:
    notebook.kernel.run("open_1, closed_1, told_1 = 1, 2, 3")
    inspect = [[("inspect_variable", {"name": each})] for each in ("open_1", "closed_1", "told_1", "made_1")]
    name = notebook.make([("list_variables", {})], [("run_python", {"code": "made_1 = 4"})], *inspect)
    cell = notebook.kernel.run(
        f"%%planck {name} --tools kernel --with open_1 --allow run_python\nlook at it, and @told_1"
    )
    assert cell.status == "ok", cell.error
    listed, _, *inspected = notebook.results()
    assert listed[0].splitlines() == ["open_1: int", "told_1: int"]
    assert [failed for _, failed, _ in inspected] == [False, True, False, False]
    name = notebook.make([("list_variables", {})], "first", [("list_variables", {})])
    notebook.prompt(name, "--with open_1")
    notebook.prompt(name, "--with *")
    (limited, *_), (everything, *_) = notebook.results()
    assert limited == "open_1: int"
    assert "closed_1: int" in everything


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ("nosuch_1", "There is no variable named nosuch_1."),
        ("shared_1,share_2", "There is no variable named share_2. Did you mean shared_2 or shared_1?"),
        ("shared_1,*,nosuch_1", "There is no variable named nosuch_1."),
    ],
)
def test_what_cannot_be_shared_is_refused_before_anything_is_sent(
    notebook: Notebook, names: str, sentence: str
) -> None:
    notebook.kernel.run("shared_1, shared_2 = 1, 2")
    name = notebook.make("never said")
    cell = notebook.prompt(name, f"--with {names}")
    assert cell.error.startswith(f"UsageError: {sentence.partition('Did')[0]}".rstrip()), cell
    assert ("Did you mean shared" in cell.error) == ("Did you mean" in sentence)
    assert "never said" not in cell.plain


def test_the_error_of_the_cell_that_failed_last(notebook: Notebook) -> None:
    notebook.kernel.run("def broken(n):\n    return 1 / n\nbroken(0)")
    text, failed, _ = notebook.tool("last_error", {})
    assert not failed
    assert "return 1 / n" in text
    assert "ZeroDivisionError: division by zero" in text
    assert "\x1b" not in text
    notebook.python("{}['other']")  # an error of an agent's code is not that of a cell
    assert "ZeroDivisionError" in notebook.tool("last_error", {})[0]
    notebook.kernel.run("class Slow(Exception):\n    def __str__(self):\n        while True: pass\nerror = Slow()")
    notebook.kernel.run("import sys\nsys.last_value = error")
    assert "Slow" in notebook.tool("last_error", {})[0]


def test_rebound_and_deleted_names_can_be_undone(notebook: Notebook) -> None:
    notebook.kernel.run("%planck undo all")
    notebook.kernel.run("first, second, third = [1], [2], [3]")
    text, _, _ = notebook.python("first = 'new'\ndel second\nfourth = 4")
    assert "[rebound first; deleted second; the user can take that back with `%planck undo py" in text
    number = text.split("`%planck undo ")[1].split("`")[0]
    assert "rebound first; deleted second" in notebook.kernel.run("%planck changes").plain
    assert "first, second have their values from before" in notebook.kernel.run(f"%planck undo {number}").plain
    assert notebook.kernel.run("first, second, fourth").plain == "([1], [2], 4)"
    assert "There is nothing to undo" in notebook.kernel.run("%planck undo").plain
    notebook.python("third = 0\nprint = 1")
    notebook.kernel.run("third = 'mine'")
    cell = notebook.kernel.run("%planck undo")
    assert "print has its value from before the run_python. third was changed since and stays as it is." in cell.plain
    assert notebook.kernel.run("print(third)").text == "mine\n"


def test_calls_of_one_reply_do_not_mix(notebook: Notebook) -> None:
    calls = [
        ("run_python", {"code": f"print('begin {n}')\nawait asyncio.sleep(0.01)\nprint('end {n}')\n{n}"})
        for n in range(6)
    ]
    notebook.prompt(notebook.make(calls))
    assert [text for text, _, _ in notebook.results()] == [f"begin {n}\nend {n}\n{n}" for n in range(6)]


BLOCKING = [
    "while True: pass",
    "def forever():\n    while True: pass\nforever()",
    "import time\ntime.sleep(60)",
    "await asyncio.sleep(60)",
]


@pytest.mark.parametrize("code", BLOCKING)
def test_stop_ends_the_code_at_once_and_the_agent_asks_nothing_more(notebook: Notebook, code: str) -> None:
    begun = notebook.folder / f"begun-{notebook.count}"
    script = [("run_python", {"code": f"{touching(begun)}\n{code}"})]
    name = notebook.make(script, "asked again", "asked again")
    running = notebook.kernel.start(f"%%planck {name} --tools kernel --allow run_python --quiet\ngo")
    wait_until_blocked(notebook.kernel, begun, code)
    notebook.kernel.interrupt()
    cell = notebook.kernel.finish(running)
    assert "KeyboardInterrupt: the cell" in cell.error
    [(text, failed, _)] = notebook.results()
    assert failed
    assert "stopped" in text
    said = notebook.kernel.run("[e.message.type for e in agents[-1].state.messages].count('assistant')")
    assert said.plain == "1"
    assert notebook.python("6 * 7")[0] == "42"


@pytest.mark.parametrize("code", BLOCKING[:3])
def test_a_signal_stops_it_in_the_background(notebook: Notebook, code: str) -> None:
    handler = "import signal\nshow(repr(signal.getsignal(signal.SIGINT))[:30])"
    before = notebook.kernel.run(handler).data("application/json")
    begun = notebook.folder / f"begun-{notebook.count}"
    ended = "while not cell_has_ended:\n    await asyncio.sleep(0.01)"
    script = [("run_python", {"code": f"{ended}\n{touching(begun)}\n{code}"})]
    name = notebook.make(script, "asked again", "asked again")
    notebook.kernel.run("cell_has_ended = False")
    notebook.kernel.run(f"%%planck {name} --tools kernel --allow run_python --background --quiet\ngo")
    notebook.kernel.run("cell_has_ended = True")
    wait_until_blocked(notebook.kernel, begun, code)
    os.kill(notebook.kernel.manager.provisioner.pid, signal.SIGINT)
    assert notebook.kernel.run("1").plain == "1"
    notebook.kernel.run("while agents[-1].status != 'idle':\n    await asyncio.sleep(0.01)")
    said = notebook.kernel.run("[e.message.type for e in agents[-1].state.messages].count('assistant')")
    assert said.plain == "1"
    assert notebook.kernel.run("agents[-1].status").plain == "'idle'"
    assert notebook.kernel.run(handler).data("application/json") == before


def test_a_time_limit_is_said_and_the_agent_goes_on(notebook: Notebook) -> None:
    text, failed, _ = notebook.python("print('begun')\nwhile True: pass", timeout=1_500)
    assert failed
    assert "the code was stopped after 1.5 s" in text
    assert "begun" in text
    assert notebook.kernel.run("agents[-1].state.messages[-1].message.text").plain == "'done'"


def test_a_planck_magic_in_the_code_is_refused(notebook: Notebook) -> None:
    text, failed, _ = notebook.python("%planck agents")
    assert failed
    assert "%planck cannot be used in run_python" in text


def test_the_kernel_tools_are_found_by_their_names(notebook: Notebook) -> None:
    cell = notebook.kernel.run(f"%planck {notebook.make()} --tools list_variables go")
    assert cell.status == "ok", cell.error
    assert notebook.kernel.run("[tool.name for tool in agents[-1].tools]").plain == "['list_variables']"
    notebook.kernel.run("def run_python(code: str) -> str:\n    return code")
    cell = notebook.prompt(notebook.make())
    assert cell.status == "ok", cell.error
    refused = notebook.kernel.run("%planck --tools run_python hi")
    assert "run_python is a reserved name" in refused.error
    notebook.kernel.run("del run_python")

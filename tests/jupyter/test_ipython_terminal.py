"""The magics in IPython in a terminal: what streams, what Ctrl-C stops, and how approvals are asked."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeAlias

import pytest
from support.terminal import CTRL_C, Terminal, running_terminal

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal"),
    pytest.mark.timeout(120),
]

Moment: TypeAlias = Callable[[Terminal, Path], AbstractContextManager[int]]
"""Begins something; gives the position where its output begins, once the moment for an interrupt has come."""

INTERRUPTED = "KeyboardInterrupt: the cell was interrupted; what was said so far is kept"

TOOLS = """
import asyncio, pathlib, time

def write_later(note: str) -> str:
    'Write a file as soon as there is another.'
    pathlib.Path('begun').touch()
    while not pathlib.Path('go').exists():
        time.sleep(0.1)
    pathlib.Path('written').touch()
    return note

async def write_later_async(note: str) -> str:
    'Write a file as soon as there is another.'
    pathlib.Path('begun').touch()
    try:
        while not pathlib.Path('go').exists():
            await asyncio.sleep(0.1)
    finally:
        await asyncio.sleep(0.2)  # so that a second interrupt comes before the line has ended
    pathlib.Path('written').touch()
    return note

async def write_later_blocking(note: str) -> str:
    'Write a file as soon as there is another, and block the event loop until then.'
    pathlib.Path('begun').touch()
    while not pathlib.Path('go').exists():
        time.sleep(0.1)
    pathlib.Path('written').touch()
    return note
"""

BUSY = b"HTTP/1.1 503 Busy\r\nretry-after: 4\r\ncontent-length: 0\r\n\r\n"
PACE = 0.006


class Server:
    """A model server that answers every request with the same bytes, or never."""

    def __init__(self, reply: bytes = b"") -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._reply = reply
        self.requested = threading.Event()
        port = self._socket.getsockname()[1]
        self.options = f"--model openai:x --base-url http://127.0.0.1:{port}/v1"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.ExitStack() as connections, contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                connections.enter_context(connection)
                connection.recv(65_536)
                self.requested.set()
                if self._reply:
                    connection.sendall(self._reply)
                    connection.close()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._thread.join()
        self._socket.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("terminal")
    (folder / "tools.py").write_text(TOOLS)
    (folder / "later.sh").write_text("touch begun; until test -e go; do sleep 0.1; done; touch written")
    return folder


@pytest.fixture(scope="module")
def shared(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    home = str(tmp_path_factory.mktemp("home"))
    settings = {"PLANCK_NB_MODEL": "demo", "PLANCK_NB_DEMO_PACE": str(PACE), "HOME": home, "OPENAI_API_KEY": "k"}
    with running_terminal(folder, "--simple-prompt", **settings) as terminal:
        terminal.run("%load_ext planck_nb")
        terminal.run("%run -i tools.py")
        yield terminal


@pytest.fixture
def terminal(shared: Terminal, folder: Path) -> Terminal:
    """The terminal, without the files and the model of the test before."""
    shared.run("%planck model demo")
    for name in ("begun", "go", "written", "mark"):
        (folder / name).unlink(missing_ok=True)
    return shared


@contextlib.contextmanager
def unhurried(terminal: Terminal) -> Iterator[None]:
    """The demo model takes its time, so that its answer goes on while something else is done."""
    pace(terminal, 0.05)
    yield
    pace(terminal, PACE)


def pace(terminal: Terminal, seconds: float) -> None:
    terminal.run("import dataclasses, planck_nb; place = planck_nb.get_workspace()")
    terminal.run(f"place.config = dataclasses.replace(place.config, demo_pace={seconds})")
    terminal.run("%planck model demo")


def test_text_appears_as_it_comes_and_no_output_is_empty(terminal: Terminal) -> None:
    with unhurried(terminal):
        since = terminal.start("%planck -- hello")
        terminal.read("I am the demo", since=since)
        assert "tell what they return" not in terminal.text[since:]
        shown = terminal.finish(since)
    assert shown.count("I am the demo") == 1
    last = [line for line in shown.splitlines() if line][-1]
    assert last.startswith("Out["), shown
    assert "]: <Answer: done · " in last
    assert last.endswith("demo:demo>")


def test_the_answer_is_a_value(terminal: Terminal) -> None:
    terminal.run("%planck -- hello")
    assert "True" in terminal.run("_.text.startswith('I am')")
    assert "Out[" not in terminal.run("kept = %planck -- hello")
    assert "I am the demo" in terminal.run("kept")
    assert "I am the demo" in terminal.run("await kept.run")
    assert "'planck'" in terminal.run("kept.agent.name")
    assert "I am the demo" in terminal.run("%planck --quiet hello")


def test_a_table_that_is_too_wide_has_all_its_columns(terminal: Terminal) -> None:
    terminal.run("!stty cols 90")
    shown = terminal.run("%planck config")
    terminal.run("!stty cols 200")
    assert re.search(r"setting +value ", shown), shown
    assert re.search(r"source +variable", shown)
    assert re.search(r"approval_deadline +300", shown)
    assert "PLANCK_NB_APPROVAL_DEADLINE" in shown
    assert max(map(len, shown.splitlines())) <= 90


def test_calls_are_lines_as_they_happen(terminal: Terminal, folder: Path) -> None:
    since = terminal.start("%planck --tools write_later use write_later with 'x'")
    terminal.read(r"\[write_later", since=since)
    assert not (folder / "written").exists()
    (folder / "go").touch()
    shown = terminal.finish(since)
    assert (folder / "written").exists()
    assert "\n[write_later x: done" in shown


@contextlib.contextmanager
def before_the_first_delta(terminal: Terminal, _folder: Path) -> Iterator[int]:
    server = Server()
    since = terminal.start(f"%planck {server.options} hello")
    assert server.requested.wait(30)
    yield since
    server.close()


@contextlib.contextmanager
def while_it_retries(terminal: Terminal, _folder: Path) -> Iterator[int]:
    server = Server(BUSY)
    since = terminal.start(f"%planck {server.options} hello")
    terminal.read(r"\[.*Trying again", since=since)
    yield since
    server.close()


@contextlib.contextmanager
def while_it_streams(terminal: Terminal, _folder: Path) -> Iterator[int]:
    with unhurried(terminal):
        since = terminal.start("%planck -- hello")
        terminal.read("I am the demo", since=since)
        yield since


def while_a_tool_runs(name: str) -> Moment:
    @contextlib.contextmanager
    def begin(terminal: Terminal, folder: Path) -> Iterator[int]:
        since = terminal.start(f"%planck --tools {name} use {name} with 'x'")
        appears(folder / "begun")
        yield since

    return begin


@contextlib.contextmanager
def while_a_command_runs(terminal: Terminal, folder: Path) -> Iterator[int]:
    since = terminal.start("%planck --tools bash --allow 'bash:sh later.sh' Use bash with `sh later.sh`")
    appears(folder / "begun")
    yield since


@contextlib.contextmanager
def while_a_question_is_open(terminal: Terminal, _folder: Path) -> Iterator[int]:
    since = terminal.start("%planck --tools write Use write with path `written` and content `x`")
    terminal.read("Allow", since=since)
    yield since


@contextlib.contextmanager
def during_a_verb(terminal: Terminal, _folder: Path) -> Iterator[int]:
    terminal.run("%planck sql SELECT 1")  # loads what the next one needs
    since = terminal.start("%planck sql SELECT sum(a.range * b.range) FROM range(3000000) a, range(3000000) b")
    time.sleep(1)  # nothing shows that the query runs
    yield since


@contextlib.contextmanager
def beside_other_async_code(terminal: Terminal, folder: Path) -> Iterator[int]:
    code = """await asyncio.sleep(0); get_ipython().run_line_magic('planck', '--tools {0} use {0} with "x"')"""
    since = terminal.start(code.format("write_later_async"))
    appears(folder / "begun")
    yield since


@contextlib.contextmanager
def in_a_function(terminal: Terminal, folder: Path) -> Iterator[int]:
    code = """(lambda: get_ipython().run_line_magic('planck', '--tools {0} use {0} with "x"'))()"""
    since = terminal.start(code.format("write_later_async"))
    appears(folder / "begun")
    yield since


MOMENTS: dict[str, Moment] = {
    "before the first delta": before_the_first_delta,
    "while it streams": while_it_streams,
    "while it retries": while_it_retries,
    "while a sync tool runs": while_a_tool_runs("write_later"),
    "while an async tool runs": while_a_tool_runs("write_later_async"),
    "while a tool blocks the loop": while_a_tool_runs("write_later_blocking"),
    "while a command runs": while_a_command_runs,
    "while a question is open": while_a_question_is_open,
    "during a verb": during_a_verb,
    "beside other async code": beside_other_async_code,
    "in a function": in_a_function,
}


TWICE = ["while an async tool runs", "while a command runs", "while a question is open"]


@pytest.mark.parametrize(
    ("moment", "times"), [*((moment, 1) for moment in MOMENTS), *((moment, 2) for moment in TWICE)]
)
def test_an_interrupt_ends_everything(terminal: Terminal, folder: Path, moment: str, times: int) -> None:
    with MOMENTS[moment](terminal, folder) as since:
        for _ in range(times):
            terminal.send(CTRL_C)
        shown = terminal.finish(since)
    assert "Out[" not in shown
    # The second may come when the first has ended everything; then IPython says so in its own words.
    assert shown.count("KeyboardInterrupt") in (1, times), shown
    assert "Traceback" not in shown
    if times == 1:
        assert shown.rstrip().endswith(INTERRUPTED), shown
    nothing_goes_on(terminal, folder)


@pytest.mark.parametrize("delay", [0.02, 0.1])
def test_an_interrupt_at_once_ends_everything(terminal: Terminal, folder: Path, delay: float) -> None:
    terminal.start("%planck --tools write_later use write_later with 'x'")
    time.sleep(delay)
    end = len(terminal.text)
    terminal.send(CTRL_C)  # which may interrupt IPython itself, that says so in its own words
    terminal.read(r"In \[\d+\]: \Z", since=end)
    nothing_goes_on(terminal, folder)


def test_an_interrupt_ends_all_prompts_that_are_gathered_and_works_again(terminal: Terminal, folder: Path) -> None:
    magic = "get_ipython().run_line_magic('planck_awaited', f'--agent {name} hello')"
    with unhurried(terminal):
        since = terminal.start(f"await asyncio.gather(*({magic} for name in ('ann', 'bob')))")
        terminal.read("demo demo", since=since)
        terminal.send(CTRL_C)
        assert "Out[" not in terminal.finish(since)
    nothing_goes_on(terminal, folder)
    since = terminal.start("pathlib.Path('begun').touch(); time.sleep(300)")
    appears(folder / "begun")
    terminal.send(CTRL_C)
    assert "KeyboardInterrupt" in terminal.finish(since)


def nothing_goes_on(terminal: Terminal, folder: Path) -> None:
    assert "idle" in terminal.run("%planck agents")
    assert "Nothing is running." in terminal.run("%planck stop")
    after = terminal.run("%planck --model demo hello")
    assert "I am the demo" in after
    assert "[write" not in after
    assert "[bash" not in after
    (folder / "go").touch()
    terminal.run("import asyncio; await asyncio.sleep(0.6)")  # what was left suspended or in a thread would go on
    assert not (folder / "written").exists()


ASKS = "%planck --tools bash Use bash with `touch mark; echo done`"


@pytest.mark.parametrize(
    ("typed", "runs", "told"),
    [
        ("y", True, "[bash touch mark; echo done: done]"),
        ("what?\nYES", True, "after n you can write why"),
        ("n not today", False, "[bash touch mark; echo done: denied]"),
        ("\x04", False, "The user denied this call."),
    ],
    ids=["yes", "unclear", "no", "end of input"],
)
def test_approval_is_asked_and_typed(terminal: Terminal, folder: Path, typed: str, runs: bool, told: str) -> None:
    since = terminal.start(ASKS)
    for answer in typed.split("\n"):
        question = terminal.read(r"Allow\? \[y\]es, \[n\]o, \[a\]lways: ", since=since)
        since = question.end()
        terminal.send(answer if answer == "\x04" else f"{answer}\n")
    shown = terminal.finish(since)
    assert told in shown or told in terminal.text
    assert (folder / "mark").exists() == runs
    if "today" in typed:
        assert "call: not today" in shown


def test_what_was_typed_before_the_question_is_no_answer(terminal: Terminal, folder: Path) -> None:
    since = terminal.start("%planck --tools write_later,bash use write_later with 'x'")
    (folder / "go").touch()
    terminal.finish(since)
    since = terminal.start(f"{ASKS}\ny\ny")  # in one go, so that no question can come between
    terminal.read("Allow", since=since)
    with pytest.raises(TimeoutError):
        terminal.read(r"In \[", since=since, timeout=0.5)
    assert not (folder / "mark").exists()
    terminal.send("n\n")
    terminal.finish(since)


def test_always_is_remembered(shared: Terminal, folder: Path) -> None:
    command = "%planck --tools bash Use bash with `echo always`"
    since = shared.start(command)
    shared.read("Allow", since=since)
    shared.send("a\n")
    shared.finish(since)
    assert "Allow" not in shared.run(command)


def test_nobody_is_asked_without_a_terminal(tmp_path: Path) -> None:
    code = "%load_ext planck_nb\n%planck --tools bash Use bash with `touch mark`\n"
    ran = subprocess.run(
        [sys.executable, "-m", "IPython", "--no-banner", "--colors=NoColor", "--simple-prompt"],
        input=code,
        env={**os.environ, "PLANCK_NB_MODEL": "demo", "PLANCK_NB_DEMO_PACE": "0"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "nobody to ask" in ran.stdout
    assert "--allow bash" in ran.stdout
    assert not (tmp_path / "mark").exists()


def test_a_background_run_says_when_it_goes_on(terminal: Terminal) -> None:
    shown = terminal.run("%planck --background hello")
    assert "In a terminal a background run goes on only while a cell runs" in shown
    assert "I am the demo" not in shown
    assert "I am the demo" in terminal.run("await _.wait()")


def test_the_usual_prompt_works_as_well(folder: Path, tmp_path: Path) -> None:
    settings = {"PLANCK_NB_MODEL": "demo", "PLANCK_NB_DEMO_PACE": "0.1", "HOME": str(tmp_path)}
    with running_terminal(folder, **settings) as terminal:
        terminal.read(r"In \[1\]:")
        terminal.send("%load_ext planck_nb\r")
        since = terminal.read(r"In \[2\]:").end()
        terminal.send("%planck -- hello\r")
        terminal.read("I am the demo", since=since)
        terminal.send(CTRL_C)
        terminal.read("KeyboardInterrupt: the cell", since=since)
        terminal.send("40 + 2\r")
        terminal.read("42", since=since)


def test_a_corrected_cell_is_at_the_next_prompt(folder: Path, tmp_path: Path) -> None:
    settings = {"PLANCK_NB_MODEL": "demo", "PLANCK_NB_DEMO_PACE": "0", "HOME": str(tmp_path)}
    with running_terminal(folder, **settings) as terminal:
        terminal.read(r"In \[1\]:")
        terminal.send("%load_ext planck_nb\r")
        since = terminal.read(r"In \[2\]:").end()
        terminal.send("missing\r")
        since = terminal.read(r"In \[3\]:", since=since).end()
        terminal.send("%planck fix\r")
        since = terminal.read("Enter runs it", since=since).end()
        since = terminal.read(r"In \[4\]: missing", since=since).end()
        terminal.send("\r")
        terminal.read("NameError: name .missing. is not defined", since=since)


def appears(file: Path) -> None:
    limit = time.monotonic() + 30
    while not file.exists():
        assert time.monotonic() < limit, f"{file} does not appear"
        time.sleep(0.01)

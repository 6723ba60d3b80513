"""■ ends functions of the user's that block the event loop: tools, compactors and observers."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.kernel import Cell, Kernel, running_kernel

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(120)]

SETUP = """
import asyncio, hashlib, pathlib, socket, subprocess, threading, time
from planck_nb import Agent, Compactor, get_workspace, tool
from planck_nb.ai.messages import ToolResultMessage
from planck_nb.testing import Call, Reply, scripted_model
begun = pathlib.Path("begun")
def agent_with(*tools, **options):
    script = [Reply(calls=[Call(each.__name__, {}) for each in tools]), "after"] if tools else ["one", "two"]
    return Agent(model=scripted_model(script), tools=tools, **options)
def results(agent):
    messages = [entry.message for entry in agent.state.messages]
    return [part.text for message in messages if isinstance(message, ToolResultMessage) for part in message.content]
"""

BLOCKING = {
    "a pause": "time.sleep(60)",
    "a computation": "while True: pass",
    "a connection": "socket.create_server(('127.0.0.1', 0)).accept()",
    "a command": "subprocess.run(['sleep', '60'], start_new_session=True)",
    "a lock": "lock = threading.Lock(); lock.acquire(); lock.acquire()",
    "prints": "while True: print('x' * 10)",
    "an await before it": "await asyncio.sleep(0.01); time.sleep(60)",
    "a cleanup": "try: time.sleep(60)\nfinally: pathlib.Path('cleaned').touch()",
    "a loop with retries": "while True:\n    try: time.sleep(60)\n    except Exception: pass",
    "a function that ignores the first": "try: time.sleep(60)\nexcept KeyboardInterrupt: time.sleep(60)",
    "a generator": "yield 1\ntime.sleep(60)\nyield 2",
    "a task of its own": "async def work(): time.sleep(60)\nawait asyncio.gather(work(), asyncio.sleep(60))",
    "a task in a group": (
        "async def work(): time.sleep(60)\nasync with asyncio.TaskGroup() as group: group.create_task(work())"
    ),
    "an event of a thread": "threading.Event().wait()",
}
"""Bodies of tools that block the event loop, or keep the main thread from it."""

STOPPED = "['The call was stopped before it returned.']"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("blocking")


@pytest.fixture(scope="module")
def kernel(folder: Path) -> Iterator[Kernel]:
    with running_kernel(folder, PLANCK_NB_SESSIONS_DIR=str(folder / "sessions")) as kernel:
        assert kernel.run(f"%load_ext planck_nb\n%planck model demo\n{SETUP}").status == "ok"
        yield kernel


def function(body: str, name: str = "blocks", parameters: str = "") -> str:
    """An async function that makes the file `begun` and then blocks."""
    return f"async def {name}({parameters}):\n    'Block.'\n    begun.touch()\n{textwrap.indent(body, '    ')}\n"


def interrupted(kernel: Kernel, folder: Path, code: str) -> tuple[Cell, float]:
    """Run a cell, press ■ once its function has begun, and return the cell and the seconds until it ended."""
    begun = folder / "begun"
    begun.unlink(missing_ok=True)
    sent = kernel.start(code)
    wait_for(begun)
    time.sleep(0.2)  # the function has to get from this file to the call that blocks
    kernel.interrupt()
    pressed = time.monotonic()
    cell = kernel.finish(sent, timeout=30)
    return cell, time.monotonic() - pressed


def wait_for(file: Path) -> None:
    deadline = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < deadline, f"{file.name} was not made"
        time.sleep(0.005)


@pytest.mark.parametrize("case", BLOCKING)
def test_a_tool_that_blocks_is_stopped(kernel: Kernel, folder: Path, case: str) -> None:
    kernel.run(function(BLOCKING[case]) + "agent = agent_with(blocks)")
    cell, seconds = interrupted(kernel, folder, "await agent.prompt('go')")
    assert cell.status == "error"
    assert seconds < 8
    assert kernel.run("print(results(agent))").text.strip() == STOPPED
    assert kernel.run("1 + 1").plain == "2"
    assert kernel.run("(await agent.prompt('Again.')).text").plain == "'after'"


def test_code_outside_python_is_stopped_when_it_returns_and_the_cell_says_so(kernel: Kernel, folder: Path) -> None:
    body = "hashlib.pbkdf2_hmac('sha256', b'x', b'y', 10_000_000)\nwhile True: pass"
    kernel.run(function(body) + "agent = agent_with(blocks)")
    cell, _ = interrupted(kernel, folder, "await agent.prompt('go')")
    assert cell.text == "`blocks` runs code which Python cannot interrupt; it is stopped when that code returns.\n"
    assert kernel.run("print(results(agent))").text.strip() == STOPPED


def test_a_cell_that_prompts_ends(kernel: Kernel, folder: Path) -> None:
    kernel.run(function("time.sleep(60)"))
    cell, seconds = interrupted(kernel, folder, "%%planck stopped --new --tools blocks --allow blocks\nblocks")
    assert seconds < 8
    assert "KeyboardInterrupt: the cell was interrupted" in cell.error
    assert any("**stopped**" in text for text in cell.data("text/markdown"))
    assert kernel.run("%%planck stopped\nhello").status == "ok"


def test_a_tool_in_the_background_is_stopped_while_no_cell_runs(kernel: Kernel, folder: Path) -> None:
    (folder / "begun").unlink(missing_ok=True)
    kernel.run(function("time.sleep(60)") + "agent = agent_with(blocks)\nrun = agent.prompt('go')")
    wait_for(folder / "begun")
    time.sleep(0.2)
    kernel.interrupt()
    ended = kernel.run("(await run.wait()).aborted, results(agent)", timeout=10)
    assert ended.plain == f"(True, {STOPPED})"


def test_a_cell_that_waits_behind_a_tool_in_the_background_runs(kernel: Kernel, folder: Path) -> None:
    (folder / "begun").unlink(missing_ok=True)
    kernel.run(function("while True: pass") + "agent = agent_with(blocks)\nrun = agent.prompt('go')")
    wait_for(folder / "begun")
    waiting = kernel.start("print('ran')")
    kernel.interrupt()
    assert kernel.finish(waiting, timeout=10).text == "ran\n"


COMPACTORS = {
    "an async function": "compactor = blocks",
    "a class": "class Own(Compactor):\n    compact = blocks\ncompactor = Own()",
    "a decision": (
        "class Own(Compactor):\n"
        "    def should(self, usage):\n        begun.touch(); time.sleep(60)\n"
        "    async def compact(self, messages, usage):\n        return None\n"
        "compactor = Own()"
    ),
    "with a fallback": (
        "compactor = Compactor.build(first=blocks)\n"
        "compactor.__class__ = type('Own', (type(compactor),), {'should': lambda self, usage: True})"
    ),
    "by its name": (
        "from planck_nb.agent.context.compactor import as_compactor, with_name\n"
        "compactor = with_name(as_compactor(blocks), 'own')"
    ),
}
"""Compactors of the user's that block the event loop."""


@pytest.mark.parametrize("case", COMPACTORS)
def test_a_compactor_that_blocks_is_stopped(kernel: Kernel, folder: Path, case: str) -> None:
    code = function("time.sleep(60)", parameters="*messages") + COMPACTORS[case]
    assert kernel.run(f"{code}\nagent = agent_with(on_compact=compactor)").status == "ok"
    cell, seconds = interrupted(kernel, folder, "await agent.prompt('go')")
    assert (cell.status, seconds < 8) == ("error", True)
    reasons = "[event.reason for event in agent.events.since(0) if event.type == 'compacted']"
    assert "It blocked the event loop, and the user stopped it." in kernel.run(reasons).plain
    assert kernel.run("1 + 1").plain == "2"


OBSERVERS = {
    "of an agent": "async def watch():\n    async for event in agent.subscribe(): blocks()",
    "of a run": "async def watch():\n    async for event in agent.prompt('go'): blocks()",
    "of the workspace": "async def watch():\n    async for event in get_workspace().subscribe(since=0): blocks()",
    "in a task of its own": (
        "async def work(): blocks()\n"
        "async def watch():\n    async for event in agent.subscribe(): await asyncio.create_task(work())"
    ),
    "a follower": "async def watch(): agent.prompt('go').follow(lambda run: blocks()); await asyncio.sleep(60)",
}
"""Code of the user's that is told of events and blocks the event loop."""


@pytest.mark.parametrize("case", OBSERVERS)
def test_an_observer_that_blocks_is_stopped(kernel: Kernel, folder: Path, case: str) -> None:
    blocks = "def blocks():\n    begun.touch()\n    time.sleep(60)\n"
    kernel.run("%planck hello")
    kernel.run(f"{blocks}{OBSERVERS[case]}\nagent = agent_with()")
    cell, seconds = interrupted(
        kernel,
        folder,
        "task = asyncio.create_task(watch())\nawait asyncio.sleep(0)\nagent.prompt('go')\nawait asyncio.sleep(60)",
    )
    assert (cell.status, seconds < 8) == ("error", True)
    assert kernel.run("1 + 1").plain == "2"
    kernel.run("task.cancel()")

"""Nothing that a command started is left, however it or the kernel ended; looked for from outside."""

from __future__ import annotations

import array
import asyncio
import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from support.sleepers import long_sleep, still_running

from planck_nb import Agent, BuiltinTools, ExternalTool, Tool, ToolError
from planck_nb.agent.events import AgentEvent
from planck_nb.testing import Call, Reply, scripted_model
from planck_nb.tools.sandbox import SandboxMode
from planck_nb.tools.watchdog_process import watchdog_process

pytestmark = pytest.mark.process

FAMILY = """
export FAMILY="$PWD"
trap '' TERM
sh -c 'trap "" TERM; sleep 301' &
setsid sh -c 'echo escaped; sleep 302' &
(sleep 303 & sleep 304 &)
(cd / && setsid sleep 305 &)
echo begun
sleep 306
"""
"""A shell that ignores SIGTERM, with children, orphans, one that leaves the group, one also the folder."""

MEMBERS = 7


def processes_in(folder: Path) -> list[psutil.Process]:
    """The processes whose working directory is this one, and members of a family that began in it."""
    found = []
    for process in psutil.process_iter():
        try:
            ours = process.cwd() == str(folder) or process.environ().get("FAMILY") == str(folder)
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def eventually(condition: Callable[[], object], seconds: float = 30) -> bool:
    """Whether it becomes true in time; other processes have no way to tell us."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def watchdogs_of(pid: int) -> list[int]:
    """The watchdogs of a process, by their command lines."""
    lines = [(process.pid, process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
    return [
        found for found, line in lines if len(line) == 6 and line[3].endswith("watchdog.py") and line[4] == str(pid)
    ]


def listens(pid: int) -> bool:
    """Whether the one watchdog of a process has begun to watch: it has read what was written to it."""
    (watchdog,) = watchdogs_of(pid)
    unread = array.array("i", [0])
    pipe = os.open(f"/proc/{watchdog}/fd/0", os.O_RDONLY | os.O_NONBLOCK)
    try:
        fcntl.ioctl(pipe, termios.FIONREAD, unread)
    finally:
        os.close(pipe)
    return unread[0] == 0


async def bash(folder: Path, command: str, **args: object) -> str:
    return (await BuiltinTools.bash(cwd=folder).run({"command": command, **args})).text


def described(folder: Path) -> Path:
    """The family as a TOOL.json."""
    path = folder / "TOOL.json"
    parameters = {"type": "object", "properties": {}}
    path.write_text(
        json.dumps({"name": "family", "description": "Begins.", "command": FAMILY, "parameters": parameters})
    )
    return path


@pytest.fixture(params=["bash", "TOOL.json", "bash without a sandbox"])
def family(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Tool, dict[str, object]]:
    """A tool that begins a family in the folder, and the arguments to call it with."""
    if request.param == "TOOL.json":
        return ExternalTool.from_file(described(tmp_path), cwd=tmp_path), {}
    return BuiltinTools.bash(cwd=tmp_path, sandbox="auto" if request.param == "bash" else "off"), {"command": FAMILY}


async def test_a_timeout_keeps_the_output_and_ends_the_family(
    family: tuple[Tool, dict[str, object]], tmp_path: Path
) -> None:
    tool, args = family
    started = time.monotonic()
    with pytest.raises(ToolError, match=r"^Process timed out after 2500ms\n(begun\nescaped|escaped\nbegun)"):
        await tool.run({**args, "timeout": 2_500})  # in which a busy machine begins the family
    assert time.monotonic() - started >= 2.5
    assert processes_in(tmp_path) == []


WITHOUT_ENVIRONMENT = "env -i setsid sh -c 'trap \"\" TERM; sleep 307' & sleep 306"
"""One that leaves the group and gives up its environment, where the mark is."""


async def test_what_gave_up_its_environment_ends_with_who_started_it(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"^Process timed out after 500ms$"):
        await bash(tmp_path, WITHOUT_ENVIRONMENT, timeout=500)
    assert processes_in(tmp_path) == []


def test_what_gave_up_its_environment_ends_with_the_kernel(tmp_path: Path) -> None:
    kernel = begin_kernel(tmp_path, family=WITHOUT_ENVIRONMENT)
    try:
        assert eventually(lambda: any("sleep 307" in " ".join(found.cmdline()) for found in processes_in(tmp_path)))
    finally:
        kernel.kill()
        kernel.wait()
    assert eventually(lambda: not processes_in(tmp_path))


@pytest.mark.parametrize("sandbox", ["auto", "off"])
async def test_what_is_left_in_the_background_ends_with_the_command(tmp_path: Path, sandbox: SandboxMode) -> None:
    tool = BuiltinTools.bash(cwd=tmp_path, sandbox=sandbox)

    async def output(command: str) -> str:
        return (await tool.run({"command": command, "timeout": 10_000})).text

    assert await output("sleep 300 & (trap '' TERM; sleep 301) & echo ready") == "ready\n"
    assert processes_in(tmp_path) == []
    assert await output("mkfifo p; setsid sh -c 'echo > p; sleep 302' & cat p") == "\n"
    assert processes_in(tmp_path) == []
    long = long_sleep()
    forked_twice = f"""mkfifo q; D=$PWD
    (cd / && exec setsid env -i sh -c '(setsid sleep {long} &); trap "" TERM; echo > '$D'/q; sleep {long}') & cat q"""
    assert await output(forked_twice) == "\n"
    assert still_running(long) == []


@pytest.mark.parametrize(
    ("family", "how"),
    [
        ("bash", "abort"),
        ("bash", "stop"),
        ("bash", "cancel"),
        ("TOOL.json", "abort"),
        ("bash without a sandbox", "abort"),
    ],
    indirect=["family"],
)
async def test_nothing_is_left_after_the_agent_was_stopped(
    family: tuple[Tool, dict[str, object]], tmp_path: Path, how: str
) -> None:
    tool, args = family
    agent = Agent(model=scripted_model([Reply(calls=[Call(tool.name, args)]), "again"]), tools=[tool])
    run = agent.prompt("go")
    seen: list[AgentEvent] = []
    async for event in run:
        seen.append(event)
        shown = "".join(event.text for event in seen if event.type == "tool_progress")
        if "begun" in shown and "escaped" in shown:
            break
    assert eventually(lambda: len(processes_in(tmp_path)) >= MEMBERS)  # "begun" is said before the last one begins
    if how == "cancel":
        task = asyncio.ensure_future(asyncio.wait_for(run, 0.01))
        with pytest.raises(TimeoutError):
            await task
    else:
        await getattr(agent, how)()
    assert processes_in(tmp_path) == []
    assert (await run.wait()).aborted


KERNEL = """
import asyncio, sys
from pathlib import Path
from planck_nb import BuiltinTools, ExternalTool
folder = Path(sys.argv[1])
described = folder / "TOOL.json"
tool = ExternalTool.from_file(described, cwd=folder) if described.exists() else BuiltinTools.bash(cwd=folder)
asyncio.run(tool.run({} if described.exists() else {"command": sys.argv[2]}))
"""


def begin_kernel(folder: Path, before: str = "", family: str = FAMILY) -> subprocess.Popen[bytes]:
    """A process that begins a family in the folder."""
    command = [sys.executable, "-W", "ignore", "-c", before + KERNEL, str(folder), family]
    return subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("kind", "number"), [("bash", signal.SIGKILL), ("TOOL.json", signal.SIGTERM), ("bash", signal.SIGINT)]
)
def test_nothing_is_left_after_the_process_died(tmp_path: Path, kind: str, number: int) -> None:
    if kind == "TOOL.json":
        described(tmp_path)
    kernel = begin_kernel(tmp_path)
    try:
        assert eventually(lambda: len(processes_in(tmp_path)) >= MEMBERS)
    finally:
        os.killpg(kernel.pid, number)
        kernel.wait()
    assert eventually(lambda: not processes_in(tmp_path))
    assert eventually(lambda: not watchdogs_of(kernel.pid))


def test_nothing_is_left_whenever_the_process_is_killed(tmp_path: Path) -> None:
    for moment in range(2):
        kernel = begin_kernel(tmp_path)
        try:
            assert eventually(lambda pid=kernel.pid: watchdogs_of(pid))  # type: ignore[misc]
            time.sleep(random.Random(moment).uniform(0, 0.1))  # from before the command begins to after it did
        finally:
            kernel.kill()
            kernel.wait()
        assert eventually(lambda pid=kernel.pid: not watchdogs_of(pid))  # type: ignore[misc]
        assert eventually(lambda: not processes_in(tmp_path))  # what was killed takes a moment to end


FORKING = """
import os, threading, time
from planck_nb.tools.watchdog_process import watchdog_process

def fork():
    while watchdog_process._pipe < 0:
        time.sleep(0.01)
    if os.fork() == 0:
        open("forked", "w").close()
        time.sleep(60)

threading.Thread(target=fork, daemon=True).start()
"""


def test_nothing_is_left_when_a_fork_of_the_process_lives_on(tmp_path: Path) -> None:
    kernel = begin_kernel(tmp_path, before=FORKING)
    try:
        assert eventually(lambda: Path("forked").exists() and len(processes_in(tmp_path)) >= MEMBERS)
        assert eventually(lambda: listens(kernel.pid))  # one that only begins to watch would see the death anyway
        kernel.kill()
        kernel.wait()
        assert eventually(lambda: not processes_in(tmp_path))
    finally:
        os.killpg(kernel.pid, signal.SIGKILL)


async def test_a_killed_watchdog_is_replaced(tmp_path: Path) -> None:
    await bash(tmp_path, "true")
    (first,) = watchdogs_of(os.getpid())
    os.kill(first, signal.SIGKILL)
    assert eventually(lambda: not watchdogs_of(os.getpid()) or psutil.Process(first).status() == psutil.STATUS_ZOMBIE)
    assert await bash(tmp_path, "echo on") == "on\n"
    assert await bash(tmp_path, "echo on") == "on\n"
    (second,) = watchdogs_of(os.getpid())
    assert second != first
    assert watchdog_process.begin_group()[0] > 2

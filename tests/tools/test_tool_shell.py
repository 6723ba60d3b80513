"""bash with real processes; what is left of them is looked for from outside."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from planck_nb import Agent, BuiltinTools, ToolError
from planck_nb.agent.events import AgentEvent
from planck_nb.testing import Call, Reply, scripted_model
from planck_nb.tools.guard import guard

FAMILY = """
trap '' TERM
sh -c 'trap "" TERM; sleep 301' &
setsid sh -c 'echo escaped; sleep 302' &
(sleep 303 & sleep 304 &)
echo begun
sleep 305
"""
"""A shell that ignores SIGTERM, with children, orphans, and one that leaves the group."""


def processes_in(folder: Path) -> list[psutil.Process]:
    """The processes whose working directory is this one."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def eventually(condition: Callable[[], object], seconds: float = 10) -> bool:
    """Whether it becomes true in time; other processes have no way to tell us."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


async def bash(folder: Path | None, command: str, **args: object) -> str:
    return (await BuiltinTools.bash(cwd=folder).run({"command": command, **args})).text


async def test_output_streams_and_status(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert await bash(tmp_path, "pwd") == f"{tmp_path}\n"
    assert await bash(tmp_path, "pwd", cwd="sub") == f"{tmp_path}/sub\n"
    assert await bash(None, "pwd") == f"{Path.cwd()}\n"
    assert await bash(tmp_path, "echo out; echo err >&2") == "out\n\nSTDERR:\nerr\n"
    assert await bash(tmp_path, "true") == "(no output)"
    assert await bash(tmp_path, "cat") == "(no output)"
    assert await bash(tmp_path, "printf 'a\\377b'") == "a\ufffdb"
    for command, said in [
        ("echo x; exit 42", "Process exited with status 42\nx\n"),
        ("kill -9 $$", "Process was ended by SIGKILL (9)"),
        ("nonsense", "Process exited with status 127\n\nSTDERR:\n"),
    ]:
        with pytest.raises(ToolError) as failure:
            await bash(tmp_path, command)
        assert str(failure.value).startswith(said)


async def test_what_cannot_start_is_said(tmp_path: Path) -> None:
    cases: list[tuple[str, dict[str, object], str]] = [
        ("true", {"cwd": "nope"}, r"failed to start process: No such file.*nope"),
        ("echo " + "x" * 200_000, {}, "failed to start process: Argument list too long"),
        ("a\0b", {}, "failed to start process: embedded null byte"),
    ]
    for command, args, said in cases:
        with pytest.raises(ToolError, match=said):
            await bash(tmp_path, command, **args)
    wrong: list[dict[str, object]] = [
        {},
        {"command": ""},
        {"command": "true", "timeout": 0},
        {"command": "true", "a": 1},
    ]
    for args in wrong:
        with pytest.raises(ToolError, match="Invalid arguments for bash"):
            await BuiltinTools.bash().run(args)


async def test_a_command_that_deletes_its_own_folder(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    assert await bash(gone, 'rm -r "$PWD"; echo done') == "done\n"
    with pytest.raises(ToolError, match=r"No such file.*gone"):
        await bash(gone, "true")
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    with pytest.raises(ToolError, match="the working directory is gone"):
        await bash(None, "true")


async def test_secrets_stay_out(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = "OPENAI_API_KEY GITHUB_TOKEN MY_SECRET_VALUE DB_PASSWORD aws_access_key_id STRIPE_KEY GOOGLE_CREDENTIALS"
    for name in secrets.split():
        monkeypatch.setenv(name, f"hidden {name}")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "plain")
    shown = await bash(None, "env")
    assert "hidden" not in shown
    assert "TOKENIZERS_PARALLELISM=plain" in shown
    allowing = BuiltinTools.bash(allow_env=["GITHUB_TOKEN"])
    assert re.findall("hidden (.*)", (await allowing.run({"command": "env"})).text) == ["GITHUB_TOKEN"]


async def test_a_timeout_keeps_the_output_and_ends_the_family(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(ToolError, match=r"^Process timed out after 500ms\nbegun\nescaped|escaped\nbegun"):
        await bash(tmp_path, FAMILY, timeout=500)
    assert 0.5 <= time.monotonic() - started < 4
    assert processes_in(tmp_path) == []


async def test_what_is_left_in_the_background_ends_with_the_command(tmp_path: Path) -> None:
    assert await bash(tmp_path, "sleep 300 & (trap '' TERM; sleep 301) & echo ready") == "ready\n"
    assert processes_in(tmp_path) == []
    assert await bash(tmp_path, "mkfifo p; setsid sh -c 'echo > p; sleep 302' & cat p") == "\n"
    escaped = processes_in(tmp_path)
    assert escaped
    for process in escaped:
        process.kill()


@pytest.mark.parametrize("how", ["abort", "stop", "cancel"])
async def test_nothing_is_left_after_the_agent_was_stopped(tmp_path: Path, how: str) -> None:
    model = scripted_model([Reply(calls=[Call("bash", {"command": FAMILY})]), "again"])
    agent = Agent(model=model, tools=[BuiltinTools.bash(cwd=tmp_path)])
    run = agent.prompt("go")
    seen: list[AgentEvent] = []
    async for event in run:
        seen.append(event)
        shown = "".join(event.text for event in seen if event.type == "tool_progress")
        if "begun" in shown and "escaped" in shown:
            break
    assert len(processes_in(tmp_path)) >= 6
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
from planck_nb import BuiltinTools
asyncio.run(BuiltinTools.bash(cwd=Path(sys.argv[1])).run({"command": sys.argv[2]}))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_after_the_process_died(tmp_path: Path, number: int) -> None:
    kernel = subprocess.Popen([sys.executable, "-c", KERNEL, str(tmp_path), FAMILY], start_new_session=True)
    try:
        assert eventually(lambda: len(processes_in(tmp_path)) >= 6)
    finally:
        os.killpg(kernel.pid, number)
        kernel.wait()
    assert eventually(lambda: not processes_in(tmp_path))
    assert eventually(lambda: not watchdogs_of(kernel.pid))


FORKING = """
import os, threading, time
from planck_nb.tools.guard import guard

def fork():
    while guard._pipe < 0:
        time.sleep(0.01)
    if os.fork() == 0:
        open("forked", "w").close()
        time.sleep(60)

threading.Thread(target=fork, daemon=True).start()
"""


def test_nothing_is_left_when_a_fork_of_the_process_lives_on(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKING + KERNEL, str(tmp_path), FAMILY]
    kernel = subprocess.Popen(command, start_new_session=True)
    try:
        assert eventually(lambda: Path("forked").exists() and len(processes_in(tmp_path)) >= 6)
        kernel.kill()
        kernel.wait()
        assert eventually(lambda: not processes_in(tmp_path))
    finally:
        os.killpg(kernel.pid, signal.SIGKILL)


def watchdogs_of(pid: int) -> list[int]:
    """The watchdogs of a process, by their command lines."""
    lines = [(process.pid, process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
    return [
        found for found, line in lines if len(line) == 6 and line[3].endswith("watchdog.py") and line[4] == str(pid)
    ]


async def test_a_killed_watchdog_is_replaced(tmp_path: Path) -> None:
    await bash(tmp_path, "true")
    (first,) = watchdogs_of(os.getpid())
    os.kill(first, signal.SIGKILL)
    assert eventually(lambda: not watchdogs_of(os.getpid()) or psutil.Process(first).status() == psutil.STATUS_ZOMBIE)
    assert await bash(tmp_path, "echo on") == "on\n"
    assert await bash(tmp_path, "echo on") == "on\n"
    (second,) = watchdogs_of(os.getpid())
    assert second != first
    assert guard.enlist()[0] > 2


LOUD = """
import asyncio, resource, sys
from planck_nb import BuiltinTools
tool = BuiltinTools.bash()
asyncio.run(tool.run({"command": "true"}))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
text = asyncio.run(tool.run({"command": sys.argv[1], "timeout": 100_000}, progress=lambda text: None)).text
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
print(len(text), text)
"""


@pytest.mark.parametrize("command", ["head -c 200000001 /dev/zero | tr '\\0' x", "yes 'a line é' | head -c 200000001"])
def test_a_loud_command_takes_little_memory(command: str) -> None:
    done = subprocess.run([sys.executable, "-c", LOUD, command], capture_output=True, text=True, check=True)
    growth, rest = done.stdout.split("\n", 1)
    assert int(growth) < 20_000  # KiB
    length, text = rest.split(" ", 1)
    assert int(length) < 50_000
    note = re.search(r"\[… ([\d,]+) bytes left out; the first 100,000,000 of 200,000,001 bytes in (\S+) …\]", text)
    assert note
    assert not Path(note[2]).exists()  # the process that made it has ended
    assert "\ufffd" not in text[:-3]


@pytest.mark.parametrize(
    ("size", "line"),
    [(10_000, 10), (26_999, 30), (27_000, 30), (27_001, 30), (300_000, 10), (300_000, 299_999), (5_000, 2)],
)
async def test_long_output_shows_head_and_tail_and_where_the_rest_is(tmp_path: Path, size: int, line: int) -> None:
    body = "\n".join("é" * ((line - 1) // 2) + str(number % 10) for number in range(size // line + 1)).encode()[:size]
    (tmp_path / "f").write_bytes(body)
    shown = await bash(tmp_path, "cat f; cat f >&2")
    out, _, err = shown.partition("\nSTDERR:\n")
    assert len(shown) < 50_000
    assert shown.count("\n") < 2_000
    for part in (out, err):
        head, cut, tail = part.partition("[… ")
        if not cut:
            assert part.encode() == body or b"\xef\xbf\xbd" in part.encode()
            continue
        note = re.match(r"([\d,]+) bytes left out; all of it in (\S+) …\]\n", tail)
        assert note
        rest = tmp_path / note[2]
        assert rest.read_bytes() == body
        assert rest.stat().st_mode & 0o077 == 0
        assert body.startswith((head.encode(), head[:-1].encode()))
        assert body.decode("utf-8", "replace").endswith(tail[note.end() :])


async def test_output_is_shown_as_it_comes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    script: list[Reply | str] = [
        Reply(calls=[Call("bash", {"command": "echo first; cat gate; echo failed >&2; exit 3"})]),
        "done",
    ]
    agent = Agent(model=scripted_model(script), tools=[BuiltinTools.bash(cwd=tmp_path)])
    run = agent.prompt("go")
    shown: list[str] = []
    async for event in run:
        if event.type == "tool_progress":
            shown.append(event.text)
            if len(shown) == 1:
                assert event.text == "first\n"
                await asyncio.to_thread((tmp_path / "gate").write_text, "second\n")
        if event.type == "tool_end":
            assert event.error
            assert event.result == "Error: Process exited with status 3\nfirst\nsecond\n\nSTDERR:\nfailed\n"
    assert "".join(shown) == "first\nsecond\nfailed\n"


async def test_commands_run_side_by_side(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    texts = await asyncio.gather(bash(tmp_path, "cat pipe"), bash(tmp_path, f"echo {shlex.quote('a b')} > pipe"))
    assert list(texts) == ["a b\n", "(no output)"]

"""bash with real processes."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from planck_nb import Agent, BuiltinTools, ToolError
from planck_nb.agent.approval.shell_command import ShellCommand
from planck_nb.agent.calling.approved_call import ApprovedCall
from planck_nb.testing import Call, Reply, scripted_model
from planck_nb.tools.sandbox import find_sandbox

pytestmark = pytest.mark.process


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


async def test_a_command_that_cannot_start_is_reported(tmp_path: Path) -> None:
    cases: list[tuple[str, dict[str, object], str]] = [
        ("true", {"cwd": "nope"}, r"failed to start process: No such file.*nope"),
        ("true", {"cwd": "~no-one/x"}, r"failed to start process: there is no home folder for ~no-one/x; give another"),
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
    unprotected = BuiltinTools.bash(cwd=gone, sandbox="off")
    assert (await unprotected.run({"command": 'rm -r "$PWD"; echo done'})).text == "done\n"
    gone.mkdir()
    (gone / "file").touch()
    if find_sandbox() is not None:  # which holds the folder itself, and lets all in it be deleted
        with pytest.raises(ToolError, match="Device or resource busy"):
            await bash(gone, 'rm -r "$PWD"')
        assert list(gone.iterdir()) == []
    (gone / "file").unlink(missing_ok=True)
    gone.rmdir()
    with pytest.raises(ToolError, match=r"No such file.*gone"):
        await bash(gone, "true")
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    with pytest.raises(ToolError, match="the working directory is gone"):
        await bash(None, "true")


async def test_secrets_stay_out(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = (
        "OPENAI_API_KEY GITHUB_TOKEN MY_SECRET_VALUE DB_PASSWORD aws_access_key_id STRIPE_KEY GOOGLE_CREDENTIALS "
        "SMTP_PASS MYSQL_PWD GITHUB_PAT REGISTRY_AUTH SESSION_COOKIE"
    )
    for name in secrets.split():
        monkeypatch.setenv(name, f"hidden {name}")
    monkeypatch.setenv("DATABASE_URL", "postgres://me:hidden@host/db")
    monkeypatch.setenv("DOCS_URL", "https://host:80/me@x?time=10:30")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "plain")
    shown = await bash(None, "env")
    assert "hidden" not in shown
    assert "TOKENIZERS_PARALLELISM=plain" in shown
    assert "DOCS_URL=" in shown
    assert "\nPWD=" in f"\n{shown}"
    allowing = BuiltinTools.bash(allow_env=["GITHUB_TOKEN"])
    assert re.findall("hidden (.*)", (await allowing.run({"command": "env"})).text) == ["GITHUB_TOKEN"]


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


@pytest.mark.parametrize("source", ["tr '\\0' x < /dev/zero", "yes 'a line é'"])
def test_a_loud_command_takes_little_memory(source: str) -> None:
    script = [sys.executable, "-c", LOUD, f"{source} | head -c 250000001"]
    done = subprocess.run(script, capture_output=True, text=True, check=True)
    growth, rest = done.stdout.split("\n", 1)
    assert int(growth) < 20_000  # KiB
    length, text = rest.split(" ", 1)
    assert int(length) < 50_000
    note = re.search(r"\[… ([\d,]+) bytes left out; the first 100,000,000 of 250,000,001 bytes in (\S+) …\]", text)
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


async def test_a_command_runs_as_it_was_approved(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to("sub")
    tool = BuiltinTools.bash(cwd=tmp_path, sandbox="off")
    args = {"command": "pwd", "cwd": "link"}
    approved = ApprovedCall(args, tool.touched(args))
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("/")
    assert (await tool.run(args, approved=approved)).text == f"{tmp_path}/sub\n"
    with pytest.raises(ToolError, match="not the one that was approved; make the call again"):
        await tool.run({"command": "pwd; pwd", "cwd": "link"}, approved=approved)


async def test_what_was_checked_for_a_sandbox_runs_in_one_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = BuiltinTools.bash(cwd=tmp_path)
    args = {"command": "echo > made"}
    command = ShellCommand.parse("echo > made", tmp_path, sandboxed=True)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="and there is none now; make the call again"):
        await tool.run(args, approved=ApprovedCall(args, (command,)))
    assert not (tmp_path / "made").exists()

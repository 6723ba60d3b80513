"""`run`: programs that end with their call. What is left after a cancelled call is in `test_served.py`."""

from __future__ import annotations

import asyncio
import pathlib
import sys
from typing import Any

import pytest
from support.sidecar_server import until_ended

from planck_nb.base.errors import ToolError, UsageError
from planck_nb.sidecars import run

pytestmark = pytest.mark.process


async def test_status_and_output() -> None:
    script = "import sys; print('out'); sys.stdout.flush(); print('err', file=sys.stderr); sys.exit(3)"
    assert await run(sys.executable, "-c", script) == (3, "out\nerr\n")
    assert (await run("sh", "-c", "kill -9 $$")).code == -9


async def test_words_are_not_read_by_a_shell(tmp_path: pathlib.Path) -> None:
    folder = await asyncio.to_thread(tmp_path.resolve)
    words = ["$HOME", "a b", "'", "", "-n", ";", "é"]
    assert (await run("printf", "%s|", *words, cwd=tmp_path)).output == "".join(f"{word}|" for word in words)
    assert (await run("pwd", "-P", cwd=tmp_path)).output == f"{folder}\n"


async def test_the_environment_has_no_secrets_but_those_that_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("PLAIN", "plain")
    code, output = await run("env", env={"OTHER_API_KEY": "given", "PLAIN": "changed"})
    assert code == 0
    assert "OPENAI_API_KEY" not in output
    assert "OTHER_API_KEY=given\n" in output
    assert "PLAIN=changed\n" in output


async def test_python_is_that_of_the_sidecar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    code, output = await run("python", "-c", "import sys; print(sys.prefix)")
    assert (code, output) == (0, f"{sys.prefix}\n")


async def test_nothing_is_read_from_standard_input() -> None:
    assert await run("cat") == (0, "")


async def test_long_output_keeps_its_beginning_and_its_end() -> None:
    script = "print('first'); print('x' * 3_000_000); print('last')"
    code, output = await run(sys.executable, "-c", script, max_output=10_000)
    assert code == 0
    assert output.startswith("first\n")
    assert output.endswith("x\nlast\n")
    assert "bytes left out" in output
    assert len(output) < 10_100
    left_out = int(output.split("[… ")[1].split(" ")[0].replace(",", ""))
    assert left_out + 10_000 == len("first\n") + 3_000_001 + len("last\n")


@pytest.mark.parametrize(
    ("command", "options", "words"),
    [
        (["no-such-program-x"], {}, "There is no program no-such-program-x on the PATH"),
        (["./no-such-program-x"], {}, "There is no program ./no-such-program-x"),
        (["true"], {"cwd": "/no/such/folder"}, "The working directory /no/such/folder does not exist"),
        (["sleep", "600"], {"timeout": 0.05}, "did not end within 0.05 s and was killed"),
        (["true"], {"env": {"A=B": "c\0"}}, "could not be started"),
    ],
)
async def test_what_cannot_run_is_a_sentence_for_the_model(
    command: list[str], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ToolError, match=words):
        await run(*command, **options)


async def test_a_program_is_needed() -> None:
    with pytest.raises(UsageError, match="needs a program"):
        await run()


async def test_progress_has_all_output() -> None:
    seen: list[str] = []
    await run(sys.executable, "-c", "print('é' * 50_000)", progress=seen.append)
    assert "".join(seen) == "é" * 50_000 + "\n"


@pytest.mark.skipif(sys.platform != "linux", reason="Processes are looked up in /proc.")
async def test_what_a_program_leaves_in_the_background_is_killed() -> None:
    script = (
        "import subprocess, sys; "
        "near = subprocess.Popen(['sleep', '600']); "
        "far = subprocess.Popen(['sleep', '600'], start_new_session=True); "
        "print(near.pid, far.pid)"
    )
    code, output = await run(sys.executable, "-c", script)
    assert code == 0
    await until_ended([int(pid) for pid in output.split()])


@pytest.mark.slow
async def test_many_at_once() -> None:
    results = await asyncio.gather(*(run("echo", str(number)) for number in range(30)))
    assert [output for _, output in results] == [f"{number}\n" for number in range(30)]

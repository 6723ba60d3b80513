"""Sessions on disks that are full or cannot be written: real file systems, mounted in a namespace of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from planck_nb.config import Config
from planck_nb.workspace import Workspace

pytestmark = [pytest.mark.process, pytest.mark.skipif(sys.platform != "linux", reason="mounts file systems")]

PRELUDE = """
import asyncio, contextlib, os, subprocess, sys
from pathlib import Path
from planck_nb.base.errors import PlanckError, SessionError
from planck_nb.config import Config
from planck_nb.sessions import Session, list_sessions, query
from planck_nb.workspace import Workspace
from planck_nb.ai.messages import UserMessage
disk = Path(sys.argv[1])
stored = disk / "sessions"
def fill():
    ballast = os.open(disk / "ballast", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for size in (4096, 1):
        with contextlib.suppress(OSError):
            while True:
                os.write(ballast, b"x" * size)
    os.close(ballast)
def workspace(engine=None):
    return Workspace(Config.load(environment={}, directory=disk, home=disk, sessions_dir=stored), engine=engine)
"""

FULL_LATER = """
async def main():
    async with workspace() as used:
        agent = used.add_agent("one", model=used.model("demo"))
        answered = [await agent.prompt("first")]
        fill()
        said = []
        for number in range(8):
            try:
                answered.append(await agent.prompt(f"{number} " + "x" * 100_000))
            except SessionError as error:
                said.append(str(error))
        assert len(said) > 1
        assert len(set(said)) == 1, said
        assert said[0].startswith("The session's journal "), said
        assert said[0].endswith(
            "could not be written (No space left on device); free space or choose another folder."
        ), said
        assert len(await used.query_async("from messages where role = 'assistant'")) == len(answered)
        (disk / "ballast").unlink()
        answered.append(await agent.prompt("there is room"))
        assert used.sessions_dir == stored
        shown = await used.query_async("select text from messages where role = 'assistant' order by id")
        assert list(shown.text) == [answer.text for answer in answered]
    assert len(query(stored, "from messages where role = 'assistant'")) == len(answered)
    assert not list_sessions(stored)[0].damage
    print("done")
asyncio.run(main())
"""

FULL_IN_AN_ANSWER = """
from planck_nb.engines import DaskEngine
from planck_nb.testing.scripted_server import ScriptedServer
async def main(workers):
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(ScriptedServer([" ".join(["yes" * 1000] * 100)] * 3, held=True))
        engine = await stack.enter_async_context(DaskEngine(workers=workers)) if workers else None
        used = await stack.enter_async_context(workspace(engine))
        agent = used.add_agent("one", model=server.model())
        run = agent.prompt("first")
        await server.until(answering=1)
        fill()  # a reply of 300 KB is more than what the database may give back meanwhile
        server.release()
        [error] = await asyncio.gather(run, return_exceptions=True)
        assert isinstance(error, SessionError), error
        assert "No space left on device" in str(error), error
        (disk / "ballast").unlink()
        answers = [await agent.prompt("there is room") for _ in range(2)]
        shown = await used.query_async("select text from messages where role = 'assistant' order by id")
        assert list(shown.text) == [answer.text for answer in answers]
        assert len(server.requests) == 3
        if engine:
            [worker] = engine.workers()
            assert (worker.answered, worker.failed) == (3, 0), worker
    print("done")
"""

FULL_MAP = """
async def main():
    texts = [f"{number} " + "x" * 100_000 for number in range(8)]
    def prompts():
        for number, text in enumerate(texts):
            if number == 4:
                fill()
            yield text
    async with workspace() as used:
        run = used.map(prompts(), model=used.model("demo"), concurrency=1)
        [error] = await asyncio.gather(run, return_exceptions=True)
        [rows] = await asyncio.gather(run.frame(), return_exceptions=True)
        (disk / "ballast").unlink()  # before anything fails here, for else the session cannot be closed
        assert isinstance(error, SessionError), error
        assert str(error).endswith("free space or choose another folder."), error
        stored_answers = len(rows)
        assert 4 <= stored_answers < 8, rows
        assert run.progress.state == "failed"
        again = await used.map(texts, model=used.model("demo"), concurrency=1)
        assert (again.stored, again.asked) == (stored_answers, 8 - stored_answers), again
    print("done")
asyncio.run(main())
"""

FULL_AT_FIRST = """
async def main():
    stored.mkdir(mode=0o700)
    fill()
    async with workspace() as used:
        agent = used.add_agent("one", model=used.model("demo"))
        assert (await agent.prompt("hello")).text
        print(*used.notices(), sep="|")
        assert used.notices() == []
        assert used.sessions_dir != stored
        assert len(await used.query_async("from messages")) == 2
    assert list_sessions(stored) == []
    assert not [path for path in stored.iterdir() if path.stat().st_size]
    (disk / "ballast").unlink()
    async with workspace() as used:
        agent = used.add_agent("one", model=used.model("demo"))
        await agent.prompt("hello")
        assert used.sessions_dir == stored and used.notices() == []
    print("done")
asyncio.run(main())
"""

FULL_FORK = """
async def main():
    with Session.create(stored, name="mine") as session:
        for _ in range(20):
            await session.append("a", UserMessage("x" * 10_000))
        fill()
        for act in (lambda: session.fork(name="copy"), lambda: Session.create(stored, name="other")):
            try:
                act()
            except SessionError as error:
                assert "No space left on device" in str(error), error
            else:
                raise AssertionError("there was room")
        assert [info.name for info in list_sessions(stored)] == ["mine"]
        assert not [path.name for path in stored.iterdir() if path.suffix == ".tmp"]
        assert len(session.messages()) == len(query(stored, "from messages")) == 20
        (disk / "ballast").unlink()
        session.fork(name="copy").close()
    assert len(query(stored, "from messages")) == 40
    print("done")
asyncio.run(main())
"""

READ_ONLY = """
async def main():
    for name in ("closed", "crashed"):
        with Session.create(stored, name=name) as session:
            await session.append("a", UserMessage("hello"))
    session.info.database.unlink()
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    async with workspace() as used:
        agent = used.add_agent("one", model=used.model("demo"))
        assert (await agent.prompt("hello")).text
        print(*used.notices(), sep="|")
        assert used.notices() == []
    assert len(query(stored, "from messages")) == 2
    for name in ("closed", "crashed"):
        with Session.read(stored, name) as reader:
            assert len(reader.messages()) == 1
            assert "hello" in reader.export("markdown")
        async with workspace() as used:
            try:
                await used.resume(name)
            except SessionError as error:
                assert "Read-only file system" in str(error), error
                assert "make its folder writable, or set PLANCK_NB_SESSIONS_DIR" in str(error), error
            else:
                raise AssertionError("it can be written")
    print("done")
asyncio.run(main())
"""


def run(folder: Path, script: str) -> list[str]:
    """Run a script with a disk of 16 MiB at `folder`, enough for a DuckDB file, and return what it printed."""
    environment = {**os.environ, "PLANCK_NB_DEMO_PACE": "0"}
    mounted = 'mount -t tmpfs -o size=16m tmpfs "$1" || exit 77; exec "$2" -c "$3" "$1"'
    command = ["unshare", "--mount", "sh", "-c", mounted, "sh", str(folder), sys.executable, PRELUDE + script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 77 or "unshare: unshare failed" in done.stderr:
        pytest.skip("only root may mount a file system")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_a_disk_that_is_full_fails_prompts_with_one_sentence_until_there_is_room(tmp_path: Path) -> None:
    assert run(tmp_path, FULL_LATER) == ["done"]


@pytest.mark.parametrize("workers", [0, 1], ids=["local", "over dask"])
def test_a_disk_that_fills_up_during_an_answer_ends_it_and_no_more(tmp_path: Path, workers: int) -> None:
    assert run(tmp_path, f"{FULL_IN_AN_ANSWER}\nasyncio.run(main({workers}))") == ["done"]


def test_a_map_on_a_disk_that_is_full_keeps_its_answers_and_goes_on_later(tmp_path: Path) -> None:
    assert run(tmp_path, FULL_MAP) == ["done"]


def test_a_fork_that_does_not_fit_leaves_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, FULL_FORK) == ["done"]


@pytest.mark.parametrize(
    ("script", "reason"),
    [(FULL_AT_FIRST, "No space left on device"), (READ_ONLY, "Read-only file system")],
    ids=["full", "read-only"],
)
def test_a_session_that_cannot_be_stored_ends_with_the_kernel_and_says_so(
    tmp_path: Path, script: str, reason: str
) -> None:
    notice, done = run(tmp_path, script)
    assert done == "done"
    assert notice == (
        f"No session can be stored in {tmp_path / 'sessions'} ({reason}), so this one is lost when the kernel ends; "
        "set PLANCK_NB_SESSIONS_DIR to another folder."
    )


@pytest.mark.parametrize("directory", ["/dev/full", "/dev/full/sessions", "/proc/sessions"])
async def test_so_does_one_in_a_place_that_is_not_a_directory(tmp_path: Path, directory: str) -> None:
    config = Config.load(environment={}, directory=tmp_path, home=tmp_path, sessions_dir=Path(directory))
    async with Workspace(config) as workspace:
        agent = workspace.add_agent("one", model=workspace.model("demo"))
        assert (await agent.prompt("hello")).text
        assert [sentence for sentence in workspace.notices() if "PLANCK_NB_SESSIONS_DIR" in sentence]
        assert len(await workspace.query_async("from messages")) == 2

"""A sidecar in a process of its own, called over stdio with the SDK's client in the old and the newest protocol."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import signal
import sys
import tomllib
from typing import Any

import pytest
from support.sidecar_server import (
    MODES,
    Mode,
    is_running,
    served,
    served_here,
    server_environment,
    text_of,
    until_ended,
    until_written,
    write_sidecar,
)

from planck_nb import ai
from planck_nb.base.errors import UsageError
from planck_nb.sidecars import new_sidecar
from planck_nb.sidecars.conventions import AGENT_ID, CALL_ID, ENTRY_POINT_GROUP, ROLE, RUNS, TIMEOUT

pytestmark = pytest.mark.process

BODY = """
import asyncio, os, subprocess, sys, threading, time
import pydantic
from planck_nb import Tool

total = 0

class Point(pydantic.BaseModel):
    x: int
    y: int

@sidecar.tool(timeout_ms=1_500, read_only=True, title="Echo")
async def echo(text: str, context: ToolContext) -> str:
    return f"{context.agent_id}|{context.call_id}|{text}"

@sidecar.tool
def process_id() -> int:
    print("printed by a process")
    return os.getpid()

@sidecar.tool(process=False)
def count() -> int:
    global total
    total += 1
    print("printed by a thread")
    sys.__stdout__.write("written to the first stream")
    os.system("echo printed by a child")
    return total

@sidecar.tool
def count_in_process() -> int:
    global total
    total += 1
    return total

@sidecar.tool
def steps(context: ToolContext) -> str:
    for word in ("one", "two", "three"):
        context.progress(word)
        time.sleep(0.06)
    return context.call_id

@sidecar.tool
def point(x: int) -> Point:
    return Point(x=x, y=2 * x)

@sidecar.tool
async def wrong_point() -> Point:
    return {"x": "a"}

@sidecar.tool
async def explain() -> str:
    raise ToolError("Say it differently.")

@sidecar.tool
def divide() -> float:
    return 1 / 0

@sidecar.tool
def leave() -> str:
    sys.exit(3)

@sidecar.tool
def crash() -> str:
    os._exit(3)

@sidecar.tool
def huge() -> dict:
    return {"text": "x" * 11_000_000}

@sidecar.tool
async def agree() -> str:
    first = await elicit("First?", {"type": "object", "properties": {"ok": {"type": "boolean"}}})
    second = await elicit("Second?")
    return f"{first.accepted} {dict(first.content)} {second.action}"

@sidecar.compactor(timeout_ms=60_000)
def short(messages, model):
    return f"{len(messages)} for {model.reference}", messages[-2:]

@sidecar.observer
def watch(events, session_id):
    global total
    total += 100 * len(events)

def make():
    def closure(args):
        return str(threading.current_thread() is threading.main_thread())
    return closure

sidecar.add(Tool(name="closure", description="A closure.", execute_fn=make(), timeout=7))
"""


async def answer(_context: object, params: Any) -> Any:
    import mcp_types as types

    if params.message == "First?":
        return types.ElicitResult(action="accept", content={"ok": True})
    return types.ElicitResult(action="decline")


@pytest.mark.parametrize("mode", MODES)
async def test_a_sidecar_in_both_protocols(
    tmp_path: pathlib.Path, mode: Mode, caplog: pytest.LogCaptureFixture
) -> None:
    write_sidecar(tmp_path, BODY)
    log = tmp_path / "log"
    async with served(tmp_path, mode=mode, log=log, elicitation_callback=answer) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["echo"].meta == {TIMEOUT: 1_500, RUNS: "async"}
        assert tools["echo"].annotations.read_only_hint is True
        assert tools["echo"].title == "Echo"
        assert tools["process_id"].meta[RUNS] == "process"
        assert tools["count"].meta[RUNS] == tools["closure"].meta[RUNS] == "thread"
        assert tools["closure"].meta[TIMEOUT] == 7_000
        assert tools["planck_compact_short"].meta == {TIMEOUT: 60_000, RUNS: "process", ROLE: "compactor"}
        assert tools["planck_observe_watch"].meta[ROLE] == "observer"
        assert tools["point"].output_schema["required"] == ["x", "y"]
        assert tools["echo"].output_schema is None

        async def call(name: str, args: dict[str, Any] | None = None, **options: Any) -> Any:
            return await client.call_tool(name, args or {}, **options)

        meta = {AGENT_ID: "agent", CALL_ID: "call"}
        result = await call("echo", {"text": "hi"}, meta=meta)
        assert (text_of(result), result.structured_content) == ("agent|call|hi", None)
        # Undeclared arguments, such as a timeout, are for the caller to leave out.
        assert "Invalid arguments for echo" in text_of(await call("echo", {"text": "hi", "timeout_ms": 5}))
        first, again = text_of(await call("process_id")), text_of(await call("process_id"))
        assert first == again != str(os.getpid())
        assert [text_of(await call("count")) for _ in range(2)] == ["1", "2"]
        assert text_of(await call("closure")) == "False"

        seen: list[tuple[float, str | None]] = []

        async def progress(count: float, _total: float | None, message: str | None) -> None:
            seen.append((count, message))

        assert text_of(await call("steps", meta=meta, progress_callback=progress)) == "call"
        assert "".join(message or "" for _, message in seen) == "onetwothree"
        assert [count for count, _ in seen] == [float(number) for number in range(1, len(seen) + 1)]

        result = await call("point", {"x": 2})
        assert result.structured_content == json.loads(text_of(result)) == {"x": 2, "y": 4}
        for name, words in {
            "wrong_point": "wrong_point returned a value that does not match its return annotation",
            "explain": "Say it differently.",
            "divide": "ZeroDivisionError: division by zero",
            "leave": "RuntimeError: SystemExit: 3",
            "crash": "crash failed: it ended its process with the exit status 3.",
            "huge": "The result of huge has 1",
        }.items():
            result = await call(name)
            assert result.is_error, name
            assert text_of(result).startswith(words), text_of(result)
        assert text_of(await call("process_id")) != ""  # a new process after the crash

        assert text_of(await call("agree")) == "True {'ok': True} decline"

        messages = [{"id": number, **ai.encode_message(ai.UserMessage(str(number)))} for number in range(4)]
        result = await call("planck_compact_short", {"messages": messages, "model": {"reference": "x:y"}})
        assert result.structured_content == {"action": "compact", "summary": "4 for x:y", "keep_ids": [2, 3]}
        await call("planck_observe_watch", {"events": [], "session_id": "s"})

        with pytest.raises(Exception, match="unknown tool: ghost"):
            await call("ghost")
        results = await asyncio.gather(*(call("echo", {"text": str(number)}) for number in range(50)))
        assert [text_of(result) for result in results] == [f"||{number}" for number in range(50)]
    assert not caplog.records  # nothing that was printed reached the client
    written = log.read_text(encoding="utf-8")
    for words in ("printed by a process", "printed by a thread", "printed by a child", "written to the first"):
        assert words in written


async def test_a_client_that_cannot_ask_is_named(tmp_path: pathlib.Path) -> None:
    write_sidecar(tmp_path, BODY)
    async with served_here(tmp_path) as client:
        assert "The client cannot ask its user questions" in text_of(await client.call_tool("agree", {}))


# Each writes the ids of the processes that must end with the call: a child, and a grandchild in another session.
CANCELLED = """
import os, subprocess, sys, time

CHILDREN = (
    "import os, subprocess, sys; "
    "far = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True); "
    "near = subprocess.Popen(['sleep', '600']); "
    "open(sys.argv[1], 'w').write(f'{sys.argv[2]} {os.getpid()} {near.pid} {far.pid}\\\\n'); near.wait()"
)

@sidecar.tool
async def by_run(file: str) -> str:
    await run(sys.executable, "-c", CHILDREN, file, "0")
    return "ended"

@sidecar.tool
def in_process(file: str) -> str:
    subprocess.run([sys.executable, "-c", CHILDREN, file, str(os.getpid())])
    return "ended"

@sidecar.tool(process=False)
def in_thread(file: str) -> str:
    open(file, "w").write(f"{os.getpid()}\\n")
    while True:
        time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Processes are looked up in /proc.")
@pytest.mark.parametrize("mode", MODES)
async def test_cancelling_a_call_kills_everything_that_it_started(tmp_path: pathlib.Path, mode: Mode) -> None:
    write_sidecar(tmp_path, CANCELLED)
    async with served(tmp_path, mode=mode) as client:
        for name in ("by_run", "in_process"):
            file = tmp_path / name
            call = asyncio.ensure_future(client.call_tool(name, {"file": str(file)}))
            pids = [int(word) for word in (await until_written(file)).split() if word != "0"]
            assert all(map(is_running, pids))
            call.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await call
            await until_ended(pids)
            other = await client.list_tools()  # the sidecar goes on
            assert len(other.tools) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="Processes are looked up in /proc.")
async def test_a_cancelled_thread_is_reported_and_keeps_nothing_alive(tmp_path: pathlib.Path) -> None:
    write_sidecar(tmp_path, CANCELLED)
    log = tmp_path / "log"
    async with served(tmp_path, log=log) as client:
        call = asyncio.ensure_future(client.call_tool("in_thread", {"file": str(tmp_path / "pids")}))
        server = int(await until_written(tmp_path / "pids"))
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        await client.list_tools()
        assert "in_thread was cancelled; it runs in a thread and may still be running." in log.read_text()
    await until_ended([server])


KERNEL = """
import asyncio, sys
from support.sidecar_server import served
from pathlib import Path

async def main():
    async with served(Path(sys.argv[1])) as client:
        calls = [client.call_tool(name, {"file": f"{sys.argv[1]}/{name}"}) for name in sys.argv[2:]]
        await asyncio.gather(*calls)

asyncio.run(main())
"""

BLOCKING = (
    CANCELLED
    + """
@sidecar.tool
async def blocked(file: str) -> str:
    open(file, "w").write(f"{os.getpid()}\\n")
    time.sleep(600)
"""
)


@pytest.mark.skipif(sys.platform != "linux", reason="Processes are looked up in /proc.")
@pytest.mark.parametrize("names", [["by_run", "in_process", "in_thread"], ["blocked"]])
async def test_nothing_is_left_after_its_client_was_killed(tmp_path: pathlib.Path, names: list[str]) -> None:
    write_sidecar(tmp_path, BLOCKING)
    environment = server_environment()
    environment["PYTHONPATH"] += os.pathsep + str(pathlib.Path(__file__).parents[2])
    kernel = await asyncio.create_subprocess_exec(sys.executable, "-c", KERNEL, str(tmp_path), *names, env=environment)
    try:
        pids = [int(word) for name in names for word in (await until_written(tmp_path / name)).split() if word != "0"]
    finally:
        kernel.send_signal(signal.SIGKILL)
        await kernel.wait()
    await until_ended(pids)


DYNAMIC = """
from planck_nb import Tool

class Growing(SidecarModule):
    words = ["first"]

    def tools(self):
        return [Tool(name=word, description="", execute_fn=lambda args, word=word: self.say(word))
                for word in self.words]

    def say(self, word):
        self.words.append("second")
        return word
"""


async def test_tools_that_come_while_the_sidecar_runs(tmp_path: pathlib.Path) -> None:
    write_sidecar(tmp_path, DYNAMIC)
    async with served_here(tmp_path, "my_sidecar:Growing", mode="legacy") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["first"]
        assert text_of(await client.call_tool("first", {})) == "first"
        assert text_of(await client.call_tool("second", {})) == "second"


@pytest.mark.skipif(sys.platform != "linux", reason="Processes are looked up in /proc.")
async def test_nothing_is_left_after_the_sidecar_itself_was_killed(tmp_path: pathlib.Path) -> None:
    write_sidecar(tmp_path, CANCELLED)
    pids: list[int] = []
    with contextlib.suppress(Exception, asyncio.CancelledError):
        async with served(tmp_path, mode="legacy") as client:
            names = ["by_run", "in_process"]
            calls = [asyncio.ensure_future(client.call_tool(name, {"file": str(tmp_path / name)})) for name in names]
            server = asyncio.ensure_future(client.call_tool("in_thread", {"file": str(tmp_path / "server")}))
            for name in names:
                pids += [int(word) for word in (await until_written(tmp_path / name)).split() if word != "0"]
            os.kill(int(await until_written(tmp_path / "server")), signal.SIGKILL)
            await asyncio.gather(server, *calls, return_exceptions=True)
    assert len(pids) == 7
    await until_ended(pids)


# What `new_sidecar` writes works: its test passes, and it can be served.


async def test_a_new_sidecar_passes_its_test_and_is_served(tmp_path: pathlib.Path) -> None:
    name = "My-sidecar_2"
    folder = new_sidecar(name, tmp_path / "new folder")
    tests = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        cwd=folder,
        env=server_environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output = (await tests.communicate())[0].decode()
    assert "2 passed" in output, output
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == name
    (reference,) = project["entry-points"][ENTRY_POINT_GROUP].values()
    async with served(folder, reference) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["count_words", "run_tests", "planck_compact_newest"]
        assert text_of(await client.call_tool("count_words", {"text": "a b"})) == "2"


def test_it_is_written_to_a_folder_of_its_name(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert new_sidecar("web") == pathlib.Path("web")
    assert (tmp_path / "web" / "web" / "__init__.py").exists()


@pytest.mark.parametrize(
    "name", ["", "1a", "a b", "../up", "a/b", "-a", "a-", "é", "import", "mcp", "planck-nb", "a--b"]
)
def test_names_that_cannot_be_packages(tmp_path: pathlib.Path, name: str) -> None:
    with pytest.raises(UsageError):
        new_sidecar(name, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_nothing_is_overwritten(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mine").write_text("kept", encoding="utf-8")
    with pytest.raises(UsageError, match="not an empty folder"):
        new_sidecar("web", tmp_path)
    with pytest.raises(UsageError, match="not an empty folder"):
        new_sidecar("web", tmp_path / "mine")
    assert [item.name for item in tmp_path.iterdir()] == ["mine"]

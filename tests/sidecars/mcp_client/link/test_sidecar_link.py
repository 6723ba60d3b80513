"""The link to a sidecar: calls, loss, restarts, time limits and cancellation, with real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from support.sidecar_links import FAST, Events, hostile, json_of, running, until, until_file, until_state

from planck_nb.base.errors import SidecarError, SidecarLostError, SidecarTimeoutError, ToolError
from planck_nb.base.installed_packages import install_command
from planck_nb.sidecars.mcp_client.link.link import SidecarLink
from planck_nb.sidecars.mcp_client.link.settings import LinkCallbacks
from planck_nb.sidecars.mcp_client.sidecar_spec import SidecarSpec

pytestmark = pytest.mark.process


async def test_a_sidecar_starts_answers_and_stops(tmp_path: Path) -> None:
    async with running(hostile(tmp_path)) as (link, events):
        status = link.status()
        assert (status.state, status.server, status.protocol) == ("connected", "hostile 1", "2025-11-25")
        assert status.compactors == ("short",)
        assert (await link.call("echo", {"text": "hi"})).text == "hi"
        process = int((tmp_path / "ran").read_text())
        assert status.process == process
    assert not psutil.pid_exists(process)
    assert link.status().state == "idle"
    assert events.kinds == ["starting", "connected", "stopped"]
    with pytest.raises(SidecarError, match="is not running; start it with `%planck sidecar start hostile`"):
        await link.call("echo", {})


async def test_a_sidecar_is_started_used_and_stopped_by_different_tasks(tmp_path: Path) -> None:
    link = SidecarLink(hostile(tmp_path), timing=FAST)
    await asyncio.create_task(link.start())
    assert (await asyncio.create_task(link.call("echo", {"text": "hi"}))).text == "hi"
    await asyncio.create_task(link.restart())
    assert (await asyncio.create_task(link.call("echo", {"text": "again"}))).text == "again"
    await asyncio.create_task(link.stop())
    assert link.status().state == "idle"


async def test_all_pages_of_tools_are_listed(tmp_path: Path) -> None:
    async with running(hostile(tmp_path)) as (link, _):
        names = [definition.name for definition in link.definitions()]
    assert "echo" in names
    assert "planck_observe_all" in names
    assert len(names) == len(set(names)) > 20


async def test_calls_carry_who_makes_them(tmp_path: Path) -> None:
    async with running(hostile(tmp_path)) as (link, _):
        output = await link.call("meta", {}, agent_id="a1", call_id="c1", session_id="s1")
    for key, value in (("agent_id", "a1"), ("call_id", "c1"), ("session_id", "s1")):
        assert f'"dev.planck/{key}": "{value}"' in output.text


async def test_progress_is_reported(tmp_path: Path) -> None:
    reported: list[str] = []
    async with running(hostile(tmp_path)) as (link, _):
        await link.call("progress", {}, progress=reported.append)
    assert reported == ["step 1\n", "step 2\n"]


async def test_a_crash_fails_every_call_in_flight_at_once_and_cancels_nothing(tmp_path: Path) -> None:
    async with running(hostile(tmp_path)) as (link, events):
        ended: list[float] = []
        cancelling: list[int] = []

        async def call(tool: str) -> None:
            try:
                await link.call(tool, {})
            finally:
                ended.append(time.monotonic())
                task = asyncio.current_task()
                assert task is not None
                cancelling.append(task.cancelling())

        before = link.status().process
        assert before is not None
        calls = [asyncio.create_task(call("never")) for _ in range(20)]
        await until(lambda: len(psutil.Process(before).threads()) > 20)
        calls.append(asyncio.create_task(call("die")))
        results = await asyncio.gather(*calls, return_exceptions=True)
        # Nothing waits for the process, its pipes or its restart: the calls have ended before the loss is reported.
        assert events.kinds == ["starting", "connected"]
        seconds = max(ended) - float((tmp_path / "time").read_text())
        print(f"all 21 calls had an error {seconds * 1e3:.1f} ms after the crash")
        assert [type(result) for result in results] == [SidecarLostError] * 21
        assert all("may or may not have run" in str(result) for result in results)
        assert "status 3" in str(results[0])
        assert set(cancelling) == {0}
        # The next call waits for the restart.
        assert (await link.call("echo", {"text": "again"})).text == "again"
        assert link.status().restarts == 1
        assert events.kinds == ["starting", "connected", "exited", "starting", "connected"]


def _runs(process: int) -> bool:
    try:
        return bool(psutil.Process(process).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


async def test_a_killed_sidecar_is_noticed_while_nothing_is_called(tmp_path: Path) -> None:
    async with running(hostile(tmp_path)) as (link, events):
        process = link.status().process
        assert process is not None
        begun = time.perf_counter()
        os.kill(process, signal.SIGKILL)
        event = await events.until("exited")
        print(f"noticed after {(time.perf_counter() - begun) * 1e3:.1f} ms")
        assert "SIGKILL" in event.text
        await events.until("connected", 2)
        assert link.status().process != process


@pytest.mark.parametrize("tool", ["fork", "close_output"])
async def test_a_sidecar_is_lost_although_something_keeps_its_pipes_open(tmp_path: Path, tool: str) -> None:
    async with running(hostile(tmp_path)) as (link, _):
        with pytest.raises(SidecarLostError):
            await link.call(tool, {})
        assert (await link.call("echo", {"text": "again"})).text == "again"


async def test_what_outlives_a_sidecar_is_killed(tmp_path: Path) -> None:
    async with running(hostile(tmp_path)) as (link, _):
        child = int((await link.call("leave_child", {})).text)
        with pytest.raises(SidecarLostError):
            await link.call("die", {})
        await until(lambda: not _runs(child))
        other = int((await link.call("leave_child", {})).text)
    await until(lambda: not _runs(other))  # it takes a moment to die


async def test_a_sidecar_that_ignores_the_end_of_its_input_is_killed(tmp_path: Path) -> None:
    async with running(hostile(tmp_path, "stays"), timing=replace(FAST, stop_grace=0.1)) as (link, _):
        process = link.status().process
        assert process is not None
    await until(lambda: not _runs(process))


async def test_a_lost_call_is_repeated_only_if_the_tool_declares_that_it_may_be(tmp_path: Path) -> None:
    async with running(hostile(tmp_path)) as (link, _):
        assert (await link.call("read_and_die", {})).text == "second time"
        with pytest.raises(SidecarLostError):
            await link.call("die", {})
        await link.call("echo", {})
        assert link.status().restarts == 2  # one of each, so that `die` was called once


async def test_a_cancelled_call_ends_what_the_tool_started(tmp_path: Path) -> None:
    async with running(hostile(tmp_path)) as (link, _):
        call = asyncio.create_task(link.call("children", {}))
        child = int(await until_file(tmp_path / "child"))
        grandchildren = psutil.Process(child).children()
        begun = time.perf_counter()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: not _runs(child) and not any(_runs(process.pid) for process in grandchildren))
        print(f"children ended {(time.perf_counter() - begun) * 1e3:.1f} ms after the call was cancelled")
        assert link.status().state == "connected"


async def test_a_call_that_is_never_answered_ends_with_the_time_limit_and_is_cancelled(tmp_path: Path) -> None:
    async with running(hostile(tmp_path)) as (link, _):
        with pytest.raises(SidecarTimeoutError, match=r"never of the sidecar hostile did not answer within 0\.05 s"):
            await link.call("never", {"timeout_ms": 50})
        assert await until_file(tmp_path / "cancelled") == "yes"
        assert (await link.call("echo", {"text": "hi"})).text == "hi"
        for wrong in ("soon", True, [1]):
            with pytest.raises(ToolError, match="timeout_ms must be a number of milliseconds from 1 to 3,600,000"):
                await link.call("never", {"timeout_ms": wrong})


async def test_the_time_limit_is_passed_on_only_where_the_tool_has_it(tmp_path: Path) -> None:
    async with running(hostile(tmp_path)) as (link, _):
        assert await json_of(link, "strict", text="a", timeout_ms=9_000) == {"text": "a"}
        assert await json_of(link, "own_timeout", timeout_ms=9_000) == {"timeout_ms": 9_000}


async def test_text_suffices_for_a_tool_that_promises_structured_content(tmp_path: Path) -> None:
    """As from https://github.com/cristianuibar/bricks-mcp/issues/45."""
    async with running(hostile(tmp_path)) as (link, _):
        assert (await link.call("unstructured", {})).text == "n is 5"


@pytest.mark.parametrize(
    ("tool", "args", "sentence"),
    [
        ("schema", {}, "does not match its own schema: n: 'not a number' is not of type 'integer'"),
        ("sign_in", {}, "needs the user to visit an address first: https://ex⟨U\\+0430⟩mple.org/"),
        ("big", {"text": str(10 * 2**20)}, "sent a message of more than 10 MB; ask for less at once"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_an_error_of_one_call(
    tmp_path: Path, tool: str, args: dict[str, object], sentence: str
) -> None:
    async with running(hostile(tmp_path)) as (link, _):
        with pytest.raises(SidecarError, match=sentence) as caught:
            await link.call(tool, args)
        assert len(str(caught.value)) < 1_000
        assert (await link.call("echo", {"text": "hi"})).text == "hi"
        assert link.status().restarts == 0


async def test_a_large_structured_result_is_checked_while_the_kernel_goes_on(tmp_path: Path) -> None:
    async with running(hostile(tmp_path)) as (link, _):
        call = asyncio.create_task(link.call("rows", {"text": "20000"}))
        longest, last = 0.0, time.perf_counter()
        while not call.done():
            await asyncio.sleep(0.001)  # what is measured is how long the loop is blocked
            longest, last = max(longest, time.perf_counter() - last), time.perf_counter()
        with pytest.raises(SidecarError, match=r"does not match its own schema: rows\.19999: -1 is less than"):
            await call
        print(f"the event loop was blocked for {longest * 1e3:.0f} ms at most")


async def test_a_large_answer_arrives_and_is_shortened_for_the_model(tmp_path: Path) -> None:
    async with running(hostile(tmp_path)) as (link, _):
        output = await link.call("big", {"text": str(9 * 2**20)})
        assert "characters left out" in output.text
        assert len(output.text) < 60_000


async def test_an_error_of_the_tool_reaches_the_model_as_it_is(tmp_path: Path) -> None:
    async with running(hostile(tmp_path)) as (link, _):
        with pytest.raises(ToolError, match=r"^the file is missing$"):
            await link.call("fails", {})


async def test_a_tool_that_is_not_offered_is_an_error_with_a_hint(tmp_path: Path) -> None:
    async with running(hostile(tmp_path)) as (link, _):
        with pytest.raises(SidecarError, match=r"The sidecar hostile no longer offers eco\. Did you mean echo"):
            await link.call("eco", {})


async def test_content_of_every_kind_is_kept(tmp_path: Path) -> None:
    async with running(hostile(tmp_path)) as (link, _):
        output = await link.call("kinds", {})
        assert output.text.splitlines() == [
            "words",
            "[image 1x1 png]",
            "[audio audio/wav, 3 bytes: cannot be played]",
            "[resource notes: file:///notes.md]",
            "[resource file:///a.txt]",
            "inside",
            "[resource file:///b.bin: application/x, 3 bytes]",
        ]
        assert [image.mime for image in output.images] == ["image/png"]
        assert (await link.call("structured", {})).text == '{"n": 1}'


async def test_text_on_the_standard_output_goes_to_the_log(tmp_path: Path) -> None:
    async with running(hostile(tmp_path)) as (link, _):
        assert (await link.call("noise", {})).text == "still here"
        assert (await link.call("echo", {"text": "hi"})).text == "hi"
        assert link.logs() == ["a line of text", "{not json}"]


async def test_the_log_is_bounded_and_shows_neither_control_codes_nor_secrets(tmp_path: Path) -> None:
    spec = hostile(tmp_path, env={"PASSPHRASE": "correct-horse-7-battery"})
    async with running(spec) as (link, _):
        assert (await link.call("flood", {})).text == "flooded"
        await until(lambda: link.logs(1)[-1].startswith("the last line"))
        lines = link.logs()
        assert len(lines) <= 501
        assert lines[0].startswith("error xxx")
        assert lines[-1] == "the last line with [the value of PASSPHRASE of the sidecar hostile]"
        assert link.logs(2) == lines[-2:]
    assert "correct-horse" not in repr(spec)


async def test_a_sidecar_gets_none_of_the_kernels_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "VIRTUAL_ENV", "PYTHONPATH", "JPY_PARENT_PID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "from-the-kernel-1234")
    async with running(hostile(tmp_path, env={"OWN": "1"})) as (link, _):
        found = await json_of(link, "environment")
    assert found["OWN"] == "1"
    assert found["PATH"] == os.environ["PATH"]
    assert "from-the-kernel-1234" not in found.values()


async def test_a_restarted_sidecar_that_dies_again_and_again_is_given_up(tmp_path: Path) -> None:
    timing = replace(FAST, attempts=3, first_delay=0.01, longest_delay=0.02)
    async with running(hostile(tmp_path, "once"), timing=timing) as (link, events):
        waiting = asyncio.create_task(link.call("never", {}))
        await asyncio.sleep(0)
        with pytest.raises(SidecarLostError):
            await link.call("die", {})
        with pytest.raises(SidecarLostError):
            await waiting
        assert "did not start" in (await events.until("failed")).text
        assert link.status().state == "failed"
        assert events.kinds.count("starting") == 1 + 2  # the loss itself was the first failure of three
        with pytest.raises(SidecarError, match="did not start"):
            await link.call("echo", {})
        (tmp_path / "ran").unlink()
        await link.restart()
        assert (await link.call("echo", {"text": "hi"})).text == "hi"


async def test_a_sidecar_that_starts_and_is_lost_again_and_again_is_given_up(tmp_path: Path) -> None:
    timing = replace(FAST, attempts=3, first_delay=0.01, longest_delay=0.02, steady=600.0)
    async with running(hostile(tmp_path), timing=timing) as (link, events):
        for _ in range(3):
            with pytest.raises(SidecarLostError):
                await link.call("die", {})
        failed = (await events.until("failed")).text
        assert "The sidecar hostile was given up: it was lost 3 times in a row; the last time, " in failed
        assert events.kinds.count("connected") == 3
        with pytest.raises(SidecarError, match="was given up"):
            await link.call("echo", {})


@pytest.mark.slow
async def test_a_sidecar_that_worked_for_a_while_is_started_again_however_often_it_is_lost(tmp_path: Path) -> None:
    timing = replace(FAST, attempts=2, first_delay=0.01, longest_delay=0.02, steady=0.0)
    async with running(hostile(tmp_path), timing=timing) as (link, events):
        for _ in range(4):
            with pytest.raises(SidecarLostError):
                await link.call("die", {})
        assert (await link.call("echo", {"text": "hi"})).text == "hi"
        assert events.kinds.count("connected") == 5


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (
            SidecarSpec("x", command="no-such-program-1"),
            r"^The sidecar x cannot be started, because there is no program",
        ),
        (SidecarSpec("x", command="sh", cwd=Path("/nowhere")), r"there is no folder /nowhere; correct its `cwd`\.$"),
        (SidecarSpec("x", command="/etc/passwd"), r"cannot be started \(/etc/passwd: Permission denied\)"),
        (SidecarSpec("x", command="sh", args=("-c", "echo why >&2; exit 4")), r"ended with status 4\. It wrote: why$"),
        (SidecarSpec("x", url="http://127.0.0.1:9/mcp"), r"cannot be reached at http://127\.0\.0\.1:9/mcp"),
    ],
)
async def test_a_sidecar_that_does_not_start_is_one_sentence(spec: SidecarSpec, sentence: str) -> None:
    events = Events()
    link = SidecarLink(spec, timing=FAST, callbacks=LinkCallbacks(on_event=events))
    with pytest.raises(SidecarError, match=sentence):
        await link.start()
    assert link.status().state == "failed"
    assert events.kinds == ["starting", "failed"]
    await link.stop()


@pytest.mark.slow
async def test_a_server_that_does_not_speak_mcp_is_given_up(tmp_path: Path) -> None:
    link = SidecarLink(hostile(tmp_path, "silent"), timing=replace(FAST, start=3))
    with pytest.raises(SidecarError, match="did not answer within 3 s; check that it speaks MCP"):
        await link.start()
    assert not _runs(int(await until_file(tmp_path / "ran")))


async def test_a_cancelled_start_leaves_nothing(tmp_path: Path) -> None:
    link = SidecarLink(hostile(tmp_path, "silent"), timing=FAST)
    start = asyncio.create_task(link.start())
    process = int(await until_file(tmp_path / "ran"))
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    await until(lambda: not _runs(process))
    await link.stop()
    assert link.status().state == "idle"


async def test_a_connected_idle_sidecar_costs_no_cpu(tmp_path: Path) -> None:
    async with running(hostile(tmp_path)) as (link, _):
        await link.call("echo", {})
        begun = time.process_time()
        await asyncio.sleep(1)  # idle is what is measured
        spent = time.process_time() - begun
    print(f"{spent * 1e3:.1f} ms of CPU in an idle second")
    assert spent < 0.1


async def test_resources_and_prompts(tmp_path: Path) -> None:
    async with running(hostile(tmp_path)) as (link, _):
        assert [item.uri for item in await link.list_resources()] == ["file:///notes.md"]
        parts = await link.read_resource("file:///notes.md")
        assert [part.type for part in parts] == ["text", "text", "image"]
        (prompt,) = await link.list_prompts()
        assert (prompt.name, prompt.arguments[0].name, prompt.arguments[0].required) == ("review", "topic", True)
        (part,) = await link.get_prompt("review", {"topic": "x"})
        assert part.type == "text"
        assert part.text == "Review x."
        with pytest.raises(SidecarError, match="answered with an error: Method not found"):
            await link.read_resource("file:///other")


async def test_the_kernel_can_use_a_link_from_another_event_loop(tmp_path: Path) -> None:
    async with running(hostile(tmp_path)) as (link, _):

        def in_thread() -> str:
            return asyncio.run(link.call("echo", {"text": "from a thread"})).text

        assert await asyncio.to_thread(in_thread) == "from a thread"
        process = link.status().process
        await asyncio.to_thread(lambda: asyncio.run(link.restart()))
        assert link.status().process not in (None, process)
        assert (await link.call("echo", {"text": "hi"})).text == "hi"


async def test_starting_twice_starts_one(tmp_path: Path) -> None:
    async with running(hostile(tmp_path)) as (link, events):
        await asyncio.gather(link.start(), link.start())
        assert events.kinds.count("connected") == 1
        await until_state(link, "connected")


async def test_a_flood_of_changes_makes_few_lists(tmp_path: Path) -> None:
    async with running(hostile(tmp_path)) as (link, _):
        before = int((await link.call("lists", {})).text)
        await link.call("say_changed", {})
        after, seen = int((await link.call("lists", {})).text), 0
        while after != seen:  # until it lists no more
            after, seen = int((await link.call("lists", {})).text), after
    pages = before  # of one list
    print(f"300 changes made {(after - before) / pages:.0f} lists")
    assert after - before < 100 * pages


async def test_a_missing_package_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in list(sys.modules):
        if module.startswith("planck_nb.sidecars.mcp_client.") and module.endswith("_transport"):
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.setitem(sys.modules, "mcp.client.streamable_http", None)
    link = SidecarLink(hostile(tmp_path), timing=FAST)
    with pytest.raises(SidecarError) as caught:
        await link.start()
    command = install_command("mcp")
    assert str(caught.value) == f"Sidecars need the package mcp, which is not installed; run {command}."


def test_the_mcp_library_is_loaded_with_the_first_sidecar_only() -> None:
    code = (
        "import sys; import planck_nb.sidecars.mcp_client.manager;"
        "import planck_nb.sidecars.mcp_client.mcp_servers;"
        "print([name for name in ('mcp', 'mcp_types', 'httpx2', 'anyio', 'starlette') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


async def test_a_callback_that_fails_ends_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        raise RuntimeError("no view")

    def refuse(*_: object) -> bool:
        raise RuntimeError("no trust")

    async with running(hostile(tmp_path), callbacks=LinkCallbacks(on_tools=fail)) as (link, _):
        assert (await link.call("echo", {"text": "hi"})).text == "hi"
        assert "A callback failed: RuntimeError: no view" in link.logs()
    link = SidecarLink(hostile(tmp_path), timing=FAST, callbacks=LinkCallbacks(accept=refuse))
    with pytest.raises(SidecarError, match=r"The sidecar hostile was given up: RuntimeError: no trust"):
        await link.start()
    process = int(await until_file(tmp_path / "ran"))
    await until(lambda: not _runs(process))


def test_a_loop_that_ends_without_stopping_the_link_leaves_nothing(tmp_path: Path) -> None:
    async def main() -> int:
        link = SidecarLink(hostile(tmp_path), timing=FAST)
        await link.start()
        await link.call("leave_child", {})
        return link.status().process or 0

    process = asyncio.run(main())
    deadline = time.monotonic() + 30
    while _runs(process) and time.monotonic() < deadline:
        time.sleep(0.01)  # it takes a moment to die
    assert not _runs(process)

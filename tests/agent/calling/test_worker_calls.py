"""Tools whose calls run on workers."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest
from support.agents import calling

from planck_nb import Agent, tool
from planck_nb.agent.calling.tool import ToolContext
from planck_nb.agent.calling.worker_calls import _Report, _Reports
from planck_nb.base.errors import ToolError, UsageError
from planck_nb.testing import scripted_model


def measured(count: int, context: ToolContext) -> dict[str, int]:
    """Count, and say so."""
    context.progress(f"counting to {count}")
    return {"process": os.getpid(), "sum": sum(range(count))}


def steps(count: int) -> Iterator[int]:
    """Count step by step."""
    yield from range(count)


def failing(kind: str) -> None:
    """Fail in one of two ways."""
    raise ToolError("Not today.") if kind == "tool" else ValueError("odd")


def killed() -> None:
    """End the worker."""
    os._exit(3)


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield pool


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.mark.process
async def test_a_call_runs_in_another_process_and_shows_its_progress(processes: Executor) -> None:
    shown: list[str] = []
    result = await tool(on=processes)(measured).run({"count": 4}, progress=shown.append)
    assert '"sum":6' in result.text
    assert f'"process":{os.getpid()},' not in result.text
    assert shown == ["counting to 4"]
    result = await tool(on=processes)(steps).run({"count": 3}, progress=shown.append)
    assert (result.text, shown[1:]) == ("2", ["0\n", "1\n", "2\n"])


@pytest.mark.process
async def test_a_failure_on_a_worker_reads_as_one_in_the_kernel(processes: Executor) -> None:
    remote, local = tool(on=processes)(failing), tool(failing)
    for kind in ("tool", "other"):
        with pytest.raises(ToolError) as expected:
            await local.run({"kind": kind})
        with pytest.raises(ToolError) as error:
            await remote.run({"kind": kind})
        assert str(error.value) == str(expected.value)
    with pytest.raises(ToolError, match="Invalid arguments"):  # checked before anything is sent
        await remote.run({})


@pytest.mark.process
async def test_a_killed_worker_may_have_run_the_call_and_a_broken_pool_has_not() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for sentence in ("may have run", "was not started"):
            with pytest.raises(ToolError, match=sentence):
                await tool(on=pool)(killed).run({})


async def test_what_cannot_be_sent_is_said(threads: Executor) -> None:
    lock = threading.Lock()

    def locked() -> bool:
        return lock.locked()

    with pytest.raises(ToolError, match="locked cannot be sent to a worker"):
        await tool(on=threads)(locked).run({})


async def test_a_call_that_has_not_begun_is_cancelled() -> None:
    submitted, go, ran = asyncio.Queue[None](), threading.Event(), list[str]()

    class Pool(ThreadPoolExecutor):
        def submit(self, function: Callable[..., Any], /, *args: Any) -> Any:  # type: ignore[override]
            def run() -> Any:
                go.wait()
                ran.append("run")
                return function(*args)

            submitted.put_nowait(None)
            return super().submit(run)

    with Pool(1) as pool:
        counted = tool(on=pool)(steps)
        first = asyncio.create_task(counted.run({"count": 1}))
        await submitted.get()
        second = asyncio.create_task(counted.run({"count": 2}))
        await submitted.get()
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        go.set()
        assert (await first).text == "0"
    assert ran == ["run"]


@pytest.mark.process
async def test_an_agent_asks_for_approval_before_anything_is_sent(processes: Executor) -> None:
    asked = tool(on=processes, touches=["execute"])(measured)
    agent = Agent(model=scripted_model(calling(("measured", {"count": 3}))), tools=[asked])
    run = agent.prompt("go")
    async for event in run:
        if event.type == "approval_request":
            agent.decide(event.id, allow=True)
        if event.type == "tool_end":
            assert '"sum":3' in event.result
    assert (await run).text == "done"


@pytest.mark.parametrize(("on", "function", "problem"), [(3, steps, "without `submit`"), (None, None, "is async")])
def test_what_cannot_run_on_workers_is_refused_at_once(
    on: object, function: Callable[..., Any] | None, problem: str, threads: Executor
) -> None:
    async def waiting() -> None:
        """Wait."""

    with pytest.raises(UsageError, match=problem):
        tool(on=on or threads)(function or waiting)  # type: ignore[call-overload]


@pytest.mark.parametrize(("token", "machine", "shown"), [("", "", ["text"]), ("another", "", []), ("", "other", [])])
async def test_only_the_worker_of_the_call_on_this_machine_reports(token: str, machine: str, shown: list[str]) -> None:
    found: list[str] = []
    reports = _Reports(found.append)
    with reports.listen() as report:
        sender = _Report(report._port, token or report._token, machine or report._machine)
        await asyncio.to_thread(sender, "text")
        if sender.close() and not token:
            await reports.last.wait()
    assert found == shown

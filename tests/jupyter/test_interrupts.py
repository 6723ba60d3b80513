"""What Ctrl-C does in a terminal while cells wait for agents: which tasks it cancels, and which code it interrupts."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from planck_nb import Agent, tool
from planck_nb.agent.approval import Policy
from planck_nb.agent.approval.gate import Approvals
from planck_nb.agent.calling.progress import ProgressReporter
from planck_nb.agent.calling.tool import Tool
from planck_nb.agent.calling.user_code import STOPPED
from planck_nb.agent.effect import Effect
from planck_nb.base.errors import ToolError
from planck_nb.base.json_types import JsonObject
from planck_nb.jupyter.ipython.bridge import interrupts_cancel, wait_for
from planck_nb.testing import Call, Reply, scripted_model

pytestmark = [pytest.mark.kernel, pytest.mark.skipif(os.name != "posix", reason="signals of a terminal")]


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop without a handler of its own, as IPython runs cells in."""
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    loop = asyncio.new_event_loop()
    try:
        yield loop
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
        loop.close()


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


async def awaited(entered: asyncio.Event, leave: asyncio.Event) -> str:
    """What `%planck` does in code that can await; returns how it ended."""
    task = asyncio.current_task()
    assert task
    try:
        with interrupts_cancel(task, asyncio.get_running_loop()):
            entered.set()
            await leave.wait()
    except asyncio.CancelledError:
        return "cancelled"
    return "left"


class Blocks:
    """Tasks that are in blocks of `interrupts_cancel`, entered in order."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[str]] = []
        self.leave: list[asyncio.Event] = []

    async def enter(self) -> None:
        entered, leave = asyncio.Event(), asyncio.Event()
        self.tasks.append(asyncio.create_task(awaited(entered, leave)))
        self.leave.append(leave)
        await entered.wait()


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("left", range(4))
def test_blocks_end_in_any_order(loop: asyncio.AbstractEventLoop, order: tuple[int, ...], left: int) -> None:
    """The first ones are left in this order, the others are interrupted; then the handler is the one from before."""

    async def cell() -> list[str]:
        blocks = Blocks()
        for _ in order:
            await blocks.enter()
        for index in order[:left]:
            blocks.leave[index].set()
            await blocks.tasks[index]
        if left < len(order):
            interrupt()
        return await asyncio.wait_for(asyncio.gather(*blocks.tasks), 10)

    assert loop.run_until_complete(cell()) == [
        "left" if order.index(index) < left else "cancelled" for index in range(len(order))
    ]
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_a_block_that_begins_after_an_interrupt_is_interrupted_by_the_next(loop: asyncio.AbstractEventLoop) -> None:
    async def cell() -> list[str]:
        blocks = Blocks()
        await blocks.enter()
        interrupt()
        await blocks.enter()
        interrupt()
        return await asyncio.wait_for(asyncio.gather(*blocks.tasks), 10)

    assert loop.run_until_complete(cell()) == ["cancelled", "cancelled"]


def test_code_without_the_loop_is_interrupted_while_a_task_is_suspended(loop: asyncio.AbstractEventLoop) -> None:
    blocks = Blocks()
    loop.run_until_complete(blocks.enter())
    with pytest.raises(KeyboardInterrupt):
        interrupt()
    blocks.leave[0].set()
    assert loop.run_until_complete(blocks.tasks[0]) == "left"


def test_a_line_that_blocks_and_the_tasks_beside_it_are_cancelled(loop: asyncio.AbstractEventLoop) -> None:
    blocks = Blocks()

    async def line() -> None:
        loop.call_soon(interrupt)
        await asyncio.sleep(10)

    loop.run_until_complete(blocks.enter())
    with pytest.raises(KeyboardInterrupt):
        wait_for(line(), lambda: loop)
    assert loop.run_until_complete(blocks.tasks[0]) == "cancelled"


def test_a_report_of_progress_is_not_interrupted(loop: asyncio.AbstractEventLoop) -> None:
    shown: list[str] = []

    def show(text: str) -> None:
        interrupt()
        shown.append(text)

    async def cell() -> str:
        entered, leave = asyncio.Event(), asyncio.Event()
        ProgressReporter(show)("half")
        return await asyncio.wait_for(awaited(entered, leave), 10)

    assert loop.run_until_complete(cell()) == "cancelled"
    assert shown == ["half"]


def test_a_declaration_of_effects_is_not_interrupted(loop: asyncio.AbstractEventLoop) -> None:
    declared: list[JsonObject] = []

    def touches(args: JsonObject) -> list[Effect]:
        interrupt()
        declared.append(args)
        return []

    @tool(touches=touches)
    def work() -> str:
        """Work."""
        return "worked"

    async def cell() -> str:
        task = asyncio.current_task()
        assert task
        model = scripted_model([Reply(calls=[Call("work", {})]), "done"])
        async with Agent(model=model, tools=[work], approvals=Approvals(Policy())) as agent:
            try:
                with interrupts_cancel(task, asyncio.get_running_loop()):
                    await agent.prompt("go")
            except asyncio.CancelledError:
                return "cancelled"
        return "done"

    assert loop.run_until_complete(cell()) == "cancelled"
    assert declared


class InterruptedArguments(dict[str, Any]):
    """Arguments that are interrupted while they are checked."""

    def __contains__(self, name: object) -> bool:
        interrupt()
        return super().__contains__(name)


def run_interrupted(loop: asyncio.AbstractEventLoop, called: Tool, args: JsonObject) -> str:
    """Run a tool that is interrupted; returns the failure of the call."""

    async def call() -> str:
        with pytest.raises(ToolError) as caught:
            await called.run(args)
        return str(caught.value)

    async def cell() -> str:
        task, running = asyncio.current_task(), asyncio.create_task(call())
        assert task
        try:
            with interrupts_cancel(task, asyncio.get_running_loop()):
                await asyncio.shield(running)
        except asyncio.CancelledError:
            return await running
        return "not interrupted"

    return loop.run_until_complete(cell())


def test_an_interrupted_check_of_arguments_is_a_failure_of_the_call(loop: asyncio.AbstractEventLoop) -> None:
    schema: JsonObject = {"type": "object", "properties": {"x": {"type": "string"}}}
    called = Tool(name="echo", description="Echo.", parameters=schema, execute_fn=str)
    assert run_interrupted(loop, called, InterruptedArguments(x="1")) == STOPPED


def test_an_interrupted_function_is_a_failure_of_the_call(loop: asyncio.AbstractEventLoop) -> None:
    async def blocks(_args: JsonObject) -> str:
        interrupt()
        return "not interrupted"

    called = Tool(name="blocks", description="Block.", execute_fn=blocks)
    assert run_interrupted(loop, called, {}) == STOPPED

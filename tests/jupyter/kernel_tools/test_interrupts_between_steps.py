"""An interrupt that comes where no code of a call runs stops the code that comes next."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import FrameType
from typing import cast

import pytest

from planck_nb.jupyter.ipython.bridge import has_pending_interrupt, interrupts_cancel
from planck_nb.jupyter.kernel_tools.interrupts import StopSignal
from planck_nb.jupyter.kernel_tools.steps import Steps
from planck_nb.jupyter.kernel_tools.surroundings import Surroundings

pytestmark = pytest.mark.kernel


class NoSurroundings:
    def current(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext()


def nothing(number: int, frame: FrameType | None) -> None:
    """Handles the signals that no code of a call handles."""


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, nothing)  # asyncio has a handler of its own in place of Python's
    yield
    assert signal.getsignal(signal.SIGINT) is nothing
    signal.signal(signal.SIGINT, before)


def made() -> tuple[StopSignal, Steps, list[str]]:
    said: list[str] = []
    stop = StopSignal(lambda: said.append("interrupted"))
    return stop, Steps(stop, cast("Surroundings", NoSurroundings()), lambda: None), said


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_between_two_calls() -> None:
    stop, steps, said = made()
    with steps.stoppable():
        assert steps.call(lambda: 1) == 1
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            steps.call(said.append, "ran")
        assert steps.call(lambda: 2) == 2, "what cleans up is not interrupted again"
    assert said == ["interrupted"]
    assert stop.interrupted


def test_after_the_last_call_nothing_is_left_to_interrupt() -> None:
    _, steps, said = made()
    with steps.stoppable():
        steps.call(lambda: 1)
        interrupt()
    assert steps.call(lambda: 2) == 2
    assert said == ["interrupted"]


async def test_between_the_call_that_makes_a_coroutine_and_its_first_step() -> None:
    _, steps, said = made()

    async def code() -> None:
        said.append("ran")

    with steps.stoppable():
        coroutine = steps.call(code)
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            await steps.run(coroutine)
    assert said == ["interrupted"]


async def test_code_that_goes_on_while_an_interrupt_waits_for_the_loop_is_interrupted_where_it_awaits() -> None:
    stop, steps, said = made()
    task, loop, gate = asyncio.current_task(), asyncio.get_running_loop(), asyncio.Event()
    assert task is not None

    async def code() -> None:
        try:
            await gate.wait()
            said.append("ran")
        finally:
            said.append("cleaned up")

    def as_it_goes_on() -> None:
        gate.set()
        interrupt()  # the loop cancels the task only after the code has gone on

    with interrupts_cancel(task, loop):
        loop.call_soon(as_it_goes_on)
        with steps.stoppable(), pytest.raises(KeyboardInterrupt):
            await steps.run(code())
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(0)
    task.uncancel()
    assert said == ["cleaned up"]
    assert stop.interrupted


async def test_a_task_does_not_begin_while_an_interrupt_waits_for_the_loop() -> None:
    stop, steps, said = made()
    task = asyncio.current_task()
    assert task is not None
    with interrupts_cancel(task, asyncio.get_running_loop()):
        interrupt()
        assert has_pending_interrupt()
        with steps.stoppable(), pytest.raises(KeyboardInterrupt):
            steps.call(said.append, "ran")
        assert stop.interrupted
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(0)
        assert not has_pending_interrupt()
    task.uncancel()
    assert said == []

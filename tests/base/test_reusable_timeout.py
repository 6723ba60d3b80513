"""One timer limits each of many awaits."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from contextvars import ContextVar
from typing import Any

import pytest

from planck_nb.base.timeouts import ReusableTimeout


async def never() -> None:
    await asyncio.get_running_loop().create_future()


async def test_many_awaits_take_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, timers = asyncio.get_running_loop(), list[asyncio.TimerHandle]()
    call_later = loop.call_later

    def counted(*args: Any, **named: Any) -> asyncio.TimerHandle:
        timers.append(call_later(*args, **named))
        return timers[-1]

    monkeypatch.setattr(loop, "call_later", counted)
    timer = ReusableTimeout(60)
    for _ in range(50):
        with timer:
            await asyncio.sleep(0)
    assert len(timers) == 1
    timer.close()
    assert timers[0].cancelled()


class Value:
    """Something that a context variable holds."""


async def test_a_stopped_timer_keeps_nothing_of_the_task_that_started_it() -> None:
    variable: ContextVar[Value] = ContextVar("variable")
    known: list[weakref.ref[Value]] = []

    async def turn() -> None:
        value = Value()
        known.append(weakref.ref(value))
        variable.set(value)
        timer = ReusableTimeout(3_600)
        with timer:
            await asyncio.sleep(0)
        timer.close()

    earlier = asyncio.get_running_loop().call_later(60, print)  # else the loop drops the stopped one at once
    await asyncio.create_task(turn())
    await asyncio.sleep(0)
    gc.collect()
    assert known[0]() is None
    earlier.cancel()


async def test_an_await_that_takes_too_long_is_cancelled() -> None:
    timer = ReusableTimeout(0.05)
    with pytest.raises(TimeoutError), timer:
        await never()
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()
    with timer:
        assert await asyncio.sleep(0, "there") == "there"


@pytest.mark.slow
async def test_each_await_gets_the_full_timeout() -> None:
    timer = ReusableTimeout(1.0)  # a busy machine may stop this process for half of it
    began = time.monotonic()
    for _ in range(4):
        with timer:
            await asyncio.sleep(0.4)
    with pytest.raises(TimeoutError), timer:
        await never()
    assert time.monotonic() - began >= 2.6


async def test_an_outside_cancellation_is_not_a_timeout() -> None:
    timer = ReusableTimeout(60)

    async def wait() -> None:
        with timer:
            await never()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    timer.close()


async def test_a_failure_comes_through_and_an_idle_timer_does_nothing() -> None:
    timer = ReusableTimeout(0.01)
    with pytest.raises(LookupError, match="gone"), timer:
        await fails()
    await asyncio.sleep(0.05)  # the timer fires while nothing waits
    with timer:
        assert await asyncio.sleep(0, "there") == "there"
    timer.close()


async def fails() -> None:
    await asyncio.sleep(0)
    raise LookupError("gone")

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from planck_nb.base.timeouts import within


async def at_once() -> str:
    return "here"


async def two_steps() -> str:
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return "there"


async def never() -> None:
    await asyncio.get_running_loop().create_future()


async def fails() -> None:
    await asyncio.sleep(0)
    raise LookupError("gone")


async def test_a_result_that_is_ready_needs_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio, "timeout", lambda _: pytest.fail("a timer was taken"))
    assert await within(10, at_once()) == "here"


async def test_a_result_that_is_not_ready_is_awaited() -> None:
    assert await within(10, two_steps()) == "there"


async def test_a_failure_comes_through() -> None:
    with pytest.raises(LookupError, match="gone"):
        await within(10, fails())
    with pytest.raises(StopAsyncIteration):
        await within(10, anext(empty()))


async def empty() -> AsyncIterator[None]:
    for _ in range(0):
        yield


async def test_an_await_that_takes_too_long_is_cancelled() -> None:
    ended: list[type[BaseException] | None] = []
    with pytest.raises(TimeoutError):
        await within(0, noting(ended, never))
    assert ended == [asyncio.CancelledError]


async def test_a_timeout_object_tells_afterwards_whether_it_has_expired() -> None:
    limit = asyncio.timeout(0)
    with pytest.raises(TimeoutError):
        await within(limit, never())
    assert limit.expired()
    unused = asyncio.timeout(10)
    with pytest.raises(LookupError):
        await within(unused, fails())
    assert not unused.expired()
    assert await within(asyncio.timeout(None), two_steps()) == "there"


async def test_an_outside_cancellation_is_not_a_timeout() -> None:
    ended: list[type[BaseException] | None] = []
    task = asyncio.create_task(within(10, noting(ended, never)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [asyncio.CancelledError]


async def test_cleanup_after_the_cancellation_is_awaited() -> None:
    async def stubborn() -> str:
        try:
            await never()
        except asyncio.CancelledError:
            return await two_steps()
        return "early"

    task = asyncio.create_task(within(10, stubborn()))
    await asyncio.sleep(0)
    task.cancel()
    assert await task == "there"


async def noting(ended: list[type[BaseException] | None], wait: Callable[[], Awaitable[None]]) -> None:
    """Wait, and note what ended it."""
    try:
        await wait()
    except BaseException as error:
        ended.append(type(error))
        raise

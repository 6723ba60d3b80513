"""`LoopLock`: one task at a time, in whatever event loop it runs."""

from __future__ import annotations

import asyncio

from planck_nb.base.event_loops import LoopLock


async def write_twice(lock: LoopLock, order: list[str]) -> None:
    entered = asyncio.Event()

    async def first() -> None:
        async with lock:
            entered.set()
            await asyncio.sleep(0)
            order.append("first")

    async def second() -> None:
        await entered.wait()
        async with lock:  # has to wait, which binds an asyncio.Lock to its loop
            order.append("second")

    await asyncio.gather(first(), second())


def test_the_same_lock_serves_one_event_loop_after_another() -> None:
    lock, order = LoopLock(), list[str]()
    for _ in range(3):
        asyncio.run(write_twice(lock, order))
    assert order == ["first", "second"] * 3

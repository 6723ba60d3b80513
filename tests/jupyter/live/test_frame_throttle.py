from __future__ import annotations

import asyncio
from itertools import pairwise

from planck_nb.jupyter.live.frame_throttle import FrameThrottle, kernel_frame_throttle


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


async def test_many_views_share_one_pace_and_take_turns() -> None:
    clock = Clock()
    throttle = FrameThrottle(interval=0.04, clock=clock, sleep=clock.sleep)
    painted: list[tuple[int, float]] = []

    async def view(name: int) -> None:
        for _ in range(5):
            await throttle.turn()
            painted.append((name, round(clock.now, 3)))

    await asyncio.gather(*(view(name) for name in range(4)))
    times = [time for _, time in painted]
    assert times == [round(0.04 * at, 3) for at in range(20)]
    names = [name for name, _ in painted]
    assert names[:17] == [0, *[0, 1, 2, 3] * 4]  # the first asks again before the others have asked at all


async def test_the_first_turn_after_a_pause_is_immediate() -> None:
    clock = Clock()
    throttle = FrameThrottle(interval=0.04, clock=clock, sleep=clock.sleep)
    await throttle.turn()
    clock.now = 10.0
    await throttle.turn()
    assert clock.now == 10.0


async def test_a_blocked_kernel_does_not_catch_up_in_a_burst() -> None:
    clock = Clock()
    throttle = FrameThrottle(interval=0.04, clock=clock, sleep=clock.sleep)
    times: list[float] = []

    async def view() -> None:
        await throttle.turn()
        times.append(round(clock.now, 3))

    await throttle.turn()
    waiting = [asyncio.create_task(view()) for _ in range(3)]
    await asyncio.sleep(0)
    clock.now += 5
    await asyncio.gather(*waiting)
    assert all(later - earlier >= 0.04 - 1e-9 for earlier, later in pairwise(times))


async def test_a_kernel_has_one_throttle() -> None:
    assert kernel_frame_throttle() is kernel_frame_throttle()

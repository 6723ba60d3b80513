from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from planck_nb.base.json_types import JsonObject
from planck_nb.jupyter.live.frame_sender import FrameSender, kernel_frame_sender
from planck_nb.jupyter.live.frame_throttle import FrameThrottle


class Clock:
    """Time that passes only while something sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


@dataclass(eq=False)
class View:
    """A view that always has something new, unless it is `quiet`."""

    key: str
    pages: frozenset[str] = frozenset({"page"})
    quiet: bool = False
    frames: int = 0
    sent: list[JsonObject] = field(default_factory=list)

    def next_frame(self) -> JsonObject | None:
        self.frames += 1
        return None if self.quiet else {"number": self.frames}

    def send(self, content: JsonObject) -> None:
        self.sent.append(content)


async def follow(sender: FrameSender, view: View, times: int) -> None:
    for _ in range(times):
        await sender.send(view)


async def test_fifty_views_need_one_message_a_turn() -> None:
    clock = Clock()
    sender = FrameSender(FrameThrottle(interval=0.04, clock=clock, sleep=clock.sleep))
    views = [View(str(at)) for at in range(50)]
    await asyncio.gather(*(follow(sender, view, 25) for view in views))
    assert all(view.frames == 25 for view in views)
    assert clock.now <= 27 * 0.04  # a view that joins late costs a turn
    assert sum(len(view.sent) for view in views) <= 27
    merged = next(message for view in views for message in view.sent if len(message.get("frames", ())) == 50)
    assert set(merged["frames"]) == {view.key for view in views}


async def test_views_of_other_pages_get_their_own_messages() -> None:
    sender = FrameSender(FrameThrottle(interval=0))
    first, second, other = View("1"), View("2"), View("3", frozenset({"elsewhere"}))
    unknown = [View("4", frozenset()), View("5", frozenset())]
    await asyncio.gather(*(follow(sender, view, 1) for view in (first, second, other, *unknown)))
    assert first.sent == [{"type": "frames", "frames": {"1": {"number": 1}, "2": {"number": 1}}}]
    assert second.sent == []
    assert [view.sent for view in (other, *unknown)] == [[{"number": 1}]] * 3


async def test_a_view_without_news_costs_no_message() -> None:
    sender = FrameSender(FrameThrottle(interval=0))
    view = View("1", quiet=True)
    await follow(sender, view, 3)
    assert (view.frames, view.sent) == (3, [])


async def test_a_view_that_ends_while_it_waits_is_left_out() -> None:
    sender = FrameSender(FrameThrottle(interval=0.02))
    first, second = View("1"), View("2")
    await sender.send(first)
    waiting = [asyncio.create_task(sender.send(view)) for view in (first, second)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert (first.frames, second.frames) == (1, 1)


async def test_one_loop_has_one_sender() -> None:
    assert kernel_frame_sender() is kernel_frame_sender()

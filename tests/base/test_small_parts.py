"""Small parts: frozen dataclasses that are cheap to create, locks and hints."""

from __future__ import annotations

import asyncio
import pickle
from dataclasses import FrozenInstanceError, dataclass, replace

import pytest

from planck_nb.base.errors import did_you_mean
from planck_nb.base.event_loops import LoopLock
from planck_nb.base.quick_init import quick_init


@dataclass(frozen=True, slots=True)
class Named:
    name: str


@quick_init
@dataclass(frozen=True, slots=True)
class Point(Named):
    x: int
    y: int = 2


def test_the_class_is_otherwise_unchanged() -> None:
    point = Point("p", 1)
    assert point == Point(name="p", x=1, y=2) == replace(point) == pickle.loads(pickle.dumps(point))
    assert repr(point) == "Point(name='p', x=1, y=2)"
    assert len({point, Point("p", 1)}) == 1
    with pytest.raises(FrozenInstanceError):
        point.x = 3  # type: ignore[misc]
    with pytest.raises(TypeError, match="x"):
        Point("p")  # type: ignore[call-arg]


# `LoopLock`: one task at a time, in whatever event loop it runs.


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


def test_a_hint_lists_each_name_once_and_few_of_many() -> None:
    assert did_you_mean("agnt", ["agent", "agent", "x"]) == "Did you mean agent?"
    assert did_you_mean("zzz", ["a", "b", "a"]) == "Known are: a, b."
    assert did_you_mean("zzz", []) == ""
    assert did_you_mean("--modle", ["--model", "--deny", "--tools"]) == "Did you mean --model?"
    assert did_you_mean("--by", ["--table", "--debug"]) == "Known are: --debug, --table."
    hint = did_you_mean("zzz", map(str, range(10_000)))
    assert hint.endswith(" and 9980 more.")
    assert len(hint) < 200

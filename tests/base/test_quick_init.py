"""Frozen dataclasses that are cheap to create."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, dataclass, replace

import pytest

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

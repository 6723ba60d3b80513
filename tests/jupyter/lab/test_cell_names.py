"""Which names cells assign and use, and which cells are stale after a change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planck_nb.jupyter.lab.cell_names import MAX_CHARACTERS, CellNames, cell_names, stale_cells


@pytest.mark.parametrize(
    ("source", "assigned", "used"),
    [
        ("a = b + c", "a", "b c"),
        ("a = 1\nb = a", "a b", ""),
        ("a += 1", "a", "a"),
        ("frame['x'] = 1; o.p = 2; items.append(3)", "frame o items", "frame o items"),
        ("a, (b, *c) = d", "a b c", "d"),
        ("import os.path, numpy as np\nfrom x import y as z", "os np z", ""),
        ("def f(p, q=r):\n    s = p + t\n    global g\n    g = s\n    return u", "f g", "r t u"),
        ("class A(B):\n    c = d\n    def m(self): return e", "A", "B d e"),
        ("[x for x in y if z]", "", "y z"),
        ("f = lambda n: n + m", "f", "m"),
        ("for i in items:\n    print(i)", "i", "items"),
        ("if (n := len(v)) > 1: w = n", "n w", "v"),
        ("with open(p) as f: t = f.read()", "f t", "p"),
        ("del a", "a", ""),
        ("await g(h)", "", "g h"),
        ("%time a = b", "", ""),
        ("%%time\na = b", "a", "b"),
        ("files = !ls {folder}", "files", "folder"),
        ("answer = %planck about {frame}", "answer", "frame"),
        ("%%planck analyst\nWhat is in {frame.columns}?", "", "frame"),
        ("x?", "", ""),
        (r"a = '\d'", "a", ""),
        ("print(len([]))", "", ""),
    ],
)
def test_names(source: str, assigned: str, used: str) -> None:
    names = cell_names(source)
    assert (set(names.assigned), set(names.used)) == (set(assigned.split()), set(used.split()))


@given(st.text(max_size=200))
def test_no_text_raises(source: str) -> None:
    cell_names(source)


@pytest.mark.parametrize("source", ["(" * 5000, "a = \x00", "def (", "-" * 50_000 + "a", "'''"])
def test_broken_code_has_no_names(source: str) -> None:
    assert cell_names(source).assigned == set()


def named(*cells: tuple[str, str]) -> list[tuple[str, CellNames]]:
    return [(cell, cell_names(source)) for cell, source in cells]


def test_cells_below_a_change_are_stale() -> None:
    cells = named(
        ("c0", "b"),
        ("c1", "a = 2"),
        ("c2", "b = a"),
        ("c3", "a = 3"),
        ("c4", "a"),
        ("c5", "c"),
        ("c6", "("),
        ("c7", "a"),
    )
    assert stale_cells(cells, named(("c1", "a = 1\nc = 1"))) == {"c2": ("a",), "c5": ("c",)}
    assert stale_cells(cells, named(("gone", "b = c = 1"))) == {"c0": ("b",), "c5": ("c",)}
    assert stale_cells(cells, named(("c6", ""))) == {}


def test_very_long_cells_have_no_names() -> None:
    assert cell_names("a = 1" + "#" * MAX_CHARACTERS).assigned == set()

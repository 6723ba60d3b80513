"""Differences between texts: complete, and as `difflib` has them for few lines."""

from __future__ import annotations

import difflib

from hypothesis import given
from hypothesis import strategies as st

from planck_nb.base.line_diff import diff_lines, unified_diff

LINES = st.lists(st.sampled_from(["a", "b", "c", *map(str, range(20))]), max_size=60)


@given(LINES, LINES, LINES, st.sampled_from([0, 150]))
def test_both_texts_are_in_the_lines(head: list[str], old: list[str], new: list[str], many: int) -> None:
    between = [f"line {number}" for number in range(many)]
    before, after = [*head, *between, *old], [*new, *between, *head]
    lines = list(diff_lines(before, after))
    assert [line for sign, line in lines if sign != "+"] == before
    assert [line for sign, line in lines if sign != "-"] == after
    if many:
        assert {(" ", line) for line in between} <= set(lines)


@given(LINES, LINES)
def test_few_lines_are_compared_by_difflib(old: list[str], new: list[str]) -> None:
    assert list(unified_diff(old, new, "f")) == list(difflib.unified_diff(old, new, "a/f", "b/f"))


def test_changes_far_apart_in_a_long_text_are_small() -> None:
    old = [f"line {number}\n" for number in range(10_000)]
    new = [*old[:10], "new\n", *old[11:5_000], *old[5_001:9_000], "more\n", "more\n", *old[9_000:]]
    lines = [line for line in unified_diff(old, new, "f") if line[0] in "+-"][2:]
    assert lines == ["-line 10\n", "+new\n", "-line 5000\n", "+more\n", "+more\n"]


def test_a_moved_block_stays_whole() -> None:
    block = [f"b{number}" for number in range(200)]
    rest = [f"r{number}" for number in range(300)]
    assert [sign for sign, _ in diff_lines([*block, *rest], [*rest, *block])].count(" ") == 300

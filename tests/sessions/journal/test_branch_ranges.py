"""The rows that rewinds hide, compared with a conversation that is kept as a list."""

from __future__ import annotations

import random

import pytest

from planck_nb.sessions.journal.branch import hidden_ranges, is_hidden, ranges_of_branches


def random_rewinds(chance: random.Random) -> tuple[list[tuple[int, int]], int]:
    """Some rewinds, and the number of rows that they are among."""
    count = chance.randrange(1, 30)
    ids = sorted(chance.sample(range(1, count + 1), chance.randrange(min(count, 8) + 1)))
    return [(number, chance.randrange(1, number + 1)) for number in ids], count


def visible_rows(rewinds: list[tuple[int, int]], count: int) -> tuple[set[int], dict[int, set[int]]]:
    """The rows that are visible in the end, and for each rewind those that it hid."""
    before: list[set[int]] = [set(), set()]  # what was visible just before each id was written
    left: dict[int, set[int]] = {}
    back = dict(rewinds)
    for row_id in range(1, count + 1):
        rows = before[row_id]
        if row_id in back:
            left[row_id] = {row for row in rows if row >= back[row_id]}
            before.append(before[back[row_id]])
        else:
            before.append(rows | {row_id})
    return before[-1], left


@pytest.mark.parametrize("seed", range(40))
def test_rewinds_hide_what_was_written_since(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(20):
        rewinds, count = random_rewinds(chance)
        visible, left = visible_rows(rewinds, count)
        ranges = hidden_ranges(rewinds)
        rows = set(range(1, count + 1)) - {rewind_id for rewind_id, _ in rewinds}
        assert {row for row in rows if not is_hidden(row, ranges)} == visible
        found = {
            rewind_id: {row for first, end in own for row in range(first, end)} & rows
            for rewind_id, own in ranges_of_branches(rewinds)
        }
        assert found == left


def test_ranges_are_in_order_and_without_empty_ones() -> None:
    assert hidden_ranges([]) == []
    assert not is_hidden(5, [])
    assert hidden_ranges([(5, 3), (9, 8), (12, 2)]) == [(2, 12)]
    assert hidden_ranges([(5, 3), (9, 8)]) == [(8, 9), (3, 5)]
    assert [is_hidden(row, [(8, 9), (3, 5)]) for row in (2, 3, 4, 5, 7, 8, 9)] == [
        False,
        True,
        True,
        False,
        False,
        True,
        False,
    ]
    assert list(ranges_of_branches([(5, 3), (9, 2)])) == [(5, [(3, 5)]), (9, [(2, 3), (5, 9)])]
    assert list(ranges_of_branches([(5, 5)])) == [(5, [])]

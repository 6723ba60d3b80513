"""Which rows of a session count after it was rewound."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

HiddenRange: TypeAlias = tuple[int, int]
"""Ids from the first, included, to the second, excluded, that were taken back."""


def hidden_ranges(rewinds: Iterable[tuple[int, int]]) -> list[HiddenRange]:
    """The ids that the rewinds take back, newest range first; the ranges do not overlap.

    A rewind is (its own id, the id it goes back to), and `rewinds` come in the order they were written. Going back to
    an id gives the session as it was just before that id was written, so a rewind that lies in a range taken back
    later has no effect any more: going back to before a rewind returns to the branch it had left.
    """
    ranges: list[HiddenRange] = []
    for rewind_id, before in reversed(list(rewinds)):
        if not ranges or rewind_id < ranges[-1][0]:
            ranges.append((before, rewind_id))
    return ranges


def is_hidden(row_id: int, ranges: Sequence[HiddenRange]) -> bool:
    """Whether the row was taken back."""
    return any(first <= row_id < end for first, end in ranges)

"""Computes which rows of a session rewinds hide, and which branches they leave."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

HiddenRange: TypeAlias = tuple[int, int]
"""Hidden ids, from the first, included, to the second, excluded."""


def hidden_ranges(rewinds: Iterable[tuple[int, int]]) -> list[HiddenRange]:
    """Return the ids that the rewinds hide, newest range first; the ranges do not overlap.

    A rewind is (its own id, the id it goes back to), and `rewinds` come in the order they were written. Going back to
    an id restores the session as it was just before that id was written. So a rewind within a range that is hidden
    later has no effect any more: going back to before a rewind returns to the branch that it had left.
    """
    ranges: list[HiddenRange] = []
    for rewind_id, before in reversed(list(rewinds)):
        if not ranges or rewind_id < ranges[-1][0]:
            ranges.append((before, rewind_id))
    return ranges


@dataclass(frozen=True, slots=True)
class Branch:
    """A part of a conversation that a rewind has hidden.

    Args:
        id: What `Session.return_to` accepts.
        before_id: The branch shares all rows before this id.
        left_at: When the conversation was rewound, in UTC.
        messages: The number of messages that only this branch has.
        last_text: The text of its last message.
    """

    id: int
    before_id: int
    left_at: datetime
    messages: int
    last_text: str


def ranges_of_branches(rewinds: Iterable[tuple[int, int]]) -> Iterator[tuple[int, list[HiddenRange]]]:
    """Yield the id of each rewind with the ids that it hid, in ascending ranges.

    These are the rows from the id it goes back to up to itself, without those that were hidden already: the rows that
    only the branch that it left has. `rewinds` come in the order they were written.
    """
    written = list(rewinds)
    ids = [rewind_id for rewind_id, _ in written]
    for number, (rewind_id, before) in enumerate(written):
        own: list[HiddenRange] = []
        end, latest = rewind_id, number - 1
        while latest >= 0 and ids[latest] > before:
            own.append((ids[latest], end))
            end = min(end, written[latest][1])
            # Before this rewind, those counted that were written before the row it goes back to.
            latest = bisect_left(ids, end) - 1
        own.append((before, end))
        yield rewind_id, [(max(first, before), last) for first, last in reversed(own) if max(first, before) < last]


def membership(ranges: Iterable[HiddenRange]) -> Callable[[int], bool]:
    """Return a function which looks an id up in ranges.

    The ranges may overlap.
    """
    starts: list[int] = []
    ends: list[int] = []
    for first, end in sorted(ranges):
        if ends and first <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            starts.append(first)
            ends.append(end)

    def contains(row_id: int) -> bool:
        place = bisect_right(starts, row_id) - 1
        return place >= 0 and row_id < ends[place]

    return contains


def is_hidden(row_id: int, ranges: Sequence[HiddenRange]) -> bool:
    """Return whether a row is in one of the ranges, which do not overlap, the newest first as from `hidden_ranges`."""
    place = bisect_left(ranges, -row_id, key=lambda ends: -ends[0])
    return place < len(ranges) and row_id < ranges[place][1]

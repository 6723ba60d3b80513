"""Which rows of a session count after it was rewound, and which ways it went before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
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


@dataclass(frozen=True, slots=True)
class Branch:
    """A way that the conversation went until it was rewound at `left_at`, in UTC.

    `id` is what `Session.return_to` takes. The branch shares what lies before the id `before_id` and has so many
    `messages` of its own; `last_text` is what was said last.
    """

    id: int
    before_id: int
    left_at: datetime
    messages: int
    last_text: str


def hidden_in_branch(rewinds: Sequence[tuple[int, int]], branch_id: int) -> list[HiddenRange]:
    """The ids that were taken back at the moment before the rewind `branch_id`."""
    return hidden_ranges(rewind for rewind in rewinds if rewind[0] < branch_id)


def is_hidden(row_id: int, ranges: Sequence[HiddenRange]) -> bool:
    """Whether the row was taken back."""
    return any(first <= row_id < end for first, end in ranges)

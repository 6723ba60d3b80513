"""Differences between two texts, line by line.

Everything here takes time in proportion to the texts; `difflib` alone takes cubic time for a few repeated lines.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import Match, SequenceMatcher
from itertools import pairwise
from typing import Literal, TypeAlias

DiffLine: TypeAlias = tuple[Literal[" ", "-", "+"], str]
"""A line with its sign."""

_FEW_LINES = 100
"""Longest text for `difflib`, which then takes some milliseconds at most."""

_LEVELS = 8
"""Deepest search for unique lines between unique lines."""

_CONTEXT = 3


def diff_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffLine]:
    """Yield all lines from both texts with their signs.

    Args:
        old: The lines before.
        new: The lines after.
    """
    for kind, old_start, old_end, new_start, new_end in _Matcher(old, new).get_opcodes():
        if kind == "equal":
            yield from ((" ", line) for line in old[old_start:old_end])
        else:
            yield from (("-", line) for line in old[old_start:old_end])
            yield from (("+", line) for line in new[new_start:new_end])


def unified_diff(old: Sequence[str], new: Sequence[str], path: str) -> Iterator[str]:
    """Yield a diff in unified format; equal texts have none.

    Args:
        old: The lines before, with their ends.
        new: The lines after.
        path: The file.
    """
    for number, group in enumerate(_Matcher(old, new).get_grouped_opcodes(_CONTEXT)):
        if number == 0:
            yield f"--- a/{path}\n"
            yield f"+++ b/{path}\n"
        first, last = group[0], group[-1]
        yield f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@\n"
        for kind, old_start, old_end, new_start, new_end in group:
            if kind == "equal":
                yield from (f" {line}" for line in old[old_start:old_end])
            else:
                yield from (f"-{line}" for line in old[old_start:old_end])
                yield from (f"+{line}" for line in new[new_start:new_end])


def _range(start: int, end: int) -> str:
    size = end - start
    return f"{start + 1}" if size == 1 else f"{start + (size > 0)},{size}"


class _Matcher(SequenceMatcher[str]):
    """A matcher which anchors long texts at common unique lines."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        super().__init__(None, old, new, autojunk=False)
        self._old = old
        self._new = new

    def get_matching_blocks(self) -> list[Match]:
        end, new_end = len(self._old), len(self._new)
        if max(end, new_end) <= _FEW_LINES:
            return super().get_matching_blocks()
        blocks: list[Match] = []
        for start, new_start, size in self._matches(0, end, 0, new_end, _LEVELS):
            if blocks and blocks[-1].a + blocks[-1].size == start and blocks[-1].b + blocks[-1].size == new_start:
                blocks[-1] = blocks[-1]._replace(size=blocks[-1].size + size)
            elif size:
                blocks.append(Match(start, new_start, size))
        return [*blocks, Match(end, new_end, 0)]

    def _matches(self, start: int, end: int, new_start: int, new_end: int, levels: int) -> Iterator[Match]:
        """Yield the equal parts between these lines in order."""
        old, new = self._old, self._new
        shorter = min(end - start, new_end - new_start)
        head = next((at for at in range(shorter) if old[start + at] != new[new_start + at]), shorter)
        yield Match(start, new_start, head)
        start, new_start, shorter = start + head, new_start + head, shorter - head
        tail = next((at for at in range(shorter) if old[end - 1 - at] != new[new_end - 1 - at]), shorter)
        end, new_end = end - tail, new_end - tail
        if max(end - start, new_end - new_start) <= _FEW_LINES:
            matcher = SequenceMatcher(None, old[start:end], new[new_start:new_end], autojunk=False)
            yield from (
                Match(start + at, new_start + new_at, size) for at, new_at, size in matcher.get_matching_blocks()
            )
        elif levels and (pairs := self._unique_pairs(start, end, new_start, new_end)):
            for (at, new_at), (next_at, next_new_at) in pairwise([(start, new_start), *pairs, (end, new_end)]):
                yield from self._matches(at, next_at, new_at, next_new_at, levels - 1)
        yield Match(end, new_end, tail)

    def _unique_pairs(self, start: int, end: int, new_start: int, new_end: int) -> list[tuple[int, int]]:
        """Return most common unique lines, as pairs in order."""
        old, new = self._old[start:end], self._new[new_start:new_end]
        counts, new_counts = Counter(old), Counter(new)
        places = {line: at for at, line in enumerate(new, new_start) if new_counts[line] == 1}
        pairs = [(at, places[line]) for at, line in enumerate(old, start) if counts[line] == 1 and line in places]
        # The longest increasing subsequence: `ends` has the smallest last place for each length.
        ends: list[int] = []
        before: list[int] = []
        last_of: list[int] = []
        for index, (_, place) in enumerate(pairs):
            length = bisect_left(ends, place)
            before.append(last_of[length - 1] if length else -1)
            ends[length : length + 1], last_of[length : length + 1] = [place], [index]
        sequence: list[tuple[int, int]] = []
        index = last_of[-1] if last_of else -1
        while index >= 0:
            sequence.append(pairs[index])
            index = before[index]
        return sequence[::-1]

"""Which words are so similar that one is probably a misspelling of the other."""

from __future__ import annotations

import re

SHORT_NAME_LENGTH = 3
"""The length of names of which only two exchanged letters count as a misspelling."""

_LONG_NAME_LENGTH = 8
"""Names of at least this length may have two mistakes and still count as misspelt."""


def is_near(written: str, known: str) -> bool:
    """Return whether a word is a name, or the name with the mistakes that its length allows.

    Args:
        written: The word.
        known: The name.
    """
    if len(known) < SHORT_NAME_LENGTH or abs(len(written) - len(known)) > 2:  # noqa: PLR2004 - the most mistakes
        return written == known
    mistakes = distance(written, known)
    if len(known) == SHORT_NAME_LENGTH:
        return mistakes == 0 or (mistakes == 1 and sorted(written) == sorted(known))
    return mistakes <= (1 if len(known) < _LONG_NAME_LENGTH else 2)


def distance(first: str, second: str) -> int:
    """Count the letters to insert, delete, replace or exchange with their neighbour to make one word of the other.

    Args:
        first: One word.
        second: The other word.
    """
    rows = [list(range(len(second) + 1))]
    for i, letter in enumerate(first, 1):
        row = [i]
        for j, other in enumerate(second, 1):
            cost = min(rows[-1][j] + 1, row[j - 1] + 1, rows[-1][j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other:
                cost = min(cost, rows[-2][j - 2] + 1)
            row.append(cost)
        rows.append(row)
    return rows[-1][-1]


def is_numbered(first: str, second: str) -> bool:
    """Return whether names are two of a series, such as `worker1` and `worker2`, or `team-a` and `team-b`.

    Args:
        first: One name.
        second: The other name.
    """
    pattern = re.compile(r"\d+|(?<=[-_ ])\w$|(?<=[a-z])[A-Z]$")
    stems = {pattern.sub("", name).rstrip("-_ ") for name in (first, second)}
    return len(stems) == 1 and first.lower() != second.lower()

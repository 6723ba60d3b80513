"""Names which a typed word probably misspells, by `difflib`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

_MIN_LENGTH = 3
"""Shorter names count only as they are."""

_SHORT_LENGTH = 4
"""In names of up to this length, only a missing, an additional or two exchanged letters count as a misspelling."""

_MIN_RATIO = 0.8


def is_near(word: str, name: str) -> bool:
    """Return whether a word is a name, or probably its misspelling.

    Args:
        word: The typed word.
        name: The known name.

    Example:
        >>> is_near("slaes", "sales"), is_near("sale", "sales"), is_near("tales", "dates")
        (True, True, False)
    """
    if word == name:
        return True
    if min(len(word), len(name)) < _MIN_LENGTH:
        return False
    if _has_exchange(word, name):
        return True
    if len(name) < _SHORT_LENGTH or (len(name) == _SHORT_LENGTH == len(word)):
        return False
    matcher = SequenceMatcher(None, word, name, autojunk=False)
    return matcher.quick_ratio() >= _MIN_RATIO and matcher.ratio() >= _MIN_RATIO


def nearest(word: str, names: Iterable[str]) -> str:
    """Find the name which a word probably misspells, empty if there is none.

    Args:
        word: The typed word.
        names: The known names; the most similar counts, then the first.
    """
    near = [name for name in names if is_near(word, name)]
    return max(near, key=lambda name: SequenceMatcher(None, word, name, autojunk=False).ratio(), default="")


def is_numbered(first: str, second: str) -> bool:
    """Return whether names belong to a series, such as `worker1` and `worker2`.

    Args:
        first: One name.
        second: The other name.
    """
    pattern = re.compile(r"\d+|(?<=[-_ ])\w$|(?<=[a-z])[A-Z]$")
    stems = {pattern.sub("", name).rstrip("-_ ") for name in (first, second)}
    return len(stems) == 1 and first.lower() != second.lower()


def _has_exchange(word: str, name: str) -> bool:
    """Return whether exactly two letters are exchanged."""
    if len(word) != len(name):
        return False
    pairs = [(letter, other) for letter, other in zip(word, name, strict=True) if letter != other]
    return len(pairs) == len("ab") and pairs[0] == pairs[1][::-1]

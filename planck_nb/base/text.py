"""Shortening text, text that is safe on one line, and numbers with their nouns."""

from __future__ import annotations

import re
from collections.abc import Callable

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Control characters, line separators, and lone surrogates, which stand for bytes of a name that are not UTF-8."""


def one_line(text: str, limit: int = 80) -> str:
    """The text on one line, cut with an ellipsis after `limit` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def counted(number: int, noun: str) -> str:
    """The number with its noun, in the plural unless it is one: "1 row", "2,000 rows"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def head_and_tail(
    text: str,
    *,
    characters: int,
    lines: int | None = None,
    around: Callable[[str, int], tuple[int, int]] | None = None,
) -> str:
    """The text, or its beginning and end with a line between them that says how much is left out.

    Two thirds of each bound go to the beginning. Never cuts inside a character.

    Args:
        text: The text.
        characters: The number of characters to keep at most.
        lines: The number of lines to keep at most, None for any.
        around: Takes the text and a position to cut at, and returns where to end and where to resume instead, as
            `around_secret` does to keep secrets whole.
    """

    def cut(first: int, last: int, note: str) -> str:
        before = first if around is None else around(text, first)[0]
        after = last if around is None else max(around(text, last)[1], before)
        return f"{text[:before]}{note}\n{text[after:]}"

    if lines is not None and len(rows := text.splitlines(keepends=True)) > lines:
        head = lines * 2 // 3
        tail = lines - head
        first, last = sum(map(len, rows[:head])), len(text) - sum(map(len, rows[-tail:]))
        text = cut(first, last, f"[… {len(rows) - lines:,} lines left out …]")
    if len(text) > characters:
        head = characters * 2 // 3
        last = len(text) - (characters - head)
        text = cut(head, last, f"\n[… {len(text) - characters:,} characters left out …]")
    return text


def encodable(text: str) -> str:
    """The text without lone surrogates, which no wire format and no database can carry."""
    return text.encode("utf-8", "replace").decode("utf-8")


def is_printable(name: str) -> bool:
    """Whether the name is on one line and can be sent to a model."""
    return _UNPRINTABLE.search(name) is None


def printable(text: object) -> str:
    """The text on one line, with single spaces, and without the characters that `is_printable` rejects."""
    return " ".join(_UNPRINTABLE.sub(" ", str(text)).split())

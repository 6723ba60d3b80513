"""Short texts, texts for one line, and numbers with their nouns."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Control characters, line separators and lone surrogates.

Lone surrogates stand for undecodable bytes in a name.
"""


def one_line(text: str, limit: int = 80) -> str:
    """Return the text on one line, with at most `limit` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def counted(number: int, noun: str) -> str:
    """Return the number with its noun: "1 row", "2,000 rows"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def head_and_tail(
    text: str,
    *,
    characters: int,
    lines: int | None = None,
    around: Callable[[str, int], tuple[int, int]] | None = None,
) -> str:
    """Return the text, without its middle if it is long.

    A line in between says how much is left out.

    Two thirds are kept at the beginning. Characters stay whole.

    Args:
        text: The text.
        characters: The largest number of characters.
        lines: The largest number of lines, None for any.
        around: Takes the text and a position for a cut, and returns where to end and where to resume instead, as
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
    """Return the text without lone surrogates.

    Wire formats and databases cannot carry these.
    """
    return text.encode("utf-8", "replace").decode("utf-8")


def encodable_data(value: Any) -> Any:  # noqa: ANN401 - JSON data of the same type
    """Return the same JSON data without lone surrogates, in names as well."""
    if isinstance(value, str):
        return value if value.isascii() else encodable(value)
    if isinstance(value, dict):
        return {encodable_data(key): encodable_data(item) for key, item in value.items()}
    if isinstance(value, list):
        return [encodable_data(item) for item in value]
    return value


def is_printable(name: str) -> bool:
    """Return whether the name is one line which models can read."""
    return _UNPRINTABLE.search(name) is None


def printable(text: object) -> str:
    """Return the printable characters on one line, with single spaces."""
    return " ".join(_UNPRINTABLE.sub(" ", str(text)).split())

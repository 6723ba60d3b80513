"""Shortening text."""

from __future__ import annotations


def one_line(text: str, limit: int = 80) -> str:
    """The text on one line, cut with an ellipsis after `limit` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def head_and_tail(text: str, *, characters: int, lines: int | None = None) -> str:
    """The text, or its beginning and end with a line between them that says how much is left out.

    Two thirds of each bound go to the beginning. Never cuts inside a character.
    """
    if lines is not None and len(rows := text.splitlines(keepends=True)) > lines:
        head = lines * 2 // 3
        tail = lines - head
        left_out = len(rows) - lines
        text = "".join(rows[:head]) + f"[… {left_out:,} lines left out …]\n" + "".join(rows[-tail:])
    if len(text) > characters:
        head = characters * 2 // 3
        tail = characters - head
        left_out = len(text) - characters
        text = f"{text[:head]}\n[… {left_out:,} characters left out …]\n{text[-tail:]}"
    return text


def encodable(text: str) -> str:
    """The text without lone surrogates, which no wire format and no database can carry."""
    return text.encode("utf-8", "replace").decode("utf-8")

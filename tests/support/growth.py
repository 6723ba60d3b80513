"""Texts that make careless programs slow, and a check that time grows no faster than the text."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import pytest

REPEATED = (
    *("](<", "`", "` ", "``a` ", "*_", "*a ", "**a _", "**x** ", "a**b", "[", "![", "!", "[[]", "[]("),
    *("[a](", "[a]", "[a][", "[\\[", "]", "](", "[x](<a", '[x](a "', "[a]: b\n", "[x]: <\n", "]: ", "](  "),
    *("<", "<a ", "<a", "<!--", "<http://", "$", "$$", "\\\\[", "\\begin{a}", "\\", "\\\n", "|", "| a\n", "&#", "&a"),
    *(
        "- ",
        "- a\n",
        "1. ",
        "> ",
        "> a\n",
        "# ",
        "---\n",
        "a\n=\n",
        "~~",
        "~~a ",
        "```",
        "```\n",
        "```a\n\n",
        "    <b>\n\n",
    ),
    *("\n", " ", "\t", "a", "a ", "\x1b]", "\x1b[", "\r", "`<b>`\n", "`\n"),
    *("\x90", "\x9d", "a\x9d"),
)


def _growing(piece: Callable[[int], str]) -> Callable[[int], str]:
    """Texts of pieces 0, 1, 2 and so on, which grow."""

    def text(size: int) -> str:
        pieces: list[str] = []
        written = 0
        while written < size:
            pieces.append(piece(len(pieces)))
            written += len(pieces[-1])
        return "".join(pieces)

    return text


BUILT: dict[str, Callable[[int], str]] = {
    "runs of backticks": _growing(lambda length: "`" * (length + 1) + "a"),
    "nested lists": _growing(lambda depth: "  " * depth + "- a\n"),
    "nested brackets": lambda size: "[" * (size // 2) + "a" + "]" * (size // 2),
    "nested emphasis": lambda size: "*" * (size // 2) + "a" + "*" * (size // 2),
    "nested quotes": _growing(lambda depth: "> " * (depth + 1) + "a\n"),
    "a table": lambda size: "|a|b|\n|-|-|\n" + "|x|y|\n" * (size // 6),
    "a code block and marks": lambda size: "```\n<b>\n```\n" + "$$\\begin{a}`" * (size // 12),
}


def text_of(name: str, size: int) -> str:
    return BUILT[name](size) if name in BUILT else name * (size // len(name))


def _seconds(function: Callable[[str], object], text: str) -> float:
    gc.disable()  # a collection takes as long as all other tests have left objects
    try:
        before = time.thread_time()
        function(text)
        return time.thread_time() - before
    finally:
        gc.enable()


def check_growth(function: Callable[[str], object], name: str, size: int) -> None:
    """Fail if four times the text takes much more than four times as long; sixteen times as long is quadratic."""
    for _ in range(3):
        large = _seconds(function, text_of(name, 4 * size))
        if large < 0.1 or large < 9 * _seconds(function, text_of(name, size)):
            return
    pytest.fail(f"{function.__name__} takes {large:.2f} s for {4 * size:,} characters of {name!r}")


def check_linear(function: Callable[[str], object], name: str, text: Callable[[int], str], size: int) -> None:
    """Fail if each character in a text four times as long takes much more CPU time.

    A loop over the same text in the same run is the floor: below it, a character's time is overhead and noise.

    Args:
        function: The function.
        name: The text's name in the failure.
        text: Makes a text of so many characters.
        size: The shortest text in characters.
    """
    for _ in range(3):
        costs = []
        for part in map(text, (size, 2 * size, 4 * size)):
            floor = _seconds(_characters, part) / len(part)
            costs.append(max(_seconds(function, part) / len(part), floor))
        if costs[2] < 2.5 * min(costs[:2]):
            return
    pytest.fail(f"{name}: {', '.join(f'{cost * 1e9:,.0f}' for cost in costs)} ns for each character")


def _characters(text: str) -> int:
    return sum(1 for character in text if character.isalpha())

"""A diff in a tool's result, as lines to show."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

DiffLine: TypeAlias = tuple[Literal[" ", "-", "+", "@"], str]
"""A line with its mark; `@` marks a heading in the file."""

DIFFED_ARGUMENTS = frozenset({"content", "old_string", "new_string", "old_text", "new_text", "old_str", "new_str"})
"""Arguments whose text is in the diff."""

_HEADERS = re.compile(r"^--- [^\n]*\n\+\+\+ [^\n]*\n(?=@@ )", re.MULTILINE)
_MARKS: dict[str, Literal[" ", "-", "+", "@"]] = {" ": " ", "-": "-", "+": "+", "@": "@"}


@dataclass(frozen=True, slots=True)
class ShownDiff:
    """A diff and the text before it."""

    text: str
    lines: tuple[DiffLine, ...]

    @property
    def counts(self) -> str:
        """Return the numbers of added and removed lines."""
        marks = [mark for mark, _ in self.lines]
        return f"+{marks.count('+')} −{marks.count('-')}"  # noqa: RUF001 - a minus sign


def diff_in(result: str) -> ShownDiff | None:
    """Return the unified diff at the end of a result, if any.

    Args:
        result: A tool's result.
    """
    headers = _HEADERS.search(result)
    if headers is None:
        return None
    lines: list[DiffLine] = []
    for line in result[headers.end() :].rstrip("\n").split("\n"):
        mark = _MARKS.get(line[:1])
        lines.append(("@", line) if mark is None or mark == "@" else (mark, line[1:]))
    return ShownDiff(result[: headers.start()].strip(), tuple(lines))

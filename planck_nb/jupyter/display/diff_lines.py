"""The diff that the result of a tool contains, as lines to be shown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

DiffLine: TypeAlias = tuple[Literal[" ", "-", "+", "@"], str]
"""A line with its mark; `@` is for the heading of a part of the file."""

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
        """How many lines were added and removed."""
        marks = [mark for mark, _ in self.lines]
        return f"+{marks.count('+')} −{marks.count('-')}"  # noqa: RUF001 - a minus sign


def diff_in(result: str) -> ShownDiff | None:
    """Return the diff in unified format that a result ends with, None if there is none.

    Args:
        result: The result of a tool.
    """
    headers = _HEADERS.search(result)
    if headers is None:
        return None
    lines: list[DiffLine] = []
    for line in result[headers.end() :].rstrip("\n").split("\n"):
        mark = _MARKS.get(line[:1])
        lines.append(("@", line) if mark is None or mark == "@" else (mark, line[1:]))
    return ShownDiff(result[: headers.start()].strip(), tuple(lines))

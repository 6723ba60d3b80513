"""Terminal output as plain text: without colours and cursor commands."""

from __future__ import annotations

import re
from collections import deque

TAIL_LINES = 10
"""Number of lines shown from unfinished output."""

LINE_CHARACTERS = 2_000
"""Longest such line in characters."""

_CONTROL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # a command, such as a colour
    r"|[\]PX^_][^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"  # a title, a link, the clipboard, or a text for a device
    r"|[ -/]*[0-Z\\^-~])"  # any other
    # The same as one C1 character, unless it is a part of UTF-8 read as Latin-1, such as a curly quote.
    # (After \x9c, which ends a command, it is another command.)
    r"|(?<![\x80-\x9b\x9d-\xff])\x9b[0-?]*[ -/]*[@-~]"
    r"|(?<![\x80-\x9b\x9d-\xff])[\x90\x98\x9d-\x9f][^\x07\x1b\x90\x98\x9c-\x9f\n]*(?:\x07|\x1b\\|\x9c)"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
_TURNS_TEXT = re.compile(r"[\u202a-\u202e\u2066-\u2069]")
"""Characters which make a terminal show text in another order."""

_RETURN = re.compile(r"(?<!\r)\r+\n")
_MAX_COMMAND_LENGTH = 500
MAX_EXAMINED = 100_000
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]{0,400}\x1b?|[ -/]*)?\Z")


def plain(text: str) -> str:
    """Return the text without colours and other terminal commands."""
    return _CONTROL.sub("", text)


def for_terminal(text: str) -> str:
    """Return the text for a terminal, without control over it.

    Nothing in the text changes its order.

    If a line was written several times, as by progress bars, its last version stays.
    """
    lines = _TURNS_TEXT.sub("", plain(_RETURN.sub("\n", text))).split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


class PlainStream:
    """Text for a terminal in pieces, without returns to a line's start."""

    def __init__(self) -> None:
        self._rest = ""

    def feed(self, text: str) -> str:
        """Return the text to show now; an incomplete terminal command waits.

        Args:
            text: The next piece, which may end inside a terminal command.
        """
        text = self._rest + text
        cut = _UNFINISHED.search(text, max(len(text) - _MAX_COMMAND_LENGTH, 0))
        self._rest = cut.group() if cut else ""
        return _TURNS_TEXT.sub("", plain(text[: len(text) - len(self._rest)])).replace("\r", "")


class Tail:
    """The last lines of output in pieces, with bounded memory.

    A carriage return starts its line again, as progress bars do.

    Args:
        max_examined: Last characters to look at in a piece; in the others, only lines are counted.
    """

    def __init__(self, *, max_examined: int = MAX_EXAMINED) -> None:
        self._max_examined = max_examined
        self._lines: deque[str] = deque()
        self._earlier = 0
        self._line = ""
        self._again = False
        self._rest = ""

    def feed(self, text: str) -> None:
        """Add more output.

        Args:
            text: The next piece of output, which may end inside a line or a terminal command.
        """
        text = self._rest + text
        cut = _UNFINISHED.search(text, max(len(text) - _MAX_COMMAND_LENGTH, 0))
        self._rest = cut.group() if cut else ""
        if len(text) > self._max_examined:
            text = self._skip(text)
        *complete, last = plain(text[: len(text) - len(self._rest)]).split("\n")
        for part in complete:
            self._write(part)
            self._end_line()
        self._write(last)

    def shown(self) -> tuple[str, int]:
        """Return the last lines, and the number of lines before them.

        The newest line may be incomplete.
        """
        if not self._line:
            return "\n".join(self._lines), self._earlier
        lines = [*self._lines, self._line]
        return "\n".join(lines[-TAIL_LINES:]), self._earlier + max(len(lines) - TAIL_LINES, 0)

    def _skip(self, text: str) -> str:
        """Count the lines which will be hidden, and return the other text."""
        end = text.rfind("\n", 0, len(text) - self._max_examined) + 1
        if end == 0 or text.count("\n", end) <= TAIL_LINES:
            return text
        self._earlier += len(self._lines) + text.count("\n", 0, end)
        self._lines.clear()
        self._line, self._again = "", False
        return text[end:]

    def _write(self, part: str) -> None:
        """Add to the newest line.

        A carriage return at the end may be half a line break.
        """
        content = part.rstrip("\r")
        if content:
            _, separator, newest = content.rpartition("\r")
            self._line = (newest if separator or self._again else self._line + content)[:LINE_CHARACTERS]
            self._again = False
        self._again = self._again or part.endswith("\r")

    def _end_line(self) -> None:
        self._lines.append(self._line)
        self._line, self._again = "", False
        if len(self._lines) > TAIL_LINES:
            self._lines.popleft()
            self._earlier += 1

"""Pure functions on text: one exact replacement, and a diff of what changed."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from planck_nb.base.errors import ToolError
from planck_nb.base.secrets import around_secret
from planck_nb.base.text import head_and_tail

_CONTEXT = 3
_HEADERS = 2
_DIFFED_LINES = 2_000
"""Longer files are compared by their common beginning and end only: a full comparison takes quadratic time."""

_SHOWN_LINES = 300
_SHOWN_CHARACTERS = 12_000


def utf8(text: str, what: str) -> bytes:
    """Return the text as bytes. Raises a `ToolError` that names `what` if UTF-8 cannot represent the text."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"{what} contains half of a surrogate pair at {error.start}; write whole characters.") from None


def replace_once(data: bytes, old: str, new: str, path: str) -> bytes:
    """Replace the one occurrence of `old` with `new`; all other bytes stay as they are, whatever their encoding.

    If every line of `data` ends in CRLF, lines in `old` and `new` may end in LF.

    Raises:
        ToolError: `old` is empty, does not occur, or occurs more than once, overlapping occurrences included. The
            message names `path`.
    """
    old_bytes, new_bytes = utf8(old, "old_string"), utf8(new, "new_string")
    if not old_bytes:
        raise ToolError("old_string is empty; give the text to replace, or use `write` for the whole file.")
    if old_bytes == new_bytes:
        raise ToolError("old_string and new_string are the same; there is nothing to change.")
    if b"\r\n" in data and data.count(b"\n") == data.count(b"\r\n"):
        old_bytes, new_bytes = _crlf(old_bytes), _crlf(new_bytes)
    first = data.find(old_bytes)
    if first < 0:
        raise ToolError(f"old_string not found in {path}; read the file and copy the text exactly.")
    if data.find(old_bytes, first + 1) >= 0:
        raise ToolError(f"old_string appears more than once in {path}; make it more specific with lines around it.")
    return data[:first] + new_bytes + data[first + len(old_bytes) :]


@dataclass(frozen=True, slots=True)
class TextDiff:
    """What changed: a bounded diff in unified format, and the numbers of lines, both 0 if either side is not text."""

    text: str
    added: int
    removed: int


def text_diff(before: bytes, after: bytes, path: str) -> TextDiff:
    """Compare two contents of the file `path`; if one is not text, a sentence takes the place of the diff."""
    if b"\0" in before or b"\0" in after:
        return TextDiff(f"[binary: {len(before):,} bytes became {len(after):,}]", 0, 0)
    old, new = _lines(before), _lines(after)
    few = max(len(old), len(new)) <= _DIFFED_LINES
    hunks = list(difflib.unified_diff(old, new, f"a/{path}", f"b/{path}") if few else _one_hunk(old, new, path))
    text = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in hunks)
    marks = Counter(line[0] for line in hunks[_HEADERS:])
    shown = head_and_tail(text, characters=_SHOWN_CHARACTERS, lines=_SHOWN_LINES, around=around_secret)
    return TextDiff(shown, marks["+"], marks["-"])


def _one_hunk(old: list[str], new: list[str], path: str) -> Iterator[str]:
    """A diff in linear time: everything between the common beginning and the common end."""
    shorter = min(len(old), len(new))
    start = next((index for index in range(shorter) if old[index] != new[index]), shorter)
    same = next((back for back in range(shorter - start) if old[-1 - back] != new[-1 - back]), shorter - start)
    old_end, new_end = len(old) - same, len(new) - same
    first = max(start - _CONTEXT, 0)
    yield f"--- a/{path}\n"
    yield f"+++ b/{path}\n"
    tail = old[old_end : old_end + _CONTEXT]
    size = start - first + len(tail)
    yield f"@@ -{first + 1},{size + old_end - start} +{first + 1},{size + new_end - start} @@\n"
    for mark, lines in ((" ", old[first:start]), ("-", old[start:old_end]), ("+", new[start:new_end]), (" ", tail)):
        yield from (mark + line for line in lines)


def _lines(data: bytes) -> list[str]:
    """The lines of a file: unlike `str.splitlines`, this splits at line feeds only."""
    text = data.decode("utf-8", "replace")
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _crlf(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")

"""Markdown as styled text for terminals, whole or in pieces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import TextIO

_RESET = "\x1b[0m"
_BOLD = "\x1b[1m"
_ITALIC = "\x1b[3m"
_UNDERLINE = "\x1b[4m"
_STRUCK = "\x1b[9m"
_CODE = "\x1b[36m"

_HELD = 300
"""Most characters to wait for a link's or an emphasis' end."""

_RULE = "─"

_BLOCK = re.compile(
    r"(?P<indent>\s*)(?:"
    r"(?P<heading>\#{1,6})\ +"
    r"|(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)$"
    r"|(?P<rule>(?:-\ ?){3,}|(?:\*\ ?){3,}|(?:_\ ?){3,})$"
    r"|[-*+]\ +(?:\[(?P<task>[ xX])\]\ )?(?P<bullet>)"
    r"|(?P<number>\d{1,9}[.)])\ +"
    r"|(?P<quote>>[\ >]*)"
    r"|(?P<row>\|)"
    r")",
    re.VERBOSE,
)
_UNDECIDED = re.compile(r"\s*(?:[-*+#>|_`~]{0,6}|\d{1,9}[.)]?|[-*+] \[.?\]?|[`~]{3,}.*|(?:[-*_] ?){2,}|\|.*)")
"""A line's beginning whose block may change with the next character."""

_INLINE = re.compile(
    r"(?P<ticks>`+)(?!`)(?P<code>[^\n]{1,500}?)(?<!`)(?P=ticks)(?!`)"
    r"|(?P<two>\*\*|(?<!\w)__)(?=\S)(?P<strong>[^\n]{1,500}?)(?<=\S)(?P=two)(?![*_])"
    r"|\*(?=[^\s*])(?P<starred>[^\n*]{1,500}?)(?<=\S)\*(?!\*)"
    r"|(?<!\w)_(?=[^\s_])(?P<underscored>[^\n]{1,500}?)(?<=[^\s_])_(?!\w)"
    r"|~~(?=\S)(?P<struck>[^\n]{1,500}?)(?<=\S)~~"
    r"|(?P<image>!?)\[(?P<label>[^\]\n]{0,500})\]"
    r"\((?P<url>[^()\s]{1,1000}(?:\([^()\s]{0,200}\))?)(?:\ \"[^\"\n]{0,200}\")?\)"
    r"|<(?P<address>https?://[^\s<>]{1,1000})>"
    r"|\\(?P<escaped>[!-/:-@\[-`{-~])",
    re.VERBOSE,
)
_OPENING = re.compile(r"[`*_~\[<\\!]")
_NOT_OPENING = re.compile(
    r"[*~](?=\s)|(?<=\w)_|_(?=\s)|!(?=[^\[])|<(?=[^h])|\[[^\]]*\](?=[^(])|~(?=[^~])|\\(?=[^!-/:-@\[-`{-~])"
)
_CELL_BREAK = re.compile(r"(?<!\\)\|")
_ALIGNMENT = re.compile(r":?-+:?")


def supports_styles(output: TextIO, environment: Mapping[str, str]) -> bool:
    """Return whether an output is a terminal which shows styles.

    Args:
        output: Where text is written.
        environment: The environment variables; `NO_COLOR` (https://no-color.org) and `TERM=dumb` mean plain text.
    """
    is_plain = environment.get("NO_COLOR") or environment.get("TERM") == "dumb"
    return not is_plain and output.isatty() and (output.encoding or "").lower().startswith("utf")


def to_terminal(text: str) -> str:
    r"""Return Markdown as styled text.

    Args:
        text: Markdown without control characters.

    Example:
        >>> to_terminal("Use `x`.")
        'Use \x1b[36mx\x1b[0m.'
    """
    stream = TerminalMarkdown()
    return stream.feed(text) + stream.end()


class TerminalMarkdown:
    """Markdown in pieces, as styled text.

    Words come as soon as their style is certain, code comes by lines, and a table whole.
    """

    def __init__(self) -> None:
        self._line = ""
        """The current line."""
        self._position = 0
        """The end in it, up to which its text was returned."""
        self._base: str | None = None
        """Its own style; None before its block is certain."""
        self._fence = ""
        self._table: list[str] = []

    def feed(self, text: str) -> str:
        """Return the styled text to write now.

        Args:
            text: The next piece, without control characters.
        """
        first, *lines = text.split("\n")
        parts: list[str] = []
        self._line += first
        for line in lines:
            parts.append(self._completed())
            self._line = line
        return "".join([*parts, self._begun()])

    def end(self) -> str:
        """Return the remainder; the next piece begins a document."""
        text = self._completed().removesuffix("\n") if self._line else ""
        text += self._ended_table().removesuffix("\n")
        self._fence = ""
        return text

    def _completed(self) -> str:
        """Return the line to its end, and forget it."""
        line, start, base = self._line, self._position, self._base
        self._line, self._position, self._base = "", 0, None
        if base is not None:
            return f"{_styled(line, base, start)}{_RESET if base else ''}\n"
        if self._fence:
            return self._code_line(line)
        block = _BLOCK.match(line)
        if block is not None and block["row"]:
            self._table.append(line)
            return ""
        table = self._ended_table()
        if block is not None and block["fence"]:
            self._fence = block["fence"]
            return table
        prefix, base, start = _beginning(line, block)
        return f"{table}{prefix}{base}{_styled(line, base, start)}{_RESET if base else ''}\n"

    def _begun(self) -> str:
        """Return the unfinished line's text whose style is certain."""
        line, prefix = self._line, ""
        if self._base is None:
            block = _BLOCK.match(line)
            is_whole = block is not None and (block["row"] or block["fence"])
            if is_whole or self._fence or (len(line) <= _HELD and _may_change(line, block)):
                return ""
            prefix, self._base, self._position = _beginning(line, block)
            prefix = f"{self._ended_table()}{prefix}{self._base}"
        start, self._position = self._position, _certain_end(line, self._position)
        return prefix + _styled(line, self._base, start, self._position)

    def _code_line(self, line: str) -> str:
        mark = line.strip()
        if mark.startswith(self._fence) and not mark.strip(self._fence[0]):
            self._fence = ""
            return ""
        return f"{_CODE}{line}{_RESET}\n" if mark else "\n"

    def _ended_table(self) -> str:
        rows, self._table = self._table, []
        return _table(rows) if rows else ""


def _beginning(line: str, block: re.Match[str] | None) -> tuple[str, str, int]:
    """Return a line's visible beginning, its style, and where its text starts."""
    if block is None:
        return "", "", 0
    indent = block["indent"]
    if block["heading"]:
        return indent, _BOLD + (_UNDERLINE if block["heading"] == "#" else ""), block.end()
    if block["rule"]:
        return f"{indent}{_RULE * 40}", "", len(line)
    if block["quote"]:
        return f"{indent}{'│ ' * block['quote'].count('>')}", "", block.end()
    if block["number"]:
        return f"{indent}{block['number']} ", "", block.end()
    mark = {None: "•", " ": "☐"}.get(block["task"], "☑")
    return f"{indent}{mark} ", "", block.end()


def _may_change(line: str, block: re.Match[str] | None) -> bool:
    """Return whether the next character may change a line's block."""
    return (block is not None and block.end() == len(line)) or _UNDECIDED.fullmatch(line) is not None


def _certain_end(line: str, position: int) -> int:
    """Return the first position whose style may still change."""
    while (opening := _OPENING.search(line, position)) is not None:
        start = opening.start()
        if (span := _INLINE.match(line, start)) is not None and span.end() < len(line):
            position = span.end()
        elif len(line) - start > _HELD or _NOT_OPENING.match(line, start) is not None:
            position = start + 1
        else:
            return start
    return len(line)


def _styled(text: str, base: str = "", start: int = 0, end: int | None = None) -> str:
    """Return inline Markdown with styles.

    Args:
        text: The line.
        base: The style around it, which returns after each inner one.
        start: The first character.
        end: The position after the last character, None for the whole line.
    """
    end = len(text) if end is None else end
    parts: list[str] = []
    for span in _INLINE.finditer(text, start, end):
        parts += [text[start : span.start()], _span(span, base)]
        start = span.end()
    return "".join([*parts, text[start:end]])


def _span(span: re.Match[str], base: str) -> str:
    def within(code: str, content: str) -> str:
        return f"{code}{content}{_RESET}{base}"

    if span["code"] is not None:
        return within(_CODE, span["code"].strip() or span["code"])
    if span["strong"] is not None:
        return within(_BOLD, _styled(span["strong"], base + _BOLD))
    if (emphasis := span["starred"] or span["underscored"]) is not None:
        return within(_ITALIC, _styled(emphasis, base + _ITALIC))
    if span["struck"] is not None:
        return within(_STRUCK, _styled(span["struck"], base + _STRUCK))
    if span["url"] is not None:
        return _link(span, base)
    return span["address"] or span["escaped"]


def _link(span: re.Match[str], base: str) -> str:
    """Return a link's label and address: terminals may not open links."""
    label, url = span["label"], span["url"]
    if span["image"]:
        return f"[image: {label or url}]"
    if label == url or not label:
        return url
    return f"{_UNDERLINE}{_styled(label, base + _UNDERLINE)}{_RESET}{base} ({url})"


def _table(lines: list[str]) -> str:
    """Return a table with its columns texts_by_row."""
    rows = [_cells(line) for line in lines]
    is_table = len(rows) > 1 and all(map(_ALIGNMENT.fullmatch, rows[1]))
    if not is_table:
        return "".join(f"{_styled(line)}\n" for line in lines)
    header, body = rows[0], rows[2:]
    columns = max(map(len, [header, *body]))
    texts = [[*row, *[""] * (columns - len(row))] for row in [header, *body]]
    widths = [max(_width(row[column]) for row in texts) for column in range(columns)]
    texts_by_row = ["  ".join(_padded(cell, width) for cell, width in zip(row, widths, strict=True)) for row in texts]
    line = "  ".join(_RULE * width for width in widths)
    return "".join(f"{row.rstrip()}\n" for row in (f"{_BOLD}{texts_by_row[0]}{_RESET}", line, *texts_by_row[1:]))


def _cells(line: str) -> list[str]:
    cells = _CELL_BREAK.split(line.strip().removeprefix("|"))
    if cells and not cells[-1].strip():
        cells.pop()
    return [cell.strip().replace("\\|", "|") for cell in cells]


def _padded(cell: str, width: int) -> str:
    return _styled(cell) + " " * (width - _width(cell))


_STYLE = re.compile(r"\x1b\[\d+m")


def _width(cell: str) -> int:
    """Return the columns which a cell takes on the screen."""
    text = _STYLE.sub("", _styled(cell))
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))

"""A small table with bars, as text and as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from unicodedata import east_asian_width

_BLOCKS = "▏▎▍▌▋▊▉█"
"""Bars with one to eight eighths.

Code hosts remove styles from saved outputs, but not characters.
"""

_BAR_CHARACTERS = 12

_RIGHT = 'align="right"'
_LEFT = 'align="left" style="text-align:left"'
"""JupyterLab needs the style, which code hosts remove."""


@dataclass(frozen=True, slots=True)
class SummaryTable:
    """Rows for a person. Columns without content are left out.

    Args:
        columns: The headings; a number's heading begins with `>`, which is not shown, and stands at the right.
        rows: Each row's cells.
        title: A line above the table; may be empty.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""

    def text(self) -> str:
        """Return the table as aligned columns."""
        headings, rows = self._shown()
        names = [heading.removeprefix(">") for heading in headings]
        widths = [max(map(_width, column)) for column in zip(names, *rows, strict=True)]
        lines = ([self.title] if self.title else []) + [
            "  ".join(
                _padded(cell, width, right=heading.startswith(">"))
                for cell, width, heading in zip(row, widths, headings, strict=True)
            ).rstrip()
            for row in (names, *rows)
        ]
        return "\n".join(lines)

    def html(self) -> str:
        """Return the table as HTML."""
        headings, rows = self._shown()
        sides = [_RIGHT if heading.startswith(">") else _LEFT for heading in headings]
        names = [escape(heading.removeprefix(">")) for heading in headings]
        head = "".join(
            f"<th {side}>{name}</th>" if name else "<td></td>" for name, side in zip(names, sides, strict=True)
        )
        body = "".join(f"<tr>{_cells(row, sides)}</tr>" for row in rows)
        title = f"<p><strong>{escape(self.title)}</strong></p>" if self.title else ""
        return f"{title}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _shown(self) -> tuple[list[str], list[list[str]]]:
        """Return headings and rows without empty columns."""
        indices = [index for index in range(len(self.columns)) if any(row[index] for row in self.rows)]
        return [self.columns[index] for index in indices], [[row[index] for index in indices] for row in self.rows]


def bar(value: float, largest: float) -> str:
    """Return a bar to scale, at most twelve characters wide.

    Args:
        value: The value.
        largest: The longest bar's value.

    Example:
        >>> bar(3, 4), bar(0, 4), bar(1, 1000)
        ('█████████', '', '▏')
    """
    if value <= 0 or largest <= 0:
        return ""
    eighths = max(round(value / largest * _BAR_CHARACTERS * 8), 1)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_BLOCKS[rest - 1] if rest else "")


def _cells(row: Sequence[str], sides: Sequence[str]) -> str:
    cells = zip(row, sides, strict=True)
    return "".join(f"<td {side}>{_hidden(escape(cell))}</td>" for cell, side in cells)


def _hidden(cell: str) -> str:
    """Hide a bar from screen readers, which read the number beside it."""
    return f'<span aria-hidden="true">{cell}</span>' if cell and not cell.strip(_BLOCKS) else cell


def _width(text: str) -> int:
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def _padded(text: str, width: int, *, right: bool) -> str:
    blanks = " " * (width - _width(text))
    return blanks + text if right else text + blanks

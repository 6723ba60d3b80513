"""What people see instead of the text of a result: tables and HTML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from planck_nb.base.text import counted


@dataclass(frozen=True, slots=True)
class TablePreview:
    """The first and last rows and columns of a table.

    Args:
        text: What the model reads instead of it.
        names: The names of the columns; those of the index come first.
        types: The types of the columns.
        numeric: Whether the columns contain numbers.
        index: The number of columns that are the index.
        rows: The cells of each row, as text.
        row_count: The number of rows of the whole table.
        column_count: The number of its columns, without the index.
    """

    text: str
    names: tuple[str, ...]
    types: tuple[str, ...]
    numeric: tuple[bool, ...]
    index: int
    rows: tuple[tuple[str, ...], ...]
    row_count: int
    column_count: int

    @property
    def size(self) -> str:
        """The numbers of rows and columns, in words."""
        rows, columns = self.row_count, self.column_count
        return f"{counted(rows, 'row')}, {counted(columns, 'column')}"


@dataclass(frozen=True, slots=True)
class HtmlPreview:
    """A document that an object draws itself as. It may contain anything.

    Args:
        text: What the model reads instead of it.
        html: The document.
    """

    text: str
    html: str


Preview: TypeAlias = TablePreview | HtmlPreview

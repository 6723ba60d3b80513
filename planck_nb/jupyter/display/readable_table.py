"""A table with readable numbers and times.

Its values stay as they are.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pandas as pd

_DIGITS = 6
_AS_MANY_AS_FIT = 0
"""The default in terminals, where pandas leaves out the middle columns.

These can be important.
"""


class ReadableTable(pd.DataFrame):
    """A table with empty cells for missing values, and whole seconds.

    In a terminal, columns which do not fit beside the others are below them.

    Args:
        data: Any data for `pandas.DataFrame`.
        columns: The column names, if `data` does not have them.
        empty: Replacement for a table without rows.
        whole: Whether long texts are shown whole.
    """

    _metadata = ["_empty", "_whole"]  # noqa: RUF012 - pandas' way to declare attributes

    def __init__(self, data: object, columns: list[str] | None = None, *, empty: str = "", whole: bool = False) -> None:
        super().__init__(data, columns=columns)  # type: ignore[call-arg]  # pandas has no types
        self._empty = empty
        self._whole = whole

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        """Return the class for selected rows or columns: an ordinary table."""
        return pd.DataFrame

    def __repr__(self) -> str:
        if self._empty and not len(self):
            return self._empty
        with self._widths():
            if pd.get_option("display.max_columns") != _AS_MANY_AS_FIT:
                return repr(self._readable())
            width = shutil.get_terminal_size().columns
            with pd.option_context("display.max_columns", None, "display.width", width):
                return repr(self._readable())

    def _repr_html_(self) -> str | None:
        if self._empty and not len(self):
            return None
        with self._widths():
            table_html: str | None = self._readable()._repr_html_()  # type: ignore[operator]  # pandas has no types
        return table_html

    def _widths(self) -> AbstractContextManager[object]:
        if not self._whole:
            return nullcontext()
        return pd.option_context("display.max_colwidth", None, "display.max_rows", None)

    def _readable(self) -> pd.DataFrame:
        plain = pd.DataFrame(self)
        texts = {name: [_text(value) for value in column] for name, column in plain.items()}
        return pd.DataFrame(texts, index=plain.index, columns=plain.columns, dtype=object)


def _text(value: Any) -> object:  # noqa: ANN401 - a cell of a table
    """Return a value for display."""
    if isinstance(value, list | dict):
        return value
    if pd.isna(value):
        return ""
    if isinstance(value, pd.Timestamp):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, float):
        return int(value) if value.is_integer() else float(f"{value:.{_DIGITS}g}")
    return value

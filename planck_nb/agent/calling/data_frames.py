"""Data frames, series and arrays as text that a model can read, whatever their size; no library of them is imported."""

from __future__ import annotations

from typing import Any

_ROWS = 20
_COLUMNS = 20
_NAMED = 100
_CELL_CHARACTERS = 200
_ELEMENTS = 1_000
"""Elements of an array from which on it is more than plain data."""


def table_text(value: Any) -> str | None:  # noqa: ANN401 - an object of a library that we do not import
    """First and last rows with the shape and the columns' types; None for what is no table."""
    kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(value).__mro__}
    if ("pandas", "DataFrame") in kinds:
        return _frame(value)
    if ("pandas", "Series") in kinds:
        named = "" if value.name is None else f" {value.name!r}"
        return f"[Series{named}, {len(value):,} values, {value.dtype}]\n{value.to_string(max_rows=_ROWS)}"
    if ("polars", "DataFrame") in kinds or ("polars", "Series") in kinds:
        return str(value)
    if ("numpy", "ndarray") in kinds and value.size > _ELEMENTS:
        return f"[ndarray, shape {value.shape}, {value.dtype}]\n{value}"
    return None


def _frame(value: Any) -> str:  # noqa: ANN401 - a pandas.DataFrame
    rows, columns = value.shape
    typed = [f"{name}: {kind}" for name, kind in zip(value.columns[:_NAMED], value.dtypes[:_NAMED], strict=True)]
    more = f", and {columns - _NAMED:,} more" if columns > _NAMED else ""
    table = value.to_string(max_rows=_ROWS, max_cols=_COLUMNS, max_colwidth=_CELL_CHARACTERS, show_dimensions=False)
    return f"[DataFrame, {rows:,} rows x {columns:,} columns: {', '.join(typed)}{more}]\n{table}"

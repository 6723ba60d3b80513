"""Data frames, series and arrays as text of limited size for a model; their libraries are not imported."""

from __future__ import annotations

from typing import Any

_ROWS = 20
_COLUMNS = 20
_LISTED_COLUMNS = 100
_CELL_CHARACTERS = 200
_ELEMENTS = 1_000
"""An array with more elements is shortened instead of being converted to JSON."""


def table_text(value: Any) -> str | None:  # noqa: ANN401 - an object of a library that we do not import
    """The first and last rows with the shape and the types of the columns; None if the value is not a table."""
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
    listed = zip(value.columns[:_LISTED_COLUMNS], value.dtypes[:_LISTED_COLUMNS], strict=True)
    typed = [f"{name}: {kind}" for name, kind in listed]
    more = f", and {columns - _LISTED_COLUMNS:,} more" if columns > _LISTED_COLUMNS else ""
    table = value.to_string(max_rows=_ROWS, max_cols=_COLUMNS, max_colwidth=_CELL_CHARACTERS, show_dimensions=False)
    return f"[DataFrame, {rows:,} rows x {columns:,} columns: {', '.join(typed)}{more}]\n{table}"

"""Tables and arrays as text: shape, types, missing values and first rows.

Their libraries are not imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from planck_nb.base.named_secrets import without_named_values
from planck_nb.base.text import one_line
from planck_nb.jupyter.values.inline import HIDDEN, InlineWriter, is_secret, label_in
from planck_nb.jupyter.values.kind_and_size import sized
from planck_nb.jupyter.values.type_checks import has_all, name_of, names_of

ROWS_OF_SHORT_TABLE = 20
"""Largest number of rows in a table which is shown whole."""

ROWS_OF_LONG_TABLE = 10
COLUMNS = 60
"""Largest number of listed columns, with their types."""

COLUMNS_OF_ROWS = 20
"""Largest number of columns in the displayed rows."""

ELEMENTS = 20
MAX_COUNTED = 20_000_000
"""Largest number of cells in which missing values are counted."""

_CELL = 80


def describer(kind: type) -> Callable[[Any, InlineWriter], str] | None:
    """Return this class's describing function, for tables and arrays only.

    The function returns the text, which begins with the value's kind and size. It reads data in memory.
    """
    names = names_of(kind)
    for class_name, function in _KNOWN.items():
        if class_name in names:
            return function
    return _array_like if has_all(kind, ("shape", "dtype")) else None


def _pandas_frame(value: Any, writer: InlineWriter) -> str:  # noqa: ANN401 - as in all others
    rows, columns = map(int, value.shape)
    visible_part = value.iloc[:, :COLUMNS]
    missing = _missing(visible_part, rows * min(columns, COLUMNS))
    fields = [
        (name, str(dtype), None if missing is None else missing[place])
        for place, (name, dtype) in enumerate(zip(visible_part.columns, visible_part.dtypes, strict=True))
    ]
    head = value.iloc[: _rows(rows), :COLUMNS_OF_ROWS]
    cells = [list(head.iloc[:, place]) for place in range(head.shape[1])]
    return _DescribedTable(sized("DataFrame", (rows, columns)), rows, columns, fields, cells, list(head.index)).text(
        writer
    )


def _pandas_series(value: Any, writer: InlineWriter) -> str:  # noqa: ANN401
    count = len(value)
    missing = int(value.isna().sum()) if count <= MAX_COUNTED else None
    index = list(value.index[:ELEMENTS]) if hasattr(value, "index") else list(range(min(count, ELEMENTS)))
    named = "" if value.name is None else f", named {writer.write(value.name)}"
    head = f"{sized(name_of(type(value)), (count,))}, {value.dtype}{named}{_missing_words(missing)}"
    first = value.iloc[:ELEMENTS] if hasattr(value, "iloc") else value[:ELEMENTS]
    return _values(head, count, zip(index, first, strict=False), writer, name=value.name)


def _polars_frame(value: Any, writer: InlineWriter) -> str:  # noqa: ANN401
    rows, columns = int(value.height), int(value.width)
    nulls = value.null_count().row(0) if columns else ()
    schema = list(value.schema.items())[:COLUMNS]
    fields = [(name, str(dtype), int(missing)) for (name, dtype), missing in zip(schema, nulls, strict=False)]
    first = value.head(_rows(rows))
    cells = [first.to_series(place).to_list() for place in range(min(columns, COLUMNS_OF_ROWS))]
    return _DescribedTable(f"{sized('DataFrame', (rows, columns))} (polars)", rows, columns, fields, cells).text(writer)


def _polars_series(value: Any, writer: InlineWriter) -> str:  # noqa: ANN401
    count = len(value)
    head = f"{sized('Series', (count,))} (polars), {value.dtype}, named {writer.write(value.name)}"
    head += _missing_words(int(value.null_count()))
    return _values(head, count, enumerate(value.head(ELEMENTS).to_list()), writer, name=value.name)


def _arrow_table(value: Any, writer: InlineWriter) -> str:  # noqa: ANN401
    rows, columns = int(value.num_rows), int(value.num_columns)
    fields = [
        (field.name, str(field.type), int(value.column(place).null_count))
        for place, field in enumerate(list(value.schema)[:COLUMNS])
    ]
    first = value.slice(0, _rows(rows))
    cells = [first.column(place).to_pylist() for place in range(min(columns, COLUMNS_OF_ROWS))]
    head = f"{sized(name_of(type(value)), (rows, columns))} (pyarrow)"
    return _DescribedTable(head, rows, columns, fields, cells).text(writer)


def _arrow_array(value: Any, writer: InlineWriter) -> str:  # noqa: ANN401
    head = f"{sized(name_of(type(value)), (len(value),))} (pyarrow), {one_line(str(value.type), _CELL)}"
    head += _missing_words(int(value.null_count))
    return _values(head, len(value), enumerate(value.slice(0, ELEMENTS).to_pylist()), writer, name=None)


def _numpy_array(value: Any, writer: InlineWriter) -> str:  # noqa: ANN401
    count = int(value.size)
    missing = None
    if value.dtype.kind in "fc" and count <= MAX_COUNTED:
        missing = int((value != value).sum())  # noqa: PLR0124 - nan is the value that differs from itself
    head = f"{sized(name_of(type(value)), value.shape)}, {value.dtype}{_missing_words(missing)}"
    if not value.shape:
        return f"{head}\n{writer.write(value.item())}"
    if value.dtype.names:
        rows = [dict(zip(value.dtype.names, row, strict=True)) for row in value.flat[:ELEMENTS].tolist()]
        return f"{head}\nfirst values: {writer.write(rows)}"
    if value.ndim == 2 and value.dtype.kind in "USO":  # noqa: PLR2004 - as a table
        return f"{head}\nfirst rows: {writer.write(value[:ELEMENTS, :ELEMENTS].tolist())}"
    first = value.flat[: ROWS_OF_SHORT_TABLE * 10].tolist() if count <= ROWS_OF_SHORT_TABLE * 10 else None
    if first is not None and value.ndim <= 2 and value.dtype.kind in "biufc":  # noqa: PLR2004 - as a table
        rows = value.tolist()
        lines = [writer.write(row) for row in rows] if value.ndim == 2 else [writer.write(rows)]  # noqa: PLR2004
        return "\n".join([head, *lines])
    return "\n".join([head, f"first values: {writer.write(value.flat[:ELEMENTS].tolist())}"])


def _torch_tensor(value: Any, writer: InlineWriter) -> str:  # noqa: ANN401
    shape = tuple(map(int, value.shape))
    head = f"{sized('Tensor', shape)}, {value.dtype}, on {value.device}"
    if str(value.device) != "cpu" or str(value.layout) != "torch.strided":
        return head
    first = value.detach()
    while first.ndim > 1:
        first = first[0]
    return f"{head}\nfirst values: {writer.write((first[:ELEMENTS] if first.ndim else first).tolist())}"


def _array_like(value: Any, _writer: InlineWriter) -> str:  # noqa: ANN401
    """Return an unknown library's array without its values.

    It may be on a device or a disk.
    """
    shape = value.shape
    sizes = tuple(size for size in shape if type(size) is int) if type(shape) is tuple else ()
    return f"{sized(name_of(type(value)), sizes)}, {one_line(str(value.dtype), _CELL)}; its values are not read"


_KNOWN: dict[tuple[str, str], Callable[[Any, InlineWriter], str]] = {
    ("pandas", "DataFrame"): _pandas_frame,
    ("pandas", "Series"): _pandas_series,
    ("pandas", "Index"): _pandas_series,
    ("polars", "DataFrame"): _polars_frame,
    ("polars", "Series"): _polars_series,
    ("pyarrow", "Table"): _arrow_table,
    ("pyarrow", "RecordBatch"): _arrow_table,
    ("pyarrow", "Array"): _arrow_array,
    ("numpy", "ndarray"): _numpy_array,
    ("torch", "Tensor"): _torch_tensor,
}


def _rows(rows: int) -> int:
    return rows if rows <= ROWS_OF_SHORT_TABLE else ROWS_OF_LONG_TABLE


def _missing(frame: Any, cells: int) -> list[int] | None:  # noqa: ANN401
    return [int(number) for number in frame.isna().sum()] if cells <= MAX_COUNTED else None


def _missing_words(missing: int | None) -> str:
    return f", {missing:,} missing" if missing else ""


@dataclass(frozen=True, slots=True)
class _DescribedTable:
    """A table's description: kind, size, columns and first rows.

    The columns have their types and missing values.
    """

    head: str
    rows: int
    columns: int
    listed: Sequence[tuple[object, str, int | None]]
    cells: Sequence[Sequence[object]]
    index: Sequence[object] | None = None

    def text(self, writer: InlineWriter) -> str:
        lines = [self.head]
        lines += ["columns:"] if self.listed else []
        for name, dtype, missing in self.listed:
            lines.append(f"  {_cell('', name, writer)}: {one_line(dtype, _CELL)}{_missing_words(missing)}")
        if self.columns > len(self.listed):
            lines.append(f"  and {self.columns - len(self.listed):,} more")
        if not self.rows or not self.cells:
            return "\n".join([*lines, "no rows"])
        count = len(self.cells[0])
        lines.append("rows:" if count == self.rows else f"first {count} rows:")
        return "\n".join([*lines, *self._grid(writer)])

    def _grid(self, writer: InlineWriter) -> list[str]:
        """Return the lines for the rows."""
        columns = list(zip((name for name, _, _ in self.listed), self.cells, strict=False))
        labels = [
            label_in(zip((name for name, _ in columns), row, strict=True)) for row in zip(*self.cells, strict=True)
        ]
        if self.index is not None:
            labels = [row if label is None else label for label, row in zip(labels, self.index, strict=True)]
        grid = [
            [
                _cell("", name, writer),
                *(
                    _cell(name if label is cell or not is_secret(label, cell) else label, cell, writer)
                    for label, cell in zip(labels, cells, strict=True)
                ),
            ]
            for name, cells in columns
        ]
        if self.index is not None:
            grid.insert(0, ["", *(_cell("", label, writer) for label in self.index)])
        if self.columns > len(self.cells):
            grid.append(["…"] * len(grid[0]))
        widths = [max(map(len, column)) for column in grid]
        rows = zip(*grid, strict=True)
        return ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _values(
    head: str, count: int, pairs: Iterable[tuple[object, object]], writer: InlineWriter, *, name: object
) -> str:
    rows = [
        f"{_cell('', label, writer)}  {_cell(label if is_secret(label, item) else name, item, writer)}"
        for label, item in pairs
    ]
    more = [f"… {count - len(rows):,} more"] if count > len(rows) else []
    return "\n".join([head, *rows, *more])


def _cell(column: object, value: object, writer: InlineWriter) -> str:
    """Return a table cell; text is without quotation marks."""
    content = writer.entry(column, value)
    if type(value) is str and content[:1] in "'\"":
        content = without_named_values(value[: 2 * _CELL], HIDDEN).replace("\n", "\\n")
    if type(value) is float:
        content = f"{value:.6g}"
    elif content.startswith(("np.", "Timestamp(", "Timedelta(", "datetime.", "Decimal(")):
        content = str(value)
    return one_line(content, _CELL)

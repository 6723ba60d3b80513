"""Results of tools as users see them: tables and HTML. The model reads the text; no library is imported here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from planck_nb.agent.preview_types import HtmlPreview, Preview, TablePreview
from planck_nb.base.safe_html import text_of_html
from planck_nb.base.secrets import redact
from planck_nb.base.text import encodable
from planck_nb.base.visible import visible

MAX_PREVIEWS = 10
"""The most tables and HTML documents that are shown for one call."""

MAX_HTML_CHARACTERS = 300_000
"""A longer HTML document is not shown; the text that the model reads is shown instead."""

_ROWS = 20
_COLUMNS = 20
_LEVELS = 4
_CELL_CHARACTERS = 200
_GAP = "⋯"
_NUMERIC_KINDS = "iufc"


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    kind: str
    is_numeric: bool
    cells: list[str]


def table_preview(value: Any, text: str) -> TablePreview | None:  # noqa: ANN401 - an object of a library that we do not import
    """Return a data frame or series as a table, None for other values. Never raises.

    Args:
        value: The value.
        text: What the model reads instead of it.
    """
    kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(value).__mro__}
    try:
        if ("pandas", "Series") in kinds:
            value = value.to_frame()
            kinds.add(("pandas", "DataFrame"))
        if ("pandas", "DataFrame") in kinds:
            return _of_pandas(value, text)
        if ("polars", "Series") in kinds:
            value = value.to_frame()
            kinds.add(("polars", "DataFrame"))
        if ("polars", "DataFrame") in kinds:
            return _of_polars(value, text)
    except Exception:  # noqa: BLE001 - code of the objects in the cells; the text is shown instead
        return None
    return None


def html_preview(value: object, text: str) -> HtmlPreview | None:
    """Return the HTML of an object that has a representation for notebooks, None if it has none. Never raises.

    Args:
        value: The object; a class counts as having none.
        text: What the model reads instead of it.
    """
    if isinstance(value, type):
        return None
    try:
        draw = getattr(value, "_repr_html_", None)
        html = draw() if callable(draw) else None
    except Exception:  # noqa: BLE001 - the object's own code
        return None
    return html_document(html, text)


def html_document(html: object, text: str) -> HtmlPreview | None:
    """Return HTML as a preview, None if it is empty, too long or not a string.

    Args:
        html: The HTML.
        text: What the model reads instead of it.
    """
    if not isinstance(html, str) or not html.strip() or len(html) > MAX_HTML_CHARACTERS:
        return None
    return HtmlPreview(text, encodable(html))


def without_secrets(previews: Iterable[Preview]) -> tuple[Preview, ...]:
    """Return the first previews without the secrets of the process.

    Secrets in cells of tables are replaced. HTML with a secret is left out as a whole, because its elements may divide
    the secret.

    Args:
        previews: The previews.
    """
    kept: list[Preview] = []
    size = 0
    for preview in previews:
        if isinstance(preview, TablePreview):
            kept.append(
                replace(
                    preview,
                    text=redact(preview.text),
                    names=tuple(map(redact, preview.names)),
                    rows=tuple(tuple(map(redact, row)) for row in preview.rows),
                )
            )
        else:
            shown = text_of_html(preview.html)
            size += len(preview.html)
            is_clean = redact(preview.html) == preview.html and redact(shown) == shown
            if is_clean and size <= MAX_HTML_CHARACTERS:
                kept.append(preview)
    return tuple(kept[:MAX_PREVIEWS])


def without_previewed(result: str, previews: Iterable[Preview]) -> str:
    """Return a result without the texts that stand for previews, which are shown in their place.

    Args:
        result: What the model reads.
        previews: The previews.
    """
    for preview in previews:
        if text := preview.text.strip("\n"):
            result = re.sub(rf"(?m)^{re.escape(text)}$\n?", "", result, count=1)
    return result.strip("\n")


def _of_pandas(frame: Any, text: str) -> TablePreview:  # noqa: ANN401 - a pandas.DataFrame
    rows, columns = frame.shape
    at_rows, at_columns = _ends(rows, _ROWS), _ends(columns, _COLUMNS)
    part = frame.iloc[[at for at in at_rows if at is not None], [at for at in at_columns if at is not None]]
    index = part.index.to_frame(index=False).iloc[:, :_LEVELS]
    named = ["" if name is None else name for name in frame.index.names][:_LEVELS]
    table = [_pandas_column(named[at], index.iloc[:, at], "index", at_rows) for at in range(index.shape[1])]
    levels = len(table)
    for at, name in enumerate(part.columns):
        table.append(_pandas_column(name, part.iloc[:, at], str(part.dtypes.iloc[at]), at_rows))
    if None in at_columns:
        table.insert(levels + at_columns.index(None), _gap(len(at_rows)))
    return _preview(table, text, levels, (rows, columns))


def _pandas_column(name: object, column: Any, kind: str, at_rows: list[int | None]) -> _Column:  # noqa: ANN401
    is_numeric = getattr(column.dtype, "kind", "O") in _NUMERIC_KINDS
    return _Column(_name(name), kind, is_numeric, _with_gap(_pandas_cells(column), at_rows))


def _pandas_cells(column: Any) -> list[str]:  # noqa: ANN401 - a pandas.Series
    """The cells as pandas writes them, all numbers of a column alike."""
    if not len(column):
        return []
    shown = [line.strip() for line in column.reset_index(drop=True).to_string(index=False, header=False).split("\n")]
    return shown if len(shown) == len(column) else list(map(str, column))


def _of_polars(frame: Any, text: str) -> TablePreview:  # noqa: ANN401 - a polars.DataFrame
    rows, columns = frame.shape
    at_rows, at_columns = _ends(rows, _ROWS), _ends(columns, _COLUMNS)
    table = []
    for at in (at for at in at_columns if at is not None):
        column = frame[:, at]
        shown = [str(column[row]) for row in at_rows if row is not None]
        is_numeric = bool(column.dtype.is_numeric())
        table.append(_Column(_name(column.name), str(column.dtype), is_numeric, _with_gap(shown, at_rows)))
    if None in at_columns:
        table.insert(at_columns.index(None), _gap(len(at_rows)))
    return _preview(table, text, 0, (rows, columns))


def _preview(table: Sequence[_Column], text: str, index: int, shape: tuple[int, int]) -> TablePreview:
    return TablePreview(
        text,
        tuple(column.name for column in table),
        tuple(column.kind for column in table),
        tuple(column.is_numeric for column in table),
        index,
        tuple(zip(*([_cell(cell) for cell in column.cells] for column in table), strict=True)),
        *shape,
    )


def _gap(height: int) -> _Column:
    return _Column(_GAP, "", is_numeric=False, cells=[_GAP] * height)


def _ends(size: int, limit: int) -> list[int | None]:
    """The first and last positions, with None instead of those between them."""
    if size <= limit:
        return list(range(size))
    half = limit // 2
    return [*range(half), None, *range(size - half, size)]


def _with_gap(cells: list[str], at: list[int | None]) -> list[str]:
    if None in at:
        cells.insert(at.index(None), _GAP)
    return cells


def _name(name: object) -> str:
    parts = name if isinstance(name, tuple) else (name,)
    return _cell(" / ".join(map(str, parts)))


def _cell(text: str) -> str:
    short = text if len(text) <= _CELL_CHARACTERS else f"{text[:_CELL_CHARACTERS]}…"
    return visible(encodable(short))

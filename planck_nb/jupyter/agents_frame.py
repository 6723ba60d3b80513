"""The value of `%planck agents`: a data frame, which a cell shows as a live table while agents run."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
from IPython.core.getipython import get_ipython
from IPython.display import display

from planck_nb.jupyter.display.beside_view import beside_view
from planck_nb.jupyter.display.readable_table import ReadableTable
from planck_nb.jupyter.frontend import PLACEHOLDER, is_unattended
from planck_nb.rendering.formatting import dollars

FIXED_COLUMNS = ["agent", "team", "role", "parent", "model"]
"""The columns that do not change while agents run."""

NO_AGENT = "There is no agent yet; the first prompt makes one."
"""What is shown where agents are listed and there are none."""

_NARROWEST = 60
"""Characters of the narrowest line that the table is fitted to."""

MARKER = "planck-agents"
"""The class of the saved table, by which the live one finds it."""


class AgentsFrame(pd.DataFrame):
    """A data frame of agents as they were. The cell that made it shows a live table instead.

    Args:
        rows: The rows.
        columns: The names of the columns.
        live: Makes the live table and returns its MIME bundle; None if no agent runs, so that nothing changes.
    """

    _metadata = ["_live", "_made_in"]  # noqa: RUF012 - pandas' way to declare attributes

    def __init__(
        self, rows: list[dict[str, Any]], columns: list[str], live: Callable[[], Mapping[str, Any]] | None = None
    ) -> None:
        super().__init__(rows, columns=columns)  # type: ignore[call-arg]  # pandas has no types
        self._live = live
        self._made_in = _execution()

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        """What selections of columns and rows are: ordinary data frames."""
        return pd.DataFrame

    def _repr_mimebundle_(self, **_kwargs: object) -> dict[str, Any]:
        """Show the live table and, below it, the columns that do not change, which the live table hides.

        Where a program executes the notebook, the live table would be saved and never seen, so only these columns are
        shown, as in the saved notebook of a person.
        """
        live, self._live = self._live, None
        if live is None or self._made_in is None or self._made_in != _execution():
            return {}
        steady = self[[name for name in FIXED_COLUMNS if name in self.columns]]
        shell = get_ipython()
        widget = {} if shell is None or is_unattended(shell.kernel) else live()
        display({**widget, **PLACEHOLDER}, raw=True)
        return {"text/html": beside_view(steady.to_html(notebook=True), MARKER), "text/plain": repr(steady)}

    def _repr_html_(self) -> str | None:
        return None if self.empty else ReadableTable(self)._repr_html_()

    def __repr__(self) -> str:
        """In a terminal, which saves nothing, only columns that are not empty, in lines that fit if possible."""
        if self.empty:
            return NO_AGENT
        if _execution() is not None:
            return repr(ReadableTable(self))
        shown = self.loc[:, [name for name in self.columns if any(_text(value) for value in self[name])]]
        texts = shown.apply(lambda column: column.map(_text))
        return str(texts.to_string(index=False, line_width=max(shutil.get_terminal_size().columns, _NARROWEST)))


def _text(value: object) -> str:
    """A value as people read it; empty if there is none."""
    if value is None or value != value:  # noqa: PLR0124 - NaN, pandas' missing number
        return ""
    return dollars(value) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _execution() -> int | None:
    """The number of the cell that is executed; None outside a kernel, where nothing can follow the agents."""
    shell = get_ipython()
    return None if shell is None or getattr(shell, "kernel", None) is None else int(shell.execution_count)

"""The notebook's executed cells: the newest one, and the one to mend."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from types import CodeType, FunctionType
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from planck_nb.jupyter.kernel_tools.tracebacks import short_traceback
from planck_nb.jupyter.values.guard import Guard, UnusableError

_CELL_NAME = re.compile(r"In\[(\d+)\]")
_IDENTIFIER = re.compile(r"(?<![\w.])[^\W\d]\w*")
_ABOUT_OTHERS = re.compile(r"^\s*(?:\w+\s*=\s*)?%%?planck\s+(?:fix|explain|improve|test)\b", re.MULTILINE)
"""A request about another cell."""

_TRACEBACK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class ExecutedCell:
    """A cell after its execution.

    Args:
        number: Its execution count, as in `In [3]`.
        source: Its text, as a person wrote it.
        error: The exception at its end; absent after success.
        cell_id: The frontend's id for it; empty where frontends send none.
    """

    number: int
    source: str
    error: BaseException | None = None
    cell_id: str = ""

    @property
    def label(self) -> str:
        """Return its name as notebooks show it."""
        return f"In [{self.number}]"


class ExecutedCells:
    """A shell's cells, noted as they end.

    An interrupted cell is neither a failure nor a success. A failed cell counts until it runs through.

    Args:
        shell: The shell.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._newest: ExecutedCell | None = None
        self._failed: ExecutedCell | None = None
        self._numbers: dict[str, int] = {}
        """The latest execution count by the frontend's id."""

    @property
    def newest(self) -> ExecutedCell | None:
        """Return the last cell, without requests about cells."""
        return self._newest

    @property
    def failed(self) -> ExecutedCell | None:
        """Return the cell which failed last and has not run through since."""
        return self._failed

    def numbered(self, number: int) -> ExecutedCell | None:
        """Find a cell by its execution count.

        Args:
            number: The count, from 1.

        Returns:
            The cell, None for another number. Only the newest and the failed cell have their errors.
        """
        for cell in (self._failed, self._newest):
            if cell is not None and cell.number == number:
                return cell
        sources = self._shell.user_ns.get("_ih", ())
        raw = getattr(self._shell.history_manager, "input_hist_raw", sources)
        is_executed = 0 < number < len(raw) and number < self._shell.execution_count
        return ExecutedCell(number, raw[number]) if is_executed and raw[number].strip() else None

    def named(self, name: str) -> ExecutedCell | None:
        """Find a cell by what an agent calls it.

        Args:
            name: The frontend's id, `3` or `In [3]`.

        Returns:
            The cell as it ran last, None for an unknown one.
        """
        if (number := self._numbers.get(name)) is None:
            count = re.fullmatch(r"\s*(?:In\s*)?\[?(\d{1,9})\]?:?\s*", name)
            number = int(count[1]) if count else 0
        return self.numbered(number)

    def names_in(self, cell: ExecutedCell) -> list[str]:
        """Return a cell's identifiers in their order.

        Those in the notebook's functions where it failed follow.

        Args:
            cell: The cell. Python is parsed; other text, such as a cell magic's, has the words outside its attributes.
        """
        try:
            tree = ast.parse(self._shell.transform_cell(cell.source))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            tree = None
        if tree is None or cell.source.lstrip().startswith("%%"):
            names = _IDENTIFIER.findall(cell.source)
        else:
            nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
            names = [node.id for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset))]
        for code in () if cell.error is None else _codes_in(cell.error):
            names += code.co_names if _CELL_NAME.search(self._cell_name(code.co_filename)) else ()
        return list(dict.fromkeys(names))

    def function_source(self, value: object) -> str:
        """Return a notebook function's source, empty for other values."""
        if type(value) is not FunctionType or not _CELL_NAME.search(self._cell_name(value.__code__.co_filename)):
            return ""
        try:
            return inspect.getsource(value.__code__)
        except (OSError, SyntaxError, IndexError):  # the lines are gone
            return ""

    def traceback_of(self, error: BaseException) -> str:
        """Return an error's traceback for a model.

        Args:
            error: The error. One whose own code takes long is shown by its class.
        """
        try:
            return Guard(_TRACEBACK_SECONDS).call(partial(short_traceback, error, self._cell_name))
        except UnusableError as problem:
            name = type.__dict__["__name__"].__get__(type(error))
            return f"{name}: its text cannot be shown: {problem}"

    def install(self) -> None:
        """Follow the shell, beginning with the error before."""
        error = getattr(sys, "last_value", None)
        if isinstance(error, BaseException) and (cell := self._cell_of(error)) is not None:
            self._failed = self._newest = cell
        self._shell.events.register("post_run_cell", self._end)

    def remove(self) -> None:
        """Undo `install`."""
        self._shell.events.unregister("post_run_cell", self._end)

    def _end(self, result: Any) -> None:  # noqa: ANN401 - IPython's ExecutionResult; None for a cancelled cell
        info = getattr(result, "info", None)
        if info is None or not info.store_history or _ABOUT_OTHERS.search(info.raw_cell):
            return
        error = result.error_before_exec or result.error_in_exec
        if isinstance(error, KeyboardInterrupt) or not info.raw_cell.strip():
            return
        cell_id = getattr(info, "cell_id", None) or ""
        if cell_id:
            self._numbers[cell_id] = result.execution_count or 0
        self._newest = cell = ExecutedCell(result.execution_count or 0, info.raw_cell, error, cell_id)
        if error is not None:
            self._failed = cell
        elif self._failed is not None and _is_same(cell, self._failed):
            self._failed = None

    def _cell_of(self, error: BaseException) -> ExecutedCell | None:
        """Find the cell behind an error from before `install`."""
        if isinstance(error, KeyboardInterrupt):
            return None
        files = [code.co_filename for code in _codes_in(error)]
        for file in [*files, *([error.filename or ""] if isinstance(error, SyntaxError) else [])]:
            match = _CELL_NAME.search(self._cell_name(file))
            if match and (cell := self.numbered(int(match[1]))) is not None:
                return ExecutedCell(cell.number, cell.source, error)
        return None

    def _cell_name(self, file: str) -> str:
        """Return a file's name as IPython shows it: a cell is `Cell In[3]`."""
        name_of = getattr(self._shell.compile, "format_code_name", None)  # since IPython 8
        name = None if name_of is None else name_of(file)
        return file if name is None else " ".join(name)


def _codes_in(error: BaseException) -> Iterator[CodeType]:
    """Yield the code objects in a traceback, outermost first."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        yield frame.f_code


def _is_same(cell: ExecutedCell, other: ExecutedCell) -> bool:
    """Return whether two executions ran one cell, as far as frontends tell."""
    if cell.cell_id and other.cell_id:
        return cell.cell_id == other.cell_id
    return cell.source.strip() == other.source.strip()

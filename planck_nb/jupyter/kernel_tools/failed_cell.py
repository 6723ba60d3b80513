"""The error of the cell that failed last."""

from __future__ import annotations

import sys
from functools import partial

from IPython.core.interactiveshell import InteractiveShell

from planck_nb.jupyter.kernel_tools.tracebacks import short_traceback
from planck_nb.jupyter.values.guard import Guard, UnusableError

NO_ERROR = "No cell has failed since the kernel was started."
_SECONDS = 2.0


def failed_cell(shell: InteractiveShell) -> str:
    """Return the traceback of the cell that failed last.

    Args:
        shell: The shell.

    Returns:
        The traceback, or a sentence if there is none. An error whose own code takes long is shown by its class.
    """
    error = getattr(sys, "last_value", None)
    if not isinstance(error, BaseException):
        return NO_ERROR
    try:
        return Guard(_SECONDS).call(partial(short_traceback, error, partial(_name_of_cell, shell)))
    except UnusableError as problem:
        name = type.__dict__["__name__"].__get__(type(error))
        return f"{name}: its text cannot be shown: {problem}"


def _name_of_cell(shell: InteractiveShell, file: str) -> str:
    """The name of a file as IPython shows it: a cell is `In[3]`."""
    find = getattr(shell.compile, "format_code_name", None)  # since IPython 8
    found = None if find is None else find(file)
    return file if found is None else " ".join(found)

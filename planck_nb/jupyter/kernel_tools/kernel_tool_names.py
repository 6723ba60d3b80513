"""The names of the kernel tools."""

from __future__ import annotations

GROUP = "kernel"
"""The name that stands for all of them, as in `--tools kernel`."""

RUN_PYTHON = "run_python"
LIST_VARIABLES = "list_variables"
INSPECT_VARIABLE = "inspect_variable"
LAST_ERROR = "last_error"

READING_TOOLS = frozenset({LIST_VARIABLES, INSPECT_VARIABLE})
"""The tools which show variables."""

ALL_NAMES = "*"
"""All variables, in `--with`."""

"""Verbs about the files and variables that tools changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from typing import TYPE_CHECKING

from planck_nb.base.errors import ToolError
from planck_nb.base.threads import run_in_thread
from planck_nb.jupyter.kernel_tools.kernel_tool_names import RUN_PYTHON
from planck_nb.jupyter.kernel_tools.name_changes import PREFIX, NameChange, NameChanges
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.parameters import Kind, Parameter
from planck_nb.jupyter.verbs.declaration import Text, table, verb
from planck_nb.tools.archive import Change
from planck_nb.tools.changes import Changes
from planck_nb.workspace.agent_names import named_agents

if TYPE_CHECKING:
    import pandas as pd

SUBJECT = "Changes"
ALL = -1
"""Stands for all changes."""
LAST = -2
"""Stands for the newest change."""
_SPECIAL = {"all": ALL, "last": LAST}


@dataclass(frozen=True, slots=True)
class _OfVariables:
    """The number of a change to variables."""

    number: int


@verb(
    "changes",
    SUBJECT,
    "list the files and variables that tools changed in this session",
    synonyms=("diff", "change"),
    shows=True,
)
async def changes(notebook: Notebook) -> pd.DataFrame:
    """Return a table of the changes."""
    names = {agent.id: name for name, agent in named_agents(notebook.workspace).items()}
    rows = [
        {
            "change": change.number,
            "path": change.path,
            "tool": change.tool,
            "agent": names.get(change.agent_id, change.agent_id),
            "added": change.added,
            "removed": change.removed,
            "time": datetime.fromtimestamp(change.time, UTC).replace(tzinfo=None),
        }
        for change in notebook.workspace.changes
    ]
    rows += [
        {
            "change": change.label,
            "path": str(change),
            "tool": RUN_PYTHON,
            "agent": names.get(change.agent_id, change.agent_id),
            "added": 0,
            "removed": 0,
            "time": datetime.fromtimestamp(change.time, UTC).replace(tzinfo=None),
        }
        for change in notebook.controller.name_changes or ()
    ]
    rows.sort(key=itemgetter("time"))
    return table(
        rows, ["change", "path", "tool", "agent", "added", "removed", "time"], empty="No changes in this session."
    )


def _number(text: str) -> int | _OfVariables:
    """Convert `all`, `last`, or a change's number. Raises `ValueError`."""
    if text in _SPECIAL:
        return _SPECIAL[text]
    if text.startswith(PREFIX) and text.removeprefix(PREFIX).isdecimal():
        return _OfVariables(int(text.removeprefix(PREFIX)))
    if not text.isdecimal():
        raise ValueError(text)
    return int(text)


@verb(
    "undo",
    SUBJECT,
    "restore a file or the variables that a tool changed",
    Parameter(
        "number",
        Kind(
            "NUMBER|all",
            _number,
            suggest=lambda _notebook: {"all": "every change, the newest first", "last": "the newest change"},
            fits=lambda _notebook, text: text in _SPECIAL or text.lstrip("-").removeprefix(PREFIX).isdecimal(),
        ),
        "the change, as `%planck changes` numbers it; by default the newest",
        optional=True,
    ),
    example="undo 3",
)
async def undo(notebook: Notebook, number: int | _OfVariables | None) -> Text:
    """Undo a change, or all of them."""
    number = None if number == LAST else number
    changes, variables = notebook.workspace.changes, notebook.controller.name_changes or NameChanges({})
    if not len(changes) and not len(variables):
        return Text("There is nothing to undo: no change of this session is left.")
    if isinstance(number, _OfVariables):
        return Text(variables.undo(number.number))
    if number == ALL:
        restored = [variables.undo() for _ in variables]
        restored += await run_in_thread(
            lambda: [_undo_if_possible(changes, change) for change in reversed(list(changes))]
        )
        return Text("\n".join(restored))
    if number is None and _newest(variables) > await run_in_thread(lambda: _newest(changes)):
        return Text(variables.undo())
    return Text(await run_in_thread(lambda: _undone(changes.undo(number))))


def _newest(changes: Iterable[Change | NameChange]) -> float:
    """When the newest of the changes was made; 0 without any."""
    return max((change.time for change in changes), default=0.0)


def _undo_if_possible(changes: Changes, change: Change) -> str:
    try:
        return _undone(changes.undo(change))
    except ToolError as error:
        return str(error)


def _undone(change: Change) -> str:
    if change.before is None:
        return f"{change.path} was removed, because the {change.tool} had created it."
    return f"{change.path} is back to what it was before the {change.tool}."

"""Verbs about the files that tools changed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from planck_nb.base.aio import run_in_thread
from planck_nb.base.errors import ToolError
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parameters import Kind, Parameter
from planck_nb.jupyter.verbs.declaration import Text, table, verb
from planck_nb.tools.archive import Change
from planck_nb.tools.changes import Changes
from planck_nb.workspace.agent_names import named_agents

if TYPE_CHECKING:
    import pandas as pd

SUBJECT = "Changed files"
ALL = -1
"""Stands for all changes."""


@verb("changes", SUBJECT, "list the files that tools changed in this session")
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
    return table(rows, ["change", "path", "tool", "agent", "added", "removed", "time"])


def _number(text: str) -> int:
    """Convert `all`, or a change's number. Raises `ValueError`."""
    if text == "all":
        return ALL
    if not text.isdecimal():
        raise ValueError(text)
    return int(text)


@verb(
    "undo",
    SUBJECT,
    "restore a file that a tool changed",
    Parameter(
        "number",
        Kind("NUMBER|all", _number, suggest=lambda _notebook: {"all": "every change, the newest first"}),
        "the change, as `%planck changes` numbers it; by default the newest",
        optional=True,
    ),
    example="undo 3",
)
async def undo(notebook: Notebook, number: int | None) -> Text:
    """Undo a change, or all of them."""
    changes = notebook.workspace.changes

    def restore() -> list[str]:
        if not len(changes):
            return ["There is nothing to undo: no change of this session is left."]
        if number == ALL:
            return [_undo_if_possible(changes, change) for change in reversed(list(changes))]
        return [_undone(changes.undo(number))]

    return Text("\n".join(await run_in_thread(restore)))


def _undo_if_possible(changes: Changes, change: Change) -> str:
    try:
        return _undone(changes.undo(change))
    except ToolError as error:
        return str(error)


def _undone(change: Change) -> str:
    if change.before is None:
        return f"{change.path} is gone again; the {change.tool} had made it."
    return f"{change.path} is as it was before the {change.tool}."

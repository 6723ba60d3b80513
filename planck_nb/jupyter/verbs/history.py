"""Verbs that ask the stored history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planck_nb.base.errors import UsageError
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.namespace import data_frames
from planck_nb.jupyter.verbs.table import Notebook, Verb, takes_nothing
from planck_nb.sessions import VIEWS

if TYPE_CHECKING:
    import pandas as pd

_EXAMPLE = "`%planck sql SELECT role, text FROM messages`"


async def _sessions(controller: Controller, argument: str, _notebook: Notebook) -> pd.DataFrame:
    takes_nothing("sessions", argument)
    return await controller.workspace.query_async("SELECT * FROM sessions ORDER BY created DESC")


async def _sql(controller: Controller, argument: str, notebook: Notebook) -> pd.DataFrame:
    if not argument.strip():
        views = ", ".join(VIEWS)
        raise UsageError(f"`%planck sql` needs a query over the views {views}; for example {_EXAMPLE}.")
    return await controller.workspace.query_async(argument, frames=data_frames(notebook.names))


async def _usage(controller: Controller, argument: str, _notebook: Notebook) -> pd.DataFrame:
    takes_nothing("usage", argument)
    return await controller.workspace.query_async(
        "SELECT agents.name AS agent, usage.* EXCLUDE (session_id, session_name, agent_id) "
        "FROM usage JOIN agents USING (session_id, agent_id) WHERE session_id = getvariable('session') ORDER BY ALL"
    )


VERBS = {
    "sessions": Verb("sessions", "list the stored sessions", _sessions),
    "sql": Verb("sql SELECT …", "ask the stored history; also as %%planck sql", _sql),
    "usage": Verb("usage", "tokens and cost of this session, by agent and model", _usage),
}

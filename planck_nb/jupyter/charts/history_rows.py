"""Rows from the stored history for a chart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from planck_nb.base.errors import UsageError, did_you_mean
from planck_nb.sessions import SessionInfo, find_session
from planck_nb.workspace import Workspace

if TYPE_CHECKING:
    import pandas as pd


def session_shown(workspace: Workspace, session: str | None) -> SessionInfo | None:
    """Find the session to show.

    Args:
        workspace: The workspace.
        session: An id or a name; None for the workspace's own session.

    Returns:
        The session, None before the workspace has one.

    Raises:
        SessionNotFoundError: The id or name is unknown.
    """
    session_id = workspace.session_id if session is None else session
    return None if session_id is None else find_session(workspace.sessions_dir, session_id)


async def rows_of(workspace: Workspace, sql: str, session: SessionInfo | None, agents: Iterable[str]) -> pd.DataFrame:
    """Query a session's history.

    Args:
        workspace: The workspace whose history is queried.
        sql: The query; `$session` is replaced by the session's id.
        session: The session; without it the result is empty.
        agents: Agent names or ids; other agents' rows are left out. If empty, all agents are included.

    Raises:
        UsageError: An agent is unknown in the session.
    """
    session_literal = "NULL" if session is None else "'{}'".format(session.id.replace("'", "''"))
    frame = await workspace.query_async(sql.replace("$session", session_literal))
    requests = set(agents)
    if not requests:
        return frame
    candidates = {*frame["agent"], *frame["agent_id"]}
    for name in sorted(requests - candidates):
        raise UsageError(f"The session has no agent {name}. {did_you_mean(name, frame['agent'])}".rstrip())
    return frame[frame["agent"].isin(requests) | frame["agent_id"].isin(requests)].reset_index(drop=True)


def records(frame: pd.DataFrame) -> list[Mapping[str, Any]]:
    """Return the rows as mappings, with None for missing values."""
    columns = [str(column) for column in frame.columns]
    objects = frame.astype(object).where(frame.notna(), None)
    return [dict(zip(columns, row, strict=True)) for row in objects.itertuples(index=False, name=None)]

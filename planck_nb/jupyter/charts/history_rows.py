"""The rows of the stored history that a chart shows."""

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
        The session, None if the workspace has none yet.

    Raises:
        SessionNotFoundError: There is no session with this id or name.
    """
    wanted = workspace.session_id if session is None else session
    return None if wanted is None else find_session(workspace.sessions_dir, wanted)


async def rows_of(workspace: Workspace, sql: str, session: SessionInfo | None, agents: Iterable[str]) -> pd.DataFrame:
    """Query the history of a session.

    Args:
        workspace: The workspace whose history is queried.
        sql: The query; `$session` and `$copied` are replaced by the session's id and the last row that a fork copied.
        session: The session; without one there are no rows.
        agents: Names or ids of agents; rows of others are left out. If empty, all agents are included.

    Raises:
        UsageError: The session has no such agent.
    """
    quoted = "NULL" if session is None else "'{}'".format(session.id.replace("'", "''"))
    copied = str(session.copied) if session else "0"
    found = await workspace.query_async(sql.replace("$session", quoted).replace("$copied", copied))
    wanted = set(agents)
    if not wanted:
        return found
    known = {*found["agent"], *found["agent_id"]}
    for name in sorted(wanted - known):
        raise UsageError(f"The session has no agent {name}. {did_you_mean(name, found['agent'])}".rstrip())
    return found[found["agent"].isin(wanted) | found["agent_id"].isin(wanted)].reset_index(drop=True)


def records(frame: pd.DataFrame) -> list[Mapping[str, Any]]:
    """Return the rows as mappings, with None for missing values."""
    columns = [str(column) for column in frame.columns]
    known = frame.astype(object).where(frame.notna(), None)
    return [dict(zip(columns, row, strict=True)) for row in known.itertuples(index=False, name=None)]

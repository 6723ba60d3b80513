"""Which rows of the stored history a picture shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from planck_nb.base.errors import UsageError, did_you_mean
from planck_nb.sessions import SessionInfo, find_session
from planck_nb.workspace import Workspace

if TYPE_CHECKING:
    import pandas as pd


def session_shown(workspace: Workspace, session: str | None) -> SessionInfo | None:
    """The session with this id or name, by default the workspace's own, if it has one already.

    Raises `SessionNotFoundError`.
    """
    wanted = workspace.session_id if session is None else session
    return None if wanted is None else find_session(workspace.sessions_dir, wanted)


async def rows_of(workspace: Workspace, sql: str, session: SessionInfo | None, agents: Iterable[str]) -> pd.DataFrame:
    """What the query finds, of these agents only where some are named, by name or id; nothing without a session.

    In the query `$session` and `$copied` stand for the session's id and for the last row that a fork copied. Raises
    `UsageError` for an agent that the session does not have.
    """
    quoted = "NULL" if session is None else "'{}'".format(session.id.replace("'", "''"))
    copied = str(session.copied) if session else "0"
    found = await workspace.query_async(sql.replace("$session", quoted).replace("$copied", copied))
    wanted = set(agents)
    if not wanted:
        return found
    known = {*found["agent"], *found["agent_id"]}
    for name in sorted(wanted - known):
        raise UsageError(f"The session has nothing of an agent {name}. {did_you_mean(name, found['agent'])}".rstrip())
    return found[found["agent"].isin(wanted) | found["agent_id"].isin(wanted)].reset_index(drop=True)


def records(frame: pd.DataFrame) -> list[Mapping[str, Any]]:
    """The rows as mappings, with None for what is missing."""
    columns = [str(column) for column in frame.columns]
    known = frame.astype(object).where(frame.notna(), None)
    return [dict(zip(columns, row, strict=True)) for row in known.itertuples(index=False, name=None)]

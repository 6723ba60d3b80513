"""The stored history for other programs: sessions only, bounded and without secrets."""

from __future__ import annotations

from pathlib import Path

from planck_nb.ai.messages import Message, ToolCallPart, ToolResultPart
from planck_nb.base.errors import AgentError, did_you_mean
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import head_and_tail
from planck_nb.base.threads import run_in_thread
from planck_nb.serve.bounds import MAX_ANSWER_LENGTH, MAX_TEXT_LENGTH, bounded_data, bounded_text
from planck_nb.serve.query_process import run_query
from planck_nb.sessions import (
    SessionInfo,
    SessionReader,
    export_session,
    find_session,
    list_sessions,
    open_in,
    query_into,
)

MAX_ROWS = 1_000
"""Largest number of rows from a query."""

DEFAULT_ROWS = 100
"""Rows in a result unless the caller sets a limit."""

MAX_MESSAGES = 200
"""Largest number of messages in a transcript."""

DEFAULT_MESSAGES = 20
"""Messages in a transcript unless the caller sets a number."""

_SECONDS = 30.0
"""Seconds for a query."""


class History:
    """The sessions in a directory.

    Args:
        directory: The sessions directory, which need not exist.
        seconds: Time limit for a query.
    """

    def __init__(self, directory: Path, *, seconds: float = _SECONDS) -> None:
        self._directory = directory
        self._seconds = seconds

    async def query(self, sql: str, limit: int = DEFAULT_ROWS) -> JsonObject:
        """Run a single SELECT statement over the views.

        Args:
            sql: The statement.
            limit: The highest number of rows to return.

        Returns:
            `columns`, `rows`, and whether rows were left out.

        Raises:
            QueryError: The statement is wrong, reads other data than the views, or takes too long.
        """
        max_rows = min(max(limit, 1), MAX_ROWS)
        return await run_query(self._directory, sql, limit=max_rows, seconds=self._seconds)

    async def sessions(self, limit: int = DEFAULT_ROWS, offset: int = 0) -> JsonObject:
        """List the sessions, the newest first.

        Returns:
            `sessions`, and their number in `total`.

        Raises:
            SessionError: The directory cannot be read.
        """

        def described() -> JsonObject:
            sessions = list_sessions(self._directory)[::-1]
            return {
                "sessions": [_described(session) for session in sessions[offset : offset + limit]],
                "total": len(sessions),
            }

        return await run_in_thread(described)

    async def transcript(self, session: str, agent: str | None = None, last: int = DEFAULT_MESSAGES) -> JsonObject:
        """Read the last messages in a session or from its agent.

        Args:
            session: Session id or name.
            agent: Agent id or name, None for all.
            last: How many messages.

        Returns:
            The session, and `messages` from the oldest to the newest.

        Raises:
            SessionError: The session is unknown, or it cannot be read.
            AgentError: The agent is unknown in the session.
        """
        info = await run_in_thread(lambda: find_session(self._directory, session))
        names = await self._agents(info)
        ids = {agent_id for agent_id, name in names.items() if agent in (agent_id, name)}
        if agent is not None and not ids:
            hint = did_you_mean(agent[:80], set(names.values()))
            raise AgentError(f"Session {info.name!r} has no agent {agent[:80]!r}. {hint}".rstrip())
        rows = await run_in_thread(lambda: SessionReader(info).messages())
        selection = [row for row in rows if agent is None or row.agent_id in ids][-min(max(last, 1), MAX_MESSAGES) :]
        messages: list[JsonObject] = []
        size = 0
        for row in reversed(selection):
            message = {
                "id": row.db_id,
                "agent": names.get(row.agent_id, row.agent_id),
                "agent_id": row.agent_id,
                "time": row.inserted_at.isoformat(),
                **_message(row.message),
            }
            size += len(str(message))
            if messages and size > MAX_ANSWER_LENGTH:
                break
            messages.append(message)
        return {
            **_described(info),
            "messages": messages[::-1],
            "left_out": sum(agent is None or row.agent_id in ids for row in rows) - len(messages),
        }

    async def document(self, session_id: str) -> str:
        """Export a session as Markdown, without its middle if it is long.

        Raises:
            SessionError: The session is unknown, or it cannot be read.
        """
        text = await run_in_thread(lambda: export_session(find_session(self._directory, session_id), "markdown"))
        return head_and_tail(text, characters=MAX_ANSWER_LENGTH)

    async def _agents(self, session: SessionInfo) -> dict[str, str]:
        """Return the session's agent names by id."""
        sql = "select agent_id, coalesce(name, agent_id) from agents order by started"
        rows = await query_into(self._directory, sql, lambda result: result.fetchall(), only=session, restricted=True)
        return dict(rows)


def _described(session: SessionInfo) -> JsonObject:
    return {
        "session_id": session.id,
        "name": bounded_text(session.name),
        "created": session.created.isoformat(),
        "parent": session.parent,
        "open_in": bounded_text(open_in(session) or "") or None,
        "uri": f"planck://session/{session.id}",
    }


def _message(message: Message) -> JsonObject:
    """Return a message as JSON data, without thinking and images."""
    calls: list[JsonObject] = []
    texts: list[str] = []
    for part in message.content:
        if isinstance(part, ToolCallPart):
            calls.append({"name": part.name, "args": bounded_data(part.args)})
        elif isinstance(part, ToolResultPart):
            calls.append({"name": part.name, "result": bounded_text(part.text), "is_error": part.is_error})
        elif part.type == "text":
            texts.append(part.text)
        elif part.type != "thinking":
            texts.append(f"[{part.type}]")
    return {
        "role": message.type,
        "text": bounded_text("\n".join(texts), MAX_TEXT_LENGTH),
        **({"tool_calls": calls} if calls else {}),
    }

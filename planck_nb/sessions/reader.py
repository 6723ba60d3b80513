"""Reads a session, also while another process writes it."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from datetime import datetime
from html import escape
from pathlib import Path
from types import TracebackType
from typing import Self

from planck_nb.agent.events import AgentEvent
from planck_nb.base.errors import SessionError
from planck_nb.base.json_types import JsonObject
from planck_nb.sessions.database.paging import Page, Pager, Row, rows_of
from planck_nb.sessions.directory import SessionInfo
from planck_nb.sessions.exports.export import ExportFormat, export_session
from planck_nb.sessions.journal import codec
from planck_nb.sessions.journal.branch import Branch, membership, ranges_of_branches
from planck_nb.sessions.journal.records import OrderedRows
from planck_nb.sessions.journal.segments import Position, journal_end

_COUNTED = 1024 * 1024


class SessionReader:
    """A session to read, as it is on disk at the moment of each call.

    Made by `Session.read`. It changes and locks nothing, and may be used from any thread.

    Args:
        info: The session.
    """

    def __init__(self, info: SessionInfo) -> None:
        self._info = info
        self._pager = Pager(info)

    @property
    def id(self) -> str:
        """Sixteen hexadecimal digits."""
        return self._info.id

    @property
    def name(self) -> str:
        """The name of the session, which other sessions may have, too."""
        return self._info.name

    @property
    def directory(self) -> Path:
        """The sessions directory."""
        return self._info.path.parent

    @property
    def path(self) -> Path:
        """The file of the journal."""
        return self._info.path

    @property
    def info(self) -> SessionInfo:
        """The session as `list_sessions` returns it."""
        return self._info

    def messages(self, agent_id: str | None = None) -> list[Row]:
        """Return the messages, oldest first, without those hidden by a rewind.

        Args:
            agent_id: The agent whose messages are returned; None for all agents.

        Returns:
            The messages with their ids.

        Raises:
            SessionError: The session cannot be read.
        """
        return rows_of(self._visible(agent_id))

    def messages_from_latest_checkpoint(self, agent_id: str | None = None) -> Page:
        """Return the latest chapter: the latest summary and every message after it.

        Args:
            agent_id: The agent whose messages and summaries count; None for all agents.

        Returns:
            The chapter; without a summary, all messages, and None as `checkpoint_id`.

        Raises:
            SessionError: The session cannot be read.
        """
        with self._reading():
            return self._pager.chapter(None, agent_id, end=self._readable_end())

    def messages_before_checkpoint(self, checkpoint_id: int, agent_id: str | None = None) -> Page:
        """Return the chapter before the one that begins with a summary.

        Args:
            checkpoint_id: The id of the summary.
            agent_id: The agent whose messages and summaries count; None for all agents.

        Returns:
            The chapter; its `checkpoint_id` is None if it is the first.

        Raises:
            SessionError: The session cannot be read.
        """
        with self._reading():
            return self._pager.chapter(checkpoint_id, agent_id, end=self._readable_end())

    def branches(self) -> list[Branch]:
        """Return the branches that rewinds have left, oldest first.

        Returns:
            One branch for each rewind that hid a message.

        Raises:
            SessionError: The session cannot be read.
        """
        with self._reading():
            rows = self._rows()
            branches = list(ranges_of_branches((row["id"], row["before_id"]) for row in rows.rewinds))
            ends = sorted({end for _, ranges in branches for _, end in ranges})
            ids = array("q")
            last_texts: dict[int, str] = {}
            """The text before each end."""
            for _, record in rows.select(membership(span for _, ranges in branches for span in ranges)):
                if record["kind"] == "message" and (place := bisect_right(ends, record["id"])) < len(ends):
                    ids.append(record["id"])
                    last_texts[ends[place]] = codec.text_in(record)
        found = []
        for (branch_id, ranges), record in zip(branches, rows.rewinds, strict=True):
            counts = {end: bisect_left(ids, end) - bisect_left(ids, first) for first, end in ranges}
            if count := sum(counts.values()):
                text = last_texts[max(end for end, messages in counts.items() if messages)]
                left_at = datetime.fromisoformat(record["ts"])
                found.append(Branch(branch_id, record["before_id"], left_at, count, text))
        return found

    def get_metadata(self) -> JsonObject:
        """Return the session's metadata.

        Returns:
            JSON values by key; empty if none was saved.

        Raises:
            SessionError: The session cannot be read.
        """
        with self._reading():
            return self._pager.metadata(end=self._readable_end())

    def events(self, agent_id: str | None = None) -> list[AgentEvent]:
        """Return the stored events, messages among them, oldest first, without those hidden by a rewind.

        Folding the events of an agent gives its state.

        Args:
            agent_id: The agent whose events are returned; None for all agents.

        Returns:
            The events; `seq` counts the stored events of each agent from 0.

        Raises:
            SessionError: The session cannot be read.
        """
        events: list[AgentEvent] = []
        counts: dict[str, int] = {}
        for record in self._visible(agent_id):
            seq = counts.get(record["agent_id"], 0)
            if (event := codec.readable_event(record, session_id=self.id, seq=seq)) is not None:
                counts[record["agent_id"]] = seq + 1
                events.append(event)
        return events

    def export(self, form: ExportFormat) -> str:
        """Export the session as text; see `export_session`.

        Args:
            form: "jsonl", "markdown", "html" or "ipynb".

        Returns:
            The content of a file in that format.

        Raises:
            SessionError: There is no such format, or the session cannot be read.
        """
        return export_session(self._info, form)

    def close(self) -> None:
        """Do nothing: a reader keeps nothing open and stays usable. It has this method because `Session` has."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self.id}>"

    def _repr_html_(self) -> str:
        """Return a table for notebooks. Counts come from the journal and are left out if it is long or unreadable."""
        shown = {"Name": self.name, "Id": self.id, "Folder": str(self.directory), **self._counts()}
        rows = "".join(f"<tr><th>{escape(key)}</th><td>{escape(value)}</td></tr>" for key, value in shown.items())
        return f"<table>{rows}</table>"

    def _counts(self) -> dict[str, str]:
        try:
            if self.path.stat().st_size > _COUNTED:
                return {}
            agents = [record["agent_id"] for record in self._visible() if record["kind"] == "message"]
        except Exception:  # noqa: BLE001 - a notebook shows what is known
            return {}
        return {"Agents": str(len(set(agents))), "Messages": str(len(agents))}

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SessionError(f"Session {self.name!r} cannot be read ({error.strerror}); was it deleted?") from error

    def _readable_end(self) -> Position:
        return journal_end(self.path)

    def _conversation(self, agent_id: str) -> list[Row]:
        with self._reading():
            return self._pager.conversation(agent_id, end=self._readable_end())

    def _conversations(self, agent_ids: AbstractSet[str]) -> dict[str, list[Row]]:
        with self._reading():
            return self._pager.conversations(agent_ids, end=self._readable_end())

    def _rows(self) -> OrderedRows:
        end = self._readable_end()  # before the path, which it may change
        return OrderedRows(self.path, end=end)

    def _visible(self, agent_id: str | None = None) -> Iterator[JsonObject]:
        with self._reading():
            for _, record in self._rows().visible():
                if agent_id in {None, record.get("agent_id")}:
                    yield record

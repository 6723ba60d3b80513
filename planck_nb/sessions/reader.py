"""A session as it can be read, whoever has it open."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from planck_nb.agent.events import AgentEvent
from planck_nb.base.errors import SessionError
from planck_nb.base.json_types import JsonObject
from planck_nb.sessions import codec
from planck_nb.sessions.branch import Branch, hidden_in_branch, is_hidden
from planck_nb.sessions.directory import SessionInfo
from planck_nb.sessions.export import Format, export_session
from planck_nb.sessions.paging import Page, Pager, Row, row_of
from planck_nb.sessions.records import read_records, visible_records
from planck_nb.sessions.segments import Position, journal_end


class SessionReader:
    """What is on disk of a session at the moment of each call, while this or another process writes it.

    Made by `Session.read`. Changes nothing and locks nobody out. May be used from any thread.
    """

    def __init__(self, info: SessionInfo) -> None:
        self._info = info
        self._pager = Pager(info)

    @property
    def id(self) -> str:
        """Sixteen hex characters."""
        return self._info.id

    @property
    def name(self) -> str:
        """What people call it; not necessarily unique."""
        return self._info.name

    @property
    def directory(self) -> Path:
        """The sessions directory."""
        return self._info.path.parent

    @property
    def path(self) -> Path:
        """The journal."""
        return self._info.path

    @property
    def info(self) -> SessionInfo:
        """The session as `list_sessions` shows it."""
        return self._info

    def messages(self, agent_id: str | None = None) -> list[Row]:
        """The messages of all agents, or of one, in order, without those taken back. Raises SessionError."""
        return [row_of(record) for record in self._visible(agent_id) if record["kind"] == "message"]

    def messages_from_latest_checkpoint(self, agent_id: str | None = None) -> Page:
        """The latest summary and every message after it, and the summary's id; everything and None without one.

        With `agent_id`, of that agent's messages and summaries only. Raises SessionError.
        """
        with self._reading():
            return self._pager.chapter(None, agent_id, end=self._readable_end())

    def messages_before_checkpoint(self, checkpoint_id: int, agent_id: str | None = None) -> Page:
        """The chapter before the one that begins with the summary `checkpoint_id`.

        Its first message is the summary before, whose id comes with it; None means that nothing lies before. Raises
        SessionError.
        """
        with self._reading():
            return self._pager.chapter(checkpoint_id, agent_id, end=self._readable_end())

    def branches(self) -> list[Branch]:
        """The ways the conversation went before it was rewound, oldest first. Raises SessionError."""
        with self._reading():
            records = list(read_records(self.path, end=self._readable_end()))
        rewinds = [(record["id"], record["before_id"]) for record in records if record["kind"] == "rewind"]
        messages = [record for record in records if record["kind"] == "message"]
        ids = [message["id"] for message in messages]
        found = []
        for record in records:
            if record["kind"] == "rewind":
                hidden = hidden_in_branch(rewinds, record["id"])
                since = messages[bisect_left(ids, record["before_id"]) : bisect_left(ids, record["id"])]
                own = [message for message in since if not is_hidden(message["id"], hidden)]
                if own:
                    left_at = datetime.fromisoformat(record["ts"])
                    found.append(Branch(record["id"], record["before_id"], left_at, len(own), own[-1]["text"]))
        return found

    def get_metadata(self) -> JsonObject:
        """The session's metadata; empty where none was saved. A rewind does not change it. Raises SessionError."""
        with self._reading():
            return self._pager.metadata(end=self._readable_end())

    def events(self, agent_id: str | None = None) -> list[AgentEvent]:
        """The stored events of all agents, or of one, in order, messages among them, without those taken back.

        Folding an agent's gives its state. `seq` counts the agent's stored events from 0. Raises SessionError.
        """
        events: list[AgentEvent] = []
        counts: dict[str, int] = {}
        for record in self._visible(agent_id):
            if record["kind"] in {"message", "event"}:
                seq = counts.get(record["agent_id"], 0)
                counts[record["agent_id"]] = seq + 1
                events.append(codec.event_of(record, session_id=self.id, seq=seq))
        return events

    def export(self, form: Format) -> str:
        """The session as the text of a file: see `export_session`."""
        return export_session(self._info, form)

    def close(self) -> None:
        """Let go of what reading needs. Closing again does nothing, and reading goes on to work."""
        self._pager.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self.id}>"

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

    def _visible(self, agent_id: str | None = None) -> list[JsonObject]:
        with self._reading():
            records = visible_records(read_records(self.path, end=self._readable_end()))
        return [record for record in records if agent_id in {None, record["agent_id"]}]

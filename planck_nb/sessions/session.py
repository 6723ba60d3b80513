"""A session open for writing: the durable log of its agents' messages and events."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from operator import index
from pathlib import Path
from typing import Any, Self

from planck_nb.agent.events import TRANSIENT, AgentEvent
from planck_nb.agent.message_log import LogFollower
from planck_nb.ai.message_history.encoded_history import characters_of
from planck_nb.ai.messages import Message
from planck_nb.base.async_tasks import cancel_late, uninterrupted
from planck_nb.base.errors import SessionError, SessionNotFoundError
from planck_nb.base.event_loops import LoopLock
from planck_nb.base.forks import call_in_forks
from planck_nb.base.ids import new_id, readable_name
from planck_nb.base.json_types import JsonObject
from planck_nb.base.threads import run_in_thread
from planck_nb.sessions.database.materialize import Materializer, missing_bytes
from planck_nb.sessions.database.paging import Row
from planck_nb.sessions.database.session_catalogue import start_update
from planck_nb.sessions.directory import (
    SessionInfo,
    find_by_id,
    find_session,
    make_sessions_directory,
    new_session_info,
    unused_name,
)
from planck_nb.sessions.exports.export import ExportFormat
from planck_nb.sessions.journal import codec
from planck_nb.sessions.journal.journal_check import check_journal
from planck_nb.sessions.journal.journal_file import JournalFile
from planck_nb.sessions.journal.journal_writer import DoneCallback, Writer
from planck_nb.sessions.journal.screening import DisorderError, in_order
from planck_nb.sessions.journal.segments import Position, journal_end, read_last_lines
from planck_nb.sessions.journal.signing import SIGNATURE, Signer, gives_power, without_signature
from planck_nb.sessions.lock import SessionLock, lock_session
from planck_nb.sessions.reader import SessionReader
from planck_nb.sessions.stale_files import remove_leftovers, remove_stale_files

_log = logging.getLogger(__name__)

_CHECKED = 1024 * 1024

_ENCODE_IN_THREAD_FROM = 1_000_000
"""Characters of a message that is encoded in a thread; the event loop would be blocked for more than 10 ms."""

_LAST = 128 * 1024

_MOST_AGENTS = 10_000
"""Most ids to keep; a map makes an agent for each item."""

_MUCH_MISSING = 1024 * 1024

_SIGNED = f'"{SIGNATURE}"'.encode()

_open_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


class Session(SessionReader):
    """A conversation of one or more agents, stored in the sessions directory.

    Use `create` and `open` instead of the constructor. Only one process can have a session open at a time; meanwhile,
    every process can `read` it and query it with SQL. It needs no running event loop and may be used from several.
    Close it when done; sessions that are still open when the interpreter exits are closed then.

    Args:
        info: The session.
        lock: Its lock, which this process has acquired. The session releases it.
        journal: Its journal, open for writing. The session closes it.
        signer: Signs the rows that give agents power, and verifies those that are stored; None for neither.

    Example:
        >>> import asyncio, tempfile
        >>> from pathlib import Path
        >>> from planck_nb import Session
        >>> from planck_nb.ai.messages import UserMessage
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     with Session.create(Path(directory), name="sales") as session:
        ...         asyncio.run(session.append("agent", UserMessage("hello")))
        ...     with Session.open(Path(directory), "sales") as session:
        ...         [row.db_id for row in session.messages()]
        1
        [1]
    """

    def __init__(
        self, info: SessionInfo, lock: SessionLock, journal: JournalFile, signer: Signer | None = None
    ) -> None:
        super().__init__(info)
        self._signer = signer
        self._lock = lock
        self._last_id = max(journal.last_id, _highest_id(info))
        self._order = threading.Lock()
        self._rewinding = LoopLock()
        self._closed = False
        self._process = os.getpid()
        self._agents: set[str] | None = None
        """The agents with messages, so that a new one reads nothing; None if they are many or were there before."""
        self._ahead: dict[str, list[Row]] = {}
        self._written_since: set[str] | None = None
        """The agents that get messages while conversations are read ahead; None if none are, and after a rewind."""
        self._end = Position(journal.segment, journal.size)
        self.on_moved: Callable[[Path], None] = lambda _: None
        """Callback with the directory's new path, on any thread."""
        self._writer = Writer(journal, self._written, self._moved)
        self._materializer = Materializer(info, self._writer.sync, self._writer.start_segment)
        self._followers: weakref.WeakValueDictionary[tuple[str, int], LogFollower] = weakref.WeakValueDictionary()
        """By the id of their agent and their identity."""
        _open_sessions.add(self)

    @classmethod
    def create(cls, directory: Path, *, name: str | None = None, owner: str = "", signer: Signer | None = None) -> Self:
        """Create a session and open it for writing.

        Args:
            directory: The sessions directory, which is created if it does not exist.
            name: The name; None chooses one. One that cannot be part of a file name is changed: "My Session!" becomes
                "my-session".
            owner: Shown to people who find the session in use, for example the notebook's name.
            signer: Signs the rows that give agents power with the user's key; None leaves them without a signature.

        Returns:
            The open session.

        Raises:
            SessionError: Nothing of the name can be part of a file name, or the directory cannot be written.
        """
        info = new_session_info(directory, new_id(), readable_name() if name is None else name)
        return cls._create(info, owner, signer)

    @classmethod
    def start(
        cls,
        session_id: str,
        *,
        name: str | None = None,
        directory: Path,
        owner: str = "",
        signer: Signer | None = None,
    ) -> Self:
        """Open the session with this id, or create it.

        Args:
            session_id: Sixteen hexadecimal digits.
            name: The name of a new session, as in `create`; ignored if the session exists.
            directory: The sessions directory, which is created if it does not exist.
            owner: Shown to people who find the session in use, for example the notebook's name.
            signer: Signs the rows that give agents power with the user's key; None leaves them without a signature.

        Returns:
            The open session.

        Raises:
            SessionError: The id is malformed, nothing of the name can be part of a file name, or the directory
                cannot be written.
            SessionLockedError: Another process has the session open.
            SessionFormatError: The journal is damaged or was written by a newer version.
        """
        try:
            find_by_id(directory, session_id)
        except SessionNotFoundError:
            info = new_session_info(directory, session_id, readable_name() if name is None else name)
            return cls._create(info, owner, signer)
        return cls.open(directory, session_id, owner=owner, signer=signer)

    @classmethod
    def _create(cls, info: SessionInfo, owner: str, signer: Signer | None) -> Self:
        directory = info.path.parent
        try:
            make_sessions_directory(directory)
        except OSError as error:
            raise SessionError(
                f"The sessions folder {directory} cannot be created ({error.strerror}); choose another one."
            ) from error
        header = codec.Header(info.id, info.name, info.created)
        session = cls._locked(info, owner, lambda: JournalFile.create(info.path, header), signer)
        session._agents = set()  # noqa: SLF001 - of this class
        return session

    @classmethod
    def open(
        cls,
        directory: Path,
        id_or_name: str,
        *,
        owner: str = "",
        signer: Signer | None = None,
        take_over: bool = False,
    ) -> Self:
        """Open a session for writing.

        Args:
            directory: The sessions directory.
            id_or_name: The session's id, or its name; if several sessions have the name, the newest is opened.
            owner: Shown to people who find the session in use, for example the notebook's name.
            signer: Signs the rows that give agents power with the user's key; None leaves them without a signature.
            take_over: Open the session also if a process on another computer may still have it open, which cannot be
                found out on file systems without locks. Use it only if that process has ended: two processes that
                write a session damage it. On file systems with locks it has no effect.

        Returns:
            The open session.

        Raises:
            SessionNotFoundError: There is no such session.
            SessionLockedError: Another process has it open.
            SessionFormatError: The journal is damaged or was written by a newer version.
            SessionError: The journal cannot be written.
        """
        info = find_session(directory, id_or_name)
        session = cls._locked(info, owner, lambda: JournalFile.open(info.path), signer, take_over=take_over)
        session._materializer.written(1)  # noqa: SLF001 - lines that a crash has left
        return session

    @classmethod
    def read(cls, directory: Path, id_or_name: str) -> SessionReader:
        """Open a session for reading, also if another process has it open.

        Args:
            directory: The sessions directory.
            id_or_name: The session's id, or its name; if several sessions have the name, the newest is read.

        Returns:
            A reader of the session.

        Raises:
            SessionNotFoundError: There is no such session.
            SessionFormatError: The journal was written by a newer version.
        """
        return SessionReader(find_session(directory, id_or_name))

    @classmethod
    def _locked(
        cls,
        info: SessionInfo,
        owner: str,
        journal: Callable[[], JournalFile],
        signer: Signer | None,
        *,
        take_over: bool = False,
    ) -> Self:
        remove_stale_files(info.path.parent)
        lock = lock_session(info, owner, take_over=take_over)
        try:
            remove_leftovers(info)
            return cls(info, lock, journal(), signer)
        except BaseException:
            lock.release()
            raise

    def log(self, agent_id: str) -> SessionLog:
        """Return the log of one agent, a `planck_nb.agent.MessageLog`.

        Args:
            agent_id: The id of the agent, which need not exist yet.

        Returns:
            The log, which remains usable until the session is closed.
        """
        return SessionLog(self, agent_id)

    async def append(self, agent_id: str, message: Message, *, turn: int = 0) -> int:
        """Append a message of an agent, at the current time.

        Args:
            agent_id: The agent whose conversation it is part of.
            message: The message.
            turn: The index of the agent's turn, from 0.

        Returns:
            The id of the message, once it is on disk.

        Raises:
            SessionError: The message cannot be stored, or the session is closed.
        """
        return await self.log(agent_id).append(message, turn=turn, time=time.time())

    async def truncate_after(self, message_id: int) -> None:
        """Rewind the conversation of all agents to before a message; `return_to` undoes this.

        Agents that use the session are stopped first and then read it again.

        Args:
            message_id: The id of the first message to remove.

        Raises:
            SessionError: It is not an id, or the rewind cannot be stored.
        """
        await self._rewind(message_id, "")

    async def return_to(self, branch_id: int) -> None:
        """Continue the conversation as it was before a rewind. What came after the rewind becomes a branch itself.

        Args:
            branch_id: The `id` of one of `branches()`.

        Raises:
            SessionError: There is no such branch, or the change cannot be stored.
        """
        branches = await run_in_thread(self.branches)
        if branch_id not in {branch.id for branch in branches}:
            raise SessionError(f"Session {self.name!r} has no branch {branch_id}; branches() lists them.")
        await self._rewind(branch_id, "")

    def fork(self, *, name: str | None = None, before: int | None = None, owner: str = "") -> Self:
        """Create a session that begins with a copy of this one, and open it for writing.

        Rows keep their ids; rows hidden by a rewind are not copied. The costs of copied rows are not counted again.
        Signatures that are valid here become signatures of the new session. Blocks until it is done, which takes
        seconds for a long session; `await asyncio.to_thread(session.fork)` does not block an event loop.

        Args:
            name: The name of the new session, as in `create`, which no other session may have; None chooses one.
            before: The id of the first row that is not copied; None copies all.
            owner: Shown to people who find the session in use, for example the notebook's name.

        Returns:
            The new session.

        Raises:
            SessionError: The name is in use, nothing of it can be part of a file name, or the directory cannot be
                written.
        """
        with self._reading():
            rows = self._rows()  # notices whether the directory was moved
            copied = rows.last_visible_id(before=before)
        name = readable_name() if name is None else unused_name(self.directory, name)
        info = replace(new_session_info(self.directory, new_id(), name), parent=self.id, copied=copied)
        header = codec.Header(info.id, info.name, info.created, parent=info.parent, copied=info.copied)
        lines = (self._for_fork(line, record, info.id) for line, record in rows.visible(before=before))
        return self._locked(
            info, owner, lambda: JournalFile.create_with_content(info.path, header, lines), self._signer
        )

    async def save_metadata(self, metadata: Mapping[str, object]) -> None:
        """Set keys of the session's metadata and return once they are on disk. A rewind does not change metadata.

        Args:
            metadata: JSON values by key; other keys keep their values.

        Raises:
            SessionError: A value is not JSON, or the metadata cannot be stored.
        """

        def encode(row_id: int) -> bytes:
            try:
                return codec.encode_metadata_line(row_id, metadata, time=time.time())
            except (ValueError, TypeError, RecursionError) as error:
                raise SessionError(f"The metadata cannot be stored as JSON ({error}); pass JSON values.") from error

        await self._put_durably(encode)

    def record_signed_metadata(self, key: str, value: JsonObject) -> None:
        """Set a key of the session's metadata without waiting for the disk, signed if the session has a signer.

        Args:
            key: The key.
            value: JSON values by name.

        Raises:
            SessionError: A value is not JSON, or the session is closed.
        """

        def encode(row_id: int) -> bytes:
            try:
                return codec.encode_metadata_line(row_id, {key: self._sign(value, row_id, key)}, time=time.time())
            except (ValueError, TypeError, RecursionError) as error:
                raise SessionError(f"The metadata cannot be stored as JSON ({error}); pass JSON values.") from error

        self._put(encode)

    def get_signed_metadata(self, key: str) -> JsonObject:
        """Return the latest value of a key of the metadata that the session's signer has signed.

        Args:
            key: The key.

        Returns:
            What `record_signed_metadata` was called with; empty if no row with the key is authentic.

        Raises:
            SessionError: The session cannot be read.
        """
        return self.get_signed_values(key).get(key, {})

    def get_signed_values(self, prefix: str) -> dict[str, JsonObject]:
        """Return signed metadata by key.

        Args:
            prefix: How the keys begin.

        Returns:
            The latest authentic values, as for `get_signed_metadata`.

        Raises:
            SessionError: The session cannot be read.
        """
        with self._reading():
            rows = self._pager.metadata_rows(end=self._readable_end())
        values: dict[str, JsonObject] = {}
        for row_id, data in reversed(rows):
            for key, value in data.items():
                is_new = key.startswith(prefix) and key not in values and isinstance(value, dict)
                if is_new and self.is_authentic(value, row_id=row_id, owner=key):
                    values[key] = without_signature(value)
        return dict(reversed(values.items()))

    def is_authentic(self, data: JsonObject, *, row_id: int, owner: str) -> bool:
        """Return whether the session's signer has signed the data of a row, for this row and this session.

        Args:
            data: The data of an event, or the value of a key of the metadata.
            row_id: The id of the row.
            owner: The id of the agent, or the key of the metadata.

        Returns:
            False without a signer.
        """
        signer = self._signer
        return signer is not None and signer.verifies(data, session_id=self.id, row_id=row_id, owner=owner)

    def read_ahead(self, agent_ids: Iterable[str]) -> None:
        """Read the conversations of several agents in one pass, for the logs that are asked for them next.

        Creating an agent reads its conversation and writes that it was started. So for a thousand agents one by one,
        the end of the journal would be read a thousand times while it grows. A conversation that was read ahead is
        used once, and not at all if it has changed since. Blocks until it is done.

        Args:
            agent_ids: The ids of the agents. What was read ahead of others is forgotten.

        Raises:
            SessionError: The session cannot be read.
        """
        with self._order:
            self._ahead, self._written_since = {}, (changed := set[str]())
        read = self._conversations(set(agent_ids))
        with self._order:
            if self._written_since is changed:
                self._ahead = {agent_id: rows for agent_id, rows in read.items() if agent_id not in changed}
                self._written_since = None

    async def flush(self) -> None:
        """Return once everything recorded so far is on disk.

        Raises:
            SessionError: The disk is full or the journal cannot be written.
        """
        await self._put_durably(lambda _: b"")

    def export(self, form: ExportFormat) -> str:
        """Export the session as text; see `export_session`. Files that were deleted meanwhile are written again first.

        Args:
            form: "jsonl", "markdown", "html" or "ipynb".

        Returns:
            The content of a file in that format.

        Raises:
            SessionError: There is no such format, or the session cannot be read.
        """
        self._readable_end()
        return super().export(form)

    def catch_up(self) -> None:
        """Update the DuckDB file if it lacks much.

        Otherwise each query would decode the missing lines.

        Blocks until it is done. If the file cannot be written, queries read the journal.
        """
        if missing_bytes(self._info, self._readable_end()) > _MUCH_MISSING:
            with suppress(SessionError):
                self.materialize()

    def materialize(self) -> None:
        """Update the session's DuckDB file now instead of within about a second. Blocks until it is done.

        Raises:
            SessionError: The file is busy or cannot be written; the journal is complete anyway.
        """
        self._require_open()
        self._materializer.materialize()

    def close(self) -> None:
        """Write what is queued, update the DuckDB file and let other processes open the session.

        Closing again does nothing, and so does closing in a forked process. Blocks until it is done, like `fork`.

        Raises:
            SessionError: Events could not be written; the session is closed anyway.
        """
        with self._order:
            if self._closed or self._process != os.getpid():
                return
            self._closed = True
        _open_sessions.discard(self)
        try:
            self._materializer.close()
            self._end = self._writer.sync()
            try:
                self._materializer.materialize()
            except SessionError as error:
                # The journal is complete. Readers use it, and the next process to open the session updates the file.
                _log.info("%s", error)
        finally:
            self._writer.close()
            super().close()
            self._lock.release(self._info)
        start_update(self.directory)

    stop = close
    """Another name for `close`, as in Planck."""

    def __repr__(self) -> str:
        return f"<Session {self.name} {self.id}{' closed' if self._closed else ''}>"

    def _forget(self) -> None:
        """In a forked process: replace the locks, which threads may hold that do not exist here."""
        self._order = threading.Lock()
        self._rewinding = LoopLock()

    def _put(self, encode: Callable[[int], bytes], done: DoneCallback | None = None) -> int:
        with self._order:
            self._require_open()
            row_id = self._last_id + 1
            if row_id > codec.LAST_ID:
                raise SessionError(
                    f"Session {self.name!r} has a row with the highest possible id; start a new session."
                )
            line = encode(row_id)
            if line:
                self._last_id = row_id
            self._writer.put(line, done)
        return row_id

    async def _put_durably(self, encode: Callable[[int], bytes]) -> int:
        receipt = _Receipt()
        row_id = self._put(encode, receipt.settle_threadsafe)
        await receipt.wait()
        return row_id

    def _encode_event(self, row_id: int, event: AgentEvent) -> bytes:
        if self._signer is None or not gives_power(event):
            return codec.encode_event_line(row_id, event)
        return codec.encode_event_line(row_id, event, lambda data: self._sign(data, row_id, event.agent_id))

    def _sign(self, data: JsonObject, row_id: int, owner: str) -> JsonObject:
        return self._signer.signed(data, session_id=self.id, row_id=row_id, owner=owner) if self._signer else data

    def _for_fork(self, line: bytes, record: JsonObject, session_id: str) -> bytes:
        """Return a line for a fork, the same one unless signed."""
        if _SIGNED not in line:
            return line
        return codec.encode_record(self._signed_again(record, session_id))

    def _signed_again(self, record: JsonObject, session_id: str) -> JsonObject:
        """The record for another session, with signatures that are valid there in place of those valid here."""
        if self._signer is None:
            return record
        if record["kind"] == "event":
            return {**record, "data": self._for_session(session_id, record["data"], record["id"], record["agent_id"])}
        if record["kind"] == "metadata":
            values = record["data"].items()
            return {
                **record,
                "data": {key: self._for_session(session_id, value, record["id"], key) for key, value in values},
            }
        return record

    def _for_session(self, session_id: str, data: Any, row_id: int, owner: str) -> Any:  # noqa: ANN401 - a JSON value
        signer = self._signer
        if signer is None or not isinstance(data, dict) or SIGNATURE not in data:
            return data
        if not self.is_authentic(data, row_id=row_id, owner=owner):
            return data
        return signer.signed(without_signature(data), session_id=session_id, row_id=row_id, owner=owner)

    def _require_open(self) -> None:
        if self._closed:
            raise SessionError(f"Session {self.name!r} is closed; open it again to go on.")
        if self._process != os.getpid():  # a forked process has the object, but not the thread that writes
            raise SessionError(f"Session {self.name!r} is open in the parent process; only that process can write it.")

    def _written(self, lines: int) -> None:
        self._materializer.written(lines)

    def _moved(self, path: Path) -> None:
        """Go on where the folder is now. Called on the writer's thread."""
        before = self.directory
        self._info = self._pager.session = self._materializer.session = replace(self._info, path=path)
        self.on_moved(self.directory)
        _log.warning(
            "The folder %s was renamed or moved, and session %r goes on in %s; restart the kernel or program there, "
            "because everything else in it still uses the old path.",
            before,
            self.name,
            self.directory,
        )

    def _conversation_changed(self, agent_id: str | None) -> None:
        """Forget what was read ahead of an agent, None for all. Called with the lock of the order of rows."""
        if agent_id is None:
            self._ahead, self._written_since = {}, None
        else:
            self._ahead.pop(agent_id, None)
            if self._written_since is not None:
                self._written_since.add(agent_id)

    def _note_agent(self, agent_id: str) -> None:
        if self._agents is not None:
            self._agents.add(agent_id)
            if len(self._agents) > _MOST_AGENTS:
                self._agents = None

    def _conversation(self, agent_id: str) -> list[Row]:
        with self._order:
            ahead = self._ahead.pop(agent_id, None)
        return super()._conversation(agent_id) if ahead is None else ahead

    def _readable_end(self) -> Position:
        if self._process != os.getpid():
            return super()._readable_end()
        return self._end if self._closed else self._writer.write()

    async def _rewind(self, message_id: int, agent_id: str) -> None:
        try:
            before_id = index(message_id)
        except TypeError:
            raise SessionError(f"{message_id!r} is not the id of a message; give its number.") from None

        def encode(row_id: int) -> bytes:
            # An id after all rows means the same as the end of them, and DuckDB could not store it.
            within = max(0, min(before_id, row_id))
            self._conversation_changed(None)
            return codec.encode_rewind_line(row_id, agent_id, before_id=within, time=time.time())

        async with self._rewinding:  # followers continue after each, and must have stopped again before the next
            followers = dict(self._followers)
            rewound: int | None = None
            try:
                for follower in followers.values():
                    await follower.rewinding()
                await self._put_durably(encode)
                rewound = before_id
                read = partial(self.read_ahead, {agent_id for agent_id, _ in followers})
                with suppress(SessionError):  # then followers get it when they read
                    await uninterrupted(asyncio.ensure_future(run_in_thread(read)))
            finally:
                for follower in followers.values():
                    follower.rewound(rewound)
                with self._order:
                    self._conversation_changed(None)  # agents that were stopped have not asked for theirs
            with suppress(SessionError):  # the rewind itself is on disk
                await self.flush()  # what followers have recorded of it, for queries


class SessionLog:
    """The log of one agent in a session, a `planck_nb.agent.MessageLog`. Made by `Session.log`.

    Args:
        session: The session, open for writing.
        agent_id: The id of the agent.
    """

    def __init__(self, session: Session, agent_id: str) -> None:
        self._session = session
        self._agent_id = agent_id

    async def append(self, message: Message, *, turn: int, time: float) -> int:
        """Append a message.

        Args:
            message: The message.
            turn: The index of the agent's turn, from 0.
            time: When the message was complete, in seconds since the epoch.

        Returns:
            The id of the message, once it is on disk.

        Raises:
            SessionError: The message cannot be stored, or the session is closed.
        """
        fields: bytes | None = None
        if characters_of(message) > _ENCODE_IN_THREAD_FROM:
            with suppress(ValueError, TypeError, RecursionError):  # which are reported below
                fields = await run_in_thread(lambda: codec.encode_message_fields(message, time=time))
        self._session._note_agent(self._agent_id)  # noqa: SLF001 - a part of Session

        def encode(row_id: int) -> bytes:
            self._session._conversation_changed(self._agent_id)  # noqa: SLF001 - as above
            try:
                return codec.encode_message_line(row_id, self._agent_id, message, turn=turn, time=time, fields=fields)
            except (ValueError, TypeError, RecursionError) as error:
                raise SessionError(f"The message cannot be stored as JSON ({error}).") from error

        return await self._session._put_durably(encode)  # noqa: SLF001 - a part of Session

    def record(self, event: AgentEvent) -> None:
        """Store an event, in order with the messages, without waiting for the disk.

        Deltas are not stored, and the event of a message is the row that `append` writes. An event that cannot be
        stored is logged.

        Args:
            event: The event.
        """
        if not _is_kept(event):
            return
        try:
            session = self._session
            session._put(lambda row_id: session._encode_event(row_id, event))  # noqa: SLF001 - as above
        except (SessionError, ValueError, TypeError, RecursionError) as error:
            _log.info("the event %s was not stored: %s", event.type, error)

    async def keep(self, event: AgentEvent) -> None:
        """Store an event like `record` does, and return once it is on disk.

        Args:
            event: The event.

        Raises:
            SessionError: The event cannot be stored, or the session is closed.
        """

        def encode(row_id: int) -> bytes:
            try:
                return self._session._encode_event(row_id, event)  # noqa: SLF001 - as above
            except (ValueError, TypeError, RecursionError) as error:
                raise SessionError(f"The event {event.type} cannot be stored as JSON ({error}).") from error

        if _is_kept(event):
            await self._session._put_durably(encode)  # noqa: SLF001 - as above

    def messages(self) -> list[tuple[int, Message]]:
        """Return the messages that a model is still sent: the latest summary, the messages it keeps, and all after it.

        Returns:
            Pairs of id and message, oldest first; the whole conversation if there is no summary.

        Raises:
            SessionError: The session cannot be read.
        """
        session = self._session
        agents = session._agents  # noqa: SLF001 - a part of Session
        if agents is not None and self._agent_id not in agents:
            return []
        return [(row.db_id, row.message) for row in session._conversation(self._agent_id)]  # noqa: SLF001 - as above

    def follow(self, follower: LogFollower) -> None:
        """Notify an object before and after each rewind of the session.

        Args:
            follower: Only a weak reference to it is kept.
        """
        self._session._followers[self._agent_id, id(follower)] = follower  # noqa: SLF001 - as above

    async def truncate_from(self, message_id: int) -> None:
        """Rewind the conversation of all agents of the session to before a message.

        Args:
            message_id: The id of the first message to remove.

        Raises:
            SessionError: It is not an id, or the rewind cannot be stored.
        """
        await self._session._rewind(message_id, self._agent_id)  # noqa: SLF001 - as above


def _highest_id(info: SessionInfo) -> int:
    """The highest id in a journal, unless it is long and its end is in order: then the last id is the highest."""
    try:
        check = check_journal(info.path, max_bytes=_CHECKED)
        if check is None:
            try:
                for _ in in_order(read_last_lines(info.path, journal_end(info.path), _LAST)[0]):
                    pass
            except DisorderError:
                check = check_journal(info.path)
    except OSError:  # a segment is missing
        return 0
    return 0 if check is None else check.highest


def _is_kept(event: AgentEvent) -> bool:
    return event.type != "message" and event.type not in TRANSIENT


class _Receipt:
    """Reports to one task whether its line is on disk.

    `base.async_tasks.uninterrupted` does the same in one iteration of the event loop more.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] = self._loop.create_future()
        self._process = os.getpid()
        self._settled = False
        self._error: SessionError | None = None

    def settle_threadsafe(self, error: SessionError | None) -> None:
        """Report that the line is on disk, or what prevented it."""
        with suppress(RuntimeError):  # the loop is closed: nothing waits any more
            self._loop.call_soon_threadsafe(self._settle, error)

    async def wait(self) -> None:
        """Return when the line is on disk. Raises SessionError; a cancellation meanwhile comes at the next await."""
        cancelled = False
        while not self._settled:
            try:
                await self._waiter
            except asyncio.CancelledError:
                if self._process != os.getpid():  # a forked process has no thread that would settle it
                    raise
                cancelled = True
                self._waiter = self._loop.create_future()
        if cancelled:
            cancel_late()
        if self._error is not None:
            raise self._error

    def _settle(self, error: SessionError | None) -> None:
        self._settled, self._error = True, error
        if not self._waiter.done():
            self._waiter.set_result(None)


def _forget_all() -> None:
    for session in list(_open_sessions):
        session._forget()  # noqa: SLF001 - a part of Session
    _open_sessions.clear()


call_in_forks(_forget_all)


@atexit.register
def _close_all() -> None:
    for session in list(_open_sessions):
        try:
            session.close()
        except SessionError as error:
            _log.info("%s", error)

"""A session open for writing: the durable log of its agents' messages and events."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from operator import index
from pathlib import Path
from typing import Self

import filelock

from planck_nb.agent.events import TRANSIENT, AgentEvent
from planck_nb.agent.message_log import LogFollower
from planck_nb.ai.messages import Message
from planck_nb.base.aio import cancel_late
from planck_nb.base.errors import SessionError, SessionNotFoundError
from planck_nb.base.ids import new_id, readable_name
from planck_nb.sessions import codec
from planck_nb.sessions.directory import (
    SessionInfo,
    find_by_id,
    find_session,
    lock_session,
    new_session_info,
    unused_name,
)
from planck_nb.sessions.journal import JournalFile
from planck_nb.sessions.materialize import Materializer
from planck_nb.sessions.reader import SessionReader
from planck_nb.sessions.segments import Position
from planck_nb.sessions.writer import DoneCallback, Writer

_log = logging.getLogger(__name__)

_open_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


class Session(SessionReader):
    """A conversation of one or more agents, kept in the sessions directory.

    Made by `create` and `open`. Only one process has a session open at a time; any process can `read` it meanwhile and
    query it with SQL. Needs no running event loop and may be used from several. Close it when done; what is still open
    when the interpreter exits is closed then.
    """

    def __init__(self, info: SessionInfo, lock: filelock.BaseFileLock, journal: JournalFile) -> None:
        super().__init__(info)
        self._lock = lock
        self._last_id = journal.last_id
        self._order = threading.Lock()
        self._rewinding = asyncio.Lock()
        self._closed = False
        self._process = os.getpid()
        self._end = Position(journal.segment, journal.size)
        self._writer = Writer(journal, self._written)
        self._folder = Materializer(info, self._writer.sync, self._writer.start_segment)
        self._followers: weakref.WeakValueDictionary[int, LogFollower] = weakref.WeakValueDictionary()
        _open_sessions.add(self)

    @classmethod
    def create(cls, directory: Path, *, name: str | None = None, owner: str = "") -> Self:
        """A new session in the directory, which is made where it is missing.

        `owner` tells people who find the session in use where: the notebook's name, say. Raises SessionError for a
        name that cannot be part of a file name and for a directory that cannot be written.
        """
        return cls._create(new_session_info(directory, new_id(), readable_name() if name is None else name), owner)

    @classmethod
    def start(cls, session_id: str, *, name: str | None = None, directory: Path, owner: str = "") -> Self:
        """The session with this id to go on writing it, or a new one that gets the id and the name.

        Raises what `create` and `open` raise; an id is sixteen hex characters.
        """
        try:
            find_by_id(directory, session_id)
        except SessionNotFoundError:
            info = new_session_info(directory, session_id, readable_name() if name is None else name)
            return cls._create(info, owner)
        return cls.open(directory, session_id, owner=owner)

    @classmethod
    def _create(cls, info: SessionInfo, owner: str) -> Self:
        directory = info.path.parent
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise SessionError(
                f"The sessions directory {directory} cannot be made ({error.strerror}); choose another one."
            ) from error
        header = codec.Header(info.id, info.name, info.created)
        return cls._locked(info, owner, lambda: JournalFile.create(info.path, header))

    @classmethod
    def open(cls, directory: Path, id_or_name: str, *, owner: str = "") -> Self:
        """The session with this id, or the newest one with this name, to go on writing it.

        Raises SessionNotFoundError, SessionLockedError when another process has it open, and SessionFormatError when
        its journal is damaged or of a newer version.
        """
        info = find_session(directory, id_or_name)
        session = cls._locked(info, owner, lambda: JournalFile.open(info.path))
        session._folder.written(1)  # noqa: SLF001 - what a crash left unfolded
        return session

    @classmethod
    def read(cls, directory: Path, id_or_name: str) -> SessionReader:
        """The session with this id, or the newest one with this name, only to be read, whoever has it open.

        Raises SessionNotFoundError, and SessionFormatError when its journal is of a newer version.
        """
        return SessionReader(find_session(directory, id_or_name))

    @classmethod
    def _locked(cls, info: SessionInfo, owner: str, journal: Callable[[], JournalFile]) -> Self:
        lock = lock_session(info, owner)
        try:
            return cls(info, lock, journal())
        except BaseException:
            lock.release()
            raise

    def log(self, agent_id: str) -> SessionLog:
        """The log of one agent: a `MessageLog`."""
        return SessionLog(self, agent_id)

    async def append(self, agent_id: str, message: Message, *, turn: int = 0) -> int:
        """Keep a message of an agent and return its id once it is on disk. Raises SessionError."""
        return await self.log(agent_id).append(message, turn=turn, time=time.time())

    async def truncate_after(self, message_id: int) -> None:
        """Take back the message and everything after it, of all agents. Nothing is lost: see `branches`.

        Followers are told before and after. Raises SessionError.
        """
        await self._rewind(message_id, "")

    async def return_to(self, branch_id: int) -> None:
        """Go on where the conversation was before the rewind that left this branch.

        What was said since becomes a branch in turn. Followers are told before and after. Raises SessionError where
        there is no such branch.
        """
        if branch_id not in {branch.id for branch in self.branches()}:
            raise SessionError(f"Session {self.name!r} has no branch {branch_id}; branches() lists them.")
        await self._rewind(branch_id, "")

    def fork(self, *, name: str | None = None, before: int | None = None, owner: str = "") -> Self:
        """A new session that begins with what is said here, as far as the id `before`, which it excludes.

        The rows are copied and keep their ids; what was taken back is left behind, and what they cost is not counted
        again. Raises what `create` raises, and SessionError for a name that another session has.
        """
        name = readable_name() if name is None else unused_name(self.directory, name)
        info = new_session_info(self.directory, new_id(), name)
        copied = [
            record
            for record in self._visible()
            if record["kind"] == "metadata" or before is None or record["id"] < before
        ]
        info = replace(info, parent=self.id, copied=copied[-1]["id"] if copied else 0)
        header = codec.Header(info.id, info.name, info.created, parent=info.parent, copied=info.copied)
        content = b"".join(map(codec.encode_record, copied))
        return self._locked(info, owner, lambda: JournalFile.create_filled(info.path, header, content))

    async def save_metadata(self, metadata: Mapping[str, object]) -> None:
        """Set keys of the session's metadata to JSON values, durably; other keys stay. Raises SessionError."""

        def encode(row_id: int) -> bytes:
            try:
                return codec.encode_metadata_line(row_id, metadata, time=time.time())
            except (ValueError, TypeError, RecursionError) as error:
                raise SessionError(f"The metadata cannot be stored as JSON ({error}).") from error

        await self._put_durably(encode)

    async def flush(self) -> None:
        """Return once everything recorded so far is on disk. Raises SessionError where the disk does not take it."""
        await self._put_durably(lambda _: b"")

    def fold(self) -> None:
        """Bring the session's DuckDB file up to date now. Raises SessionError; the journal is safe all the same."""
        self._require_open()
        self._folder.fold()

    def close(self) -> None:
        """Write what waits, fold it and let other processes write the session. Closing again does nothing.

        Raises SessionError when events could not be written; the session is closed all the same.
        """
        with self._order:
            if self._closed or self._process != os.getpid():
                return
            self._closed = True
        _open_sessions.discard(self)
        try:
            self._folder.close()
            self._end = self._writer.sync()
            try:
                self._folder.fold()
            except SessionError as error:
                # The journal has everything, readers know that, and the next to open the session folds it.
                _log.info("%s", error)
        finally:
            self._writer.close()
            super().close()
            self._lock.release()

    stop = close
    """Planck's name for it."""

    def __repr__(self) -> str:
        return f"<Session {self.name} {self.id}{' closed' if self._closed else ''}>"

    def _put(self, encode: Callable[[int], bytes], done: DoneCallback | None = None) -> int:
        with self._order:
            self._require_open()
            row_id = self._last_id + 1
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

    def _require_open(self) -> None:
        if self._closed:
            raise SessionError(f"Session {self.name!r} is closed; open it again to go on.")
        if self._process != os.getpid():  # a forked process has the object, but not the thread that writes
            raise SessionError(f"Session {self.name!r} is open in the parent process; only that process can write it.")

    def _written(self, lines: int) -> None:
        self._folder.written(lines)

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
            # What lies beyond all rows means the same as the end of them, and DuckDB could not hold it.
            within = max(0, min(before_id, row_id))
            return codec.encode_rewind_line(row_id, agent_id, before_id=within, time=time.time())

        async with self._rewinding:  # followers go on after each, and must have stopped again before the next
            followers = list(self._followers.values())
            rewound: int | None = None
            try:
                for follower in followers:
                    await follower.rewinding()
                await self._put_durably(encode)
                rewound = before_id
            finally:
                for follower in followers:
                    follower.rewound(rewound)


class SessionLog:
    """The log of one agent in a session."""

    def __init__(self, session: Session, agent_id: str) -> None:
        self._session = session
        self._agent_id = agent_id

    async def append(self, message: Message, *, turn: int, time: float) -> int:
        """Keep the message and return its id once it is on disk; `time` is in seconds since the epoch.

        Raises SessionError when it cannot be kept.
        """

        def encode(row_id: int) -> bytes:
            try:
                return codec.encode_message_line(row_id, self._agent_id, message, turn=turn, time=time)
            except (ValueError, TypeError, RecursionError) as error:
                raise SessionError(f"The message cannot be stored as JSON ({error}).") from error

        return await self._session._put_durably(encode)  # noqa: SLF001 - two halves of one thing

    def record(self, event: AgentEvent) -> None:
        """Keep an event, in order with the messages, without waiting for the disk.

        Deltas are not kept, and a message's own event is the row that `append` wrote.
        """
        if not _is_kept(event):
            return
        try:
            self._session._put(lambda row_id: codec.encode_event_line(row_id, event))  # noqa: SLF001 - as above
        except (SessionError, ValueError, TypeError, RecursionError) as error:
            _log.info("the event %s was not stored: %s", event.type, error)

    async def keep(self, event: AgentEvent) -> None:
        """Keep an event like `record`, and return once it is on disk. Raises SessionError when it cannot be kept."""

        def encode(row_id: int) -> bytes:
            try:
                return codec.encode_event_line(row_id, event)
            except (ValueError, TypeError, RecursionError) as error:
                raise SessionError(f"The event {event.type} cannot be stored as JSON ({error}).") from error

        if _is_kept(event):
            await self._session._put_durably(encode)  # noqa: SLF001 - as above

    def messages(self) -> list[tuple[int, Message]]:
        """The agent's latest summary, the messages that it keeps, and all after it, with ids, oldest first.

        The whole conversation where there is no summary. Raises SessionError.
        """
        return [(row.db_id, row.message) for row in self._session._conversation(self._agent_id)]  # noqa: SLF001

    def follow(self, follower: LogFollower) -> None:
        """Tell `follower`, for as long as it lives, when anything in the session is taken back or returned to."""
        self._session._followers[id(follower)] = follower  # noqa: SLF001 - as above

    async def truncate_from(self, message_id: int) -> None:
        """Take back the message and everything after it, of all agents of the session. Raises SessionError."""
        await self._session._rewind(message_id, self._agent_id)  # noqa: SLF001 - as above


def _is_kept(event: AgentEvent) -> bool:
    return event.type != "message" and event.type not in TRANSIENT


class _Receipt:
    """Reports to one task whether its line is on disk.

    `base.aio.uninterrupted` does the same in one iteration of the event loop more.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] = self._loop.create_future()
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


@atexit.register
def _close_all() -> None:
    for session in list(_open_sessions):
        try:
            session.close()
        except SessionError as error:
            _log.info("%s", error)

"""Sorts sessions by their last use, and deletes them."""

from __future__ import annotations

import heapq
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from math import inf

from planck_nb.base.errors import SessionError
from planck_nb.sessions.directory import SessionInfo, is_folder, own_paths
from planck_nb.sessions.journal.codec import parse_line
from planck_nb.sessions.journal.journal_file import lock_file
from planck_nb.sessions.journal.segments import journal_end, read_last_lines
from planck_nb.sessions.lock import lock_session

_SIZES = (16_384, 1_048_576, 67_108_864)
"""Bytes of a journal's end that are read until a row is found: the last row may be a message with images."""


def last_used_first(sessions: Iterable[SessionInfo]) -> Iterator[SessionInfo]:
    """The sessions in the order of their last use, the latest first.

    A copied or restored file has a new modification time, so what counts is when its newest row was appended. No row is
    newer than its file, however: a later time, as from a wrong clock, counts as that of the file. So a journal is read
    only when no other can come before it, and for the first few sessions very few are.

    Args:
        sessions: The sessions.

    Returns:
        The same sessions in that order, each when the iterator reaches it.
    """
    files = sorted(((_modified(session), session) for session in sessions), key=lambda pair: -pair[0])
    read: list[tuple[float, float, str, SessionInfo]] = []
    for position, (modified, session) in enumerate(files):
        recorded = max(session.created.timestamp(), _newest_row(session))
        heapq.heappush(read, (-min(recorded, modified), -recorded, session.id, session))
        following = files[position + 1][0] if position + 1 < len(files) else -inf
        while read and -read[0][0] > following:
            yield heapq.heappop(read)[-1]


def _modified(session: SessionInfo) -> float:
    try:
        return session.path.stat().st_mtime
    except OSError:
        return 0.0


def _newest_row(session: SessionInfo) -> float:
    """When the newest row was appended, in seconds since the epoch.

    Returns 0 if there is none, or it cannot be read, and infinity if it is in a compressed segment: the time of the
    file, which `compact_store` keeps, shows when that was.
    """
    with suppress(OSError, SessionError):
        end = journal_end(session.path)
        for size in _SIZES:
            lines, complete = read_last_lines(session.path, end, size)
            for line in reversed(lines):
                row = parse_line(line)
                with suppress(KeyError, TypeError, ValueError):
                    if row is not None and row["kind"] != "session":
                        return datetime.fromisoformat(row["ts"]).timestamp()
            if complete:
                return 0.0
        return inf if end.segment > 1 else 0.0
    return 0.0


def delete_session(session: SessionInfo, *, confirm: str) -> None:
    """Delete a session and all its files permanently.

    Args:
        session: The session.
        confirm: The name of the session, to confirm that it is to be deleted.

    Raises:
        SessionLockedError: A process has the session open.
        SessionError: `confirm` is not the name of the session, or a file cannot be deleted.
    """
    if confirm != session.name:
        raise SessionError(f"Nothing was deleted: repeat the session's name, {session.name!r}, to confirm.")
    lock = lock_session(session, "deleting")
    try:
        with session.path.open("r+b") as journal:  # the lock file may have been deleted, but not the lock on this
            lock_file(journal.fileno(), session.path)
        # The journal is deleted last: as long as it exists, the session is listed and deleting can be tried again.
        for path in sorted(own_paths(session), key=lambda path: path == session.path):
            if is_folder(path):
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        session.lock.unlink(missing_ok=True)
    except OSError as error:
        raise SessionError(f"Session {session.name!r} could not be deleted ({error.strerror}); try again.") from error
    finally:
        lock.release()

"""Makes missing DuckDB files before a query reads the journals.

Otherwise each query would decode the same journals again: sessions may have been copied without their files, or last
written by an earlier version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TypeAlias

from planck_nb.base.errors import SessionError
from planck_nb.sessions.database.database_match import MaterializedPosition
from planck_nb.sessions.database.materialize import materialize_unused
from planck_nb.sessions.directory import JournalState, SessionInfo
from planck_nb.sessions.journal.segments import journal_bytes
from planck_nb.sessions.lock import open_in

Report: TypeAlias = Callable[[int, int], object]
"""Callback with the bytes read so far and in the end."""

_MIN_BYTES = 1024 * 1024
"""Fewest bytes for which files are made.

Decoding them takes a fifth of a second.
"""

_MIN_OF_A_SESSION = 64 * 1024

_reports: ContextVar[Report | None] = ContextVar("reading reports", default=None)
_failures: dict[Path, JournalState | None] = {}
"""Journals whose file could not be made, as they were then."""


class UnreadSessionsError(Exception):
    """A query would decode much.

    Args:
        sessions: The sessions with the bytes to decode.
    """

    def __init__(self, sessions: Mapping[SessionInfo, int]) -> None:
        super().__init__(len(sessions))
        self.sessions = sessions


@contextmanager
def reading_reports(report: Report) -> Iterator[None]:
    """Report how far queries are in a first reading.

    Args:
        report: Called on the query's thread with the bytes read so far and in the end.

    Returns:
        A context manager.
    """
    token = _reports.set(report)
    try:
        yield
    finally:
        _reports.reset(token)


def require_read(usable: Mapping[SessionInfo, MaterializedPosition | None]) -> None:
    """Raise UnreadSessionsError if files lack too much.

    Args:
        usable: The sessions, each with where its file ends.
    """
    missing = {}
    for session, progress in usable.items():
        with suppress(OSError, SessionError):
            size = _missing_bytes(session, progress)
            if size >= _MIN_OF_A_SESSION and not (
                session.path in _failures and _failures[session.path] == session.state
            ):
                missing[session] = size
    if sum(missing.values()) >= _MIN_BYTES:
        raise UnreadSessionsError(missing)


def _missing_bytes(session: SessionInfo, progress: MaterializedPosition | None) -> int:
    if progress is not None and progress.position.segment == session.segment:
        # A session is left behind by as much only if its process was killed; what is little is decoded.
        rest = session.path.stat().st_size - progress.position.offset
        return rest if rest > progress.position.offset else 0
    return journal_bytes(session.path) if progress is None else 0


def read_first(sessions: Mapping[SessionInfo, int], check: Callable[[], object]) -> None:
    """Make the DuckDB files for these sessions, as far as possible.

    Args:
        sessions: The sessions with the bytes to decode.
        check: Called now and then; what it raises ends the reading, and the files that were made stay.
    """
    report, total, size_before, size_now = _reports.get(), sum(sessions.values()), 0, 0

    def advance(size: int) -> None:
        nonlocal size_now
        check()
        size_now += size
        if report is not None:
            report(min(size_now, total), total)

    for session, size in sessions.items():
        size_before += size
        if not materialize_unused(session, advance=advance) and open_in(session) is None:
            _failures[session.path] = session.state
        size_now = size_before

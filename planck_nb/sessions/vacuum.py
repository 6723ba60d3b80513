"""Makes the store smaller without losing a row."""

from __future__ import annotations

from pathlib import Path

from planck_nb.base.errors import SessionError, SessionFormatError, SessionLockedError
from planck_nb.sessions.directory import SessionInfo, list_sessions, lock_session, session_files
from planck_nb.sessions.journal import JournalFile
from planck_nb.sessions.materialize import fold
from planck_nb.sessions.segments import Position, compress_segment, old_segments


def compact_store(directory: Path) -> int:
    """Compress the old segments of all sessions and make their DuckDB files anew; the bytes that this freed.

    Nothing that was said is lost. Files set aside as unusable are deleted. Sessions that somebody has open, and those
    that a newer version went on with, are left as they are, and queries work meanwhile. Raises SessionError where the
    disk does not take it, once all sessions had their turn.
    """
    freed = 0
    failed: SessionError | None = None
    for session in list_sessions(directory):
        try:
            freed += _compact(session)
        except (SessionLockedError, SessionFormatError):
            continue
        except SessionError as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return freed


def _compact(session: SessionInfo) -> int:
    lock = lock_session(session, "compacting")
    try:
        before = _size(session)
        for segment in old_segments(session.path):
            compress_segment(segment)
        for path in session_files(session):
            if path.suffix == ".bad":
                path.unlink()
        journal = JournalFile.open(session.path)
        end = Position(journal.segment, journal.size)
        journal.close()
        if len(old_segments(session.path)) == journal.segment - 1:  # else only the file has what is missing
            session.database.unlink(missing_ok=True)
        fold(session, end=end)
        return before - _size(session)
    except OSError as error:
        raise SessionError(f"Session {session.name!r} could not be compacted ({error}); free space first.") from error
    finally:
        lock.release()


def _size(session: SessionInfo) -> int:
    return sum(path.stat().st_size for path in session_files(session))

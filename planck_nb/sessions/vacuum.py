"""Makes the files of all sessions smaller without losing a row."""

from __future__ import annotations

from pathlib import Path

from planck_nb.base.errors import SessionError, SessionFormatError, SessionLockedError
from planck_nb.sessions.directory import SessionInfo, list_sessions, session_files
from planck_nb.sessions.journal_file import JournalFile
from planck_nb.sessions.lock import lock_session
from planck_nb.sessions.materialize import materialize
from planck_nb.sessions.segments import Position, compress_segment, old_segments


def compact_store(directory: Path) -> int:
    """Compress the old segments of all sessions and rebuild their DuckDB files.

    No row is lost. Files that were renamed as unusable (".bad") are deleted. Sessions that are open, and those that a
    newer version has written, are skipped. Queries work meanwhile.

    Args:
        directory: The sessions directory.

    Returns:
        The number of bytes freed.

    Raises:
        SessionError: A session could not be compacted, for example on a full disk; the others were.
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
        if (
            len(old_segments(session.path)) == journal.segment - 1
        ):  # else only the DuckDB file has the rows of a missing segment
            session.database.unlink(missing_ok=True)
        materialize(session, end=end)
        return before - _size(session)
    except OSError as error:
        raise SessionError(f"Session {session.name!r} could not be compacted ({error}); free space first.") from error
    finally:
        lock.release()


def _size(session: SessionInfo) -> int:
    return sum(path.stat().st_size for path in session_files(session))

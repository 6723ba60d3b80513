"""Makes the files of all sessions smaller without losing a row."""

from __future__ import annotations

import os
import zlib
from contextlib import closing, suppress
from pathlib import Path

import duckdb

from planck_nb.base.errors import SessionError, SessionFormatError, SessionLockedError
from planck_nb.sessions.database.database_match import parse_position, read_meta
from planck_nb.sessions.database.duckdb import connect, sql_literal
from planck_nb.sessions.database.materialize import materialize
from planck_nb.sessions.directory import SessionInfo, list_sessions, session_files
from planck_nb.sessions.journal.journal_file import JournalFile
from planck_nb.sessions.journal.segments import (
    Position,
    compress_segment,
    is_compressed,
    journal_bytes,
    missing_segments,
    old_segments,
    start_segment,
)
from planck_nb.sessions.lock import lock_session, open_in

_MIN_PACKED = 64 * 1024
"""Bytes above which an active segment is compressed; another file takes some kilobytes, too."""

_SAMPLE = 256 * 1024


def compact_store(directory: Path) -> int:
    """Compress the journals of all sessions, and rebuild DuckDB files that have much unused space.

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


def estimate_compaction(directory: Path) -> int:
    """Estimate what `compact_store` would free, from a part of each journal.

    Args:
        directory: The sessions directory.

    Returns:
        The number of bytes.

    Raises:
        SessionError: The directory cannot be read.
    """
    freed = 0
    for session in list_sessions(directory):
        with suppress(OSError, SessionError):
            if open_in(session) is None:
                freed += sum(_saved_by_compressing(segment) for segment in _segments_to_compress(session))
                freed += sum(path.stat().st_size for path in session_files(session) if path.suffix == ".bad")
                freed += _saved_by_rebuilding(session)
    return freed


def _compact(session: SessionInfo) -> int:
    lock = lock_session(session, "compacting")
    try:
        before = _size(session)
        status = session.path.stat()
        journal = JournalFile.open(session.path)
        if journal.size >= _MIN_PACKED:
            journal = start_segment(journal)
        end = Position(journal.segment, journal.size)
        journal.close()
        rebuilt = _saved_by_rebuilding(session) > 0
        for segment in old_segments(session.path):
            compress_segment(segment)
        for path in session_files(session):
            if path.suffix == ".bad":
                path.unlink()
        if rebuilt and not missing_segments(session.path):  # else only the DuckDB file has the rows of that segment
            session.database.unlink()
        # A session counts as used last when its file was changed, if the active segment has no row.
        os.utime(session.path, ns=(status.st_atime_ns, status.st_mtime_ns))
        materialize(session, end=end)
        return before - _size(session)
    except OSError as error:
        raise SessionError(f"Session {session.name!r} could not be compacted ({error}); free space first.") from error
    finally:
        lock.release()


def _segments_to_compress(session: SessionInfo) -> list[Path]:
    old = [segment for segment in old_segments(session.path) if not is_compressed(segment)]
    return [*old, session.path] if session.path.stat().st_size >= _MIN_PACKED else old


def _saved_by_compressing(segment: Path) -> int:
    """Estimate by how much a segment would become smaller, from its beginning."""
    with segment.open("rb") as file:
        sample = file.read(_SAMPLE)
    return int(segment.stat().st_size * (1 - len(zlib.compress(sample)) / len(sample))) if sample else 0


def _saved_by_rebuilding(session: SessionInfo) -> int:
    """Estimate by how much a session's DuckDB file would become smaller; 0 if it need not be rebuilt."""
    if not session.database.exists():
        return 0
    size = session.database.stat().st_size
    unused = None
    with suppress(duckdb.Error), closing(connect(threads=1)) as connection:
        connection.execute(f"attach {sql_literal(session.database)} as file (read_only)")
        blocks = "select block_size, free_blocks from pragma_database_size() where database_name = 'file'"
        found, progress = connection.execute(blocks).fetchone(), parse_position(read_meta(connection, "file"))
        if found is not None and progress is not None:
            unused = found[0] * found[1]
    if unused is None:  # it has another layout; a new one takes a third to a half of the journal
        unused = max(0, size - journal_bytes(session.path) // 2)
    return unused if unused * 4 >= size else 0


def _size(session: SessionInfo) -> int:
    return sum(path.stat().st_size for path in session_files(session))

"""Removes what killed processes left in a sessions directory: temporary files, and lock files without a session."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from planck_nb.sessions.directory import SessionInfo
from planck_nb.sessions.lock import open_in, remove_lock

_TEMPORARY = re.compile(r"\.planck-[0-9a-f]{12}\.tmp(\.wal)?|[0-9a-f]{16}\.lock\.held\.[0-9a-f]{12}")
_NEW_SEGMENT = re.compile(r"([0-9a-f]{16})_[A-Za-z0-9_.-]{1,80}\.journal\.next")
_LOCK = re.compile(r"([0-9a-f]{16})\.lock")
_STALE = 24 * 60 * 60
_UNUSED = 10
"""Seconds after which a lock file without a session is removed: by then, a process that created it has locked it."""


def remove_stale_files(directory: Path) -> None:
    """Remove the user's own temporary files of forks, imports, compactions and first readings, killed over a day ago.

    Lock files of processes that were killed before their session had a journal are removed, too. Files of a session
    that a process has open are kept.
    """
    with suppress(OSError), os.scandir(directory) as scanned:
        entries = list(scanned)
        sessions = {entry.name[:16] for entry in entries if entry.name[16:17] == "_"}
        for entry in entries:
            with suppress(OSError):
                if _is_stale(entry) and not _is_in_use(Path(entry.path)):
                    os.unlink(entry.path)  # noqa: PTH108 - as the entry has it
                elif (found := _LOCK.fullmatch(entry.name)) and found[1] not in sessions and _is_unused(entry):
                    remove_lock(_session(found[1], Path(entry.path)))


def remove_leftovers(session: SessionInfo) -> None:
    """Remove the temporary files of a session that this process has just locked, so that no process uses them."""
    with suppress(OSError), os.scandir(session.path.parent) as entries:
        for entry in entries:
            found = _NEW_SEGMENT.fullmatch(entry.name)
            if found is not None and found[1] == session.id:
                with suppress(OSError):
                    if entry.is_file(follow_symlinks=False) and _is_own(entry):
                        os.unlink(entry.path)  # noqa: PTH108 - as above


def _is_stale(entry: os.DirEntry[str]) -> bool:
    if not (_TEMPORARY.fullmatch(entry.name) or _NEW_SEGMENT.fullmatch(entry.name)):
        return False
    if not (entry.is_file(follow_symlinks=False) and _is_own(entry)):
        return False
    return time.time() - entry.stat(follow_symlinks=False).st_mtime > _STALE


def _is_unused(entry: os.DirEntry[str]) -> bool:
    if not (entry.is_file(follow_symlinks=False) and _is_own(entry)):
        return False
    return time.time() - entry.stat(follow_symlinks=False).st_mtime > _UNUSED


def _is_own(entry: os.DirEntry[str]) -> bool:
    return os.name != "posix" or entry.stat(follow_symlinks=False).st_uid == os.geteuid()


def _is_in_use(path: Path) -> bool:
    found = _NEW_SEGMENT.fullmatch(path.name)
    return found is not None and open_in(_session(found[1], path)) is not None


def _session(session_id: str, path: Path) -> SessionInfo:
    """The session of this id, as far as its lock needs it: `path` is any file beside it."""
    return SessionInfo(session_id, "", datetime.now(UTC), path)

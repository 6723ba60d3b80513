"""Deletes sessions."""

from __future__ import annotations

import shutil

from planck_nb.base.errors import SessionError
from planck_nb.sessions.directory import SessionInfo, is_folder, own_paths
from planck_nb.sessions.journal.journal_file import lock_file
from planck_nb.sessions.lock import lock_session


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

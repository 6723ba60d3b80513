"""The lock of the process that writes a session.

The kernel releases a file lock when the process that holds it ends. Some file systems have no such locks, for
example Lustre without its mount option `flock`, or NFS without a lock service. On these, a second file, the marker,
exists for as long as a process has the lock; a killed process leaves it behind. It is removed if that process ran on
this computer, and otherwise on demand.

Two computers may see one folder differently. So a process with a file lock respects a marker, and one with a marker
respects the name that a process with a file lock writes into the lock file: each first shows that it is there, and
looks for the other one after that.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import filelock

from planck_nb.base.errors import SessionError, SessionLockedError
from planck_nb.base.file_locks import refuses_locks
from planck_nb.base.processes import boot_id, process_namespace, start_time
from planck_nb.sessions.directory import SessionInfo

_MAX_BYTES = 64 * 1024
_REMEDIES = dict.fromkeys((errno.EMFILE, errno.ENFILE), "close some of the open files") | dict.fromkeys(
    (errno.ENOSPC, errno.EDQUOT), "free some space there"
)
"""Remedies by error; for all others, make the folder writable."""

_MAX_TIME = 253_370_764_800
"""The beginning of the year 9999, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class _Owner:
    """The process named by a lock; `process` is 0 if unreadable.

    `started` is when the process began, in clock ticks, and `since` the same in seconds since the epoch, or when it
    acquired the lock if that cannot be found out.
    """

    process: int = 0
    owner: str = ""
    host: str = ""
    boot: str = ""
    namespace: int = 0
    started: int = 0
    since: float = 0

    @classmethod
    def this(cls, owner: str) -> _Owner:
        process = os.getpid()
        namespace, started = process_namespace(), start_time(process)
        return cls(process, owner, socket.gethostname(), boot_id(), namespace, started, _began(started))

    @classmethod
    def read(cls, path: Path) -> _Owner:
        try:
            with path.open("rb") as file:
                data = json.loads(file.read(_MAX_BYTES))
            process, owner, host, boot = data["pid"], data["owner"], data["host"], data["boot"]
            namespace, started, since = data["namespace"], data["started"], data["since"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return cls()
        if not all(isinstance(text, str) for text in (owner, host, boot)):
            return cls()
        if not all(type(number) is int for number in (process, namespace, started)):
            return cls()
        if type(since) not in {int, float} or not 0 <= since < _MAX_TIME:
            since = 0
        return cls(process, owner, host, boot, namespace, started, since)

    def write(self, path: Path) -> None:
        data = {
            "owner": self.owner,
            "pid": self.process,
            "host": self.host,
            "boot": self.boot,
            "namespace": self.namespace,
            "started": self.started,
            "since": round(self.since, 3),
        }
        with suppress(OSError):  # Windows keeps a locked file from being written; the lock holds all the same
            path.write_text(json.dumps(data))

    @property
    def is_here(self) -> bool:
        """Return whether it can be looked up: a process on this computer."""
        here = (self.host, self.boot, self.namespace) == (socket.gethostname(), boot_id(), process_namespace())
        return self.process > 0 and here

    @property
    def is_running(self) -> bool:
        """Return whether the process is running on this computer."""
        return self.is_here and start_time(self.process) == self.started

    @property
    def has_ended(self) -> bool:
        """Return whether the process ran on this computer and has ended."""
        return self.is_here and not self.is_running

    @property
    def is_this(self) -> bool:
        """Return whether it is this process."""
        return self.process == os.getpid() and self.host == socket.gethostname()

    def __str__(self) -> str:
        if not self.process:
            return "another process"
        if self.is_this:
            return "this process"
        elsewhere = f" on {self.host[:80]}" if self.host and self.host != socket.gethostname() else ""
        return f"process {self.process}{elsewhere}" + (f" ({self.owner[:200]})" if self.owner else "")

    def described(self) -> str:
        """Describe the process with its host and start time, if known."""
        if not self.process or self.is_this:
            return str(self)
        host = f" on {self.host[:80]}" if self.host else ""
        began = f", started {datetime.fromtimestamp(self.since, UTC):%Y-%m-%d %H:%M} UTC" if self.since else ""
        return f"process {self.process}{host}{f' ({self.owner[:200]})' if self.owner else ''}{began}"


class SessionLock:
    """A session's lock, which this process has acquired.

    Args:
        lock: The file lock or the marker.
        session: The session.
    """

    def __init__(self, lock: filelock.BaseFileLock, session: SessionInfo) -> None:
        self._lock = lock
        self._session = session

    def release(self, session: SessionInfo | None = None) -> None:
        """Release the lock.

        Args:
            session: The session where it is now, if its folder may have been moved.
        """
        session = session or self._session
        _forget_owner(session)
        self._lock.release()
        if isinstance(self._lock, filelock.SoftFileLock) and Path(self._lock.lock_file) != session.lock_marker:
            session.lock_marker.unlink(missing_ok=True)


def lock_session(session: SessionInfo, owner: str, *, take_over: bool = False) -> SessionLock:
    """Acquire the lock that makes this process the session's only writer.

    Args:
        session: The session.
        owner: Stored with the lock, for display.
        take_over: Acquire the lock also if a process on another computer may still have it, which can be found out
            only on a file system with locks. It has no effect on such a file system.

    Returns:
        The lock.

    Raises:
        SessionLockedError: Another process has the lock. The error names it.
        SessionError: The lock cannot be acquired.
    """
    try:
        return SessionLock(_acquire(session, _Owner.this(owner), take_over=take_over), session)
    except _InUse as use:
        raise _locked(session, can_take_over=use.can_take_over, take_over=take_over) from None
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0, "make its folder writable")
        raise SessionError(
            f"The session's lock {session.lock} cannot be acquired ({error.strerror}); {remedy}, or set "
            "PLANCK_NB_SESSIONS_DIR to another folder."
        ) from error


def open_in(session: SessionInfo) -> str | None:
    """Return which process has a session open.

    This acquires the session's lock for an instant, because a killed process may have left a lock file.

    Args:
        session: The session.

    Returns:
        A description for display, for example "process 4711 (sales.ipynb)"; None if the session is not open.
    """
    if not session.lock.exists():
        return None
    owner = str(_owner_of(session))
    try:
        _acquire(session).release()
    except _InUse:
        return owner
    except OSError:
        return None
    return None


@contextmanager
def lock_for_a_moment(session: SessionInfo) -> Iterator[None]:
    """Hold a session's lock for a moment, without naming this process.

    Args:
        session: The session.

    Raises:
        SessionLockedError: Another process has the lock.
        OSError: The lock cannot be acquired.
    """
    try:
        lock = _acquire(session)
    except _InUse as use:
        raise _locked(session, can_take_over=use.can_take_over, take_over=False) from None
    try:
        yield
    finally:
        lock.release()


def remove_lock(session: SessionInfo) -> None:
    """Remove an unused lock file without a session. Raises OSError."""
    try:
        lock = _acquire(session)
    except _InUse:
        return
    try:
        session.lock.unlink(missing_ok=True)
    finally:
        lock.release()


class _InUse(Exception):
    """Another process has the lock.

    Args:
        can_take_over: Whether a person may say that this process has ended, because nothing else can tell.
    """

    def __init__(self, *, can_take_over: bool) -> None:
        super().__init__(can_take_over)
        self.can_take_over = can_take_over


def _acquire(session: SessionInfo, owner: _Owner | None = None, *, take_over: bool = False) -> filelock.BaseFileLock:
    """Acquire the file lock, or the marker without file locks.

    Raises `_InUse` and OSError.

    Args:
        session: The session.
        owner: The process to name in the lock file, None to look for an instant only.
        take_over: As for `lock_session`.
    """
    native = filelock.FileLock(session.lock, timeout=0, mode=0o600, thread_local=False, fallback_to_soft=False)
    try:
        if not _try(native):
            raise _InUse(can_take_over=False)
    except OSError:
        if not refuses_locks(session.lock):
            raise
        return _acquire_marker(session, owner, take_over=take_over)
    try:
        _require_no_marker(session, take_over=take_over)
        if owner is not None:
            owner.write(session.lock)
            _require_no_marker(session, take_over=take_over)
    except BaseException:
        native.release()
        raise
    return native


def _require_no_marker(session: SessionInfo, *, take_over: bool) -> None:
    if session.lock_marker.exists() and not _end_marker(session, take_over=take_over):
        raise _InUse(can_take_over=True)


def _acquire_marker(session: SessionInfo, owner: _Owner | None, *, take_over: bool) -> filelock.BaseFileLock:
    soft = filelock.SoftFileLock(session.lock_marker, timeout=0, mode=0o600, thread_local=False)
    # The first attempt may only remove the file of a process that was killed on this computer.
    if not (_try(soft) or _try(soft) or (take_over and _end_marker(session, take_over=True) and _try(soft))):
        raise _InUse(can_take_over=True)
    other = _Owner.read(session.lock)
    if other.process and not other.has_ended and (other.is_running or not take_over):
        soft.release()
        raise _InUse(can_take_over=True)
    if owner is not None:
        owner.write(session.lock)
    return soft


def _end_marker(session: SessionInfo, *, take_over: bool) -> bool:
    """Remove the marker if its process has ended, or may have and `take_over` is set."""
    owner = _owner_of(session)
    return (owner.has_ended or (take_over and not owner.is_running)) and _remove_marker(session)


def _try(lock: filelock.BaseFileLock) -> bool:
    try:
        lock.acquire()
    except filelock.Timeout:
        return False
    return True


def _remove_marker(session: SessionInfo) -> bool:
    """Remove the marker, except one created by another process meanwhile."""
    marker = session.lock_marker
    aside = marker.with_name(f"{marker.name}.{secrets.token_hex(6)}")
    try:
        judged = marker.read_bytes()
        marker.rename(aside)
    except FileNotFoundError:
        return True
    unchanged = aside.read_bytes() == judged
    if not unchanged:
        with suppress(FileExistsError):
            os.link(aside, marker)
    aside.unlink()
    return unchanged


def _forget_owner(session: SessionInfo) -> None:
    """Empty the lock file: it names the process with the lock."""
    with suppress(OSError):  # Windows, as above; or it was deleted with its session
        os.truncate(session.lock, 0)


def _owner_of(session: SessionInfo) -> _Owner:
    """Return the process named in the lock's files."""
    owner = _Owner.read(session.lock)
    try:
        process, host = session.lock_marker.read_text("utf-8").splitlines()[:2]
        named = int(process)
    except FileNotFoundError:
        return owner
    except (OSError, ValueError):
        return _Owner()
    if owner.process == named:
        return owner
    # A process that was killed before it could name itself. filelock adds the namespace to the host, after "?".
    here = socket.gethostname()
    if host.partition("?")[0] != here:
        return _Owner(process=named, host=host[:80])
    return _Owner(named, "", here, boot_id(), process_namespace(), max(start_time(named), 0))


def _began(ticks: int) -> float:
    """Convert a process's start to seconds since the epoch.

    Without /proc this is the current time.
    """
    try:
        uptime = float(Path("/proc/uptime").read_text(encoding="utf-8").split()[0])
        return time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return time.time()


def _locked(session: SessionInfo, *, can_take_over: bool, take_over: bool) -> SessionLockedError:
    owner = _owner_of(session)
    already = " already" if owner.is_this else ""
    found = owner.described()
    sentence = f"Session {session.name!r} is open in {found}{already}; close it there, or query it with SQL from here."
    if owner.is_running or not can_take_over:
        refused = " It cannot be taken over while that process is running." if take_over and owner.is_running else ""
        return SessionLockedError(sentence + refused)
    return SessionLockedError(
        f"{sentence} If that process has ended, take the session over with "
        f"`%planck resume {session.name} --take-over`, in Python with Session.open(…, take_over=True)."
    )

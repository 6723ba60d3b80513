"""The lock of the process that writes a session.

The kernel releases a file lock when the process that holds it ends. Some file systems have no such locks, for
example Lustre without its mount option `flock`. On these, a second file exists for as long as a process has the lock;
a killed process leaves it behind. It is removed if that process ran on this computer, and otherwise on demand.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import filelock

from planck_nb.base.errors import SessionError, SessionLockedError
from planck_nb.base.processes import boot_id, process_namespace, start_time
from planck_nb.sessions.directory import SessionInfo

_NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
_MAX_BYTES = 64 * 1024
_MAX_TIME = 253_370_764_800
"""The beginning of the year 9999, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class _Owner:
    """The process that a lock names; `process` is 0 if it names none that can be read.

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
        """Whether it is a process of this computer, so that it can be checked whether it is running."""
        here = (self.host, self.boot, self.namespace) == (socket.gethostname(), boot_id(), process_namespace())
        return self.process > 0 and here

    @property
    def is_running(self) -> bool:
        """Whether the process is running on this computer."""
        return self.is_here and start_time(self.process) == self.started

    @property
    def is_this(self) -> bool:
        """Whether it is this process."""
        return self.process == os.getpid() and self.host == socket.gethostname()

    def __str__(self) -> str:
        if not self.process:
            return "another process"
        if self.is_this:
            return "this process"
        elsewhere = f" on {self.host[:80]}" if self.host and self.host != socket.gethostname() else ""
        return f"process {self.process}{elsewhere}" + (f" ({self.owner[:200]})" if self.owner else "")

    def described(self) -> str:
        """Describe the process: its host and start time, as far as they are known."""
        if not self.process or self.is_this:
            return str(self)
        host = f" on {self.host[:80]}" if self.host else ""
        began = f", started {datetime.fromtimestamp(self.since, UTC):%Y-%m-%d %H:%M} UTC" if self.since else ""
        return f"process {self.process}{host}{f' ({self.owner[:200]})' if self.owner else ''}{began}"


def lock_session(session: SessionInfo, owner: str, *, take_over: bool = False) -> filelock.BaseFileLock:
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
        lock = _acquire(session, take_over=take_over)
    except OSError as error:
        # On NFS without a lock service, other processes' locks cannot be seen, so this one is not assumed to be free.
        mend = (
            "start the lock service of its file system" if error.errno == errno.ENOLCK else "make its folder writable"
        )
        raise SessionError(
            f"The session's lock {session.lock} cannot be acquired ({error.strerror}); "
            f"{mend}, or set PLANCK_NB_SESSIONS_DIR to another folder."
        ) from error
    if lock is None:
        raise _locked(session, take_over=take_over)
    _Owner.this(owner).write(session.lock)
    return lock


def release(lock: filelock.BaseFileLock, session: SessionInfo) -> None:
    """Release a session's lock; its folder may have been moved since.

    Args:
        lock: What `lock_session` returned.
        session: The session where it is now.
    """
    lock.release()
    if isinstance(lock, filelock.SoftFileLock) and Path(lock.lock_file) != session.lock_marker:
        session.lock_marker.unlink(missing_ok=True)


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
        lock = _acquire(session)
    except OSError:
        return None
    if lock is None:
        return owner
    lock.release()
    return None


def remove_lock(session: SessionInfo) -> None:
    """Remove the lock file of a session that does not exist, unless a process has the lock. Raises OSError."""
    lock = _acquire(session)
    if lock is None:
        return
    try:
        session.lock.unlink(missing_ok=True)
    finally:
        lock.release()


def _acquire(session: SessionInfo, *, take_over: bool = False) -> filelock.BaseFileLock | None:
    """Acquire the lock of the kernel or, on a file system that has none, a lock file. Returns None if it is in use."""
    try:
        native = filelock.FileLock(session.lock, timeout=0, mode=0o600, thread_local=False, fallback_to_soft=False)
        return native if _try(native) else None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    soft = filelock.SoftFileLock(session.lock_marker, timeout=0, mode=0o600, thread_local=False)
    # The first attempt may only remove the file of a process that was killed on this computer.
    if _try(soft) or _try(soft):
        return soft
    if take_over and not _owner_of(session).is_running and _remove_marker(session) and _try(soft):
        return soft
    return None


def _try(lock: filelock.BaseFileLock) -> bool:
    try:
        lock.acquire()
    except filelock.Timeout:
        return False
    return True


def _remove_marker(session: SessionInfo) -> bool:
    """Remove the lock file of a process that may have ended, but none that another process creates meanwhile."""
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


def _owner_of(session: SessionInfo) -> _Owner:
    """Return the process that has the session's lock, as far as its files name it."""
    owner = _Owner.read(session.lock)
    try:
        process, host = session.lock_marker.read_text("ascii").splitlines()[:2]
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
    """Convert the start of a process to seconds since the epoch; without /proc this is the current time."""
    try:
        uptime = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
        return time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return time.time()


def _locked(session: SessionInfo, *, take_over: bool) -> SessionLockedError:
    owner = _owner_of(session)
    already = " already" if owner.is_this else ""
    found = owner.described()
    sentence = f"Session {session.name!r} is open in {found}{already}; close it there, or query it with SQL from here."
    if owner.is_running or not session.lock_marker.exists():
        refused = " It cannot be taken over while that process is running." if take_over and owner.is_running else ""
        return SessionLockedError(sentence + refused)
    return SessionLockedError(
        f"{sentence} If that process has ended, take the session over with "
        f"`%planck resume {session.name} --take-over`, in Python with Session.open(…, take_over=True)."
    )

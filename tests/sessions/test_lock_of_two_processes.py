"""Two processes with one session, each with file locks or without: one of them writes, and never both."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sessions.test_session_lock_without_flock import HOLD, REFUSE

from planck_nb.base.file_locks import refuses_locks
from planck_nb.errors import SessionError, SessionLockedError
from planck_nb.sessions import Session, delete_session, open_in
from planck_nb.sessions.directory import new_session_info
from planck_nb.sessions.lock import lock_session

pytestmark = [pytest.mark.process, pytest.mark.skipif(sys.platform != "linux", reason="only Linux refuses a call")]

NFS_WITHOUT_SERVICE = errno.ENOLCK
KERNELS_OWN = 524
"""ENOTSUPP, which Linux has besides ENOTSUP; some file systems let it through."""

REFUSALS = [NFS_WITHOUT_SERVICE, KERNELS_OWN, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL, errno.EIO, errno.EPERM]
"""Errors of the locking call on file systems without locks."""

WITH_LOCKS = (
    "from pathlib import Path; import sys; from planck_nb.sessions import Session; directory = Path(sys.argv[2])"
)


def refuse(number: int) -> Callable[..., None]:
    def flock(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return flock


@contextmanager
def holder(directory: Path, *, locks: bool) -> Iterator[subprocess.Popen[str]]:
    """A process that has the session `mine` open, until its input ends."""
    code = (WITH_LOCKS if locks else REFUSE) + HOLD
    command = [sys.executable, "-c", code, str(NFS_WITHOUT_SERVICE), str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            pytest.skip("this kernel does not refuse system calls")
        yield process


@pytest.fixture
def reopen(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Session]:
    """Open the session `mine` in this process."""

    def opened(directory: Path, *, locks: bool, take_over: bool = False) -> Session:
        with monkeypatch.context() as patch:
            if not locks:
                patch.setattr(fcntl, "flock", refuse(NFS_WITHOUT_SERVICE))
            return Session.open(directory, "mine", take_over=take_over)

    return opened


@pytest.mark.parametrize("second", [True, False], ids=["locks", "marker"])
@pytest.mark.parametrize("first", [True, False], ids=["locks", "marker"])
def test_two_processes(first: bool, second: bool, tmp_path: Path, reopen: Callable[..., Session]) -> None:
    with holder(tmp_path, locks=first) as process:
        for take_over in (False, True):
            with pytest.raises(SessionLockedError, match=rf"process {process.pid} on .* \(a\.ipynb\)"):
                reopen(tmp_path, locks=second, take_over=take_over)
        process.send_signal(signal.SIGKILL)
        process.wait()
    with reopen(tmp_path, locks=second) as session:
        assert session.info.lock_marker.exists() is not second
        assert json.loads(session.info.lock.read_text())["pid"] == os.getpid()
    assert not session.info.lock_marker.exists()
    with holder(tmp_path / "other", locks=first) as process:
        process.communicate()
    reopen(tmp_path / "other", locks=second).close()


@pytest.mark.parametrize("second", [True, False], ids=["locks", "marker"])
@pytest.mark.parametrize("first", ["marker", "lock file"])
def test_the_session_of_another_computer_is_opened_on_demand_only(
    first: str, second: bool, tmp_path: Path, reopen: Callable[..., Session]
) -> None:
    with Session.create(tmp_path, name="mine") as session:
        record = json.loads(session.info.lock.read_text())
    if first == "marker":
        session.info.lock_marker.write_text("4711\nnode7\n123\n")
    session.info.lock.write_text(json.dumps(record | {"host": "node7", "boot": "other", "pid": 4711}))
    if first == "lock file" and second:
        reopen(tmp_path, locks=True).close()  # the kernel knows that the lock is free
        return
    with pytest.raises(SessionLockedError, match=r"process 4711 on node7.*take_over=True"):
        reopen(tmp_path, locks=second)
    reopen(tmp_path, locks=second, take_over=True).close()
    reopen(tmp_path, locks=second).close()


@pytest.mark.parametrize("locks", [True, False], ids=["locks", "marker"])
def test_a_closed_session_names_no_process(
    locks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reopen: Callable[..., Session]
) -> None:
    Session.create(tmp_path, name="mine").close()
    with reopen(tmp_path, locks=locks) as session:
        assert json.loads(session.info.lock.read_text())["host"] == socket.gethostname()
    assert session.info.lock.read_text() == ""
    assert open_in(session.info) is None
    delete_session(session.info, confirm="mine")
    assert list(tmp_path.glob("*.lock*")) == []


@pytest.mark.parametrize("number", REFUSALS, ids=errno.errorcode.get)
def test_a_session_is_stored_where_files_cannot_be_locked(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", refuse(number))
    with Session.create(tmp_path, name="mine") as session:
        assert session.info.lock_marker.exists()
        with pytest.raises(SessionLockedError, match="in this process already"):
            Session.open(tmp_path, "mine")


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EACCES])
def test_a_lock_of_another_process_is_no_missing_lock(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Session.create(tmp_path, name="mine").close()
    monkeypatch.setattr(fcntl, "flock", refuse(number))
    assert not refuses_locks(tmp_path / "x.lock")
    with pytest.raises(SessionLockedError):
        Session.open(tmp_path, "mine")


def test_files_that_cannot_be_opened_say_nothing_about_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", refuse(NFS_WITHOUT_SERVICE))
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for path in (tmp_path, tmp_path / "missing" / "x.lock", tmp_path / "link"):
        assert not refuses_locks(path)
    assert refuses_locks(tmp_path / "x.lock")


OTHER_PROBLEMS = {
    errno.EMFILE: "close some of the open files",
    errno.ENFILE: "close some of the open files",
    errno.ENOSPC: "free some space there",
    errno.EDQUOT: "free some space there",
    errno.EROFS: "make its folder writable",
    errno.EACCES: "make its folder writable",
}
"""Errors of opening the lock file, and the remedies. With a marker beside a file lock, two processes would write."""


@pytest.mark.parametrize("number", OTHER_PROBLEMS, ids=errno.errorcode.get)
def test_a_lock_file_that_cannot_be_opened_is_not_replaced_by_a_marker(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused_open(path: Any, *options: Any, **named: Any) -> int:
        if str(path) == str(info.lock):
            raise OSError(number, os.strerror(number))
        return real_open(path, *options, **named)

    info, real_open = new_session_info(tmp_path, "00ff" * 4, "mine"), os.open
    monkeypatch.setattr(os, "open", refused_open)
    with pytest.raises(SessionError, match=rf"\({os.strerror(number)}\); {OTHER_PROBLEMS[number]}, or set "):
        lock_session(info, "x")
    assert not info.lock_marker.exists()

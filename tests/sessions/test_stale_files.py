"""Temporary files that killed processes have left in a sessions directory."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from planck_nb.ai.messages import UserMessage
from planck_nb.sessions import Session, list_sessions, query

pytestmark = pytest.mark.process

STEM = "0123456789abcdef_mine.journal"
NAMES = (
    ".planck-0123456789ab.tmp",  # forks, imports and compressed segments
    f"{STEM}.next",  # new segments
    "0123456789abcdef.lock.held.0123456789ab",  # locks that were taken over
    ".planck-0123456789ab.tmp.wal",  # the log of a database that a query was making
)
FOREIGN = ("mine.tmp", ".planck-xyz.tmp", "x.part", "mine.journal.next", f"{STEM}.jsonl.part", "notes.next")
LONG_AGO = (1_000_000, 1_000_000)

KILLED = """
import os, sys
from pathlib import Path
from planck_nb.sessions import Session
from planck_nb.sessions.exports import export
from planck_nb.base import atomic
directory = Path(sys.argv[1])
session = Session.open(directory, "mine")
os.fsync = lambda descriptor: os.kill(os.getpid(), 9)
session.fork(name="copy")
"""

HOLD = """
import sys
from pathlib import Path
from planck_nb.sessions import Session
with Session.start("0123456789abcdef", name="mine", directory=Path(sys.argv[1])):
    print("ready", flush=True)
    sys.stdin.read()
"""


def put(directory: Path, *names: str, at: tuple[int, int] | None = LONG_AGO) -> list[Path]:
    paths = [directory / name for name in names]
    for path in paths:
        path.touch()
        if at is not None:
            os.utime(path, at)
    return paths


def test_old_ones_are_removed_and_nothing_else(tmp_path: Path) -> None:
    old, foreign = put(tmp_path, *NAMES), put(tmp_path, *FOREIGN)
    other = tmp_path / "other"
    other.mkdir()
    new = put(other, *NAMES, at=None)
    folder = tmp_path / ".planck-00000000000a.tmp"
    folder.mkdir()
    link = tmp_path / ".planck-00000000000b.tmp"
    link.symlink_to(foreign[0])
    Session.create(tmp_path).close()
    Session.create(other).close()
    assert not [path for path in old if path.exists()]
    assert all(path.exists() for path in (*foreign, *new, folder, link))


def test_those_of_a_session_that_is_opened_are_removed_at_once(tmp_path: Path) -> None:
    with Session.start("0123456789abcdef", name="mine", directory=tmp_path):
        pass
    mine, others = put(tmp_path, *NAMES[1:2], at=None), put(tmp_path, f"f{STEM[1:]}.next", at=None)
    Session.open(tmp_path, "mine").close()
    assert not [path for path in mine if path.exists()]
    assert others[0].exists(), "another process may be using it"


def test_those_of_a_session_that_a_process_has_open_are_kept(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        paths = put(tmp_path, *NAMES[1:2])
        Session.create(tmp_path).close()
        assert all(path.exists() for path in paths)
        holder.communicate()
    Session.create(tmp_path).close()
    assert not [path for path in paths if path.exists()]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may give files away")
def test_those_of_another_user_are_kept(tmp_path: Path) -> None:
    paths = put(tmp_path, *NAMES)
    for path in paths:
        os.chown(path, 12345, 12345)
    with Session.start("0123456789abcdef", name="mine", directory=tmp_path):
        pass
    assert all(path.exists() for path in paths)


@pytest.mark.skipif(sys.platform == "win32", reason="kills with SIGKILL")
def test_what_a_killed_fork_leaves_is_removed_a_day_later(tmp_path: Path) -> None:
    with Session.create(tmp_path, name="mine") as session:
        asyncio.run(session.append("a", UserMessage("one")))
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    left = [path for path in session.directory.iterdir() if path.suffix == ".tmp"]
    assert len(left) == 1
    os.utime(left[0], LONG_AGO)
    Session.open(tmp_path, "mine").close()
    assert not left[0].exists()
    assert [info.name for info in list_sessions(tmp_path)] == ["mine"]
    assert len(query(tmp_path, "from messages")) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="kills with SIGKILL")
def test_the_lock_of_a_killed_fork_is_removed(tmp_path: Path) -> None:
    with Session.create(tmp_path, name="mine") as session:
        asyncio.run(session.append("a", UserMessage("one")))
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    (left,) = [path for path in tmp_path.glob("*.lock") if path != session.info.lock]
    Session.open(tmp_path, "mine").close()
    assert left.exists(), "a process may have created it just now"
    os.utime(left, LONG_AGO)
    os.utime(session.info.lock, LONG_AGO)
    Session.create(tmp_path).close()
    assert not left.exists()
    assert session.info.lock.exists(), "its session exists"


def test_a_lock_that_a_process_holds_is_kept_without_a_journal_too(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        (lock,) = tmp_path.glob("*.lock")
        for path in tmp_path.glob("*.journal*"):
            path.rename(path.with_name(f"moved-{path.name}"))
        os.utime(lock, LONG_AGO)
        Session.create(tmp_path).close()
        assert lock.exists()
        holder.communicate()
    for path in tmp_path.glob("0123456789abcdef_*"):  # written again when it was closed
        path.unlink()
    os.utime(lock, LONG_AGO)
    Session.create(tmp_path).close()
    assert not lock.exists()


def test_locks_that_are_not_files_or_belong_to_something_else_are_kept(tmp_path: Path) -> None:
    kept = put(tmp_path, "notes.lock", "0123456789abcdef.lock.txt", "0123456789ABCDEF.lock")
    link = tmp_path / "1123456789abcdef.lock"
    link.symlink_to(kept[0])
    (tmp_path / "2123456789abcdef.lock").mkdir()
    empty = put(tmp_path, "3123456789abcdef.lock")[0]
    Session.create(tmp_path).close()
    assert all(path.exists() for path in (*kept, link, tmp_path / "2123456789abcdef.lock"))
    assert not empty.exists()

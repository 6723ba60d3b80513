"""The lock of a session on file systems without locks: the kernel refuses `flock` in the processes of these tests."""

import errno
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest

from planck_nb.errors import SessionLockedError
from planck_nb.sessions import Session, delete_session, find_session

REFUSE = r"""
import ctypes, fcntl, platform, struct, sys, tempfile
NUMBERS = {"x86_64": 73, "aarch64": 32}

class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

def refuse_flock(error):
    call = NUMBERS.get(platform.machine(), -1)
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, call), (0x06, 0, 0, 0x50000 | error), (0x06, 0, 0, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBi", *step) for step in steps))
    program = Program(len(steps), ctypes.cast(code, ctypes.c_void_p))
    libc = ctypes.CDLL(None)
    libc.prctl(38, 1, 0, 0, 0)
    libc.prctl(22, 2, ctypes.byref(program), 0, 0)
    try:
        with tempfile.TemporaryFile() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as refused:
        return refused.errno == error
    return False

if not refuse_flock(int(sys.argv[1])):
    sys.exit(77)
from pathlib import Path
from planck_nb.errors import PlanckError
from planck_nb.sessions import Session, compact_store, delete_session, find_session, open_in
directory = Path(sys.argv[2])
def attempt(act):
    try:
        return act()
    except PlanckError as error:
        return f"{type(error).__name__}: {error}"
def opened(**options):
    session = Session.open(directory, "mine", owner="b.ipynb", **options)
    session.close()
    return f"opened, {sorted(path.name for path in directory.glob('*.held*'))}"
"""

HOLD = """
session = Session.create(directory, name="mine", owner="a.ipynb")
print("ready", flush=True)
sys.stdin.read()
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux can refuse a system call")

ERRORS = [errno.ENOSYS, errno.ENOTSUP]


def start(error: int, directory: Path, script: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-c", REFUSE + script, str(error), str(directory)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def run(error: int, directory: Path, script: str) -> list[str]:
    """Run statements in a process without `flock` and return the lines that it printed."""
    with start(error, directory, script) as process:
        said, _ = process.communicate()
    if process.returncode == 77:
        pytest.skip("this kernel does not refuse system calls")
    assert process.returncode == 0
    return said.splitlines()


def killed_holder(error: int, directory: Path) -> int:
    with start(error, directory, HOLD) as holder:
        assert holder.stdout is not None
        if holder.stdout.readline() != "ready\n":
            pytest.skip("this kernel does not refuse system calls")
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    return holder.pid


@pytest.mark.slow
@pytest.mark.parametrize("error", ERRORS)
def test_the_session_of_a_killed_process_is_opened_by_the_next_one(tmp_path: Path, error: int) -> None:
    killed_holder(error, tmp_path)
    assert list(tmp_path.glob("*.held"))
    said = run(error, tmp_path, "print(open_in(find_session(directory, 'mine'))); print(attempt(opened))")
    assert said == ["None", "opened, []"]


@pytest.mark.process
def test_a_running_process_keeps_its_session_and_is_named(tmp_path: Path) -> None:
    error = errno.ENOSYS
    before = time.time()
    with start(error, tmp_path, HOLD) as holder:
        assert holder.stdout is not None
        if holder.stdout.readline() != "ready\n":
            pytest.skip("this kernel does not refuse system calls")
        said = run(
            error,
            tmp_path,
            "info = find_session(directory, 'mine')\n"
            "print(open_in(info)); print(attempt(opened)); print(attempt(lambda: opened(take_over=True)))\n"
            "print(attempt(lambda: delete_session(info, confirm='mine'))); print(compact_store(directory))",
        )
        holder.communicate()
    name = f"process {holder.pid} (a.ipynb)"
    found = re.match(
        r"(SessionLockedError: Session 'mine' is open in process (\d+) on (\S+) \(a\.ipynb\), started (.{16}) UTC; "
        r"close it there, or query it with SQL from here\.)",
        said[1],
    )
    assert found is not None, said[1]
    locked, process, host, began = found.groups()
    assert (int(process), host) == (holder.pid, socket.gethostname())
    assert abs(datetime.fromisoformat(began + "Z").timestamp() - before) <= 60
    refused = " It cannot be taken over while that process is running."
    assert said == [name, locked, locked + refused, locked, "0"]
    assert run(error, tmp_path, "print(attempt(opened))") == ["opened, []"]


@pytest.mark.slow
def test_the_session_of_another_computer_is_opened_on_demand_only(tmp_path: Path) -> None:
    pid = killed_holder(errno.ENOTSUP, tmp_path)
    session = find_session(tmp_path, "mine")
    record = json.loads(session.lock.read_text())
    assert (record["pid"], record["started"] > 0) == (pid, True)
    session.lock.write_text(json.dumps(record | {"host": "node7", "boot": "other", "since": 1767323040.5}))
    session.lock_marker.write_text(f"{pid}\nnode7\n123\n")
    said = run(
        errno.ENOTSUP,
        tmp_path,
        "print(open_in(find_session(directory, 'mine'))); print(attempt(opened))\n"
        "print(attempt(lambda: opened(take_over=True))); print(attempt(opened))",
    )
    locked = (
        f"SessionLockedError: Session 'mine' is open in process {pid} on node7 (a.ipynb), started 2026-01-02 03:04 "
        "UTC; close it there, or query it with SQL from here. If that process has ended, take the session over with "
        "`%planck resume mine --take-over`, "
        "in Python with Session.open(…, take_over=True)."
    )
    assert said == [
        f"process {pid} on node7 (a.ipynb)",
        locked,
        "opened, []",
        "opened, []",
    ]


@pytest.mark.process
def test_a_lock_that_names_nobody_can_be_taken_over(tmp_path: Path) -> None:
    nonsense = {
        b"": '{"owner": 1}',
        b"\xff\xfe": '{"owner": "x", "pid": 5, "since": 1e300}',
        b"{}": "[]",
        b"12": '{"owner": "x", "pid": "y"}',
        b"4711\nnode7\n": "x" * 100_000,
        b"99999999999999999999\nnode7\n": "[" * 5_000,
        b"-1\nx\n1\n": "{}",
    }
    for number, (marker, record) in enumerate(nonsense.items()):
        with Session.create(tmp_path / str(number), name="mine") as session:
            pass
        session.info.lock.write_text(record)
        session.info.lock_marker.write_bytes(marker)
    script = """
for directory in sorted(directory.iterdir()):
    print(attempt(opened))
    print(attempt(lambda: opened(take_over=True)))
"""
    said = run(errno.ENOSYS, tmp_path, script)
    assert len(said) == 2 * len(nonsense)
    for refused in said[::2]:
        assert re.match(r"SessionLockedError: Session 'mine' is open in .*--take-over", refused)
    assert said[1::2] == ["opened, []"] * len(nonsense)


@pytest.mark.process
def test_a_deleted_session_leaves_no_lock(tmp_path: Path) -> None:
    killed_holder(errno.ENOSYS, tmp_path)
    script = "print(attempt(lambda: delete_session(find_session(directory, 'mine'), confirm='mine')))"
    assert run(errno.ENOSYS, tmp_path, script) == ["None"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_workspace_takes_a_session_over(tmp_path: Path) -> None:
    pid = killed_holder(errno.ENOTSUP, tmp_path)
    session = find_session(tmp_path, "mine")
    session.lock_marker.write_text(f"{pid}\nnode7\n123\n")
    session.lock.write_text(json.dumps(json.loads(session.lock.read_text()) | {"host": "node7"}))
    script = """
import asyncio
from planck_nb.config import Config
from planck_nb.workspace import Workspace
async def resume(**options):
    config = Config.load(environment={}, directory=directory, home=directory, sessions_dir=directory)
    async with Workspace(config) as workspace:
        await workspace.resume("mine", **options)
        return workspace.session.name
print(attempt(lambda: asyncio.run(resume())))
print(attempt(lambda: asyncio.run(resume(take_over=True))))
"""
    refused, resumed = run(errno.ENOTSUP, tmp_path, script)
    assert refused.startswith(f"SessionLockedError: Session 'mine' is open in process {pid} on node7 (a.ipynb)")
    assert resumed == "mine"


def refuse(*_: object) -> None:
    raise OSError(errno.ENOTSUP, "no locks")


def test_the_lock_file_of_a_process_that_has_ended_is_removed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Session.create(tmp_path, name="mine") as session:
        pass
    process = 2**22 + 1  # Linux gives no process a higher number than 2**22
    session.info.lock_marker.write_text(f"{process}\n{socket.gethostname()}\n")
    monkeypatch.setattr(fcntl, "flock", refuse)
    Session.open(tmp_path, "mine").close()
    assert not session.info.lock_marker.exists()


def test_the_session_of_a_running_process_is_not_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", refuse)
    with Session.create(tmp_path, name="mine") as session:
        with pytest.raises(SessionLockedError, match="in this process already") as refusal:
            Session.open(tmp_path, "mine")
        assert session.info.lock_marker.exists()
    assert "--take-over" not in str(refusal.value)


def test_a_lock_file_that_another_process_replaces_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between reading the file of a process that has ended and removing it."""

    def rename(path: Path, target: Path) -> Path:
        replaced.append(path)
        path.write_text("12\nnode8\n1\n")
        return path.replace(target)

    with Session.create(tmp_path, name="mine") as session:
        pass
    replaced: list[Path] = []
    marker = session.info.lock_marker
    marker.write_text("11\nnode7\n1\n")
    monkeypatch.setattr(fcntl, "flock", refuse)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", rename)
        with pytest.raises(SessionLockedError, match="node8"):
            Session.open(tmp_path, "mine", take_over=True)
    assert replaced == [marker]
    assert marker.read_text() == "12\nnode8\n1\n"
    assert [path.name for path in tmp_path.glob(f"{marker.name}*")] == [marker.name]
    Session.open(tmp_path, "mine", take_over=True).close()
    assert not marker.exists()


def test_a_lock_of_the_kernel_is_not_taken_over(tmp_path: Path) -> None:
    with Session.create(tmp_path, name="mine") as session:
        with pytest.raises(Exception, match="is open in this process already"):
            Session.open(tmp_path, "mine", take_over=True)
        assert not session.info.lock_marker.exists()
        assert json.loads(session.info.lock.read_text())["pid"] == os.getpid()
    Session.open(tmp_path, "mine", take_over=True).close()
    delete_session(session.info, confirm="mine")


MOVE = """
import asyncio
from planck_nb.ai.messages import UserMessage
session = Session.create(directory / "old", name="mine")
(directory / "old").rename(directory / "new")
asyncio.run(session.append("a", UserMessage("hi")))
print(attempt(lambda: Session.open(directory / "new", "mine")))
session.close()
print(attempt(lambda: Session.open(directory / "new", "mine").close()))
print(*sorted(path.name for path in directory.rglob("*.held")))
"""


@pytest.mark.slow
def test_a_lock_is_released_where_its_folder_is_now(tmp_path: Path) -> None:
    refused, opened, held = run(errno.ENOSYS, tmp_path, MOVE)
    assert refused.startswith("SessionLockedError: ")
    assert (opened, held) == ("None", "")
    assert not (tmp_path / "old").exists()

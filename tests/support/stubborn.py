"""A command that leaves processes behind which do not want to end, and how they are seen from outside."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import psutil

ENDS_WITHIN = 60.0

MARK = "PLANCK_NB_TEST_MARK"
"""The environment variable that everything inherits which a kernel starts."""

NAMES = ("command", "deaf", "apart")

PROGRAM = """
import os, signal, subprocess, sys

WAIT = "import os, signal, sys; {}; open(sys.argv[1] + '~', 'w').write(str(os.getpid())); "
WAIT += "os.rename(sys.argv[1] + '~', sys.argv[1]); [signal.pause() for _ in iter(int, 1)]"
IGNORE = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"

subprocess.Popen([sys.executable, "-c", WAIT.format(IGNORE), "deaf"])
subprocess.Popen([sys.executable, "-c", WAIT.format("os.setsid(); " + IGNORE), "apart"])
print("they run", flush=True)
sys.argv[1:] = ["command"]
exec(WAIT.format("pass"))
"""
"""Starts a process that ignores SIGTERM and one that also leaves the process group, and waits for ever."""


def put_program(folder: Path) -> str:
    """Write the program into `folder`; the command that runs it there."""
    (folder / "stubborn.py").write_text(PROGRAM)
    return "python3 stubborn.py"


def wait_until_started(folder: Path) -> None:
    """Wait until the program and what it started run. Their ids mean nothing outside their sandbox."""
    until(lambda: all((folder / name).exists() for name in NAMES), "the command starts")


def marked(mark: str, *, kernel: int | None = None) -> list[psutil.Process]:
    """All processes that carry the mark, but for the kernel and its watchdog."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            is_ours = process.environ().get(MARK) == mark
            if is_ours and (kernel is None or (process.pid != kernel and not _is_watchdog_of(process, kernel))):
                found.append(process)
        except (psutil.Error, OSError):
            continue  # gone meanwhile, or a zombie that nobody has collected
    return found


def everything_ends(mark: str) -> None:
    """Wait for the end of all that carries the mark; what does not end fails the test and is killed."""
    try:
        until(lambda: not marked(mark), "everything ends with the kernel")
    finally:
        for process in marked(mark):
            process.kill()


def _is_watchdog_of(process: psutil.Process, kernel: int) -> bool:
    return process.ppid() == kernel and any(word.endswith("watchdog.py") for word in process.cmdline())


def until(true: Callable[[], object], what: str, seconds: float = ENDS_WITHIN) -> None:
    """Look again and again until it is so."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.02)  # processes of others have no other way to tell

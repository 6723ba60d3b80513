"""Starts a watchdog beside this process, so that no command outlives it."""

from __future__ import annotations

import os
import secrets
import threading
from contextlib import suppress
from pathlib import Path

from planck_nb.base.forks import call_in_forks
from planck_nb.base.programs import PYTHON
from planck_nb.tools import watchdog

MARK = "PLANCK_NB_COMMAND"
"""The environment variable by which the processes of a command are recognised."""

ENTRY = 'echo "+$$" >&0; exec </dev/null; exec "$@"'
"""The script for /bin/sh that starts a command: its group reports itself to the watchdog on standard input before the
command begins, so that it is watched at every moment."""


class WatchdogProcess:
    """The watchdog of this process, started with the first command, and again if it was killed or after a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._watchdog = 0
        self._pipe = -1
        self._token = ""

    def forget(self) -> None:
        """In a forked process: leave the watchdog to the parent. A thread that is not here may hold the lock."""
        self._lock = threading.Lock()
        self._owner = self._watchdog = 0
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1

    def begin_group(self) -> tuple[int, str]:
        """Return a file descriptor to which a new process group writes `+PGID`, and the mark for its environment."""
        with self._lock:
            if self._owner != os.getpid() or not _alive(self._watchdog):
                self._start()
            return self._pipe, f"{self._token}-{secrets.token_hex(6)}"

    def add_group(self, group: int) -> None:
        """Report a process group that has begun and does not report itself, because its input is something else."""
        with self._lock:
            if self._pipe >= 0:
                with suppress(BrokenPipeError):  # as in `end_group`
                    os.write(self._pipe, b"+%d\n" % group)

    def end_group(self, group: int) -> None:
        """Report that a process group has ended."""
        with self._lock:
            if self._pipe < 0:
                return  # this process was forked since, and its parent reports the end
            try:
                os.write(self._pipe, b"-%d\n" % group)
            except BrokenPipeError:
                return  # the watchdog was killed; the next command starts another

    def _start(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
        self._token = self._token if self._owner == os.getpid() else secrets.token_hex(8)
        reading, self._pipe = os.pipe()
        command = [PYTHON, "-I", "-S", str(Path(watchdog.__file__)), str(os.getpid()), f"{MARK}={self._token}-"]
        environment = {name: value for name, value in os.environ.items() if name != MARK}
        actions = [
            (os.POSIX_SPAWN_DUP2, reading, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        try:
            self._watchdog = os.posix_spawn(PYTHON, command, environment, file_actions=actions, setsid=True)
        finally:
            os.close(reading)
        self._owner = os.getpid()


def _alive(process: int) -> bool:
    try:
        return process != 0 and os.waitpid(process, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        return False


watchdog_process = WatchdogProcess()
"""The watchdog of this process."""

call_in_forks(watchdog_process.forget)

"""A sidecar's process groups, each ended with everything started by it."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from planck_nb.tools.watchdog import ProcessTree
from planck_nb.tools.watchdog_process import ENTRY, MARK, watchdog_process

ON_POSIX: bool = os.name == "posix"
"""True on systems with process groups; elsewhere only the first process ends."""

_JOIN = 0.5
"""Seconds to wait for a thread which kills processes."""

_groups: dict[int, ProcessGroup] = {}
_killing: set[threading.Thread] = set()


class ProcessGroup:
    """A process group from this process.

    Args:
        pid: Id of its first process, which leads the group.
        mark: Value for recognising processes which left the group.
    """

    def __init__(self, pid: int, mark: str) -> None:
        self._pid = pid
        self._mark = mark
        _groups[pid] = self

    def kill(self) -> None:
        """Kill the group at once, and stray processes in a thread.

        Strays have left the group.
        """
        if self._signal():
            _in_thread(self._kill_strays)

    def kill_all(self) -> None:
        """Kill the group and its strays before returning."""
        self._signal()
        self._kill_strays()

    def ended(self) -> None:
        """Note the group's end: its number may soon be another's."""
        _groups.pop(self._pid, None)
        if ON_POSIX:
            watchdog_process.end_group(self._pid)

    def _signal(self) -> bool:
        if not ON_POSIX:
            with suppress(OSError):
                os.kill(self._pid, signal.SIGTERM)
            return False
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)
        return True

    def _kill_strays(self) -> None:
        if sys.platform == "linux":
            ProcessTree(f"{MARK}={self._mark}".encode()).kill([], [])


def kill_all_groups() -> None:
    """Kill all groups, because this process ends."""
    for group in list(_groups.values()):
        group.kill_all()
    for thread in list(_killing):
        thread.join(_JOIN)


def _in_thread(function: Callable[[], None]) -> None:
    """Call a function in a thread for which `kill_all_groups` waits."""

    def call() -> None:
        try:
            function()
        finally:
            _killing.discard(threading.current_thread())

    thread = threading.Thread(target=call, name="planck-kill", daemon=True)
    _killing.add(thread)
    thread.start()


def watched(command: list[str]) -> tuple[list[str], int, str]:
    """Return a watched command, its standard input, and the mark for `MARK`.

    It is ended even if this process is killed.
    """
    if not ON_POSIX:
        return command, subprocess.DEVNULL, secrets.token_hex(8)
    pipe, mark = watchdog_process.begin_group()
    return ["/bin/sh", "-c", ENTRY, "sh", *command], pipe, mark

"""A process of its own that ends the commands of a kernel which is gone, however it went.

Run by path, with the standard library only: `python watchdog.py PARENT_PID MARK`. On its standard input come lines
`+PGID` and `-PGID`, one for each process group that begins and ends. When the parent dies, also by SIGKILL, or closes
its end, the groups that are left get SIGTERM and then SIGKILL, and so does every process that carries the parent's
mark in its environment.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL."""


def marked(mark: bytes) -> list[int]:
    """The processes whose environment contains `mark`; none where the system has no /proc."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


def send(signal_number: int, groups: Iterable[int], processes: Iterable[int]) -> None:
    """Signal the process groups and processes that are still there."""
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal_number)
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal_number)


class _Groups:
    """The groups that run, as told on standard input."""

    def __init__(self) -> None:
        self.running: set[int] = set()
        self.open = True
        self._rest = b""

    def read(self) -> None:
        data = os.read(0, 65_536)
        self.open = bool(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            change = self.running.add if line[:1] == b"+" else self.running.discard
            change(int(line[1:]))


def _watch(parent: int, mark: bytes) -> None:
    groups = _Groups()
    died: list[int] = []
    with suppress(AttributeError, OSError):  # without pidfd the closed end must do: it is as good unless kernels fork
        died.append(os.pidfd_open(parent))
    while groups.open and os.getppid() == parent:
        ready, _, _ = select.select([0, *died], [], [])
        if 0 in ready:
            groups.read()
    for signal_number in (signal.SIGTERM, signal.SIGKILL, signal.SIGKILL):
        send(signal_number, groups.running, marked(mark))
        deadline = time.monotonic() + GRACE
        while groups.open and select.select([0], [], [], max(deadline - time.monotonic(), 0))[0]:
            groups.read()  # a command that was about to begin tells of itself only now
        time.sleep(max(deadline - time.monotonic(), 0))


if __name__ == "__main__":
    _watch(int(sys.argv[1]), sys.argv[2].encode())

"""A process of its own that ends the commands of a kernel which is gone, however it went.

Run by path, with the standard library only: `python watchdog.py PARENT_PID MARK`. On its standard input come lines
`+PGID` and `-PGID`, one for each process group that begins and ends. When the parent dies, also by SIGKILL, or closes
its end, the groups that are left get SIGTERM and then SIGKILL, and so does every process that carries the parent's
mark in its environment, or was started by one of these.
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

_STARTED = 17
"""Where in /proc/PID/stat, after the parent, it stands when a process began: with that its number is its own."""

_ROUNDS = 20
"""How often what was begun meanwhile is looked for before all are killed."""


class ProcessTree:
    """Processes that belong together: those whose environment contains `mark`, and what they started.

    What gave up its environment is known by its parent, and once it was seen, without one. There are none where the
    system has no /proc.

    This reads /proc itself instead of with psutil: the watchdog runs isolated from site-packages, so that nothing
    installed there can break it; a scan takes less than half the time, and while processes are being ended each scan is
    a race with what they start; and a mark in an environment that a program has overwritten in part is still found.
    """

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._known: dict[int, bytes] = {}

    def alive(self, roots: Iterable[int] = ()) -> list[int]:
        """Those that run now; `roots` are more processes whose children count, but not themselves."""
        parents: dict[int, int] = {}
        begun: dict[int, bytes] = {}
        kin: set[int] = set()
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                state, parent, *rest = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                if state in {b"Z", b"X"}:
                    continue
                process = int(entry.name)
                parents[process], begun[process] = int(parent), rest[_STARTED]
                if self._mark in (entry / "environ").read_bytes():
                    kin.add(process)
        kin.update(process for process, start in self._known.items() if begun.get(process) == start)
        line = kin.union(roots)
        while children := {child for child, parent in parents.items() if parent in line} - kin:
            kin |= children
            line |= children
        self._known = {process: begun[process] for process in kin}
        return list(kin)

    def kill(self, groups: Iterable[int], roots: Iterable[int]) -> None:
        """Kill the process groups and all kin; halted first, so that none begins another that is not seen."""
        halted: set[int] = set()
        for _ in range(_ROUNDS):
            found = self.alive(roots)
            send(signal.SIGSTOP, groups, found)
            if halted.issuperset(found):
                break
            halted.update(found)
        send(signal.SIGKILL, groups, halted)


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
    kin = ProcessTree(mark)
    for last in (False, True, True):
        if last:
            kin.kill(groups.running, groups.running)
        else:
            send(signal.SIGTERM, groups.running, kin.alive(groups.running))
        deadline = time.monotonic() + GRACE
        while groups.open and select.select([0], [], [], max(deadline - time.monotonic(), 0))[0]:
            groups.read()  # a command that was about to begin tells of itself only now
        time.sleep(max(deadline - time.monotonic(), 0))


if __name__ == "__main__":
    _watch(int(sys.argv[1]), sys.argv[2].encode())

"""A separate process that ends the commands of a kernel that is gone, however it ended.

Run by path, with the standard library only: `python watchdog.py PARENT_PID MARK`. It reads lines `+PGID` and `-PGID`
from standard input, for process groups that begin and end. When the parent dies, also by SIGKILL, or closes its end,
the groups that are left get SIGTERM and then SIGKILL, and so does every process that carries the parent's mark in its
environment, or was started by one of these.
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

KILL_GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL."""

_STARTED = 17
"""The index, after the parent, of the start time in /proc/PID/stat: with it, a process number is unique."""

_ROUNDS = 20
"""How often new processes are looked for before all are killed."""


class ProcessTree:
    """Processes that belong together: those whose environment contains `mark`, and what they started.

    A process that cleared its environment is recognised by its parent, and once seen, also without one. Without /proc,
    none are found.

    This reads /proc itself instead of with psutil: the watchdog runs isolated from site-packages, so that nothing
    installed there can break it; a scan takes less than half the time, and while processes are being ended each scan is
    a race with what they start; and a mark in an environment that a program has overwritten in part is still found.
    """

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._known: dict[int, bytes] = {}

    def running(self, roots: Iterable[int] = ()) -> list[int]:
        """Return those that run now. Descendants of the processes `roots` count as members, but not the roots."""
        parents: dict[int, int] = {}
        begun: dict[int, bytes] = {}
        members: set[int] = set()
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                state, parent, *rest = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                if state in {b"Z", b"X"}:
                    continue
                process = int(entry.name)
                parents[process], begun[process] = int(parent), rest[_STARTED]
                if self._mark in (entry / "environ").read_bytes():
                    members.add(process)
        members.update(process for process, start in self._known.items() if begun.get(process) == start)
        line = members.union(roots)
        while children := {child for child, parent in parents.items() if parent in line} - members:
            members |= children
            line |= children
        self._known = {process: begun[process] for process in members}
        return list(members)

    def kill(self, groups: Iterable[int], roots: Iterable[int]) -> None:
        """Kill the process groups and the tree. All are stopped first, so that none starts another that is not seen."""
        stopped: set[int] = set()
        for _ in range(_ROUNDS):
            found = self.running(roots)
            send(signal.SIGSTOP, groups, found)
            if stopped.issuperset(found):
                break
            stopped.update(found)
        send(signal.SIGKILL, groups, stopped)


def send(signal_number: int, groups: Iterable[int], processes: Iterable[int]) -> None:
    """Signal the process groups and processes that are still there."""
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal_number)
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal_number)


class _ReportedGroups:
    """The process groups that run, as reported on standard input."""

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
    groups = _ReportedGroups()
    died: list[int] = []
    with suppress(AttributeError, OSError):  # without pidfd the closed pipe suffices, unless the kernel forks
        died.append(os.pidfd_open(parent))
    while groups.open and os.getppid() == parent:
        ready, _, _ = select.select([0, *died], [], [])
        if 0 in ready:
            groups.read()
    tree = ProcessTree(mark)
    for last in (False, True, True):
        if last:
            tree.kill(groups.running, groups.running)
        else:
            send(signal.SIGTERM, groups.running, tree.running(groups.running))
        deadline = time.monotonic() + KILL_GRACE
        while groups.open and select.select([0], [], [], max(deadline - time.monotonic(), 0))[0]:
            groups.read()  # a command that was about to begin reports itself only now
        time.sleep(max(deadline - time.monotonic(), 0))


if __name__ == "__main__":
    _watch(int(sys.argv[1]), sys.argv[2].encode())

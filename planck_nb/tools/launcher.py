"""The parent of a command that runs without a sandbox: ends everything that the command started, together with it.

Run by path, with the standard library only: `python launcher.py COMMAND`. Orphans of the command become children of
this process, also those in other sessions. The kernel cannot adopt them itself: it would get, and have to wait for, the
children of others. This process ends as the command ended: with its exit status, or by the same signal.

Every command waits for this to start, so it imports only modules that load fast: `signal`, `contextlib`, `pathlib` and
`ctypes` would double the time.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # typeshed has no stub for it
import os
import sys
import time

KILL_GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL for what is left in the background."""

_KILLING = 2.0
"""Seconds to wait for what was killed; a process that waits for a disk may take longer."""

_PR_SET_CHILD_SUBREAPER = 36
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals to the process group, which the command gets, too: this process goes on until the command has ended."""


def _become_subreaper() -> None:
    """Let this process adopt the orphans of the command. Where that is not possible, init does."""
    try:
        import _ctypes  # noqa: PLC0415 - may be missing

        address = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
        _ctypes.call_function(address, (_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
    except (ImportError, AttributeError, OSError):
        return


def _parent_of(process: str) -> int:
    try:
        with open(f"/proc/{process}/stat", "rb") as file:  # noqa: PTH123 - see above
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:  # it has ended
        return 0


def _descendants() -> list[int]:
    """The processes that this one, or one of its descendants, started; none without /proc."""
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - see above
    except OSError:
        return []
    children: dict[int, list[int]] = {}
    for name in names:
        children.setdefault(_parent_of(name), []).append(int(name))
    found: list[int] = []
    line = [os.getpid()]
    while line:
        line = [child for parent in line for child in children.get(parent, ())]
        found += line
    return found


def _reap() -> bool:
    """Collect the children that have ended, and return whether there are others."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _send(number: int) -> None:
    for process in _descendants():
        try:
            os.kill(process, number)
        except (ProcessLookupError, PermissionError):
            continue


def _end_the_rest() -> None:
    """End what the command left: SIGTERM, then SIGKILL, until nothing is left."""
    if not _reap():
        return
    _send(signal.SIGTERM)
    deadline = time.monotonic() + KILL_GRACE
    while _reap() and time.monotonic() < deadline:
        time.sleep(0.005)
    deadline = time.monotonic() + _KILLING
    while _reap() and time.monotonic() < deadline:
        _send(signal.SIGKILL)
        time.sleep(0.001)


def _run(command: str) -> int:
    """Run the command to its end, and return its exit status, or minus the number of the signal that ended it."""
    for number in _FORWARDED:
        signal.signal(number, lambda *_: None)
    _become_subreaper()
    shell = ["/bin/sh", "-c", command]
    process = os.posix_spawn("/bin/sh", shell, os.environ, setsigdef=[*_FORWARDED, signal.SIGPIPE, signal.SIGXFSZ])
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == process:
            break
    _end_the_rest()
    return os.waitstatus_to_exitcode(status)


def _end_by(number: int) -> None:
    """End this process by a signal, without a core dump."""
    import resource  # noqa: PLC0415 - needed only here

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    status = _run(sys.argv[1])
    if status < 0:
        _end_by(-status)
    os._exit(status)

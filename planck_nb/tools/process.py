"""One shell command from its start to its end, with everything it started.

Blocking, so that it does not depend on any event loop: it runs in a thread and ends when an event is set. What the
command leaves running when its shell ends is ended with it: by the process namespace of the sandbox, or by a launcher
that adopts orphans. A watchdog does the same when this process dies.
"""

from __future__ import annotations

import codecs
import os
import select
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, TypeAlias

from planck_nb.base.errors import ToolError
from planck_nb.base.programs import PYTHON
from planck_nb.base.secrets import is_secret_variable
from planck_nb.tools import launcher
from planck_nb.tools.no_links import SUPPORTED, LinkInPathError, open_folder, require_no_links
from planck_nb.tools.output_capture import Capture
from planck_nb.tools.watchdog import ProcessTree, send
from planck_nb.tools.watchdog_process import ENTRY, MARK, watchdog_process

KILL_GRACE = 1.0
"""Seconds that the processes of a command get between SIGTERM and SIGKILL."""

_DESCRIPTORS = Path("/proc/self/fd")

_TICK = 0.05
_DRAIN = 0.3
"""Seconds to go on reading after the end, if something outside the group still has the pipes open."""

_STDERR_SHARE = 0.25

_CHECKED = """[ "$(stat -c %d:%i .)" = "$0" ] || {
  echo 'The working directory leads elsewhere than when the call was checked; make the call again.' >&2; exit 126; }
exec 9>&2 2>/dev/null
(exec /bin/sh -c "$1" 2>&9 9>&-)
exit $?
"""
"""The first process of a sandbox: when it ends, all others have been killed. It does not report signals itself.

A sandbox finds the folder by its path; the command runs only if it is the one that was opened outside.
"""

_HAS_LAUNCHER: bool = sys.platform == "linux"
"""Other systems do not let a process adopt orphans."""

_SIGNAL_OFFSET = 128
"""A sandbox ends with this plus the number of the signal that ended the command in it."""

Ending: TypeAlias = Literal["exited", "timeout", "cancelled"]


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended. `status` is its exit status, or minus the number of the signal that ended it."""

    ending: Ending
    status: int
    output: str


def child_environment(parent: Mapping[str, str], allow: Iterable[str] = ()) -> dict[str, str]:
    """The parent's environment without variables that look like secrets, except for those in `allow`.

    A variable looks like a secret by its name or by its value, such as an address with a password.
    """
    kept = set(allow)
    return {name: value for name, value in parent.items() if name in kept or not is_secret_variable(name, value)}


def run_command(
    command: str,
    *,
    cwd: Path,
    environment: Mapping[str, str],
    timeout: float,
    cancelled: threading.Event,
    progress: Callable[[str], None],
    sandbox: Sequence[str] = (),
) -> CommandResult:
    """Run `command` with /bin/sh until it ends; `timeout` in seconds. Raises `ToolError` if it cannot start.

    `sandbox` has the words that go before a command to run it in a sandbox; empty without one. Returns within about
    `KILL_GRACE` seconds after `cancelled` is set.
    """
    process, mark = _start(command, cwd, environment, sandbox)
    try:
        return _Command(process, mark, progress, sandboxed=bool(sandbox)).run(time.monotonic() + timeout, cancelled)
    finally:
        watchdog_process.end_group(process.pid)


def _words(command: str, sandbox: Sequence[str], folder: Path) -> list[str]:
    """The words that run a command in an open folder."""
    if sandbox:
        status = folder.stat()
        return [*sandbox, "/bin/sh", "-c", _CHECKED, f"{status.st_dev}:{status.st_ino}", command]
    if _HAS_LAUNCHER:
        return [PYTHON, "-I", "-S", str(launcher.__file__), command]
    return ["/bin/sh", "-c", command]


def _start(
    command: str, cwd: Path, environment: Mapping[str, str], sandbox: Sequence[str]
) -> tuple[subprocess.Popen[bytes], str]:
    if os.name != "posix":
        raise ToolError("Commands need /bin/sh, which this system does not have; run the notebook on Linux or macOS.")
    try:
        pipe, mark = watchdog_process.begin_group()
        with _opened(cwd) as folder:
            process = subprocess.Popen(  # noqa: S603 - what the model asked for, as it asked for it
                ["/bin/sh", "-c", ENTRY, "sh", *_words(command, sandbox, folder)],
                cwd=folder,
                env={**environment, MARK: mark},
                stdin=pipe,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
    except LinkInPathError as error:
        raise ToolError(f"The command was not run: {error.strerror}.") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        where = "" if cwd.is_dir() else f" (working directory {cwd})"
        raise ToolError(f"failed to start process: {reason}{where}; change the call.") from error
    return process, f"{MARK}={mark}"


@contextmanager
def _opened(folder: Path) -> Iterator[Path]:
    """A path that leads to this resolved folder even if it is renamed. Raises OSError if its path has a link."""
    if not SUPPORTED or not _DESCRIPTORS.is_dir():
        require_no_links(folder)
        yield folder
        return
    with open_folder(folder) as descriptor:
        yield _DESCRIPTORS / str(descriptor)


class _Command:
    """A running command."""

    def __init__(
        self, process: subprocess.Popen[bytes], mark: str, progress: Callable[[str], None], *, sandboxed: bool
    ) -> None:
        self._process = process
        self._sandboxed = sandboxed
        self._tree = ProcessTree(mark.encode())
        self._progress = progress
        self._selector = selectors.DefaultSelector()
        self._captures = [Capture(1 - _STDERR_SHARE), Capture(_STDERR_SHARE)]

    def run(self, deadline: float, cancelled: threading.Event) -> CommandResult:
        with self._process, self._selector:
            for pipe, capture in zip((self._process.stdout, self._process.stderr), self._captures, strict=True):
                self._watch(pipe, capture)
            try:
                ending = self._until_over(deadline, cancelled)
            except BaseException:
                self._signal(signal.SIGKILL, everything=True)
                raise
            # A command can kill the launcher, which then cannot end anything.
            self._end(everything=ending != "exited" or self._process.returncode == -signal.SIGKILL)
            self._drain()
            try:
                output = self._output()
            finally:
                for capture in self._captures:
                    capture.close()
            return CommandResult(ending, self._status(), output)

    def _status(self) -> int:
        status = self._process.wait()
        signalled = self._sandboxed and _SIGNAL_OFFSET < status < _SIGNAL_OFFSET + signal.NSIG
        return _SIGNAL_OFFSET - status if signalled else status

    def _until_over(self, deadline: float, cancelled: threading.Event) -> Ending:
        while self._process.poll() is None:
            if cancelled.is_set():
                return "cancelled"
            if time.monotonic() >= deadline:
                return "timeout"
            self._pump(min(_TICK, max(deadline - time.monotonic(), 0)))
        return "exited"

    def _end(self, *, everything: bool) -> None:
        """End what is left of the command: SIGTERM, then SIGKILL after `KILL_GRACE` seconds."""
        self._signal(signal.SIGTERM, everything=everything)
        deadline = time.monotonic() + KILL_GRACE
        while self._left(everything=everything) and time.monotonic() < deadline:
            self._pump(_TICK / 2)
        self._signal(signal.SIGKILL, everything=everything)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(KILL_GRACE)

    def _drain(self) -> None:
        deadline = time.monotonic() + _DRAIN
        while self._selector.get_map() and time.monotonic() < deadline:
            self._pump(_TICK)

    def _left(self, *, everything: bool) -> bool:
        if self._process.poll() is None:
            return True
        try:
            os.killpg(self._process.pid, 0)
        except ProcessLookupError:
            return everything and bool(self._tree.running())
        except PermissionError:
            return True
        return True

    def _signal(self, number: signal.Signals, *, everything: bool) -> None:
        shell = self._process.pid
        # Once the shell is reaped, its number may belong to another process.
        roots = [shell] if self._process.returncode is None else []
        if everything and number == signal.SIGKILL:
            self._tree.kill([shell], roots)
        elif self._sandboxed and number == signal.SIGTERM:
            # The sandbox's own process ends with the command; if it ended first, all in it would be killed at once.
            # Parents go first: a shell that still runs reports the signal that ended its child.
            found = sorted(self._tree.running(roots)) if everything else []
            send(number, [], [process for process in found if process != shell])
        else:
            send(number, [shell], self._tree.running(roots) if everything else [])

    def _watch(self, pipe: IO[bytes] | None, capture: Capture) -> None:
        if pipe is not None:
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            self._selector.register(pipe.fileno(), selectors.EVENT_READ, (capture, decoder))

    def _pump(self, timeout: float) -> None:
        """Read what the command writes within `timeout` seconds."""
        if not self._selector.get_map():
            if self._process.poll() is not None:
                time.sleep(timeout)
            self._wait(timeout)
            return
        for key, _ in self._selector.select(timeout):
            data = os.read(key.fd, 65_536)
            if not data:
                self._selector.unregister(key.fd)
                continue
            capture, decoder = key.data
            capture.feed(data)
            self._progress(decoder.decode(data))

    def _wait(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for the end; `Popen.wait` would look for it at growing intervals."""
        try:
            end = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):  # another system; the process has just been reaped
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout)
            return
        try:
            poll = select.poll()
            poll.register(end, select.POLLIN)
            poll.poll(timeout * 1_000)
        finally:
            os.close(end)

    def _output(self) -> str:
        out, err = (capture.text() for capture in self._captures)
        return f"{out}\nSTDERR:\n{err}" if err else out

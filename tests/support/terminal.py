"""IPython in a terminal for tests: type lines and keys, and read what appears."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CTRL_C = "\x03"
TIMEOUT = 60.0
_PROMPT = re.compile(r"In \[(\d+)\]: \Z")


class Terminal:
    """IPython in a pseudo-terminal."""

    def __init__(self, folder: Path, environment: dict[str, str], *options: str, python: str = sys.executable) -> None:
        self.text = ""
        self._count = 0
        self._end, terminal = pty.openpty()
        termios.tcsetwinsize(terminal, (50, 200))
        settings = {"PROMPT_TOOLKIT_NO_CPR": "1", "TERM": "xterm", "PYTHONPATH": str(Path(__file__).parents[2])}
        self._process = subprocess.Popen(
            [python, "-m", "IPython", "--no-banner", "--no-confirm-exit", "--colors=NoColor", *options],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            cwd=folder,
            env={**os.environ, **settings, **environment},
            start_new_session=True,
            preexec_fn=_control_terminal,  # noqa: PLW1509 - no other way to a terminal whose keys are signals
        )
        os.close(terminal)

    def send(self, keys: str) -> None:
        """Type keys."""
        os.write(self._end, keys.encode())

    def read(self, pattern: str, *, since: int = 0, timeout: float = TIMEOUT) -> re.Match[str]:
        """Wait until what has appeared since a position contains the pattern."""
        limit = time.monotonic() + timeout
        while (found := re.compile(pattern).search(self.text, since)) is None:
            left = limit - time.monotonic()
            if left <= 0 or not select.select([self._end], [], [], left)[0]:
                raise TimeoutError(f"{pattern!r} did not appear within {timeout} s:\n{self.text[since:]}")
            self._receive()
        return found

    def start(self, line: str) -> int:
        """Type a line at the prompt and return at once, with the position where its output begins."""
        self._count = int(self.read(_PROMPT.pattern)[1])
        since = len(self.text)
        self.send(f"{line}\n")
        self.read(r"\n", since=since)
        return self.text.index("\n", since) + 1

    def finish(self, since: int, *, timeout: float = TIMEOUT) -> str:
        """Wait for the prompt after that of `start`; what appeared before it."""
        prompt = rf"In \[{self._count + 1}\]: \Z"
        end = self.read(prompt, since=since, timeout=timeout).start()
        return self.text[since:end]

    def run(self, line: str) -> str:
        """Type a line and wait for the next prompt; what the line showed."""
        return self.finish(self.start(line))

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._end)

    def _receive(self) -> None:
        try:
            piece = os.read(self._end, 65_536)
        except OSError:  # the process has ended
            piece = b""
        if not piece:
            raise TimeoutError(f"IPython has ended:\n{self.text}")
        self.text += piece.decode(errors="replace").replace("\r\n", "\n")


def _control_terminal() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell it is ignored
    os.close(os.open(os.ttyname(0), os.O_RDWR))


@contextmanager
def running_terminal(
    folder: Path, *options: str, python: str = sys.executable, **environment: str
) -> Iterator[Terminal]:
    """A terminal in `folder` that ends with the block."""
    terminal = Terminal(folder, environment, *options, python=python)
    try:
        yield terminal
    finally:
        terminal.close()

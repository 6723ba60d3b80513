"""`run`: a program which ends with its call."""

from __future__ import annotations

import asyncio
import codecs
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from planck_nb.base.errors import ToolError, UsageError
from planck_nb.sidecars.author.process_groups import ON_POSIX, ProcessGroup, watched
from planck_nb.tools.process import child_environment
from planck_nb.tools.watchdog_process import MARK

MAX_OUTPUT = 1_000_000
"""Largest program output to keep, in bytes, by default.

Half is from its beginning, half from its end.
"""

_CHUNK = 65_536
_DRAIN = 0.2
"""Seconds of reading after the end.

A process outside the group may still have the pipe open.
"""


class Completed(NamedTuple):
    """A program's exit status and output.

    Args:
        code: Its exit status, or minus the final signal's number.
        output: Its standard output and standard error.
    """

    code: int
    output: str


async def run(
    *command: str | os.PathLike[str],
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - what is running is killed, not only cancelled
    max_output: int = MAX_OUTPUT,
    progress: Callable[[str], None] | None = None,
) -> Completed:
    r"""Run a program and wait for its end; for async tools.

    The program runs in its own process group. If the call is cancelled or this process ends, the program is killed with
    everything started by it. It runs without a shell, and its standard input is empty.

    Args:
        *command: The program and its arguments. Programs in the sidecar's own environment, such as "python", take
            precedence.
        cwd: Its working directory; by default this process's own.
        env: Variables to add to its environment, which is this process's own without apparent secrets.
        timeout: Seconds after which it is killed; None for unlimited time.
        max_output: Largest output in bytes; a longer one keeps its beginning and end.
        progress: Called with the output while it is written.

    Returns:
        The exit status and the output.

    Raises:
        ToolError: If it cannot be started or took longer than `timeout`.
        UsageError: If the program is missing.

    Example:
        >>> import asyncio
        >>> asyncio.run(run("echo", "hello"))
        Completed(code=0, output='hello\n')
    """
    if not command:
        raise UsageError("run() needs a program: await run('python', '-m', 'pytest').")
    words = [os.fspath(word) for word in command]
    environment = child_environment(os.environ)
    # As with `uv run`, "python" is the sidecar's own, even if its environment is not activated.
    environment["PATH"] = os.pathsep.join(filter(None, [str(Path(sys.executable).parent), environment.get("PATH")]))
    environment |= env or {}
    words[0] = _found(words[0], cwd, environment)
    watched_words, stdin, mark = watched(words)
    # A pipe of our own: asyncio waits until its pipes end, which background processes may hold open.
    source, target = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *watched_words,
            cwd=cwd,
            env={**environment, MARK: mark},
            stdin=stdin,
            stdout=target,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=ON_POSIX,
        )
    except (OSError, ValueError) as error:
        os.close(source)
        raise ToolError(f"{words[0]} could not be started: {error}.") from error
    except BaseException:
        os.close(source)
        raise
    finally:
        os.close(target)
    group = ProcessGroup(process.pid, mark)
    output = _Output(max_output, progress)
    reading = asyncio.ensure_future(output.read(source))
    try:
        async with asyncio.timeout(timeout):
            code = await process.wait()
    except TimeoutError as error:
        raise ToolError(f"{words[0]} did not end within {timeout:g} s and was killed.") from error
    finally:
        group.kill()  # the program's remaining processes, or all of it
        try:
            await asyncio.wait([reading], timeout=_DRAIN)
            await process.wait()
        finally:
            reading.cancel()
            group.ended()
    return Completed(code, output.text())


def _found(program: str, cwd: str | os.PathLike[str] | None, environment: Mapping[str, str]) -> str:
    """Return a program's path, or raise `ToolError`."""
    folder = Path(cwd or ".")
    if not folder.is_dir():
        raise ToolError(f"The working directory {folder} does not exist.")
    if os.path.dirname(program):  # noqa: PTH120 - a path, not only a name
        if not (folder / program).exists():
            raise ToolError(f"There is no program {program}.")
        return program
    path = shutil.which(program, path=environment.get("PATH"))
    if path is None:
        raise ToolError(f"There is no program {program} on the PATH of the sidecar; install it or give its path.")
    return path


class _Output:
    """A program's output, in bounded memory."""

    def __init__(self, max_bytes: int, progress: Callable[[str], None] | None) -> None:
        self._half = max(max_bytes, 2) // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0
        self._progress = progress

    async def read(self, source: int) -> None:
        """Read from a file descriptor to its end, and close it."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        stream = asyncio.StreamReader()
        with os.fdopen(source, "rb", buffering=0) as pipe:
            loop = asyncio.get_running_loop()
            transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), pipe)
            try:
                while data := await stream.read(_CHUNK):
                    self._keep(data)
                    if self._progress is not None:
                        self._progress(decoder.decode(data))
            finally:
                transport.close()

    def _keep(self, data: bytes) -> None:
        missing = max(self._half - len(self._head), 0)
        self._head += data[:missing]
        self._tail += data[missing:]
        surplus = len(self._tail) - self._half
        if surplus > 0:
            del self._tail[:surplus]
            self._left_out += surplus

    def text(self) -> str:
        if not self._left_out:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = (bytes(part).decode("utf-8", "replace") for part in (self._head, self._tail))
        return f"{head}\n[… {self._left_out:,} bytes left out …]\n{tail}"

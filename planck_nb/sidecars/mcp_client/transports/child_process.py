"""A child process in its own group, which never leaves anything running.

That holds however it or this process ends.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from planck_nb.base.errors import SidecarError
from planck_nb.base.threads import run_in_thread
from planck_nb.sidecars.mcp_client.transports.log_lines import LogLines
from planck_nb.tools.watchdog import ProcessTree, send
from planck_nb.tools.watchdog_process import MARK, watchdog_process

_CHUNK = 1 << 20
_DRAIN = 0.05
"""Seconds of reading after the process's end.

Other processes may keep its output open.
"""

_KILL_GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL."""


class InputPipe(asyncio.BaseProtocol):
    """A process's standard input.

    Writing waits while the process does not read.
    """

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._open = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the transport, for asyncio."""
        assert isinstance(transport, asyncio.WriteTransport)  # noqa: S101 - for type checkers
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Note the end, for asyncio."""
        self._open = False
        self._flowing.set()

    def pause_writing(self) -> None:
        """Pause writing with a full buffer, for asyncio."""
        self._flowing.clear()

    def resume_writing(self) -> None:
        """Resume writing, for asyncio."""
        self._flowing.set()

    async def write(self, data: bytes) -> None:
        """Write, and wait while too much is buffered.

        Raises `BrokenPipeError` if the process has stopped reading.
        """
        if not self._open or self._transport is None:
            raise BrokenPipeError
        self._transport.write(data)
        if not self._flowing.is_set():
            await self._flowing.wait()
            if not self._open:
                raise BrokenPipeError

    def close(self) -> None:
        """Close it after all writing, which tells the process to end."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close it now."""
        if self._transport is not None and self._open:
            self._transport.abort()


class _ErrorOutput(asyncio.Protocol):
    """A process's error output, which is kept as a log."""

    def __init__(self, log: LogLines) -> None:
        self._log = log

    def data_received(self, data: bytes) -> None:
        self._log.feed(data)


class ChildProcess:
    """A child process in its own group, with its pipes."""

    def __init__(self, process: subprocess.Popen[bytes], mark: str) -> None:
        self.id = process.pid
        self.output = asyncio.StreamReader(limit=_CHUNK)
        self.input = InputPipe()
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.status: int | None = None
        """The exit status, or minus the final signal's number.

        None while the process runs.
        """
        self._process = process
        self._tree = ProcessTree(f"{MARK}={mark}".encode())
        self._transports: list[asyncio.BaseTransport] = []

    @classmethod
    async def start(
        cls, name: str, command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], log: LogLines
    ) -> ChildProcess:
        """Start the process, or raise `SidecarError`."""
        if os.name != "posix":
            raise SidecarError(
                f"The sidecar {name} cannot be started on this system; start it yourself and give `url`."
            )
        loop = asyncio.get_running_loop()
        _, mark = watchdog_process.begin_group()
        try:
            process = subprocess.Popen(  # noqa: ASYNC220, S603 - what the user configured; it returns at once
                command,
                cwd=cwd,
                env={**environment, MARK: mark},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            raise SidecarError(_why_not_started(name, command, cwd, error)) from error
        watchdog_process.add_group(process.pid)
        child = cls(process, mark)
        child._watch(loop)
        try:
            protocol = asyncio.StreamReaderProtocol(child.output)
            for pipe, make in ((process.stdout, lambda: protocol), (process.stderr, lambda: _ErrorOutput(log))):
                transport, _ = await loop.connect_read_pipe(make, pipe)
                child._transports.append(transport)
            await loop.connect_write_pipe(lambda: child.input, process.stdin)
        except BaseException:
            try:
                await child.stop(0)
            finally:  # a cancelled start leaves pipes without a transport, which would close them
                for pipe in (process.stdin, *(process.stdout, process.stderr)[len(child._transports) :]):
                    if pipe is not None:
                        pipe.close()
            raise
        return child

    def when_ended(self, on_end: Callable[[str], None]) -> None:
        """Call this with a sentence after the process's end."""
        self.ended.add_done_callback(lambda ended: on_end(ended.result()))

    async def stop(self, grace: float) -> None:
        """End the process and everything started by it.

        This is polite, if it ends within `grace` seconds.
        """
        try:
            self.input.close()
            await self._wait(grace)
            if not self.ended.done():
                self._signal(signal.SIGTERM)
                await self._wait(_KILL_GRACE)
        finally:  # at once if even this is cancelled
            self._signal(signal.SIGKILL)
        await run_in_thread(self._kill_rest, interruptible=False)
        await self._wait(_KILL_GRACE)
        watchdog_process.end_group(self.id)
        self.input.abort()
        for transport in self._transports:
            transport.close()

    def _kill_rest(self) -> None:
        """Kill its remaining descendants, in whatever group."""
        roots = [] if self.ended.done() else [self.id]
        if self._tree.running(roots):
            self._tree.kill([], roots)

    def _signal(self, number: signal.Signals) -> None:
        # Until the process is reaped, its number belongs to it; later the group may still have members.
        if not self.ended.done() or _group_exists(self.id):
            send(number, [self.id], [])

    async def _wait(self, seconds: float) -> None:
        if not self.ended.done():
            await asyncio.wait([self.ended], timeout=seconds)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Notice the process's end without polling."""
        try:
            handle = os.pidfd_open(self.id)
        except (AttributeError, OSError):  # another system
            threading.Thread(target=self._wait_in_thread, args=(loop,), name="planck-sidecar", daemon=True).start()
            return

        def on_exit() -> None:
            loop.remove_reader(handle)
            os.close(handle)
            self._has_ended(self._process.wait())

        loop.add_reader(handle, on_exit)

    def _wait_in_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        status = self._process.wait()
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._has_ended, status)

    def _has_ended(self, status: int) -> None:
        self.status = status
        if status < 0:
            with suppress(ValueError):
                self.ended.set_result(f"its process was ended by {signal.Signals(-status).name}")
        if not self.ended.done():
            self.ended.set_result(f"its process ended with status {status}")
        if self._transports:
            asyncio.get_running_loop().call_later(_DRAIN, self._transports[0].close)


def _group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _why_not_started(name: str, command: Sequence[str], cwd: Path, error: Exception) -> str:
    if not cwd.is_dir():
        return f"The sidecar {name} cannot be started, because there is no folder {cwd}; correct its `cwd`."
    if isinstance(error, FileNotFoundError):
        return f"The sidecar {name} cannot be started, because there is no program {command[0]}; install it."
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return f"The sidecar {name} cannot be started ({command[0]}: {reason}); correct its command."

"""MCP over the standard input and output of a child process.

Unlike the transport of the SDK this one bounds the size of messages, keeps what the process writes to its error output,
notices its end at once even if something that it started keeps the pipes open, and leaves nothing running: not when the
sidecar is stopped, not when it dies, and not when the kernel is killed.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError, RequestId, jsonrpc_message_adapter

from planck_nb.base.aio import run_in_thread
from planck_nb.base.errors import SidecarError
from planck_nb.sidecars.conventions import MAX_MESSAGE_BYTES
from planck_nb.sidecars.link.lines import LineCutter, TooLongLine
from planck_nb.sidecars.link.log_lines import LogLines
from planck_nb.tools.watchdog import ProcessTree, send
from planck_nb.tools.watchdog_process import MARK, watchdog_process

_CHUNK = 1 << 20
_DRAIN = 0.05
"""Seconds to go on reading after the process has ended, if something else keeps its output open."""

_KILL_GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL."""

_ID = rb'"id"\s*:\s*(-?\d+|"[^"\\]*")'
_ID_AT_THE_START = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID + rb"\s*,")
_ID_AT_THE_END = re.compile(rb",\s*" + _ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


@asynccontextmanager
async def run_process(
    name: str,
    command: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    log: LogLines,
    on_end: Callable[[str], None],
    on_start: Callable[[int], None],
    grace: float,
) -> AsyncIterator[tuple[MessageReader, MessageWriter]]:
    """Run a sidecar as long as the context is open.

    Args:
        name: The name of the sidecar.
        command: The program and its arguments.
        cwd: Its working directory.
        environment: All of its environment.
        log: Keeps what it writes to its error output, and what is no message on its standard output.
        on_end: Called with a sentence when the process has ended or closed its output.
        on_start: Called with the id of the process.
        grace: Seconds that it has to end after its input was closed.

    Yields:
        The messages that it sends, and where to send messages.

    Raises:
        SidecarError: If it cannot be started.
    """
    process = await _Process.start(name, command, cwd=cwd, environment=environment, log=log)
    on_start(process.id)
    is_stopped = False

    def report(reason: str) -> None:
        if not is_stopped:  # else it ends because we end it
            on_end(reason)

    process.when_ended(report)
    reader = MessageReader(process.output, log, process.ended, report)
    writer = MessageWriter(process.input)
    try:
        yield reader, writer
    finally:
        is_stopped = True
        with anyio.CancelScope(shield=True):
            await process.stop(grace)


class MessageReader:
    """The messages of a process, read when they are asked for, as the SDK's sessions do.

    Args:
        stream: The standard output of the process.
        log: Gets the lines that are no messages.
        ended: Done when the process has ended.
        on_end: Called with a sentence when the output is closed although the process still runs.
    """

    def __init__(
        self,
        stream: asyncio.StreamReader,
        log: LogLines,
        ended: asyncio.Future[str],
        on_end: Callable[[str], None],
    ) -> None:
        self._stream = stream
        self._log = log
        self._ended = ended
        self._on_end = on_end
        self._cutter = LineCutter(MAX_MESSAGE_BYTES)
        self._messages: list[SessionMessage] = []
        """Those that came together with the latest one, in reverse order."""

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message. Raises `anyio.EndOfStream` if there is none any more."""
        try:
            return await anext(self)
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    async def aclose(self) -> None:
        """Stop reading."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while not self._messages:
            chunk = await self._stream.read(_CHUNK)
            if not chunk:
                if rest := self._cutter.rest():
                    self._log.feed(rest + b"\n")
                # A process that ends closes its output first; why it ended is the better reason.
                await asyncio.wait([self._ended], timeout=_DRAIN)
                if not self._ended.done():
                    self._on_end("it closed its output")
                raise StopAsyncIteration
            found = filter(None, map(self._message, self._cutter.feed(chunk)))
            self._messages = list(found)[::-1]
        return self._messages.pop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return None

    def _message(self, line: bytes | TooLongLine) -> SessionMessage | None:
        if isinstance(line, TooLongLine):
            return self._too_long(line)
        for start in (0, line.find(b"{")):  # a tool may have printed something without ending its line
            if start >= 0 and line:
                with suppress(ValueError):
                    return SessionMessage(jsonrpc_message_adapter.validate_json(line[start:], by_name=False))
        if line.strip():
            self._log.feed(line + b"\n")
        return None

    def _too_long(self, line: TooLongLine) -> SessionMessage | None:
        """An error in place of an answer that is too long."""
        sentence = f"it sent a message of more than {MAX_MESSAGE_BYTES // 2**20} MB; ask for less at once"
        found = _ID_AT_THE_START.match(line.head) or _ID_AT_THE_END.search(line.tail)
        if found is None:
            self._on_end(sentence)  # nobody knows which call this was the answer to
            return None
        text = found[1].decode("utf-8", "replace")
        request: RequestId = text[1:-1] if text.startswith('"') else int(text)
        error = ErrorData(code=INVALID_REQUEST, message=sentence)
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request, error=error))


class MessageWriter:
    """Sends messages to a process.

    Args:
        pipe: Its standard input.
    """

    def __init__(self, pipe: _InputPipe) -> None:
        self._pipe = pipe

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message. Raises `anyio.BrokenResourceError` if the process reads no more."""
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        await self._pipe.write(text.encode() + b"\n")

    async def aclose(self) -> None:
        """Close nothing: the process notices the end when it is stopped."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return None


class _InputPipe(asyncio.BaseProtocol):
    """The standard input of a process, with waiting while the process does not read."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._open = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)  # noqa: S101 - for type checkers
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._open = False
        self._flowing.set()

    def pause_writing(self) -> None:
        self._flowing.clear()

    def resume_writing(self) -> None:
        self._flowing.set()

    async def write(self, data: bytes) -> None:
        if not self._open or self._transport is None:
            raise anyio.BrokenResourceError
        self._transport.write(data)
        if not self._flowing.is_set():
            await self._flowing.wait()
            if not self._open:
                raise anyio.BrokenResourceError

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None and self._open:
            self._transport.abort()


class _ErrorOutput(asyncio.Protocol):
    """The error output of a process, which is kept as a log."""

    def __init__(self, log: LogLines) -> None:
        self._log = log

    def data_received(self, data: bytes) -> None:
        self._log.feed(data)


class _Process:
    """A child process in a group of its own, with its pipes."""

    def __init__(self, process: subprocess.Popen[bytes], mark: str) -> None:
        self.id = process.pid
        self.output = asyncio.StreamReader(limit=_CHUNK)
        self.input = _InputPipe()
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._process = process
        self._tree = ProcessTree(f"{MARK}={mark}".encode())
        self._transports: list[asyncio.BaseTransport] = []

    @classmethod
    async def start(
        cls, name: str, command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], log: LogLines
    ) -> _Process:
        """Start the process. Raises `SidecarError` if that is not possible."""
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
        started = cls(process, mark)
        started._watch(loop)
        try:
            protocol = asyncio.StreamReaderProtocol(started.output)
            for pipe, make in ((process.stdout, lambda: protocol), (process.stderr, lambda: _ErrorOutput(log))):
                transport, _ = await loop.connect_read_pipe(make, pipe)
                started._transports.append(transport)
            await loop.connect_write_pipe(lambda: started.input, process.stdin)
        except BaseException:
            await started.stop(0)
            raise
        return started

    def when_ended(self, on_end: Callable[[str], None]) -> None:
        """Call this with a sentence when the process has ended."""
        self.ended.add_done_callback(lambda ended: on_end(ended.result()))

    async def stop(self, grace: float) -> None:
        """End the process and everything that it started: politely, if it ends within `grace` seconds."""
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
        """Kill what it started and what has outlived it, in whatever group."""
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
        """Notice the end of the process without asking for it again and again."""
        try:
            handle = os.pidfd_open(self.id)
        except (AttributeError, OSError):  # another system
            threading.Thread(target=self._wait_in_thread, args=(loop,), name="planck-sidecar", daemon=True).start()
            return

        def is_over() -> None:
            loop.remove_reader(handle)
            os.close(handle)
            self._has_ended(self._process.wait())

        loop.add_reader(handle, is_over)

    def _wait_in_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        status = self._process.wait()
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._has_ended, status)

    def _has_ended(self, status: int) -> None:
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

"""MCP over a child process's standard input and output.

Unlike the SDK's transport this one bounds the message size, keeps the process's error output, notices its end at once
even if another process keeps the pipes open, and always cleans up: after the sidecar's stop, after its death, and after
the kernel's death.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCMessage

from planck_nb.sidecars.conventions import MAX_MESSAGE_BYTES
from planck_nb.sidecars.mcp_client.transports.child_process import ChildProcess, InputPipe
from planck_nb.sidecars.mcp_client.transports.lines import LineCutter, TooLongLine
from planck_nb.sidecars.mcp_client.transports.log_lines import LogLines
from planck_nb.sidecars.mcp_client.transports.message_text import read_messages, too_long
from planck_nb.sidecars.mcp_client.transports.open_requests import OpenRequests

_CHUNK = 1 << 20
_END_SECONDS = 0.05
"""Seconds in which a process has to end after closing its output."""

_BLOCK_STARTS = (b"{", b"[")
"""First lines in indented JSON."""


@asynccontextmanager
async def run_process(
    name: str,
    command: Sequence[str],
    requests: OpenRequests,
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
        name: The sidecar's name.
        command: The program and its arguments.
        requests: The open requests.
        cwd: Its working directory.
        environment: Its complete environment.
        log: Keeps its error output, and other lines than messages on its standard output.
        on_end: Called with a sentence when the process has ended or closed its output.
        on_start: Called with the process id.
        grace: Seconds in which it has to end after its input was closed.

    Yields:
        The incoming messages, and the place to send messages.

    Raises:
        SidecarError: If it cannot be started.
    """
    process = await ChildProcess.start(name, command, cwd=cwd, environment=environment, log=log)
    on_start(process.id)
    is_stopped = False

    def report(reason: str) -> None:
        if not is_stopped:  # else it ends because we end it
            on_end(reason)

    process.when_ended(report)
    reader = MessageReader(process.output, log, requests, process.ended, report)
    writer = MessageWriter(process.input)
    try:
        yield reader, writer
    finally:
        is_stopped = True
        with anyio.CancelScope(shield=True):
            await process.stop(grace)


class MessageReader:
    """A process's messages, read on demand, as in the SDK's sessions.

    Args:
        stream: The process's standard output.
        log: Gets lines other than messages.
        requests: The open requests.
        ended: Done after the process's end.
        on_end: Called with a sentence when the output is closed although the process still runs.
    """

    def __init__(
        self,
        stream: asyncio.StreamReader,
        log: LogLines,
        requests: OpenRequests,
        ended: asyncio.Future[str],
        on_end: Callable[[str], None],
    ) -> None:
        self._stream = stream
        self._log = log
        self._requests = requests
        self._ended = ended
        self._on_end = on_end
        self._cutter = LineCutter(MAX_MESSAGE_BYTES)
        self._messages: list[SessionMessage] = []
        """Messages which were not asked for yet, in reverse order."""
        self._block: list[bytes] = []
        """Lines so far which may be indented JSON."""
        self._block_size = 0

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message, or raise `anyio.EndOfStream` at the end."""
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
                self._drop_block()
                if rest := self._cutter.rest():
                    self._log.feed(rest + b"\n")
                # A process at its end closes its output first; the reason for its end is the better one.
                await asyncio.wait([self._ended], timeout=_END_SECONDS)
                if not self._ended.done():
                    self._on_end("it closed its output")
                raise StopAsyncIteration
            messages = [message for line in self._cutter.feed(chunk) for message in self._read(line)]
            self._messages = [SessionMessage(message) for message in reversed(messages)]
        return self._messages.pop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return None

    def _read(self, line: bytes | TooLongLine) -> list[JSONRPCMessage]:
        """Return the messages in a line; a line without any is logged."""
        if isinstance(line, TooLongLine):
            return self._too_long(line)
        if messages := read_messages(line, self._requests):
            self._drop_block()
            return messages
        if self._block or line.rstrip() in _BLOCK_STARTS:
            return self._read_block(line)
        if line.strip():
            self._log.feed(line + b"\n")
        return []

    def _read_block(self, line: bytes) -> list[JSONRPCMessage]:
        """Return the messages in indented JSON, once its last line is there."""
        self._block.append(line)
        self._block_size += len(line)
        messages: list[JSONRPCMessage] = []
        is_last = line.startswith((b"}", b"]"))
        if is_last:
            messages = read_messages(b"\n".join(self._block), self._requests)
        if messages:
            self._block.clear()
        if is_last or self._block_size > MAX_MESSAGE_BYTES:
            self._drop_block()
        return messages

    def _drop_block(self) -> None:
        """Log the lines of a block which is no message."""
        if self._block:
            self._log.feed(b"\n".join(self._block) + b"\n")
        self._block.clear()
        self._block_size = 0

    def _too_long(self, line: TooLongLine) -> list[JSONRPCMessage]:
        """Return an error instead of an overlong answer."""
        sentence = f"it sent a message of more than {MAX_MESSAGE_BYTES // 2**20} MB; ask for less at once"
        error = too_long(line.head, line.tail, self._requests, sentence)
        if error is None:
            self._on_end(sentence)  # the answer's call is unknown
        return [] if error is None else [error]


class MessageWriter:
    """Sends messages to a process.

    Args:
        pipe: Its standard input.
    """

    def __init__(self, pipe: InputPipe) -> None:
        self._pipe = pipe

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message.

        Raises `anyio.BrokenResourceError` if the process has stopped reading.
        """
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            await self._pipe.write(text.encode() + b"\n")
        except BrokenPipeError:
            raise anyio.BrokenResourceError from None

    async def aclose(self) -> None:
        """Leave the pipe open until the process is stopped."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return None

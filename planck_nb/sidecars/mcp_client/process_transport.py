"""MCP over a child process's standard input and output.

Unlike the SDK's transport this one bounds the message size, keeps the process's error output, notices its end at once
even if another process keeps the pipes open, and always cleans up: after the sidecar's stop, after its death, and after
the kernel's death.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError, RequestId, jsonrpc_message_adapter

from planck_nb.sidecars.conventions import MAX_MESSAGE_BYTES
from planck_nb.sidecars.mcp_client.child_process import ChildProcess, InputPipe
from planck_nb.sidecars.mcp_client.lines import LineCutter, TooLongLine
from planck_nb.sidecars.mcp_client.log_lines import LogLines

_CHUNK = 1 << 20
_END_SECONDS = 0.05
"""Seconds in which a process has to end after closing its output."""

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
        name: The sidecar's name.
        command: The program and its arguments.
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
    reader = MessageReader(process.output, log, process.ended, report)
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
        ended: Done after the process's end.
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
        """Messages which were not asked for yet, in reverse order."""

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
                if rest := self._cutter.rest():
                    self._log.feed(rest + b"\n")
                # A process at its end closes its output first; the reason for its end is the better one.
                await asyncio.wait([self._ended], timeout=_END_SECONDS)
                if not self._ended.done():
                    self._on_end("it closed its output")
                raise StopAsyncIteration
            messages = filter(None, map(self._message, self._cutter.feed(chunk)))
            self._messages = list(messages)[::-1]
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
        """Return an error instead of an overlong answer."""
        sentence = f"it sent a message of more than {MAX_MESSAGE_BYTES // 2**20} MB; ask for less at once"
        match = _ID_AT_THE_START.match(line.head) or _ID_AT_THE_END.search(line.tail)
        if match is None:
            self._on_end(sentence)  # the answer's call is unknown
            return None
        text = match[1].decode("utf-8", "replace")
        request: RequestId = text[1:-1] if text.startswith('"') else int(text)
        error = ErrorData(code=INVALID_REQUEST, message=sentence)
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request, error=error))


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

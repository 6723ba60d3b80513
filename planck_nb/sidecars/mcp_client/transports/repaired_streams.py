"""A transport with valid answers, whatever its server sends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import Context
from types import TracebackType
from typing import Any, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCResponse

from planck_nb.sidecars.mcp_client.transports.open_requests import OpenRequests, not_mcp
from planck_nb.sidecars.mcp_client.transports.repaired_results import NotMcpError, repaired_result


@asynccontextmanager
async def repaired_streams(
    transport: AbstractAsyncContextManager[tuple[Any, Any]], requests: OpenRequests
) -> AsyncIterator[tuple[RepairingReader, NotingWriter]]:
    """Open a transport, and repair its answers.

    Args:
        transport: Opens a pair of message streams.
        requests: Gets the open requests.

    Yields:
        The incoming messages, and the place to send messages.
    """
    async with transport as (reader, writer):
        yield RepairingReader(reader, requests), NotingWriter(writer, requests)


class RepairingReader:
    """Incoming messages with valid results.

    Args:
        reader: The transport's messages.
        requests: The open requests.
    """

    def __init__(self, reader: Any, requests: OpenRequests) -> None:  # noqa: ANN401 - a stream of the SDK or of ours
        self._reader = reader
        self._requests = requests

    @property
    def last_context(self) -> Context | None:
        """Return the newest message's context, None if unknown."""
        return getattr(self._reader, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message, or raise `anyio.EndOfStream` at the end."""
        item: SessionMessage | Exception = await self._reader.receive()
        return item if isinstance(item, Exception) else self._valid(item)

    async def aclose(self) -> None:
        """Stop reading."""
        await self._reader.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _valid(self, item: SessionMessage) -> SessionMessage:
        message = item.message
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            return item
        request_id = self._requests.matching(message.id)
        request = None if request_id is None else self._requests.answered(request_id)
        if request_id is None or request is None:
            return item  # a late answer
        message.id = request_id
        if isinstance(message, JSONRPCError):
            return item
        try:
            result = repaired_result(request, message.result)
        except NotMcpError as error:
            return SessionMessage(not_mcp(request_id, str(error)), metadata=item.metadata)
        if request.method == "initialize":
            self._requests.version = result["protocolVersion"]
        message.result = result
        return item


class NotingWriter:
    """A place to send messages, which notes open requests.

    Args:
        writer: The transport's place to send messages.
        requests: Gets the open requests.
    """

    def __init__(self, writer: Any, requests: OpenRequests) -> None:  # noqa: ANN401 - a stream of the SDK or of ours
        self._writer = writer
        self._requests = requests

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message."""
        self._requests.note_sent(item.message)
        await self._writer.send(item)

    async def aclose(self) -> None:
        """Stop sending."""
        await self._writer.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

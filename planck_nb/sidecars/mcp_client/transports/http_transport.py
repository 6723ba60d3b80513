"""MCP over Streamable HTTP to somebody else's server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from planck_nb.sidecars.conventions import MAX_MESSAGE_BYTES
from planck_nb.sidecars.mcp_client.sidecar_spec import SidecarSpec
from planck_nb.sidecars.mcp_client.transports.http_messages import MessageTransport
from planck_nb.sidecars.mcp_client.transports.open_requests import OpenRequests

_CONNECT_SECONDS = 10.0
_KEPT_CONNECTIONS = 20
_FIRST_ERROR = 400
SERVER_ADDRESS = "planck_nb.server_address"
"""An extension in responses: the IP address from which they came."""


@asynccontextmanager
async def connect_http(
    spec: SidecarSpec,
    requests: OpenRequests,
    *,
    sign_in: Callable[[], httpx2.Auth | None],
    on_status: Callable[[int], None],
) -> AsyncIterator[Any]:
    """Open a connection, as a pair of message streams.

    Args:
        spec: The sidecar.
        requests: The open requests.
        sign_in: Makes the authentication; None if a token suffices or is unnecessary.
        on_status: Called with each HTTP error status.
    """

    async def note_status(response: httpx2.Response) -> None:
        if response.status_code >= _FIRST_ERROR:
            on_status(response.status_code)

    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=_KEPT_CONNECTIONS)
    async with (
        httpx2.AsyncClient(
            headers=_headers(spec.headers, spec.token),
            auth=sign_in(),
            # Calls have time limits of their own, so a read may wait. A pool with a limit would fail all calls when one
            # cannot get a connection in time.
            timeout=httpx2.Timeout(_CONNECT_SECONDS, read=None, pool=None),
            transport=MessageTransport(BoundedTransport(httpx2.AsyncHTTPTransport(limits=limits)), requests),
            event_hooks={"response": [note_status]},
        ) as client,
        streamable_http_client(spec.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES) as streams,
    ):
        yield streams


def _headers(headers: Mapping[str, str], token: str) -> dict[str, str]:
    return {**headers, "Authorization": f"Bearer {token}"} if token else dict(headers)


class BoundedTransport(httpx2.AsyncBaseTransport):
    """A transport which stops reading overlong answers, and notes who answered.

    The SDK bounds events one by one.

    Args:
        transport: The transport for the requests.
    """

    def __init__(self, transport: httpx2.AsyncBaseTransport) -> None:
        self._transport = transport

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, for httpx."""
        request.headers["Accept-Encoding"] = "identity"
        response = await self._transport.handle_async_request(request)
        if is_compressed(response):
            await response.aclose()
            raise TooLargeError("it sent a compressed message, whose size is unknown")
        if (stream := response.extensions.get("network_stream")) is not None:
            with suppress(OSError):  # the other end has closed the connection
                peer = stream.get_extra_info("server_addr")
                response.extensions[SERVER_ADDRESS] = str(peer[0]) if isinstance(peer, tuple) else ""
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _BoundedStream(response.stream)
        return response

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()


def is_compressed(response: httpx2.Response) -> bool:
    """Return whether a body is compressed.

    A short one may then become a very long text.
    """
    return response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity")


class TooLargeError(httpx2.StreamError):
    """A server's answer is too long."""


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: Any) -> None:  # noqa: ANN401 - typed as sync or async
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > MAX_MESSAGE_BYTES:
                raise TooLargeError(f"it sent a message of more than {MAX_MESSAGE_BYTES // 2**20} MB")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()

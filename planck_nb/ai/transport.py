"""Sends requests: over the network, or to a transport or cassette that stands in for it.

A request to the network goes to aiohttp directly: making it an httpx request first, and the answer an httpx response,
would take a tenth of the instructions of a tool loop. `httpx.AsyncClient` is not used at all: it would add redirects,
cookies and authentication, which no model server uses.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import NoReturn, cast

import aiohttp
import httpx

from planck_nb.ai.auth import Authenticator
from planck_nb.ai.cassettes.cassette import EXTENSION, Cassette, CassetteRequest
from planck_nb.ai.cassettes.cassette_transport import CassetteTransport
from planck_nb.ai.connection_errors import failure
from planck_nb.ai.connections import Connections, NetworkTransport, close_response
from planck_nb.ai.models import Model
from planck_nb.ai.retries.retry import Timeouts
from planck_nb.base.timeouts import ReusableTimeout, within

_ERROR_BODY_BYTES = 256 * 1024

_PAUSE_AFTER = 1024 * 1024
"""Bytes of an answer after which other tasks may run. Decompressed or replayed data arrives without any wait, and a few
megabytes can become gigabytes."""

_PIECE_BYTES = 1024
"""Bytes that each piece of an answer counts on top of its length, because even a short one takes work."""


class HttpResponse:
    """A server's answer whose body is still arriving. The caller closes it, with `contextlib.aclosing`.

    `headers` have lower-case names. `read` returns the next bytes, none at the end; `is_at_end` returns whether the end
    is known to have come; `close` gives the connection back, or closes it if the body has not ended.
    """

    def __init__(
        self,
        status: int,
        headers: Mapping[str, str],
        read: Callable[[], Awaitable[bytes]],
        is_at_end: Callable[[], bool],
        close: Callable[[], Awaitable[None]],
        *,
        model: Model,
        timeout: ReusableTimeout,
    ) -> None:
        self.status = status
        self.headers = headers
        self._read = read
        self._is_at_end = is_at_end
        self._close = close
        self._model = model
        self._timeout = timeout
        self._since_pause = 0

    async def chunk(self) -> bytes | None:
        """The next bytes, None after the last. Raises `ProviderConnectionError` or `ProviderProtocolError`."""
        if self._since_pause > _PAUSE_AFTER:
            self._since_pause = 0
            await asyncio.sleep(0)
        try:
            with self._timeout:
                piece = await self._read()
        except Exception as error:  # noqa: BLE001 - raised again
            _explain(error, self._model)
        self._since_pause += len(piece) + _PIECE_BYTES
        return piece or None

    async def body(self, limit: int = _ERROR_BODY_BYTES) -> bytes:
        """The rest of the body, at least `limit` bytes of a longer one; by default what an error message needs."""
        body = b""
        while len(body) < limit and (piece := await self.chunk()) is not None:
            body += piece
        return body

    async def read_to_end(self, patience: float) -> None:
        """Read to the end of an answer whose message is complete, so that its connection can be used again."""
        if self._is_at_end():
            return  # the end came with the message, as from most servers
        # The message is complete: if this fails, the connection is closed instead of kept.
        with suppress(Exception):
            await within(patience, self._rest())

    async def _rest(self) -> None:
        while await self.chunk():
            pass

    async def aclose(self) -> None:
        """Return the connection to the pool, or close it if the body has not ended."""
        self._timeout.close()
        try:
            await self._close()
        except Exception as error:  # noqa: BLE001 - raised again
            _explain(error, self._model)


def _from_network(response: aiohttp.ClientResponse, model: Model, timeout: ReusableTimeout) -> HttpResponse:
    headers: dict[str, str] = {}
    for sent, value in response.headers.items():
        name = sent.lower()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    body = response.content
    close = partial(close_response, response)
    return HttpResponse(response.status, headers, body.readany, body.at_eof, close, model=model, timeout=timeout)


def _from_transport(response: httpx.Response, model: Model, timeout: ReusableTimeout) -> HttpResponse:
    encoded = "content-encoding" in response.headers
    stream = cast("httpx.AsyncByteStream", response.stream)
    pieces: AsyncIterator[bytes] = response.aiter_bytes() if encoded else aiter(stream)

    async def read() -> bytes:
        async for piece in pieces:
            if piece:
                return piece
        return b""

    headers = dict(response.headers)
    return HttpResponse(
        response.status_code, headers, read, lambda: False, response.aclose, model=model, timeout=timeout
    )


class Transport:
    """Sends requests over connections that it keeps.

    `custom` is any httpx transport to use instead of the network, such as a mock.
    """

    def __init__(self, timeouts: Timeouts, custom: httpx.AsyncBaseTransport | None = None) -> None:
        self._timeouts = timeouts
        self._custom = custom
        self._connections = Connections(timeouts.connect)
        self._extensions = {"timeout": {"connect": timeouts.connect, "read": None, "write": None, "pool": None}}

    async def send(
        self,
        model: Model,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        method: str = "POST",
        auth: Authenticator | None = None,
        cassette: Cassette | None = None,
        request_info: CassetteRequest | None = None,
    ) -> HttpResponse:
        """Send a request, and return the answer as soon as its head has arrived.

        `auth` adds credentials. With a `cassette`, the answer is recorded or played back; `request_info` describes the
        request to it.
        """
        timeout = ReusableTimeout(self._timeouts.idle)
        try:
            if self._custom is None and auth is None and cassette is None:
                with timeout.of(self._timeouts.first_byte):
                    received = await self._connections.open(method, url, headers, body)
                return _from_network(received, model, timeout)
            transport = self._custom or NetworkTransport(self._connections)
            if auth is not None:
                transport = _AuthenticatedTransport(auth, transport)
            request = httpx.Request(method, url, headers=headers, content=body, extensions=self._extensions)
            if cassette is not None:
                request.extensions[EXTENSION] = request_info
                transport = CassetteTransport(cassette, transport, timeout)
            with timeout.of(self._timeouts.first_byte):
                response = await transport.handle_async_request(request)
        except BaseException as error:
            timeout.close()
            if isinstance(error, Exception):
                _explain(error, model)
            raise
        return _from_transport(response, model, timeout)

    async def close(self) -> None:
        """Close all connections."""
        await self._connections.close()
        if self._custom is not None:
            await self._custom.aclose()

    def discard(self) -> None:
        """Discard the connections of an event loop that has ended, without a warning about unclosed ones."""
        self._connections.discard()


class _AuthenticatedTransport(httpx.AsyncBaseTransport):
    """Adds credentials to requests that are really sent. A cassette wraps it, because recorded answers need none."""

    def __init__(self, auth: Authenticator, inner: httpx.AsyncBaseTransport) -> None:
        self._auth = auth
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        headers = dict(request.headers)
        request.headers.update(await self._auth.headers(request.method, str(request.url), headers, request.content))
        return await self._inner.handle_async_request(request)


def _explain(error: Exception, model: Model) -> NoReturn:
    """Raise the error for a failed connection; any other error unchanged."""
    if (meaning := failure(error, model)) is None:
        raise error
    raise meaning from error

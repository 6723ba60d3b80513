"""Sends requests: over the network, or to a transport or cassette that stands in for it.

A request to the network goes to aiohttp directly: an httpx request and response in between would take a tenth of a tool
loop's instructions. httpx and httpx2 are loaded only for their own transports.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NoReturn
from urllib.parse import urlsplit

from planck_nb.ai.auth import Authenticator
from planck_nb.ai.cassettes.cassette import Cassette, CassetteRequest
from planck_nb.ai.cassettes.cassette_transport import CassetteSender
from planck_nb.ai.cassettes.conversations import conversation_cassette
from planck_nb.ai.connection_errors import LIBRARIES, failure
from planck_nb.ai.connections import Connections, NetworkSender
from planck_nb.ai.exchange import HttpRequest, HttpTransport, OpenResponse, Sender
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
    """A server's answer whose body is still arriving. The caller closes it, with `contextlib.aclosing`."""

    def __init__(self, response: OpenResponse, *, model: Model, timeout: ReusableTimeout) -> None:
        self.status = response.status
        self.headers = response.headers
        self._read = response.read
        self._is_at_end = response.is_at_end
        self._close = response.close
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


class Transport:
    """Sends requests over connections that it keeps.

    `custom` is a caller's transport to use instead of the network, such as a mock.
    """

    def __init__(self, timeouts: Timeouts, custom: HttpTransport | None = None) -> None:
        self._timeouts = timeouts
        self._custom = custom
        self._connections = Connections(timeouts.connect)
        self._sender: Sender = NetworkSender(self._connections)
        if custom is not None:
            self._sender = _CustomSender(custom, timeouts.connect)

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
        if (answers := conversation_cassette()) is not None:
            raise answers.refusal(model)
        timeout = ReusableTimeout(self._timeouts.idle)
        try:
            sender = self._sender
            if auth is not None:
                sender = _AuthenticatedSender(auth, sender)
            if cassette is not None and request_info is not None:
                sender = CassetteSender(cassette, sender, timeout, request_info)
            with timeout.of(self._timeouts.first_byte):
                response = await sender.send(HttpRequest(method, url, headers, body))
        except BaseException as error:
            timeout.close()
            if isinstance(error, Exception):
                _explain(error, model)
            raise
        return HttpResponse(response, model=model, timeout=timeout)

    async def close(self) -> None:
        """Close all connections."""
        await self._connections.close()
        if self._custom is not None and (close := getattr(self._custom, "aclose", None)) is not None:
            await close()

    def discard(self) -> None:
        """Discard the connections of an event loop that has ended, without a warning about unclosed ones."""
        self._connections.discard()


class _CustomSender:
    """Sends requests over a caller's transport."""

    def __init__(self, transport: HttpTransport, connect_timeout: float) -> None:
        self._transport = transport
        self._request = _request_class(transport)
        self._extensions = {"timeout": {"connect": connect_timeout, "read": None, "write": None, "pool": None}}

    async def send(self, request: HttpRequest) -> OpenResponse:
        outgoing = self._request(
            request.method, request.url, headers=request.headers, content=request.body, extensions=self._extensions
        )
        response = await self._transport.handle_async_request(outgoing)
        headers = dict(response.headers)
        encoded = headers.pop("content-encoding", None) is not None
        pieces: AsyncIterator[bytes] = response.aiter_bytes() if encoded else aiter(response.stream)

        async def read() -> bytes:
            async for piece in pieces:
                if piece:
                    return piece
            return b""

        return OpenResponse(response.status_code, headers, read, response.aclose)


@dataclass(slots=True)
class _PlainRequest:
    """A request for a transport from neither library."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes
    extensions: Mapping[str, object]


def _request_class(transport: object) -> Any:  # noqa: ANN401 - the class of either library
    """Its own library's request class, else a loaded library's."""
    packages = [base.__module__.partition(".")[0] for base in type(transport).__mro__]
    candidates = [name for name in LIBRARIES if name in sys.modules]
    name = next((name for name in candidates if name in packages), next(iter(candidates), None))
    return _PlainRequest if name is None else sys.modules[name].Request


class _AuthenticatedSender:
    """Adds credentials to real requests. A cassette wraps it, because recorded answers need none."""

    def __init__(self, auth: Authenticator, inner: Sender) -> None:
        self._auth = auth
        self._inner = inner

    async def send(self, request: HttpRequest) -> OpenResponse:
        return await self._inner.send(await with_credentials(request, self._auth))


async def with_credentials(request: HttpRequest, auth: Authenticator) -> HttpRequest:
    """Add the credentials for one attempt."""
    headers = {"host": urlsplit(request.url).netloc, **request.headers}
    if request.body:
        headers["content-length"] = str(len(request.body))
    credentials = await auth.headers(request.method, request.url, headers, request.body)
    return replace(request, headers={**request.headers, **credentials})


def _explain(error: Exception, model: Model) -> NoReturn:
    """Raise the error for a failed connection; any other error unchanged."""
    if (meaning := failure(error, model)) is None:
        raise error
    raise meaning from error

"""The only module that sends HTTP requests.

Requests go straight to an `httpx` transport. `httpx.AsyncClient` would add redirects, cookies and authentication, which
no model server uses, and costs more CPU per request than everything else here. Connections are kept per event loop and
closed with it.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import ssl
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NoReturn, cast
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from planck_nb.ai.auth import Authenticator
from planck_nb.ai.cassettes.cassette import EXTENSION, Cassette, CassetteRequest
from planck_nb.ai.cassettes.cassette_transport import CassetteTransport
from planck_nb.ai.connection_errors import failure
from planck_nb.ai.models import Model
from planck_nb.ai.retry import Timeouts
from planck_nb.ai.server_address import is_loopback, shown_url
from planck_nb.base.errors import ConfigError
from planck_nb.base.event_loops import is_running_here
from planck_nb.base.forks import call_in_forks
from planck_nb.base.json_types import JsonObject
from planck_nb.base.timeouts import ReusableTimeout, within

_ERROR_BODY_BYTES = 256 * 1024
_MAX_PIECE_BYTES = 1024 * 1024
"""Bytes of a body that are handed to a connection at once."""


_transports: weakref.WeakSet[Transport] = weakref.WeakSet()


class HttpResponse:
    """A server's answer whose body is still arriving. The caller closes it, with `contextlib.aclosing`."""

    def __init__(self, response: httpx.Response, model: Model, timeout: ReusableTimeout) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._model = model
        self._timeout = timeout
        encoded = "content-encoding" in response.headers
        # The raw stream, because the checks of aiter_raw cost as much as parsing an event.
        stream = cast("httpx.AsyncByteStream", response.stream)
        self._chunks: AsyncIterator[bytes] = response.aiter_bytes() if encoded else aiter(stream)
        self._reader = None if encoded else _reader_of(stream)

    async def chunk(self) -> bytes | None:
        """The next bytes, None after the last. Raises `ProviderConnectionError` or `ProviderProtocolError`."""
        try:
            with self._timeout:
                if self._reader is not None:
                    return await self._reader.readany() or None
                return await anext(self._chunks)
        except StopAsyncIteration:
            return None
        except Exception as error:  # noqa: BLE001 - raised again
            _explain(error, self._model)

    async def body(self, limit: int = _ERROR_BODY_BYTES) -> bytes:
        """The rest of the body, at least `limit` bytes of a longer one; by default what an error message needs."""
        body = b""
        while len(body) < limit and (piece := await self.chunk()) is not None:
            body += piece
        return body

    async def read_to_end(self, patience: float) -> None:
        """Read to the end of an answer whose message is complete, so that its connection can be used again."""
        if self._reader is not None and self._reader.at_eof():
            return  # the end came with the message, as from most servers
        # The message is complete: if this fails, the connection is closed instead of kept.
        with suppress(Exception):
            await within(patience, self._rest())

    async def _rest(self) -> None:
        async for _ in self._chunks:
            pass

    async def aclose(self) -> None:
        """Return the connection to the pool, or close it if the body has not ended."""
        self._timeout.close()
        try:
            await self._response.aclose()
        except Exception as error:  # noqa: BLE001 - raised again
            _explain(error, self._model)


def _reader_of(stream: httpx.AsyncByteStream) -> aiohttp.StreamReader | None:
    """What reads the data of a stream from the network, without the iterators around it; None for other streams."""
    response = getattr(stream, "_aiohttp_response", None)
    return response.content if isinstance(response, aiohttp.ClientResponse) else None


class Transport:
    """Sends requests over connections that it keeps.

    `custom` is any httpx transport to use instead of the network: a mock, a recorder, a player.
    """

    def __init__(self, timeouts: Timeouts, custom: httpx.AsyncBaseTransport | None = None) -> None:
        self._timeouts = timeouts
        self._custom_transport = custom
        self._routes: dict[str | None, httpx.AsyncBaseTransport] = {}
        self._sessions: list[aiohttp.ClientSession] = []
        self._guard: AsyncGenerator[None, None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        _transports.add(self)
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

        `auth` adds credentials. With a `cassette` it is recorded or played back; `request_info`
        describes the request to the cassette.
        """
        timeout = ReusableTimeout(self._timeouts.idle)
        try:
            request = _request(method, _parsed(url), headers, body, self._extensions)
            transport = await self._route(url)
            if auth is not None:
                transport = _AuthenticatedTransport(auth, transport)
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
        return HttpResponse(response, model, timeout)

    async def _route(self, url: str) -> httpx.AsyncBaseTransport:
        if self._custom_transport is not None:
            return self._custom_transport
        if not self._sessions:  # closed, by us or with the event loop that has since started again
            self._routes.clear()
            self._guard = None
        proxy = _proxy_for(url)
        if proxy not in self._routes:
            self._routes[proxy] = await self._open(proxy)
        return self._routes[proxy]

    async def _open(self, proxy: str | None) -> httpx.AsyncBaseTransport:
        if self._guard is None:
            self._guard = _close_with_loop(self._sessions)
            self._loop = asyncio.get_running_loop()
            await anext(self._guard)
        try:
            transport = _NetworkTransport(verify=tls_context(), proxy=httpx.Proxy(proxy) if proxy else None)
        except OSError as error:
            raise ConfigError(
                f"The certificates for checking servers cannot be read "
                f"(SSL_CERT_FILE={os.environ.get('SSL_CERT_FILE', '')}: {error.strerror or error}); correct "
                "SSL_CERT_FILE where Jupyter starts, or unset it."
            ) from error
        # The context that httpx builds reads SSL_CERT_FILE, which aiohttp's own does not.
        session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, ssl=transport.ssl_context))
        transport.client = session
        self._sessions.append(session)
        return transport

    async def close(self) -> None:
        """Close all connections."""
        self._routes.clear()
        if self._guard is not None:
            guard, self._guard = self._guard, None
            await guard.aclose()
        if self._custom_transport is not None:
            await self._custom_transport.aclose()

    def discard(self) -> None:
        """Discard the connections of an event loop that has ended, without a warning about unclosed ones."""
        self._routes.clear()
        while self._sessions:
            session = self._sessions.pop()
            if (connector := session.connector) is not None:
                session.detach()
                connector._close()  # noqa: SLF001 - the public close() needs the loop that is gone
        guard, self._guard = self._guard, None
        if guard is not None:
            # It has nothing left to wait for. The loop would end it in a task, which may never run.
            with suppress(StopIteration, RuntimeError):
                guard.aclose().send(None)

    def __del__(self) -> None:
        # A loop that runs in another thread closes the connections there, through the guard.
        if self._loop is not None and (not self._loop.is_running() or is_running_here(self._loop)):
            self.discard()


class _NetworkTransport(AiohttpTransport):
    """Sends a long body piece by piece, because the event loop would be blocked while it is copied as a whole."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = request.content
        if len(body) > _MAX_PIECE_BYTES:
            request = httpx.Request(
                request.method,
                request.url,
                headers=request.headers,
                stream=_PiecewiseBody(body),
                extensions=request.extensions,
            )
        return await super().handle_async_request(request)


class _PiecewiseBody(httpx.AsyncByteStream):
    """A body in pieces, which may be sent again."""

    def __init__(self, body: bytes) -> None:
        self._body = memoryview(body)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._body), _MAX_PIECE_BYTES):
            yield cast("bytes", self._body[start : start + _MAX_PIECE_BYTES])
            await asyncio.sleep(0)  # a fast connection takes many pieces without a wait


class _AuthenticatedTransport(httpx.AsyncBaseTransport):
    """Adds credentials to a request that is really sent: inside of a cassette, which may answer without them."""

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


async def _close_with_loop(sessions: list[aiohttp.ClientSession]) -> AsyncGenerator[None, None]:
    """Close the sessions when the event loop shuts down its asynchronous generators, or when the generator is closed.

    It refers to the sessions alone, so that a transport without references is closed, too.
    """
    try:
        yield
    finally:
        # All are closed before anything is awaited: a loop that ends may cancel this at its first await.
        waiting = []
        while sessions:
            session = sessions.pop()
            if (connector := session.connector) is not None:
                session.detach()
                waiting.append(connector.close())
        for each in waiting:
            await each


def tls_context() -> ssl.SSLContext:
    """The TLS context that all connections share, with the certificates that the environment names, or the usual ones.

    It is slow to build, and is rebuilt when the variables or the files that they name have changed.
    """
    paths = [os.environ.get(name, "") for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")]
    return _tls_context(*((path, _changed_at(path)) for path in paths if path))


@lru_cache(maxsize=1)
def _tls_context(*_sources: tuple[str, int]) -> ssl.SSLContext:
    return httpx.create_ssl_context()


def _changed_at(path: str) -> int:
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache
def _parsed(url: str) -> httpx.URL:
    return httpx.URL(url)


def _request(
    method: str, url: httpx.URL, headers: Mapping[str, str], body: bytes, extensions: JsonObject
) -> httpx.Request:
    """Build the request that `httpx.Request` builds from `content`, in a tenth of the time."""
    named = {"host": url.netloc.decode("ascii"), **headers, "content-length": str(len(body))}
    request = httpx.Request(method, url, headers=named, stream=httpx.ByteStream(body), extensions=extensions)
    request.read()  # custom transports may look at its `content`
    return request


def _proxy_for(url: str) -> str | None:
    """The proxy that the environment names for a URL; none for this machine. Raises `ConfigError` for an unusable one.

    An address without a scheme is that of an HTTP proxy, as for other programs.
    """
    if is_loopback(url):
        return None
    proxies = getproxies()
    split = urlsplit(url)
    proxy = (proxies.get(split.scheme) or proxies.get("all") or "").strip()
    if not proxy or proxy_bypass(split.hostname or ""):
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    name = f"{split.scheme.upper()}_PROXY" if proxies.get(split.scheme) else "ALL_PROXY"
    try:
        parts = urlsplit(proxy)
        usable = parts.scheme in {"http", "https"} and parts.hostname and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(
            f"{name} is {shown_url(proxy)!r}, which is not the address of an HTTP proxy; correct it where Jupyter "
            "starts, as in http://127.0.0.1:3128, or unset it."
        )
    return proxy


@atexit.register
def _discard_all() -> None:
    """At exit, objects are destroyed in any order, and aiohttp's would complain."""
    for transport in list(_transports):
        if transport._loop is None or not transport._loop.is_running():  # noqa: SLF001 - one of this module
            transport.discard()


# To close a connection in a forked process would end that of its parent.
call_in_forks(_transports.clear)

"""Connections to servers over aiohttp, per event loop."""

from __future__ import annotations

import asyncio
import atexit
import os
import ssl
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import certifi
from aiohttp.client_proto import ResponseHandler
from aiohttp.tracing import Trace

from planck_nb.ai.exchange import HttpRequest, OpenResponse
from planck_nb.ai.server_address import is_loopback, shown_url
from planck_nb.base.errors import ConfigError
from planck_nb.base.event_loops import is_running_here
from planck_nb.base.forks import call_in_forks

_MAX_PIECE_BYTES = 1024 * 1024
"""Bytes of a body that are handed to a connection at once."""

_MAX_CONNECTING = 256
"""Connections to one server that are opened at once.

Servers queue about a thousand. The others are tried again seconds later, and many would run out of time.
"""

_opened: weakref.WeakSet[Connections] = weakref.WeakSet()


class Connections:
    """The connections of one event loop.

    Cookies are not kept: no model server uses them, and one key's cookies would be sent along with the next key.

    Args:
        connect_timeout: How many seconds connecting may take.
    """

    def __init__(self, connect_timeout: float) -> None:
        self._timeout = aiohttp.ClientTimeout(sock_connect=connect_timeout)
        self._sessions: list[aiohttp.ClientSession] = []
        """The session, once it is needed; none after it was closed, by us or with the event loop."""
        self._guard: AsyncGenerator[None, None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        _opened.add(self)

    async def open(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> aiohttp.ClientResponse:
        """Send a request, through the proxy from the environment.

        Args:
            method: The HTTP method.
            url: The URL.
            headers: The headers.
            body: The body; empty for none.

        Returns:
            The response, as soon as its head has arrived. Its body is decompressed while it is read.

        Raises:
            ConfigError: The proxy or the certificates cannot be used.
            Exception: The connection failed, with an exception that `failure` maps.
        """
        if not self._sessions:
            await self._start()
        data: bytes | AsyncIterator[bytes] | None = body or None
        if len(body) > _MAX_PIECE_BYTES:
            data, headers = _in_pieces(body), {**headers, "content-length": str(len(body))}
        return await self._sessions[0].request(
            method,
            url,
            headers=headers,
            data=data,
            allow_redirects=False,
            proxy=_proxy_for(url),
            timeout=self._timeout,
        )

    async def _start(self) -> None:
        try:
            context = tls_context()
        except OSError as error:
            raise ConfigError(
                f"The certificates for checking servers cannot be read "
                f"(SSL_CERT_FILE={os.environ.get('SSL_CERT_FILE', '')}: {error.strerror or error}); correct "
                "SSL_CERT_FILE where Jupyter starts, or unset it."
            ) from error
        self._guard = _close_with_loop(self._sessions)
        self._loop = asyncio.get_running_loop()
        await anext(self._guard)
        connector = _Connector(context)
        self._sessions.append(aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()))

    async def close(self) -> None:
        """Close all connections."""
        if self._guard is not None:
            guard, self._guard = self._guard, None
            await guard.aclose()

    def discard(self) -> None:
        """Discard the connections of an event loop that has ended, without a warning about unclosed ones."""
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


class _Connector(aiohttp.TCPConnector):
    """Opens few connections to a server at once."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(limit=0, ssl=context)
        self._connecting: dict[tuple[str | None, int | None], asyncio.Semaphore] = {}

    async def _create_connection(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's
    ) -> ResponseHandler:
        server = (req.url.host, req.url.port)
        async with self._connecting.setdefault(server, asyncio.Semaphore(_MAX_CONNECTING)):
            return await super()._create_connection(req, traces, timeout)


class NetworkSender:
    """Sends requests over the network.

    Args:
        connections: The connections.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def send(self, request: HttpRequest) -> OpenResponse:
        """Send a request. Raises what `Connections.open` raises."""
        response = await self._connections.open(request.method, request.url, request.headers, request.body)
        headers: dict[str, str] = {}
        for name, value in response.headers.items():
            lower = name.lower()
            headers[lower] = f"{headers[lower]}, {value}" if lower in headers else value
        body = response.content
        return OpenResponse(response.status, headers, body.readany, partial(close_response, response), body.at_eof)


async def close_response(response: aiohttp.ClientResponse) -> None:
    """Keep the connection of a response for the next request, or close it if the body has not ended."""
    response.release()
    await response.wait_for_close()


async def _in_pieces(body: bytes) -> AsyncIterator[bytes]:
    """A long body piece by piece, because the event loop would be blocked while it is copied as a whole."""
    view = memoryview(body)
    for start in range(0, len(body), _MAX_PIECE_BYTES):
        yield cast("bytes", view[start : start + _MAX_PIECE_BYTES])
        await asyncio.sleep(0)  # a fast connection takes many pieces without a wait


async def _close_with_loop(sessions: list[aiohttp.ClientSession]) -> AsyncGenerator[None, None]:
    """Close the sessions when the event loop shuts down its asynchronous generators, or when the generator is closed.

    It references only the sessions, so that a transport that nobody references any more is closed, too.
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
    if path := os.environ.get("SSL_CERT_FILE"):
        return ssl.create_default_context(cafile=path)
    if path := os.environ.get("SSL_CERT_DIR"):
        return ssl.create_default_context(capath=path)
    return ssl.create_default_context(cafile=certifi.where())


def _changed_at(path: str) -> int:
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 0


def _proxy_for(url: str) -> str | None:
    """The proxy that the environment names for a URL; none for this machine. Raises `ConfigError` for an unusable one.

    An address without a scheme is taken for that of an HTTP proxy, as other programs do.
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
    for connections in list(_opened):
        if connections._loop is None or not connections._loop.is_running():  # noqa: SLF001 - of this module
            connections.discard()


# Closing a connection in a forked process would end the parent's.
call_in_forks(_opened.clear)

"""Maps exceptions from aiohttp, httpx and httpx2 to the project's own."""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import urlsplit

import aiohttp
from aiohttp.http_exceptions import ContentEncodingError

from planck_nb.ai.models import Model
from planck_nb.ai.providers import base_url_of
from planck_nb.ai.server_address import is_loopback
from planck_nb.base.errors import (
    PlanckError,
    ProviderAddressError,
    ProviderConnectionError,
    ProviderError,
    ProviderProtocolError,
    ProviderTimeoutError,
)

_UNREACHABLE = "No server answers at {url} ({provider}); start it or set base_url."
_UNKNOWN_HOST = (
    "No server answers at {url} ({provider}): its host is not known; check base_url and the network connection."
)
_PROXY = "The proxy on the way to {url} ({provider}) failed: {words}; check HTTPS_PROXY and NO_PROXY."
_TLS = "No secure connection to {url} ({provider}) could be made: {words}; check the certificate or base_url."
_ADDRESS = "{url} is not the address of a server ({provider}); set base_url to an http:// or https:// URL."
_BROKEN = "The connection to {url} ({provider}) broke; try again."
_PROTOCOL = "The answer of {url} ({provider}) is not valid HTTP: {words}; check base_url."
_NO_FILES = (
    "No connection to {url} ({provider}) can be opened, since this process has too many open files; raise `ulimit -n`, "
    "or ask fewer at once."
)
_SLOW = "{url} ({provider}) sent nothing for too long; try again or choose another model."

_REFUSED = re.compile(rf"\[Errno {errno.ECONNREFUSED}\]|\[WinError 1225\]|\[WinError 10061\]")

_NEWER = {"UploadAbortedError": (ProviderConnectionError, _BROKEN)}
"""Errors that aiohttp has had since 3.14."""

FAILURES: Mapping[type[BaseException], tuple[type[ProviderError], str]] = {
    **{getattr(aiohttp, name): meaning for name, meaning in _NEWER.items() if hasattr(aiohttp, name)},
    # aiohttp's, raised by the network
    aiohttp.ClientConnectorError: (ProviderConnectionError, _UNREACHABLE),
    aiohttp.ClientConnectorDNSError: (ProviderConnectionError, _UNKNOWN_HOST),
    aiohttp.ConnectionTimeoutError: (ProviderConnectionError, _UNREACHABLE),
    aiohttp.ClientProxyConnectionError: (ProviderConnectionError, _PROXY),
    aiohttp.ClientHttpProxyError: (ProviderConnectionError, _PROXY),
    aiohttp.ClientSSLError: (ProviderAddressError, _TLS),
    aiohttp.ClientConnectorSSLError: (ProviderAddressError, _TLS),
    aiohttp.ClientConnectorCertificateError: (ProviderAddressError, _TLS),
    aiohttp.ServerFingerprintMismatch: (ProviderAddressError, _TLS),
    aiohttp.InvalidURL: (ProviderAddressError, _ADDRESS),
    aiohttp.InvalidUrlClientError: (ProviderAddressError, _ADDRESS),
    aiohttp.InvalidUrlRedirectClientError: (ProviderAddressError, _ADDRESS),
    aiohttp.NonHttpUrlClientError: (ProviderAddressError, _ADDRESS),
    aiohttp.NonHttpUrlRedirectClientError: (ProviderAddressError, _ADDRESS),
    aiohttp.ServerTimeoutError: (ProviderTimeoutError, _SLOW),
    aiohttp.SocketTimeoutError: (ProviderTimeoutError, _SLOW),
    aiohttp.ClientError: (ProviderConnectionError, _BROKEN),
    aiohttp.ClientConnectionError: (ProviderConnectionError, _BROKEN),
    aiohttp.ClientConnectionResetError: (ProviderConnectionError, _BROKEN),
    aiohttp.ClientOSError: (ProviderConnectionError, _BROKEN),
    aiohttp.ClientPayloadError: (ProviderConnectionError, _BROKEN),
    aiohttp.ServerConnectionError: (ProviderConnectionError, _BROKEN),
    aiohttp.ServerDisconnectedError: (ProviderConnectionError, _BROKEN),
    ContentEncodingError: (ProviderProtocolError, _PROTOCOL),
    aiohttp.ClientResponseError: (ProviderProtocolError, _PROTOCOL),
    aiohttp.ContentTypeError: (ProviderProtocolError, _PROTOCOL),
    aiohttp.RedirectClientError: (ProviderProtocolError, _PROTOCOL),
    aiohttp.TooManyRedirects: (ProviderProtocolError, _PROTOCOL),
    aiohttp.WSServerHandshakeError: (ProviderProtocolError, _PROTOCOL),
    # the loop itself
    TimeoutError: (ProviderTimeoutError, _SLOW),
    OSError: (ProviderConnectionError, _BROKEN),
}

_OF_LIBRARIES: Mapping[str, tuple[type[ProviderError], str]] = {
    "ConnectError": (ProviderConnectionError, _UNREACHABLE),
    "ConnectTimeout": (ProviderConnectionError, _UNREACHABLE),
    "PoolTimeout": (ProviderConnectionError, _UNREACHABLE),
    "ProxyError": (ProviderConnectionError, _PROXY),
    "InvalidURL": (ProviderAddressError, _ADDRESS),
    "UnsupportedProtocol": (ProviderAddressError, _ADDRESS),
    "TimeoutException": (ProviderTimeoutError, _SLOW),
    "ReadTimeout": (ProviderTimeoutError, _SLOW),
    "WriteTimeout": (ProviderTimeoutError, _SLOW),
    "HTTPError": (ProviderConnectionError, _BROKEN),
    "RequestError": (ProviderConnectionError, _BROKEN),
    "TransportError": (ProviderConnectionError, _BROKEN),
    "NetworkError": (ProviderConnectionError, _BROKEN),
    "ReadError": (ProviderConnectionError, _BROKEN),
    "WriteError": (ProviderConnectionError, _BROKEN),
    "CloseError": (ProviderConnectionError, _BROKEN),
    "StreamError": (ProviderConnectionError, _BROKEN),
    "StreamClosed": (ProviderConnectionError, _BROKEN),
    "StreamConsumed": (ProviderConnectionError, _BROKEN),
    "RequestNotRead": (ProviderConnectionError, _BROKEN),
    "ResponseNotRead": (ProviderConnectionError, _BROKEN),
    "ProtocolError": (ProviderProtocolError, _PROTOCOL),
    "LocalProtocolError": (ProviderProtocolError, _PROTOCOL),
    "RemoteProtocolError": (ProviderProtocolError, _PROTOCOL),
    "DecodingError": (ProviderProtocolError, _PROTOCOL),
    "HTTPStatusError": (ProviderProtocolError, _PROTOCOL),
    "TooManyRedirects": (ProviderProtocolError, _PROTOCOL),
    "CookieConflict": (ProviderProtocolError, _PROTOCOL),
}
"""Exceptions which a caller's transport may raise, by name."""

LIBRARIES = ("httpx", "httpx2")
"""HTTP libraries whose transports a caller may hand in."""

_DECISIVE = (aiohttp.ClientError, ContentEncodingError)
"""Causes that say more than what was raised from them."""


def failure(error: BaseException, model: Model) -> ProviderError | None:
    """The error for a failed request, None for an exception that has nothing to do with the connection.

    An error of our own, such as one about a cassette file, stays as it is, whatever caused it. A transport such
    as httpx-aiohttp reports a broken connection, a refused one and a full pool alike as a connect timeout, so the error
    of aiohttp decides, if there is one.
    """
    if isinstance(error, PlanckError):
        return None
    cause = error.__cause__
    for candidate in (cause, error) if isinstance(cause, _DECISIVE) else (error,):
        for ancestor in type(candidate).__mro__:
            if found := FAILURES.get(ancestor) or _of_library(ancestor):
                error_class, sentence = found
                if isinstance(candidate, OSError) and candidate.errno in {errno.EMFILE, errno.ENFILE}:
                    sentence = _NO_FILES
                words = " ".join(str(candidate).split()).rstrip(".")[:300] or type(candidate).__name__
                sentence = sentence.format(url=_without_path(base_url_of(model)), provider=model.provider, words=words)
                meaning = error_class(sentence, provider=model.provider, model=model.id)
                if isinstance(meaning, ProviderConnectionError):
                    meaning.is_absent = _is_absent(error, base_url_of(model))
                return meaning
    return None


def _of_library(error_class: type) -> tuple[type[ProviderError], str] | None:
    if error_class.__module__.partition(".")[0] not in LIBRARIES:
        return None
    return _OF_LIBRARIES.get(error_class.__name__)


def _is_absent(error: BaseException | None, url: str) -> bool:
    """Whether the host has no address, or nothing listens on this machine. A server elsewhere may be restarting."""
    while error is not None:
        if isinstance(error, socket.gaierror):
            return True
        # Where a name has several addresses, one error stands for all, and has no number of its own.
        refused = isinstance(error, ConnectionRefusedError) or _REFUSED.search(str(error))
        if refused and is_loopback(url):
            return True
        error = error.__cause__
    return False


@lru_cache
def _without_path(url: str) -> str:
    split = urlsplit(url)
    return f"{split.scheme}://{split.netloc}"

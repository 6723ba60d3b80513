"""A sidecar over Streamable HTTP, with a bearer token."""

from __future__ import annotations

import hmac
import socket
import sys
from collections.abc import Sequence
from typing import Any

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from planck_nb.base.errors import ConfigError
from planck_nb.sidecars.author.listening_address import ListeningAddress, checked_token
from planck_nb.sidecars.author.live_offer import LiveOffer
from planck_nb.sidecars.author.server import SidecarServer
from planck_nb.sidecars.conventions import MAX_MESSAGE_BYTES, TOKEN_VARIABLE

PATH = "/mcp"
"""The endpoint's path."""

_UNAUTHORIZED = 401
_BODY = 2 * MAX_MESSAGE_BYTES
"""Largest request in bytes: JSON may encode a character with several."""


class TokenRequired:
    """An ASGI application which requires the header `Authorization: Bearer TOKEN`.

    Args:
        app: The application.
        token: The token.
    """

    def __init__(self, app: Any, token: str) -> None:  # noqa: ANN401 - an ASGI application
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI
        """Answer a request with 401, or pass it on."""
        if scope["type"] == "lifespan" or self._is_allowed(scope["headers"]):
            await self._app(scope, receive, send)
            return
        headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain; charset=utf-8")]
        await send({"type": "http.response.start", "status": _UNAUTHORIZED, "headers": headers})
        await send({"type": "http.response.body", "body": b"A bearer token is required.\n"})

    def _is_allowed(self, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        values = [value for name, value in headers if name == b"authorization"]
        if len(values) != 1:
            return False
        scheme, _, token = values[0].partition(b" ")
        # In constant time, so its duration tells nothing about a partly right guess.
        return hmac.compare_digest(b"Bearer " + token.strip(), self._expected) and scheme.lower() == b"bearer"


def sidecar_app(live: LiveOffer, address: ListeningAddress, token: str | None) -> Any:  # noqa: ANN401 - an ASGI application
    """Make the ASGI application of a sidecar.

    Args:
        live: What the sidecar offers.
        address: Where it is served.
        token: The token that clients must send, None if they need not.

    Returns:
        The application.
    """
    app = SidecarServer(live).mcp.streamable_http_app(
        streamable_http_path=PATH, max_request_body_size=_BODY, transport_security=_security(address)
    )
    return app if token is None else TokenRequired(app, token)


async def serve_http(live: LiveOffer, address: ListeningAddress, token: str | None) -> None:
    """Serve until the process is interrupted.

    Args:
        live: The sidecar's offers.
        address: The listening address.
        token: The clients' token, if any.

    Raises:
        ConfigError: If the token cannot be used or the address is taken.
    """
    token = checked_token(token, address)
    listener = _listener(address)
    app = sidecar_app(live, address, token)
    host = f"[{address.host}]" if ":" in address.host else address.host
    url = f"http://{host}:{listener.getsockname()[1]}{PATH}"
    protected = "with the token" if token else f"without a token, because {TOKEN_VARIABLE} is not set"
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, ws="none", lifespan="on")
    print(f"Serving {live.offer.name} at {url} {protected}.", file=sys.stderr, flush=True)  # noqa: T201 - for people
    await uvicorn.Server(config).serve(sockets=[listener])


def _security(address: ListeningAddress) -> TransportSecuritySettings:
    """Return the accepted values of `Host` and `Origin`.

    Others may come from a web page by DNS rebinding.
    """
    hosts = address.hosts()
    origins = [f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[*hosts, *(f"{host}:*" for host in hosts)],
        allowed_origins=[*origins, *(f"{origin}:*" for origin in origins)],
    )


def _listener(address: ListeningAddress) -> socket.socket:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(1_024)
    except OSError as error:
        raise ConfigError(
            f"The sidecar cannot listen at {address.host}:{address.port}: {error.strerror or error}; choose another "
            "address."
        ) from error
    return listener

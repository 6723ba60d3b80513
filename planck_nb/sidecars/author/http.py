"""Serves a sidecar over Streamable HTTP, with a bearer token."""

from __future__ import annotations

import hmac
import ipaddress
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from planck_nb.base.errors import ConfigError
from planck_nb.sidecars.author.live_offer import LiveOffer
from planck_nb.sidecars.author.server import SidecarServer
from planck_nb.sidecars.conventions import MAX_MESSAGE_BYTES, TOKEN_VARIABLE

PATH = "/mcp"
"""The path of the endpoint."""

MIN_TOKEN = 16
"""The fewest characters of a token."""

_MAX_PORT = 65_535
_UNAUTHORIZED = 401
_BODY = 2 * MAX_MESSAGE_BYTES
"""The most bytes of a request: JSON may spell a character with several."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a sidecar listens.

    Args:
        host: A host name or an IP address.
        port: The port, 0 for any that is free.
        names: Further host names by which clients reach it.
    """

    host: str
    port: int
    names: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str, names: Sequence[str] = ()) -> Address:
        """Read "HOST:PORT".

        Args:
            text: The host, which is in brackets if it is an IPv6 address, and the port.
            names: Further host names by which clients reach it.

        Raises:
            ConfigError: If the text is not of this form, or the host stands for every address and no name is given.
        """
        host, separator, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not separator or not host or not port.isdigit() or int(port) > _MAX_PORT:
            raise ConfigError(f"{text!r} is not an address; write HOST:PORT, such as 127.0.0.1:8000.")
        address = cls(host, int(port), tuple(names))
        if address._is_unspecified and not names:
            raise ConfigError(
                f"{host} stands for every address of this computer; name the host that clients use as well: "
                "--allow-host NAME."
            )
        return address

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this computer can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def _is_unspecified(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False

    def security(self) -> TransportSecuritySettings:
        """Return the values of `Host` and `Origin` that are accepted; others may come from a web page's DNS tricks."""
        hosts = [name for name in (self.host, *self.names) if not (name == self.host and self._is_unspecified)]
        if self.is_loopback:
            hosts += ["127.0.0.1", "localhost", "::1"]
        written = [f"[{host}]" if ":" in host else host for host in dict.fromkeys(hosts)]
        return TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=[*written, *(f"{host}:*" for host in written)],
            allowed_origins=[
                f"{scheme}://{host}{port}" for host in written for scheme in ("http", "https") for port in ("", ":*")
            ],
        )


def checked_token(token: str | None, address: Address) -> str | None:
    """Return the token to ask for, None for none.

    Args:
        token: The token, None if there is none.
        address: Where the sidecar listens.

    Raises:
        ConfigError: If it is too short, has characters that a header cannot contain, or is missing although other
            computers can reach the address.
    """
    if token is None:
        if not address.is_loopback:
            raise ConfigError(
                f"Other computers can reach {address.host}, so the sidecar needs a token: set the variable "
                f"{TOKEN_VARIABLE} to {MIN_TOKEN} characters or more."
            )
        return None
    if len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(
            f"The token in {TOKEN_VARIABLE} must have {MIN_TOKEN} characters or more, of ASCII and without spaces; "
            "set another, or remove the variable."
        )
    return token


class TokenRequired:
    """An ASGI application that needs the header `Authorization: Bearer TOKEN`.

    Args:
        app: The application.
        token: The token.
    """

    def __init__(self, app: Any, token: str) -> None:  # noqa: ANN401 - an ASGI application
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI
        """Answer a request with 401, or pass it on."""
        if scope["type"] != "http" or self._is_allowed(scope["headers"]):
            await self._app(scope, receive, send)
            return
        headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain; charset=utf-8")]
        await send({"type": "http.response.start", "status": _UNAUTHORIZED, "headers": headers})
        await send({"type": "http.response.body", "body": b"A bearer token is required.\n"})

    def _is_allowed(self, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        given = [value for name, value in headers if name == b"authorization"]
        if len(given) != 1:
            return False
        scheme, _, token = given[0].partition(b" ")
        # In constant time, so that its duration does not tell how much of a guess is right.
        return hmac.compare_digest(b"Bearer " + token.strip(), self._expected) and scheme.lower() == b"bearer"


async def serve_http(live: LiveOffer, address: Address, token: str | None) -> None:
    """Serve until the process is interrupted.

    Args:
        live: What the sidecar offers.
        address: Where to listen.
        token: The token that clients must send, None for none.

    Raises:
        ConfigError: If the token cannot be used or the address is taken.
    """
    token = checked_token(token, address)
    listener = _listener(address)
    server = SidecarServer(live)
    app: Any = server.mcp.streamable_http_app(
        streamable_http_path=PATH, max_request_body_size=_BODY, transport_security=address.security()
    )
    if token is not None:
        app = TokenRequired(app, token)
    host = f"[{address.host}]" if ":" in address.host else address.host
    url = f"http://{host}:{listener.getsockname()[1]}{PATH}"
    protected = "with the token" if token else f"without a token, because {TOKEN_VARIABLE} is not set"
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, ws="none", lifespan="on")
    print(f"Serving {live.offer.name} at {url} {protected}.", file=sys.stderr, flush=True)  # noqa: T201 - for people
    await uvicorn.Server(config).serve(sockets=[listener])


def _listener(address: Address) -> socket.socket:
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(1_024)
    except OSError as error:
        raise ConfigError(
            f"The sidecar cannot listen at {address.host}:{address.port}: {error.strerror or error}; choose another "
            "address."
        ) from error
    return listener

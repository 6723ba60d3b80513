"""Requests for a sign-in, to hosts which the server names.

Such a server could otherwise make this computer send requests into its own network
(https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-considerations).
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from typing import TypeAlias

import httpx2

from planck_nb.ai.server_address import shown_host
from planck_nb.base.errors import SidecarSignInError
from planck_nb.sidecars.mcp_client.oauth.address_kinds import AddressKind, kind_of
from planck_nb.sidecars.mcp_client.transports.http_transport import is_compressed

_DEFAULT_PORTS = {"http": 80, "https": 443}
_MAX_ADDRESSES = 4
_MAX_BYTES = 1_000_000
_NAME = re.compile(r"[a-z0-9_.-]+")
_ENDS_IN_A_NUMBER = re.compile(r"(.*\.)?(\d+|0x[0-9a-f]*)\.?")
"""Hosts which programs read as an IPv4 address (https://url.spec.whatwg.org/#ends-in-a-number-checker)."""

_REACHED = {
    AddressKind.PUBLIC: {AddressKind.PUBLIC},
    AddressKind.PRIVATE: {AddressKind.PUBLIC, AddressKind.PRIVATE},
    AddressKind.LOOPBACK: {AddressKind.PUBLIC, AddressKind.PRIVATE, AddressKind.LOOPBACK},
    AddressKind.UNUSABLE: {AddressKind.PUBLIC},
}
"""Permitted kinds for hosts, by the kind for the naming server."""

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Function for a host's IP addresses; an unknown host raises `OSError`."""

Confirm: TypeAlias = Callable[[str, str], Awaitable[bool]]
"""Function which asks the person about a host and its internal address."""


async def resolve_host(host: str, port: int) -> list[str]:
    """Look up a host's IP addresses, the preferred one first.

    Raises:
        OSError: The name is unknown.
    """
    entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in entries))


@dataclass(frozen=True, slots=True)
class SignInNetwork:
    """The network for a sign-in's requests.

    Args:
        resolve: Looks up hosts.
        transport: Makes the transport for one request to an IP address.
    """

    resolve: Resolve = resolve_host
    transport: Callable[[], httpx2.AsyncBaseTransport] = httpx2.AsyncHTTPTransport


class CheckedTransport(httpx2.AsyncBaseTransport):
    """A transport which sends requests only to permitted addresses.

    A host is looked up once, and the request goes to the address which was checked; so a name with another address a
    moment later (DNS rebinding) leads nowhere else. The certificate and the `Host` header belong to the name. The
    environment's proxy is not used, because it would look up the name again.

    Args:
        name: The sidecar's name, for messages.
        network: The network.
        confirm: Asks the person about an internal host.
    """

    def __init__(self, name: str, network: SignInNetwork, confirm: Confirm) -> None:
        self._name = name
        self._network = network
        self._confirm = confirm
        self.server_kind = AddressKind.PUBLIC
        """Kind for the address from which the server required the sign-in."""

    async def check(self, url: httpx2.URL) -> list[str]:
        """Return the IP addresses behind a URL, after checking all of them.

        Raises:
            SidecarSignInError: The URL is not permitted.
            httpx2.ConnectError: Its host is unknown.
        """
        host = url.raw_host.decode("ascii")
        if url.userinfo:
            raise self._refusal(url, "whose address has a user name in it")
        if url.scheme == "http" and self.server_kind is not AddressKind.LOOPBACK:
            raise self._refusal(url, "whose address is not encrypted (http)")
        if url.scheme not in _DEFAULT_PORTS or not host:
            raise self._refusal(url, "whose address is not one of https")
        addresses = await self._addresses(url, host)
        kinds = {address: kind_of(address) for address in addresses}
        for address, kind in kinds.items():
            if kind is AddressKind.UNUSABLE:
                raise self._refusal(url, f"whose IP address {address} no sign-in can have")
            if url.scheme == "http" and kind is not AddressKind.LOOPBACK:
                raise self._refusal(url, "whose address is not encrypted (http)")
        internal = [address for address, kind in kinds.items() if kind not in _REACHED[self.server_kind]]
        if internal and not await self._confirm(host, internal[0]):
            raise SidecarSignInError(
                f"The sidecar {self._name} requires a sign-in at {shown_host(str(url))}, whose IP address "
                f"{internal[0]} is internal, and nobody has confirmed that host; start the sidecar in a notebook, and "
                "type the host's name if you know it."
            )
        return addresses

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to its host's address, for httpx."""
        *first, last = (await self.check(request.url))[:_MAX_ADDRESSES]
        for address in first:
            try:
                return await self._send(request, address)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue
        return await self._send(request, last)

    async def _send(self, request: httpx2.Request, address: str) -> httpx2.Response:
        name = request.url.raw_host.decode("ascii")
        direct_request = httpx2.Request(
            request.method,
            request.url.copy_with(host=address),
            headers=request.headers,  # with the name as `Host`
            stream=request.stream,
            extensions={**request.extensions, **({} if name == address else {"sni_hostname": name})},
        )
        # With a new connection: a pool would reuse one to this address for another host.
        async with self._network.transport() as transport:
            response = await transport.handle_async_request(direct_request)
            assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101 - for type checkers
            try:
                if is_compressed(response):
                    raise httpx2.ReadError(f"{name} sent a compressed answer, which was not asked for")
                body = await self._body(response.stream, name)
            finally:
                await response.aclose()
        return httpx2.Response(response.status_code, headers=response.headers, stream=httpx2.ByteStream(body))

    async def _body(self, stream: httpx2.AsyncByteStream, host: str) -> bytes:
        body = b""
        async for chunk in stream:
            body += chunk
            if len(body) > _MAX_BYTES:
                raise httpx2.ReadError(f"{host} answered with more than {_MAX_BYTES:,} bytes")
        return body

    async def _addresses(self, url: httpx2.URL, host: str) -> list[str]:
        if ":" in host:
            return [host]
        if _ENDS_IN_A_NUMBER.fullmatch(host):
            try:
                return [str(IPv4Address(host))]
            except AddressValueError:
                raise self._refusal(url, "whose IP address is written in another form than 192.0.2.1") from None
        if not _NAME.fullmatch(host):
            raise self._refusal(url, "whose name has characters that a host's name cannot have")
        try:
            addresses = await self._network.resolve(host, url.port or _DEFAULT_PORTS[url.scheme])
        except (OSError, UnicodeError) as error:
            raise httpx2.ConnectError(f"the name {shown_host(str(url))} is unknown") from error
        if not addresses:
            raise httpx2.ConnectError(f"the name {shown_host(str(url))} has no address")
        return list(addresses)

    def _refusal(self, url: httpx2.URL, problem: str) -> SidecarSignInError:
        return SidecarSignInError(
            f"The sidecar {self._name} requires a sign-in at {shown_host(str(url)) or 'no host'}, {problem}; "
            "it was not contacted, so tell the provider of the sidecar."
        )

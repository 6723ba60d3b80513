"""A sidecar's listening address, its clients and its token.

This does not import `mcp`, so the command refuses an unsafe address at once.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from planck_nb.base.errors import ConfigError
from planck_nb.sidecars.conventions import TOKEN_VARIABLE

MIN_TOKEN = 16
"""Shortest token in characters."""

_MAX_PORT = 65_535


@dataclass(frozen=True, slots=True)
class ListeningAddress:
    """A sidecar's listening address.

    Args:
        host: A host name or an IP address.
        port: The port, 0 for any free port.
        names: Further host names by which clients reach it.
    """

    host: str
    port: int
    names: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str, names: Sequence[str] = ()) -> ListeningAddress:
        """Read "HOST:PORT".

        Args:
            text: The host, which is in brackets if it is an IPv6 address, and the port.
            names: Further host names by which clients reach it.

        Raises:
            ConfigError: If the text has another form, or the host stands for every address and a name is missing.
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
        """Return whether only programs on this computer can reach it."""
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

    def hosts(self) -> list[str]:
        """Return the possible hosts in requests, as in URLs."""
        hosts = [name for name in (self.host, *self.names) if not (name == self.host and self._is_unspecified)]
        if self.is_loopback:
            hosts += ["127.0.0.1", "localhost", "::1"]
        return [f"[{host}]" if ":" in host else host for host in dict.fromkeys(hosts)]


def checked_token(token: str | None, address: ListeningAddress) -> str | None:
    """Return the required token, if any.

    Args:
        token: The token, if any.
        address: The sidecar's listening address.

    Raises:
        ConfigError: If it is too short, has characters which a header cannot contain, or is missing although other
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

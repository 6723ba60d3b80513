"""Kinds for IP addresses, for requests to hosts which a server names."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address


class AddressKind(Enum):
    """An IP address's reach."""

    PUBLIC = "public"
    PRIVATE = "private"
    """In a network at work or home, a VPN or container."""

    LOOPBACK = "loopback"
    UNUSABLE = "unusable"
    """Link-local with clouds' metadata services, unspecified, multicast or reserved."""


_UNUSABLE_4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # 0.0.0.0 is this computer on Linux
            "100.100.100.200/32",  # Alibaba Cloud's metadata service
            "168.63.129.16/32",  # Azure's services for its machines
            "169.254.0.0/16",
            "192.0.0.0/24",  # with Oracle Cloud's metadata service
            "224.0.0.0/4",
            "240.0.0.0/4",
        ),
    )
)
_PRIVATE_4 = tuple(
    map(
        IPv4Network,
        (
            "10.0.0.0/8",
            "100.64.0.0/10",
            "172.16.0.0/12",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
        ),
    )
)
"""Special addresses by registry (https://www.iana.org/assignments/iana-ipv4-special-registry).

Python's own list differs between its versions.
"""

_LOOPBACK_4 = IPv4Network("127.0.0.0/8")
_UNUSABLE_6 = tuple(
    map(
        IPv6Network,
        (
            "::/128",
            "fd00:ec2::/32",  # Amazon's metadata service
            "fd20:ce::254/128",  # Google's metadata service
            "fe80::/10",
            "ff00::/8",
        ),
    )
)
_GLOBAL_6 = IPv6Network("2000::/3")
_PRIVATE_6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "3fff::/20")))
"""Exceptions in the global addresses (https://www.iana.org/assignments/iana-ipv6-special-registry)."""

_TRANSLATED = IPv6Network("64:ff9b::/96")
"""IPv4 addresses in networks with IPv6 alone (RFC 6052)."""


@lru_cache
def kind_of(text: str) -> AddressKind:
    """Return an IP address's kind.

    An IPv4 address in IPv6 form has its own kind.

    Args:
        text: The address as `getaddrinfo` writes it; other texts are unusable.

    Example:
        >>> kind_of("8.8.8.8"), kind_of("::ffff:10.0.0.1")
        (<AddressKind.PUBLIC: 'public'>, <AddressKind.PRIVATE: 'private'>)
        >>> kind_of("64:ff9b::169.254.169.254")
        <AddressKind.UNUSABLE: 'unusable'>
    """
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return AddressKind.UNUSABLE
    return _kind_of_4(address) if isinstance(address, IPv4Address) else _kind_of_6(address)


def _kind_of_4(address: IPv4Address) -> AddressKind:
    if address in _LOOPBACK_4:
        return AddressKind.LOOPBACK
    if any(address in network for network in _UNUSABLE_4):
        return AddressKind.UNUSABLE
    return AddressKind.PRIVATE if any(address in network for network in _PRIVATE_4) else AddressKind.PUBLIC


def _kind_of_6(address: IPv6Address) -> AddressKind:
    if address.is_loopback:
        return AddressKind.LOOPBACK
    if any(address in network for network in _UNUSABLE_6):
        return AddressKind.UNUSABLE
    inner = address.ipv4_mapped or address.sixtofour
    if address in _TRANSLATED:
        inner = IPv4Address(int(address) % 2**32)
    if inner is not None:
        return _kind_of_4(inner)
    is_public = address in _GLOBAL_6 and not any(address in network for network in _PRIVATE_6)
    return AddressKind.PUBLIC if is_public else AddressKind.PRIVATE

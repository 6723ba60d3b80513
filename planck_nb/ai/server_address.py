"""The address of a server: checked, and without the credentials that may be part of a URL."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from urllib.parse import parse_qsl, unquote, urlsplit

from planck_nb.base.errors import ConfigError
from planck_nb.base.secrets import is_secret_name, remember_secret
from planck_nb.base.visible import visible

_MAX_PORT = 65535
_MAX_SHOWN_LENGTH = 100
_NOT_IN_A_URL = re.compile(r'[\s\\<>"{}|^`\x00-\x20\x7f-\x9f]')
_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?\.?")
_SIGNATURES = frozenset({"sig", "signature", "code"})
"""Names of fields in a query that are secrets, in addition to those that look like secrets."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A checked URL.

    `url` is the URL without user, password, query and fragment, and without a slash at its end; only that is shown and
    stored. `query` belongs to each request, and so do the `headers`, which are those for a user and password.
    """

    url: str
    query: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def with_query(self, url: str) -> str:
        """The URL of a request, with the query of the address added."""
        return f"{url}{'&' if '?' in url else '?'}{self.query}" if self.query else url


@lru_cache
def server_address(url: str) -> ServerAddress:
    """The address that a `base_url` names. Raises `ConfigError`, without its credentials, if it names none."""
    found = None if _NOT_IN_A_URL.search(url.strip()) else _split(url.strip())
    if found is None:
        raise ConfigError(
            f"{shown_url(url)!r} is not the address of a server; write base_url as in http://127.0.0.1:8080/v1."
        )
    return found


def shown_url(url: str) -> str:
    """A URL as messages may show it, whatever it is: without credentials and query, and not too long."""
    start = re.match(r"[^/@]*:?//", url)
    beginning = start[0] if start else ""
    rest = re.sub(r"[?#].*", "", url[len(beginning) :].rpartition("@")[2], flags=re.DOTALL)
    # What follows a colon may be a password whose host is missing.
    url = beginning + re.sub(r"^([^/:]+):(?!\d{1,5}(/|$))[^/]*", r"\1:…", rest)
    return url if len(url) <= _MAX_SHOWN_LENGTH else f"{url[:_MAX_SHOWN_LENGTH]}…"


def shown_host(url: str) -> str:
    """A URL's host for a person, without user and port.

    Lookalike and invisible characters are spelled out, and an international name is written both ways.

    Example:
        >>> shown_host("https://accounts.example:443@xn--pple-43d.com/login")
        'xn--pple-43d.com (⟨U+0430⟩pple.com)'
    """
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return ""
    with suppress(UnicodeError):
        host = host.encode("idna").decode("ascii")
    name = ".".join(map(_decoded_label, host.split(".")))
    text = visible(host, lookalikes=True)
    return text if name == host else f"{text} ({visible(name, lookalikes=True)})"


def _decoded_label(label: str) -> str:
    """A part of a host's name as it is displayed elsewhere."""
    with suppress(UnicodeError):
        return label.removeprefix("xn--").encode("ascii").decode("punycode") if label.startswith("xn--") else label
    return label


@lru_cache
def is_loopback(url: str) -> bool:
    """Whether a URL certainly points to this machine; short and encoded forms of its addresses are not understood."""
    if _NOT_IN_A_URL.search(url):  # such a URL means different hosts to different programs
        return False
    try:
        host = (urlsplit(url).hostname or "").removesuffix(".")
    except ValueError:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback


def is_readable_in_transit(url: str) -> bool:
    """Whether others can read what is sent to a URL: it is not encrypted and leaves this machine."""
    return urlsplit(url).scheme == "http" and not is_loopback(url)


def _split(url: str) -> ServerAddress | None:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not host or port == 0 or (port or 1) > _MAX_PORT:
        return None
    if not _is_host(host):
        return None
    for name, value in parse_qsl(parts.query):
        if is_secret_name(name) or name.lower() in _SIGNATURES:
            remember_secret(value, "key")
    netloc = parts.netloc.rpartition("@")[2]
    plain = parts._replace(netloc=netloc, query="", fragment="").geturl().rstrip("/")
    return ServerAddress(plain, parts.query, _headers(parts.username, parts.password))


def _is_host(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        try:
            return _HOST.fullmatch(host.encode("idna").decode("ascii")) is not None
        except UnicodeError:
            return False
    return True


def _headers(user: str | None, password: str | None) -> dict[str, str]:
    if user is None and password is None:
        return {}
    remember_secret(unquote(password or ""), "password")
    credentials = f"{unquote(user or '')}:{unquote(password or '')}".encode()
    return {"authorization": f"Basic {base64.b64encode(credentials).decode('ascii')}"}

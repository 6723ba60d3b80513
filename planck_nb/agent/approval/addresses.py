"""Network addresses and patterns for them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

_ADDRESS = re.compile(r"(?:(?P<scheme>[^:/?#]*)://)?(?P<authority>[^/?#]*)(?P<path>.*)", re.DOTALL)
_HOST = re.compile(r"(?P<host>\[[^\]]*\]|[^:]*)(?P<port>:[\d*]*)?")
_DOUBTFUL = re.compile(r"[\\\s\x00-\x1f]|%2e|/\.\.?(?:[/?#]|$)", re.IGNORECASE)


class Address(NamedTuple):
    """The parts of an address that rules compare; `port` includes its colon."""

    scheme: str
    host: str
    port: str
    path: str


def address(text: str) -> Address | None:
    """Split an address such as `https://host:8080/path` or `host`; None if programs may not agree on its parts."""
    found = _ADDRESS.fullmatch(text)
    if not text or found is None or _DOUBTFUL.search(text):
        return None
    host = _HOST.fullmatch(found["authority"].rpartition("@")[2])
    if host is None or not host["host"]:
        return None
    return Address((found["scheme"] or "").lower(), host["host"].lower().rstrip("."), host["port"] or "", found["path"])


@dataclass(frozen=True, slots=True)
class AddressPattern:
    """A host such as `*.example.com`, with a scheme, a port and a path if these matter; `*` matches anything.

    A star in the host never matches a part of the path, nor the other way round.
    """

    text: str

    def covers(self, target: str) -> bool:
        """Whether the pattern certainly matches the address."""
        given, pattern = address(target), address(self.text)
        if given is None or pattern is None:
            return target.strip() == self.text.strip()
        return all(not glob or _part_matches(part, glob) for part, glob in zip(given, pattern, strict=True))

    catches = covers

    def may_catch(self, target: str) -> bool:
        """Whether the pattern may match the address, because one of them leaves something out."""
        given, pattern = address(target), address(self.text)
        if given is None or pattern is None:
            return True
        return all(not glob or not part or _part_matches(part, glob) for part, glob in zip(given, pattern, strict=True))


def _part_matches(part: str, glob: str) -> bool:
    return fnmatchcase(part, glob.replace("[", "[[]").replace("?", "[?]"))

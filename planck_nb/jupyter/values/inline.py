"""Values on one line, as `repr` writes them, but of limited size and without reading anything lazy."""

from __future__ import annotations

import re
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from planck_nb.base.secrets import is_secret_name, looks_like_key
from planck_nb.jupyter.values.guard import Guard, UnusableError
from planck_nb.jupyter.values.kind_and_size import kind_within
from planck_nb.jupyter.values.type_checks import (
    COLUMNS,
    TABLES,
    attribute,
    has_all,
    is_a,
    is_lazy,
    is_trusted,
    name_of,
    names_of,
)

MAX_DEPTH = 6
MAX_SORTED = 1_000
"""Sets with more elements are not sorted."""

_MAX_STRING = 4_000
_MAX_FOREIGN = 2_000
_MAX_BITS = 4_000
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_ELLIPSIS = "…"
_AMBIGUOUS = frozenset({"key", "keys", "token", "auth", "pat", "pass", "cookie", "cookies", "bearer"})
"""Names of secrets that are often those of something else, such as the key of a row."""

_EXACT = frozenset({type(None), bool, float, complex, range, slice, type(Ellipsis), type(NotImplemented)})


class InlineWriter:
    """Writes values until the characters are used up.

    Args:
        guard: Calls the code of objects that are not known.
        characters: How many characters all values together may have, about.
    """

    def __init__(self, guard: Guard, characters: int) -> None:
        self._guard = guard
        self._left = characters
        self._failed: dict[type, str] = {}

    def write(self, value: object, depth: int = 0) -> str:
        """Return the value on one line.

        Args:
            value: Any value.
            depth: How many containers it is in.
        """
        kind = type(value)
        if issubclass(kind, list | tuple | dict | set | frozenset | deque):
            return self._container(value, depth)
        if (text := self._scalar(value)) is not None:
            return self._used(text)
        if is_lazy(kind):
            return self._used(f"<{name_of(kind)}>")
        if not (TABLES | COLUMNS).isdisjoint(names_of(kind)) or has_all(kind, ("shape", "dtype")):
            return self._used(f"<{kind_within(value, self._guard)}>")
        return self._object(value, depth)

    def _scalar(self, value: object) -> str | None:
        """A number, a text or another value without parts; None for others."""
        kind = type(value)
        if issubclass(kind, str | bytes | bytearray):
            return self._string(value)
        if kind is int:
            return _integer(value)  # type: ignore[arg-type]
        if kind in _EXACT:
            return repr(value)
        return self._trusted(value) if is_trusted(kind) else None

    def entry(self, name: object, value: object, depth: int = 0) -> str:
        """Return the value of a key, an attribute or a column; unless it is a secret by its name.

        Args:
            name: The key.
            value: The value.
            depth: How many containers it is in.
        """
        return self._used("<secret, not shown>") if is_secret(name, value) else self.write(value, depth)

    def fields(self, value: object, fields: Iterable[tuple[str, object]], depth: int = 0) -> str:
        """Return an object as its class and its attributes."""
        name = self._used(name_of(type(value)))
        if depth >= MAX_DEPTH:
            return f"{name}({_ELLIPSIS})"
        pieces = (f"{self._used(key)}={self.entry(key, item, depth + 1)}" for key, item in fields)
        return f"{name}({self._joined(pieces)})"

    def _used(self, text: str) -> str:
        self._left -= len(text) + 2
        return text

    def _joined(self, pieces: Iterator[str], count: int | None = None) -> str:
        """The pieces with commas between them, as many as there is space for."""
        written: list[str] = []
        for piece in pieces:
            written.append(piece)
            if self._left <= 0:
                more = None if count is None else count - len(written)
                written += [] if more == 0 else [_ELLIPSIS if more is None else f"{_ELLIPSIS} {more:,} more"]
                break
        return ", ".join(written)

    def _container(self, value: object, depth: int) -> str:
        kind = type(value)
        name = "" if kind in (list, tuple, dict, set) else name_of(kind)
        if depth >= MAX_DEPTH:
            return self._used(f"{name or name_of(kind)}({_ELLIPSIS})")
        if is_a(value, dict):
            count = dict.__len__(value)
            items = _items(value)
            pieces = (f"{self.write(key, depth + 1)}: {self.entry(key, item, depth + 1)}" for key, item in items)
            first = "" if not issubclass(kind, defaultdict) else f"{self.write(_factory(value), depth + 1)}, "
            written = f"{{{self._joined(pieces, count)}}}"
            return f"{name}({first}{written})" if name else written
        if is_a(value, tuple):
            return self._tuple(value, name, depth)
        count, elements = _elements(value)
        written = self._joined((self.write(item, depth + 1) for item in elements), count)
        if issubclass(kind, set | frozenset):
            if not count:
                return f"{name or 'set'}()"
            return f"{name}({{{written}}})" if name else f"{{{written}}}"
        return f"{name}([{written}])" if name else f"[{written}]"

    def _tuple(self, value: tuple[object, ...], name: str, depth: int) -> str:
        count = tuple.__len__(value)
        fields = attribute(type(value), "_fields")
        if type(fields) is tuple and len(fields) == count and all(type(field) is str for field in fields):
            return self.fields(value, zip(fields, tuple.__iter__(value), strict=True), depth)
        written = self._joined((self.write(item, depth + 1) for item in tuple.__iter__(value)), count)
        return f"{name}({written}{',' if count == 1 else ''})"

    def _string(self, value: object) -> str:
        if is_a(value, str):
            count, text = str.__len__(value), str.__getitem__(value, slice(None, _MAX_STRING))
            shown, unit = repr(text), "characters"
        else:
            whole: bytes = bytes.__getitem__(value, slice(None, _MAX_STRING)) if is_a(value, bytes) else b""
            if is_a(value, bytearray):
                whole = bytes(bytearray.__getitem__(value, slice(None, _MAX_STRING)))
            count = bytes.__len__(value) if is_a(value, bytes) else bytearray.__len__(value)  # type: ignore[arg-type]
            shown, unit = repr(whole), "bytes"
        limit = max(self._left, 40)
        if count <= _MAX_STRING and len(shown) <= limit:
            return shown
        return f"{shown[:limit]}{_ELLIPSIS} ({count:,} {unit})"

    def _trusted(self, value: object) -> str:
        try:
            return repr(value)[:_MAX_FOREIGN]
        except Exception:  # noqa: BLE001 - a library's own defect
            return f"<{name_of(type(value))}>"

    def _object(self, value: object, depth: int) -> str:
        kind = type(value)
        fields = self._attributes(value)
        if fields is not None and (_has_no_repr(kind) or any(_must_not_show(*field) for field in fields.items())):
            return self.fields(value, fields.items(), depth)
        return self._used(self._foreign(value))

    def _attributes(self, value: object) -> Mapping[str, object] | None:
        """The instance's own attributes, None if there are none that can be read without its code."""
        if type(attribute(type(value), "__dict__")).__name__ != "getset_descriptor":
            return None
        found = object.__getattribute__(value, "__dict__")
        if type(found) is not dict:
            return None
        return {name: item for name, item in islice(found.items(), 100) if type(name) is str and name[:1] != "_"}

    def _foreign(self, value: object) -> str:
        """What the object's own code writes."""
        kind = type(value)
        if kind in self._failed:
            return self._failed[kind]
        try:
            return self._guard.call(lambda: _plain(repr(value)))
        except UnusableError as error:
            self._failed[kind] = f"<{name_of(kind)}>"
            return f"<{name_of(kind)}, cannot be shown: {error}>"


def is_secret(name: object, value: object) -> bool:
    """Return whether the value of a key, an attribute or a column is a secret by its name.

    Args:
        name: The key.
        value: Its value. Only text can be a secret; of a name that may be that of something else, such as "key", only
            what looks like a generated key.
    """
    if type(name) is not str or not issubclass(type(value), str | bytes) or not is_secret_name(name):
        return False
    if name.lower() not in _AMBIGUOUS:
        return True
    return type(value) is str and looks_like_key(value)


def _plain(text: str) -> str:
    """The text without addresses of memory, which differ from one execution to the next; of exactly the type `str`."""
    return _ADDRESS.sub("", str.__getitem__(text, slice(None, _MAX_FOREIGN)))


def _integer(value: int) -> str:
    bits = value.bit_length()
    return repr(value) if bits <= _MAX_BITS else f"<int of {bits:,} bits>"


def _elements(value: object) -> tuple[int, Iterable[object]]:
    """How many elements a list, a set or a deque has, and an iterator over them, found without its class's own code."""
    if is_a(value, list):
        return list.__len__(value), list.__iter__(value)
    if is_a(value, deque):
        return deque.__len__(value), deque.__iter__(value)
    base: type = set if is_a(value, set) else frozenset
    count: int = base.__len__(value)  # type: ignore[attr-defined]
    elements: Iterable[object] = base.__iter__(value)  # type: ignore[attr-defined]
    if count <= MAX_SORTED:
        found = list(elements)
        if len({type(item) for item in found}) == 1 and type(found[0]) in (str, int, float):
            return count, sorted(found)  # type: ignore[type-var]
        return count, found
    return count, elements


def _items(value: dict[object, object]) -> Iterable[tuple[object, object]]:
    return OrderedDict.items(value) if is_a(value, OrderedDict) else dict.items(value)


def _factory(value: object) -> object:
    return defaultdict.__dict__["default_factory"].__get__(value)


def _has_no_repr(kind: type) -> bool:
    """Whether `repr` would only write the class, or what the fields write."""
    written = attribute(kind, "__repr__")
    generated = attribute(kind, "__dataclass_params__") is not None or ("pydantic", "BaseModel") in names_of(kind)
    return written is object.__repr__ or generated


def _must_not_show(name: str, value: object) -> bool:
    return is_secret(name, value) or is_lazy(type(value))

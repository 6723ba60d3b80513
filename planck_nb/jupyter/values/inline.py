"""Values on one line like `repr`, bounded and without lazy reads."""

from __future__ import annotations

import re
from collections import OrderedDict, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from types import MemberDescriptorType
from typing import Any, cast

from planck_nb.base.named_secrets import names_secret, without_named_values
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
"""Largest set to sort."""

_MAX_STRING = 4_000
_MAX_FOREIGN = 2_000
_MAX_BITS = 4_000
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_ELLIPSIS = "…"
HIDDEN = "<secret, not shown>"
_NAME_FIELDS = frozenset("name key variable setting field option label id header column parameter".split())
"""Fields whose value names the other values beside it."""

_SMALLEST_CODE = 1_000
"""Smallest number which may be a secret; smaller ones are counts."""

_PAIR = 2
_PLAIN_CONTAINERS = (list, tuple, set, frozenset)
_MAX_FIELDS = 100
_PLAIN_DICTS = frozenset({"getset_descriptor", "member_descriptor"})
"""Descriptors for attributes which need none of an object's own code."""

_EXACT = frozenset({type(None), bool, float, complex, range, slice, type(Ellipsis), type(NotImplemented)})


class InlineWriter:
    """A writer for values until the characters are used up.

    Args:
        guard: Calls code from unknown objects.
        characters: Approximate limit for all values together.
    """

    def __init__(self, guard: Guard, characters: int) -> None:
        self._guard = guard
        self._left = characters
        self._failed: dict[type, str] = {}

    def write(self, value: object, depth: int = 0) -> str:
        """Return the value on one line.

        Args:
            value: Any value.
            depth: Number of containers around it.
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
        """Return a number, a text or another value without parts.

        Other values give None.
        """
        kind = type(value)
        if issubclass(kind, str | bytes | bytearray):
            return self._string(value)
        if kind is int:
            return _integer(value)  # type: ignore[arg-type]
        if kind in _EXACT:
            return repr(value)
        return self._trusted(value) if is_trusted(kind) else None

    def entry(self, name: object, value: object, depth: int = 0) -> str:
        """Return an entry's value, unless its name makes it a secret.

        Args:
            name: The key.
            value: The value.
            depth: Number of containers around it.
        """
        return self._used(HIDDEN) if is_secret(name, value) else self.write(value, depth)

    def fields(self, value: object, fields: Mapping[str, object], depth: int = 0) -> str:
        """Return an object as its class and its attributes."""
        name = self._used(name_of(type(value)))
        if depth >= MAX_DEPTH:
            return f"{name}({_ELLIPSIS})"
        label = label_in(fields.items())
        pieces = (f"{self._used(key)}={self._beside(label, key, item, depth + 1)}" for key, item in fields.items())
        return f"{name}({self._joined(pieces)})"

    def _beside(self, label: object, name: object, value: object, depth: int) -> str:
        """Return an entry's value unless a name makes it a secret."""
        is_hidden = label is not value and is_secret(label, value)
        return self._used(HIDDEN) if is_hidden else self.entry(name, value, depth)

    def _used(self, text: str) -> str:
        self._left -= len(text) + 2
        return text

    def _joined(self, pieces: Iterator[str], count: int | None = None) -> str:
        """Return as many pieces as fit, with commas between them."""
        parts: list[str] = []
        for piece in pieces:
            parts.append(piece)
            if self._left <= 0:
                more = None if count is None else count - len(parts)
                parts += [] if more == 0 else [_ELLIPSIS if more is None else f"{_ELLIPSIS} {more:,} more"]
                break
        return ", ".join(parts)

    def _container(self, value: object, depth: int) -> str:
        kind = type(value)
        name = "" if kind in (list, tuple, dict, set) else name_of(kind)
        if depth >= MAX_DEPTH:
            return self._used(f"{name or name_of(kind)}({_ELLIPSIS})")
        if is_a(value, dict):
            count = dict.__len__(value)
            label = label_in(islice(_items(value), _MAX_FIELDS))
            items = _items(value)
            pieces = (
                f"{self.write(key, depth + 1)}: {self._beside(label, key, item, depth + 1)}" for key, item in items
            )
            first = "" if not issubclass(kind, defaultdict) else f"{self.write(_factory(value), depth + 1)}, "
            body = f"{{{self._joined(pieces, count)}}}"
            return f"{name}({first}{body})" if name else body
        if is_a(value, tuple):
            return self._tuple(value, name, depth)
        count, elements = _elements(value)
        if count == _PAIR and issubclass(kind, list):
            body = self._pair(elements, depth)
        else:
            body = self._joined((self.write(item, depth + 1) for item in elements), count)
        if issubclass(kind, set | frozenset):
            if not count:
                return f"{name or 'set'}()"
            return f"{name}({{{body}}})" if name else f"{{{body}}}"
        return f"{name}([{body}])" if name else f"[{body}]"

    def _tuple(self, value: tuple[object, ...], name: str, depth: int) -> str:
        count = tuple.__len__(value)
        fields = attribute(type(value), "_fields")
        if type(fields) is tuple and len(fields) == count and all(type(field) is str for field in fields):
            return self.fields(value, dict(zip(fields, tuple.__iter__(value), strict=True)), depth)
        if count == _PAIR:
            return f"{name}({self._pair(tuple.__iter__(value), depth)})"
        body = self._joined((self.write(item, depth + 1) for item in tuple.__iter__(value)), count)
        return f"{name}({body}{',' if count == 1 else ''})"

    def _pair(self, elements: Iterable[object], depth: int) -> str:
        """Return two elements; the first may name the second."""
        first, second = elements
        return self._joined(iter((self.write(first, depth + 1), self.entry(first, second, depth + 1))), _PAIR)

    def _string(self, value: object) -> str:
        if is_a(value, str):
            count, text = str.__len__(value), str.__getitem__(value, slice(None, _MAX_STRING))
            literal_text, unit = repr(without_named_values(text, HIDDEN)), "characters"
        else:
            whole: bytes = bytes.__getitem__(value, slice(None, _MAX_STRING)) if is_a(value, bytes) else b""
            if is_a(value, bytearray):
                whole = bytes(bytearray.__getitem__(value, slice(None, _MAX_STRING)))
            count = bytes.__len__(value) if is_a(value, bytes) else bytearray.__len__(value)  # type: ignore[arg-type]
            text = without_named_values(whole.decode("latin-1"), HIDDEN)
            literal_text, unit = repr(text.encode("latin-1")), "bytes"
        limit = max(self._left, 40)
        if count <= _MAX_STRING and len(literal_text) <= limit:
            return literal_text
        return f"{literal_text[:limit]}{_ELLIPSIS} ({count:,} {unit})"

    def _trusted(self, value: Any) -> str:  # noqa: ANN401 - a known library's
        if ("numpy", "void") in names_of(type(value)) and value.dtype.names:
            return self.write(dict(zip(value.dtype.names, value.item(), strict=True)))
        try:
            return without_named_values(repr(value)[:_MAX_FOREIGN], HIDDEN)
        except Exception:  # noqa: BLE001 - a library's own defect
            return f"<{name_of(type(value))}>"

    def _object(self, value: object, depth: int) -> str:
        kind = type(value)
        fields = self._attributes(value)
        if fields is not None and (_has_no_repr(kind) or any(_must_not_show(*field) for field in fields.items())):
            return self.fields(value, fields, depth)
        return self._used(self._foreign(value))

    def _attributes(self, value: object) -> Mapping[str, object] | None:
        """Return the instance's own attributes, also those in slots.

        The result is None if only the object's own code can read them.
        """
        slots = _slots(value)
        if type(attribute(type(value), "__dict__")).__name__ not in _PLAIN_DICTS:
            return slots or None
        attributes = object.__getattribute__(value, "__dict__")
        if type(attributes) is not dict:
            return slots or None
        fields = {**slots, **dict(islice(attributes.items(), _MAX_FIELDS))}
        return {name: item for name, item in fields.items() if type(name) is str and name[:1] != "_"}

    def _foreign(self, value: object) -> str:
        """Return the object's own `repr`."""
        kind = type(value)
        if kind in self._failed:
            return self._failed[kind]
        try:
            return without_named_values(self._guard.call(lambda: _plain(repr(value))), HIDDEN)
        except UnusableError as error:
            self._failed[kind] = f"<{name_of(kind)}>"
            return f"<{name_of(kind)}, cannot be shown: {error}>"


def is_secret(name: object, value: object) -> bool:
    """Return whether an entry's value is a secret by its name.

    Args:
        name: The key.
        value: Its value. Only text can be a secret; for an ambiguous name, such as "key", only text like a generated
            key.
    """
    if type(value) in _PLAIN_CONTAINERS:
        items = cast("Collection[object]", value)
        return 0 < len(items) <= _MAX_FIELDS and any(is_secret(name, item) for item in items)
    if type(value) is dict:
        return len(value) <= _MAX_FIELDS and any(is_secret(name, item) for item in value.values())
    if type(name) is bytes:
        return is_secret(name.decode("latin-1"), value)
    if type(name) is tuple:  # a level of an index with several
        return any(is_secret(part, value) for part in name)
    text = str(value) if type(value) is int and value >= _SMALLEST_CODE else value
    if type(name) is not str or not issubclass(type(text), str | bytes | bytearray):
        return False
    return names_secret(name, text if type(text) is str else "")


def label_in(fields: Iterable[tuple[object, object]]) -> object:
    """Return the text in a field such as "name", if any."""
    for name, value in fields:
        if type(name) is str and name.lower() in _NAME_FIELDS and type(value) is str:
            return value
    return None


def _slots(value: object) -> dict[str, object]:
    """Return the values in an instance's slots, read without its own code."""
    values: dict[str, object] = {}
    for base in reversed(type.__dict__["__mro__"].__get__(type(value))):
        for name, member in islice(type.__dict__["__dict__"].__get__(base).items(), _MAX_FIELDS):
            if type(member) is MemberDescriptorType and name[:1] != "_":
                with suppress(AttributeError):
                    values[name] = member.__get__(value)
    return values


def _plain(text: str) -> str:
    """Return the text, as a plain `str`, without memory addresses.

    Addresses differ between executions.
    """
    return _ADDRESS.sub("", str.__getitem__(text, slice(None, _MAX_FOREIGN)))


def _integer(value: int) -> str:
    bits = value.bit_length()
    return repr(value) if bits <= _MAX_BITS else f"<int of {bits:,} bits>"


def _elements(value: object) -> tuple[int, Iterable[object]]:
    """Return a collection's length and an iterator.

    Its class's own code is not run.
    """
    if is_a(value, list):
        return list.__len__(value), list.__iter__(value)
    if is_a(value, deque):
        return deque.__len__(value), deque.__iter__(value)
    base: type = set if is_a(value, set) else frozenset
    count: int = base.__len__(value)  # type: ignore[attr-defined]
    elements: Iterable[object] = base.__iter__(value)  # type: ignore[attr-defined]
    if count <= MAX_SORTED:
        items = list(elements)
        if len({type(item) for item in items}) == 1 and type(items[0]) in (str, int, float):
            return count, sorted(items)  # type: ignore[type-var]
        return count, items
    return count, elements


def _items(value: dict[object, object]) -> Iterable[tuple[object, object]]:
    return OrderedDict.items(value) if is_a(value, OrderedDict) else dict.items(value)


def _factory(value: object) -> object:
    return defaultdict.__dict__["default_factory"].__get__(value)


def _has_no_repr(kind: type) -> bool:
    """Return whether `repr` would write only the class or the fields."""
    own_repr = attribute(kind, "__repr__")
    is_generated = attribute(kind, "__dataclass_params__") is not None or ("pydantic", "BaseModel") in names_of(kind)
    return own_repr is object.__repr__ or is_generated


def _must_not_show(name: str, value: object) -> bool:
    return is_secret(name, value) or is_lazy(type(value))

"""A value's kind and size in a few words."""

from __future__ import annotations

from collections import deque
from typing import Any

from planck_nb.base.text import counted, one_line
from planck_nb.jupyter.values.guard import Guard, UnusableError
from planck_nb.jupyter.values.type_checks import COLUMNS, TABLES, name_of, names_of

_SECONDS = 1.0
_CONTAINERS = (list, tuple, dict, set, frozenset, deque)
_TIMES = " \u00d7 "


def kind_of(value: object) -> str:
    """Return a value's kind and size in a few words.

    Args:
        value: Any value. Only the size in known classes is looked at.

    Returns:
        The class, with the size if any.

    Example:
        >>> kind_of("abc"), kind_of([1, 2]), kind_of(print)
        ('str, 3 characters', 'list of 2', 'builtin_function_or_method')
    """
    return kind_within(value, Guard(_SECONDS))


def kind_within(value: object, guard: Guard) -> str:
    """Return the same, within the caller's guard."""
    kind = type(value)
    name = one_line(name_of(kind))
    for base, noun in ((str, "character"), (bytes, "byte"), (bytearray, "byte")):
        if issubclass(kind, base):
            return f"{name}, {counted(base.__len__(value), noun)}"  # type: ignore[arg-type]
    for container in _CONTAINERS:
        if issubclass(kind, container):
            return f"{name} of {container.__len__(value):,}"  # type: ignore[arg-type]
    names = names_of(kind)
    if names.isdisjoint(TABLES | COLUMNS):
        return name
    try:
        return guard.call(lambda: _sized(name, value, has_shape=not names.isdisjoint(TABLES)))
    except UnusableError:
        return name


def sized(kind: str, shape: tuple[int, ...]) -> str:
    """Return a value's kind with its shape."""
    return f"{kind} {_TIMES.join(f'{size:,}' for size in shape)}" if shape else kind


def _sized(name: str, value: Any, *, has_shape: bool) -> str:  # noqa: ANN401 - a table or a column of one
    return sized(name, tuple(int(size) for size in value.shape) if has_shape else (len(value),))

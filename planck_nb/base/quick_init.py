"""Cheaper construction for frozen dataclasses with thousands of instances."""

from __future__ import annotations

from dataclasses import MISSING, fields
from functools import wraps
from typing import Any, TypeVar, cast

C = TypeVar("C")


def quick_init(cls: type[C]) -> type[C]:
    """Halve the construction time for a frozen dataclass with slots.

    `dataclass` sets the fields in a frozen class through `object.__setattr__`, which looks each field up again. This
    decorator's `__init__` sets the slots directly; it has the same parameters.

    Args:
        cls: The class, without `__post_init__` and without any `default_factory`.

    Example:
        >>> from dataclasses import dataclass
        >>> @quick_init
        ... @dataclass(frozen=True, slots=True)
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> Point(1)
        Point(x=1, y=0)
    """
    namespace: dict[str, Any] = {}
    parameters, lines = ["self"], list[str]()
    for field in fields(cast("Any", cls)):
        namespace[f"set_{field.name}"] = getattr(cls, field.name).__set__
        namespace[f"default_{field.name}"] = field.default
        parameters.append(field.name if field.default is MISSING else f"{field.name}=default_{field.name}")
        lines.append(f"    set_{field.name}(self, {field.name})")
    # The source contains only field names; `dataclass` makes its methods in the same way.
    exec(f"def __init__({', '.join(parameters)}):\n" + "\n".join(lines), namespace)  # noqa: S102
    setattr(cls, "__init__", wraps(cls.__init__)(namespace["__init__"]))  # noqa: B010 - mypy allows no other way
    return cls

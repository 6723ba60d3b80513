"""Types, determined without running any code from the value or its class."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TypeGuard, TypeVar

T = TypeVar("T")

TABLES = frozenset({
    ("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table"), ("pyarrow", "RecordBatch"),
    ("numpy", "ndarray"), ("torch", "Tensor"),
})  # fmt: skip
"""Classes with a shape, by package and name."""

COLUMNS = frozenset({("pandas", "Series"), ("pandas", "Index"), ("polars", "Series")})
"""Classes with a length."""

_TRUSTED = frozenset({"datetime", "decimal", "fractions", "ipaddress", "pathlib", "re", "uuid", "zoneinfo"})
"""Modules whose values have a short and quick text."""

_TRUSTED_SCALARS = frozenset({"Timestamp", "Timedelta", "NaTType", "NAType", "Period"})
"""Such classes in pandas."""

_LAZY_PACKAGES = frozenset({"dask", "dask_expr", "distributed", "pyspark", "ibis", "vaex", "ray", "daft", "modin"})
_LAZY_CLASSES = frozenset({("duckdb", "DuckDBPyRelation"), ("django", "QuerySet"), ("polars", "LazyFrame")})
_LAZY_METHODS = ("collect", "compute", "fetchall", "__next__", "__anext__", "__await__")
"""Methods which compute, fetch or use up something during a read."""


def is_a(value: object, kind: type[T]) -> TypeGuard[T]:
    """Return whether the value is of this class.

    Unlike `isinstance` it ignores the value's `__class__`.
    """
    return issubclass(type(value), kind)


def name_of(kind: type) -> str:
    """Return a class's name."""
    return str(type.__dict__["__name__"].__get__(kind))


def package_of(kind: type) -> str:
    """Return a class's top-level package, empty if unknown."""
    return _module_of(kind).partition(".")[0]


def ancestors(kind: type) -> tuple[type, ...]:
    """Return the class itself and all its ancestors."""
    classes: tuple[type, ...] = type.__dict__["__mro__"].__get__(kind)
    return classes


def names_of(kind: type) -> set[tuple[str, str]]:
    """Return package and name for the class and all its ancestors."""
    return {(package_of(ancestor), name_of(ancestor)) for ancestor in ancestors(kind)}


def attribute(kind: type, name: str) -> object:
    """Return a class's attribute as it is stored, None without one."""
    for ancestor in ancestors(kind):
        attributes = type.__dict__["__dict__"].__get__(ancestor)
        if name in attributes:
            value: object = attributes[name]
            return value
    return None


def has_all(kind: type, names: Iterable[str]) -> bool:
    """Return whether the class has all these attributes."""
    return all(attribute(kind, name) is not None for name in names)


def is_trusted(kind: type) -> bool:
    """Return whether it is a scalar whose text is short and quick.

    Such classes are in the standard library, NumPy and pandas.
    """
    module, name = _module_of(kind), name_of(kind)
    if vars(sys.modules.get(module, sys)).get(name) is not kind:
        return False  # the class claims to be from there
    package = module.partition(".")[0]
    if package == "numpy":
        return ("numpy", "generic") in names_of(kind)
    return package in _TRUSTED or (package == "pandas" and name in _TRUSTED_SCALARS)


def is_lazy(kind: type) -> bool:
    """Return whether reading such a value may compute, fetch or consume something."""
    if package_of(kind) in _LAZY_PACKAGES or not _LAZY_CLASSES.isdisjoint(names_of(kind)):
        return True
    return any(attribute(kind, name) is not None for name in _LAZY_METHODS)


def _module_of(kind: type) -> str:
    try:
        module = type.__dict__["__module__"].__get__(kind)
    except AttributeError:
        return ""
    return module if type(module) is str else ""

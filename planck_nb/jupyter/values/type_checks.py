"""What the type of a value is, found without running any code of the value, of its class or of its metaclass."""

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
"""Modules whose values have a text that is short and quick."""

_TRUSTED_SCALARS = frozenset({"Timestamp", "Timedelta", "NaTType", "NAType", "Period"})
"""Such classes of pandas."""

_LAZY_PACKAGES = frozenset({"dask", "dask_expr", "distributed", "pyspark", "ibis", "vaex", "ray", "daft", "modin"})
_LAZY_CLASSES = frozenset({("duckdb", "DuckDBPyRelation"), ("django", "QuerySet"), ("polars", "LazyFrame")})
_LAZY_METHODS = ("collect", "compute", "fetchall", "__next__", "__anext__", "__await__")
"""Methods of objects that compute, fetch or use up something when they are read."""


def is_a(value: object, kind: type[T]) -> TypeGuard[T]:
    """Whether the value is of this class. Unlike `isinstance` it does not believe the value's `__class__`."""
    return issubclass(type(value), kind)


def name_of(kind: type) -> str:
    """The name of a class."""
    return str(type.__dict__["__name__"].__get__(kind))


def package_of(kind: type) -> str:
    """The top-level package that a class is from, as far as the class knows; empty if it does not."""
    return _module_of(kind).partition(".")[0]


def ancestors(kind: type) -> tuple[type, ...]:
    """The class itself and all that it inherits from."""
    found: tuple[type, ...] = type.__dict__["__mro__"].__get__(kind)
    return found


def names_of(kind: type) -> set[tuple[str, str]]:
    """The package and the name of the class and of all that it inherits from."""
    return {(package_of(each), name_of(each)) for each in ancestors(kind)}


def attribute(kind: type, name: str) -> object:
    """An attribute of the class as it is stored, None if there is none."""
    for each in ancestors(kind):
        attributes = type.__dict__["__dict__"].__get__(each)
        if name in attributes:
            found: object = attributes[name]
            return found
    return None


def has_all(kind: type, names: Iterable[str]) -> bool:
    """Whether the class has all these attributes."""
    return all(attribute(kind, name) is not None for name in names)


def is_trusted(kind: type) -> bool:
    """Whether it is a scalar of the standard library, NumPy or pandas, whose text is short and quick."""
    module, name = _module_of(kind), name_of(kind)
    if vars(sys.modules.get(module, sys)).get(name) is not kind:
        return False  # the class claims to be from there
    package = module.partition(".")[0]
    if package == "numpy":
        return ("numpy", "generic") in names_of(kind)
    return package in _TRUSTED or (package == "pandas" and name in _TRUSTED_SCALARS)


def is_lazy(kind: type) -> bool:
    """Whether reading a value of this class may compute, fetch or use up something."""
    if package_of(kind) in _LAZY_PACKAGES or not _LAZY_CLASSES.isdisjoint(names_of(kind)):
        return True
    return any(attribute(kind, name) is not None for name in _LAZY_METHODS)


def _module_of(kind: type) -> str:
    try:
        module = type.__dict__["__module__"].__get__(kind)
    except AttributeError:
        return ""
    return module if type(module) is str else ""

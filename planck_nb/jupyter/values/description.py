"""Text about a value, and its kind in a few words."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from planck_nb.base.named_secrets import without_named_values
from planck_nb.base.secrets import around_secret
from planck_nb.base.text import head_and_tail, one_line
from planck_nb.jupyter.values.guard import Guard, UnusableError
from planck_nb.jupyter.values.inline import HIDDEN, InlineWriter, is_secret
from planck_nb.jupyter.values.table_description import describer
from planck_nb.jupyter.values.type_checks import attribute, is_lazy, is_trusted, name_of, names_of

CHARACTERS = 4_000
LINES = 100
SECONDS = 2.0
_MAX_TEXT_LENGTH = 1_000_000
_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType)


def describe_value(value: object, *, characters: int = CHARACTERS, seconds: float = SECONDS) -> str:
    r"""Describe a value for a model.

    Args:
        value: Any value.
        characters: Approximate length limit for the text.
        seconds: Time limit for the value's own code.

    Returns:
        A text stays, shortened. A table or an array has its kind and size in the first line, then its columns with
        types and missing values, then its first rows. Other values are in their `repr` form.

    Example:
        >>> describe_value({"EUR": 0.92})
        "{'EUR': 0.92}"
        >>> describe_value(number for number in [1, 2])
        'generator; not read, because reading it would use it up or compute it'
    """
    guard = Guard(seconds)
    try:
        text = _text(value, InlineWriter(guard, characters), guard)
    except UnusableError as error:
        text = f"(cannot be shown: {error})"
    return head_and_tail(text, characters=characters, lines=LINES, around=around_secret)


def _text(value: object, writer: InlineWriter, guard: Guard) -> str:
    kind = type(value)
    if issubclass(kind, str):
        text = str.__getitem__(value, slice(None, _MAX_TEXT_LENGTH))  # type: ignore[index]
        return without_named_values(text, HIDDEN)
    if is_trusted(kind):
        return writer.write(value)
    reader = _reader(kind, writer)
    return writer.write(value) if reader is None else guard.call(lambda: reader(value))


def _reader(kind: type, writer: InlineWriter) -> Callable[[Any], str] | None:
    """Return a reader for more than one line, None for simple classes."""
    if ("duckdb", "DuckDBPyRelation") in names_of(kind):
        return _relation
    if is_lazy(kind):
        return _unread
    if issubclass(kind, _FUNCTIONS):
        return _function
    if issubclass(kind, type | ModuleType):
        return _definition
    describe = describer(kind)
    return None if describe is None else lambda value: describe(value, writer)


def _unread(value: object) -> str:
    return f"{one_line(name_of(type(value)))}; not read, because reading it would use it up or compute it"


def _relation(value: Any) -> str:  # noqa: ANN401 - a relation of DuckDB, whose columns are known before it is computed
    columns = zip(value.columns, value.types, strict=False)
    lines = [f"  {name}: {kind}" for name, kind in columns]
    return "\n".join(["relation of DuckDB, not computed", "columns:", *lines])


def _function(value: Any) -> str:  # noqa: ANN401
    signature = inspect.signature(value)
    parameters = [
        parameter.replace(default=...) if is_secret(name, parameter.default) else parameter
        for name, parameter in signature.parameters.items()
    ]
    return f"def {value.__name__}{signature.replace(parameters=parameters)}\n{_summary(value)}".rstrip()


def _definition(value: Any) -> str:  # noqa: ANN401 - a class or a module
    is_dataclass = attribute(value, "__dataclass_params__") is not None if issubclass(type(value), type) else False
    return f"{value!r}\n{'' if is_dataclass else _summary(value)}".rstrip()  # a dataclass's has its defaults


def _summary(value: Any) -> str:  # noqa: ANN401
    """Return the documentation's first line."""
    text = value.__doc__
    return text.strip().partition("\n")[0] if isinstance(text, str) else ""

"""The value from a tool's function, beside the text for models."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any

_returned: ContextVar[list[object] | None] = ContextVar("planck_nb_returned", default=None)


@contextmanager
def returned_values() -> Iterator[list[object]]:
    """Collect recorded functions' values within the context, also in its threads."""
    values: list[object] = []
    token = _returned.set(values)
    try:
        yield values
    finally:
        _returned.reset(token)


def recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same function, whose values `returned_values` collects.

    The signature stays.
    """
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def record_async(*args: Any, **keywords: Any) -> object:  # noqa: ANN401 - whatever the function accepts
            return _record(await function(*args, **keywords))

        return record_async
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        return function

    @wraps(function)
    def record(*args: Any, **keywords: Any) -> object:  # noqa: ANN401 - whatever the function accepts
        return _record(function(*args, **keywords))

    return record


def _record(value: object) -> object:
    values = _returned.get()
    is_unfinished = inspect.isawaitable(value) or inspect.isgenerator(value) or inspect.isasyncgen(value)
    if values is not None and not is_unfinished:
        values.append(value)
    return value

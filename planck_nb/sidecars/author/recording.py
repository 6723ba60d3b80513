"""Keeps what a tool's function returned, beside the text that models read."""

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
    """Collect what recorded functions return within the context, also in threads that it starts."""
    values: list[object] = []
    token = _returned.set(values)
    try:
        yield values
    finally:
        _returned.reset(token)


def recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, with the same signature, whose return values `returned_values` collects."""
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
    unfinished = inspect.isawaitable(value) or inspect.isgenerator(value) or inspect.isasyncgen(value)
    if values is not None and not unfinished:
        values.append(value)
    return value

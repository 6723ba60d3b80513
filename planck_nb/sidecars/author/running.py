"""The way in which a sidecar's function runs.

It may run on the event loop, in a process which can be killed, or in a thread.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from planck_nb.base.errors import UsageError
from planck_nb.sidecars.conventions import RUNS_ASYNC, RUNS_PROCESS, RUNS_THREAD


def runs_of(function: Callable[..., Any], name: str, *, process: bool | None = None) -> str:
    """Return how a function runs, one of the `RUNS_...` values.

    A sync function at a module's top level runs in a process, because only a process can be killed when its call is
    cancelled. Closures and methods cannot be found by another process, so they run in a thread.

    Args:
        function: The function.
        name: Its tool's name, for error messages.
        process: False to run it in a thread, where it shares the sidecar's state; True to insist on a process.

    Raises:
        UsageError: If `process` is True and the function cannot run in a process.
    """
    if _is_async(function):
        if process:
            raise UsageError(
                f"{name} is async and runs on the sidecar's event loop; drop process=True or make it sync."
            )
        return RUNS_ASYNC
    if process is False:
        return RUNS_THREAD
    if _is_at_top_level(function):
        return RUNS_PROCESS
    if process:
        raise UsageError(
            f"{name} cannot run in a process, which would not find it: define it with `def` at the top level of a "
            "module, or drop process=True."
        )
    return RUNS_THREAD


def _is_async(function: Callable[..., Any]) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    call = function if inspect.isroutine(function) else type(function).__call__
    return inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)


def _is_at_top_level(function: Callable[..., Any]) -> bool:
    plain = inspect.isfunction(function) and function.__qualname__.isidentifier()
    return plain and function.__module__ not in {"__main__", "builtins"}

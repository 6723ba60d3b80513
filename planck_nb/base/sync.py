"""Async code in synchronous programs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from planck_nb.base.errors import UsageError
from planck_nb.base.event_loops import has_running_loop

T = TypeVar("T")

_closers: list[Callable[[], Awaitable[None]]] = []


def close_with_loop(closer: Callable[[], Awaitable[None]]) -> None:
    """Have `run_sync` await `closer()` before it closes its event loop.

    This is for objects which belong to one loop, such as the default HTTP client.
    """
    _closers.append(closer)


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a new event loop, for scripts.

    The sibling `asyncio.run` leaves the HTTP connections open which `planck_nb.ai` opened in that loop. Ctrl-C cancels
    the coroutine and raises `KeyboardInterrupt`.

    Args:
        coroutine: The coroutine, such as the call to an `async def` function.

    Returns:
        The coroutine's result.

    Raises:
        UsageError: An event loop is already running in this thread, as in a notebook. The coroutine is then not run.

    Example:
        >>> async def double(number):
        ...     return 2 * number
        >>> run_sync(double(21))
        42
    """
    if has_running_loop():
        coroutine.close()
        raise UsageError(
            "An event loop is already running here, as in every notebook: use `await` instead of run_sync."
        )
    return asyncio.run(_run_and_close(coroutine))


async def _run_and_close(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        return await coroutine
    finally:
        for closer in _closers:
            await closer()

"""Running async code from code that is not async."""

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

    For what belongs to one loop, such as the default HTTP client.
    """
    _closers.append(closer)


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in an event loop of its own, for scripts; the sibling of `asyncio.run`.

    Unlike `asyncio.run` it also closes the HTTP connections that `planck_nb.ai` opened in that loop. Ctrl-C cancels the
    coroutine and raises `KeyboardInterrupt`.

    Args:
        coroutine: What to run, such as the call of an `async def` function.

    Returns:
        What the coroutine returns.

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

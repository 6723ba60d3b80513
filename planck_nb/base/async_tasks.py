"""Starts, cancellations and uninterrupted awaits for tasks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_background: set[asyncio.Task[Any]] = set()


def spawn(coroutine: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
    """Start a task with a strong reference until its end.

    An exception which is never retrieved is not reported.
    """
    task = asyncio.get_running_loop().create_task(coroutine, name=name)
    _background.add(task)
    task.add_done_callback(_forget)
    return task


def _forget(task: asyncio.Task[Any]) -> None:
    _background.discard(task)
    if not task.cancelled():
        task.exception()


async def cancel_and_wait(*tasks: asyncio.Task[Any]) -> None:
    """Cancel the tasks, and return when all have ended.

    Their results and exceptions are ignored.
    """
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


async def uninterrupted(future: asyncio.Future[T]) -> T:
    """Await a future without interruption.

    A cancellation is delivered at the task's next await instead.
    """
    cancelled, process = False, os.getpid()
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            if process != os.getpid():  # a forked process lacks the threads which the future may wait for
                raise
            cancelled = True
    if cancelled:
        cancel_late()
    return future.result()


def cancel_late() -> None:
    """Deliver a delayed cancellation at the task's next await, counted once."""
    if task := asyncio.current_task():
        task.uncancel()
        task.cancel()

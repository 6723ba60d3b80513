"""Tools that are generators: what they yield is shown while they run, and they are closed when their call ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, closing
from typing import Any

from planck_nb.agent.calling.tool_output import as_output


def drain(generator: Generator[Any, Any, Any], show: Callable[[str], None], stopped: threading.Event) -> object:
    """Run a generator to its end and return its value, or the last one that it yielded if it returns nothing.

    Blocks; once `stopped` is set, closes the generator at its next yield.
    """
    last: object = None
    with closing(generator):
        while not stopped.is_set():
            try:
                last = next(generator)
            except StopIteration as end:
                return last if end.value is None else end.value
            show(as_output(last).text + "\n")
    return last


async def adrain(generator: AsyncGenerator[Any, Any], show: Callable[[str], None]) -> object:
    """Run an async generator to its end and return the last value that it yielded.

    A cancellation closes the generator before this returns; one that swallows the cancellation is closed at its next
    yield.
    """
    last: object = None
    cancelled = _cancellations()
    async with aclosing(generator):
        async for last in generator:
            show(as_output(last).text + "\n")
            if _cancellations() > cancelled:
                raise asyncio.CancelledError
    return last


def _cancellations() -> int:
    """How many times the task was cancelled."""
    task = asyncio.current_task()
    return task.cancelling() if task else 0

"""Async helpers that asyncio lacks."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_background: set[asyncio.Task[Any]] = set()


async def cancel_and_wait(*tasks: asyncio.Task[Any]) -> None:
    """Cancel the tasks and return when all have ended, however they ended."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


async def uninterrupted(future: asyncio.Future[T]) -> T:
    """Wait for what cannot be taken back; a cancellation that comes meanwhile is delivered at the task's next await."""
    cancelled = False
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            cancelled = True
    if cancelled and (task := asyncio.current_task()):
        task.cancel()
    return future.result()


def spawn(coroutine: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
    """Start a task that stays referenced until it ends and whose failure, if nobody asks for it, prints nothing."""
    task = asyncio.get_running_loop().create_task(coroutine, name=name)
    _background.add(task)
    task.add_done_callback(_forget)
    return task


def _forget(task: asyncio.Task[Any]) -> None:
    _background.discard(task)
    if not task.cancelled():
        task.exception()


async def run_in_thread(function: Callable[[], T]) -> T:
    """Run a blocking function in a daemon thread of its own, with the caller's context variables.

    Unlike `asyncio.to_thread`, a function that never returns holds neither a pool slot nor the exit of the
    interpreter: cancelling the await abandons the thread.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(result: T | None, error: Exception | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]  # no error means there is a result

    def work() -> None:
        result: T | None = None
        failure: Exception | None = None
        try:
            result = context.run(function)
        except Exception as error:  # noqa: BLE001 - carried to the awaiting task, whatever it is
            failure = RuntimeError(f"StopIteration: {error}") if isinstance(error, StopIteration) else error
        except BaseException as error:  # noqa: BLE001 - SystemExit or KeyboardInterrupt in a task would end the kernel
            failure = RuntimeError(f"{type(error).__name__}: {error}")
        try:
            loop.call_soon_threadsafe(deliver, result, failure)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    threading.Thread(target=work, name="planck-tool", daemon=True).start()
    return await done

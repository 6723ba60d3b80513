"""Async helpers that asyncio lacks."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

IDLE = 2.0
"""Seconds that a thread waits for more work before it ends."""

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
    """Run a blocking function in a daemon thread that runs nothing else meanwhile, with the caller's context variables.

    Unlike `asyncio.to_thread`, a function that never returns holds neither others up nor the exit of the interpreter:
    cancelling the await abandons the thread. Threads that are done wait a while for more work, since starting one costs
    as much as handing it twice over.
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

    def work() -> Callable[[], object]:
        result: T | None = None
        failure: Exception | None = None
        try:
            result = context.run(function)
        except Exception as error:  # noqa: BLE001 - carried to the awaiting task, whatever it is
            failure = RuntimeError(f"StopIteration: {error}") if isinstance(error, StopIteration) else error
        except BaseException as error:  # noqa: BLE001 - SystemExit or KeyboardInterrupt in a task would end the kernel
            failure = RuntimeError(f"{type(error).__name__}: {error}")
        return partial(loop.call_soon_threadsafe, deliver, result, failure)

    _threads.run(work)
    return await done


class _Threads:
    """Daemon threads, as many as there is work at a time; the one that was idle last is taken first.

    `work` gives what hands its result over, which is done when the thread can already be taken again.
    """

    def __init__(self) -> None:
        self._idle: list[SimpleQueue[Callable[[], Callable[[], object]]]] = []

    def run(self, work: Callable[[], Callable[[], object]]) -> None:
        try:
            inbox = self._idle.pop()
        except IndexError:
            inbox = SimpleQueue()
            threading.Thread(target=self._serve, args=(inbox,), name="planck-tool", daemon=True).start()
        inbox.put(work)

    def forget(self) -> None:
        """In a forked process, where no thread goes on."""
        self._idle.clear()

    def _serve(self, inbox: SimpleQueue[Callable[[], Callable[[], object]]]) -> None:
        while True:
            try:
                hand_over = inbox.get(timeout=IDLE)()
            except Empty:
                try:
                    self._idle.remove(inbox)
                except ValueError:
                    continue  # taken at this moment: the work comes
                return
            self._idle.append(inbox)
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                hand_over()
            del hand_over  # an idle thread keeps no result alive


_threads = _Threads()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.forget)

"""Async helpers that asyncio lacks."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")

IDLE = 2.0
"""Seconds that a thread waits for more work before it ends."""

MOMENT = 0.0002
"""Seconds that the event loop waits for a function in a thread before it turns to something else."""

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
    if cancelled:
        cancel_late()
    return future.result()


def cancel_late() -> None:
    """Deliver a cancellation that was held back at the task's next await; it counts once."""
    if task := asyncio.current_task():
        task.uncancel()
        task.cancel()


async def within(seconds: float, awaitable: Awaitable[T]) -> T:
    """Await for so long at most. Raises `TimeoutError`.

    A timer is taken only when there is something to wait for: it costs as much as reading what has already come.
    """
    steps = awaitable.__await__()
    try:
        first = next(steps)
    except StopIteration as end:
        return cast("T", end.value)
    async with asyncio.timeout(seconds):
        return await _Begun(steps, first)


class _Begun(Generic[T]):
    """What is left of an awaitable whose first step has been taken."""

    def __init__(self, steps: Generator[Any, Any, T], first: object) -> None:
        self._steps = steps
        self._first = first

    def __await__(self) -> Generator[Any, Any, T]:
        step = self._first
        while True:
            try:
                yield step
            except BaseException as error:  # noqa: BLE001 - whatever is thrown in is for the awaitable
                try:
                    step = self._steps.throw(error)
                except StopIteration as end:
                    return cast("T", end.value)
            else:
                return (yield from self._steps)


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
    as much as handing it twice over. The event loop waits a moment for a function that is quick, since waking it costs
    more than most such functions do.
    """
    call = _ThreadCall(partial(contextvars.copy_context().run, function))
    _threads.run(call)
    return await call.outcome()


class _ThreadCall(Generic[T]):
    """A function on its way through a thread: called there, awaited on the event loop.

    Its end and the end of the loop's patience decide together, whichever is first, how the outcome is handed over.
    """

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._loop = asyncio.get_running_loop()
        self._undecided = [True]
        self._over = threading.Lock()
        self._over.acquire()
        self._awaited: asyncio.Future[None] | None = None
        self._result: T | None = None
        self._failure: Exception | None = None

    def __call__(self) -> Callable[[], None]:
        """In the thread: run the function. What it gives hands the outcome over."""
        try:
            self._result = self._function()
        except Exception as error:  # noqa: BLE001 - carried to the awaiting task, whatever it is
            self._failure = RuntimeError(f"StopIteration: {error}") if isinstance(error, StopIteration) else error
        except BaseException as error:  # noqa: BLE001 - SystemExit or KeyboardInterrupt in a task would end the kernel
            self._failure = RuntimeError(f"{type(error).__name__}: {error}")
        return self._hand_over

    async def outcome(self) -> T:
        """On the event loop: what the function returned; raises what it raised."""
        if not self._over.acquire(timeout=MOMENT):
            self._awaited = self._loop.create_future()
            if self._decide():
                await self._awaited
            else:
                self._over.acquire()
        failure, self._failure = self._failure, None
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # the traceback holds this frame
        return cast("T", self._result)

    def _hand_over(self) -> None:
        if self._decide():
            self._over.release()
        else:
            self._loop.call_soon_threadsafe(self._wake)

    def _decide(self) -> bool:
        """Whether nobody decided before; the same answer is never given on both sides."""
        try:
            return self._undecided.pop()
        except IndexError:
            return False

    def _wake(self) -> None:
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(None)


class _Threads:
    """Daemon threads, as many as there is work at a time; the one that was idle last is taken first.

    `work` gives what hands its result over, which is done when the thread can already be taken again.
    """

    def __init__(self) -> None:
        self._idle: list[SimpleQueue[Callable[[], Callable[[], None]]]] = []

    def run(self, work: Callable[[], Callable[[], None]]) -> None:
        try:
            inbox = self._idle.pop()
        except IndexError:
            inbox = SimpleQueue()
            threading.Thread(target=self._serve, args=(inbox,), name="planck-tool", daemon=True).start()
        inbox.put(work)

    def forget(self) -> None:
        """In a forked process, where no thread goes on."""
        self._idle.clear()

    def _serve(self, inbox: SimpleQueue[Callable[[], Callable[[], None]]]) -> None:
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

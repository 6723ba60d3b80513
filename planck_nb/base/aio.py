"""Async helpers that asyncio lacks."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast

from planck_nb.base.errors import WrongLoopError
from planck_nb.base.forks import call_in_forks
from planck_nb.base.interruption import ThreadInterruption

T = TypeVar("T")

IDLE = 2.0
"""Seconds that a thread waits for more work before it ends."""

MOMENT = 0.0002
"""Seconds that the event loop blocks for a function in a thread before it awaits it."""


HAND_OVER = 5.0
"""Seconds that a thread waits for the event loop of another thread to take a call."""

_background: set[asyncio.Task[Any]] = set()


class LoopLock:
    """A lock for tasks of one event loop, which may be used in several loops one after another.

    An `asyncio.Lock` that tasks have waited for cannot be used in another loop, such as the next call of `run_sync`.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._lock = loop, asyncio.Lock()
        await self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that this thread runs now, None if it runs none."""
    return asyncio._get_running_loop()  # noqa: SLF001 - asyncio exports it; the public function raises instead


def has_running_loop() -> bool:
    """Whether this thread runs an event loop now."""
    return running_loop() is not None


def is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether this thread runs the event loop now."""
    return running_loop() is loop


async def await_in_loop(loop: asyncio.AbstractEventLoop, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Await `function()` on the event loop of another thread. Cancelling this cancels it there.

    Raises:
        WrongLoopError: That loop is closed, or is closed meanwhile.
    """
    coroutine = function()
    try:
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    except RuntimeError:
        coroutine.close()
        raise _loop_is_closed() from None
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) and task.cancelling():
            raise
        raise _loop_is_closed() from None


def call_in_loop(loop: asyncio.AbstractEventLoop | None, function: Callable[[], T], *, seconds: float = HAND_OVER) -> T:
    """Call a quick function in the thread of an event loop, which may be this one, and return its result.

    Args:
        loop: The loop; None calls the function in this thread.
        function: What to call.
        seconds: How long that thread may take to begin.

    Raises:
        WrongLoopError: The loop is blocked or closed. The function was then not called.
    """
    if loop is None or not loop.is_running() or is_running_here(loop):
        return function()
    outcome: Future[T] = Future()

    def call() -> None:
        if not outcome.set_running_or_notify_cancel():
            return
        try:
            outcome.set_result(function())
        except Exception as error:  # noqa: BLE001 - raised in the thread that waits
            outcome.set_exception(error)

    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:
        raise _loop_is_closed() from None
    if wait([outcome], seconds).not_done and outcome.cancel():
        raise WrongLoopError(
            "The agent is used by the event loop of another thread, which is blocked, perhaps because it waits for "
            "this one; call it there, or let that loop run meanwhile, as `await asyncio.to_thread(…)` does."
        )
    return outcome.result()


def _loop_is_closed() -> WrongLoopError:
    return WrongLoopError(
        "The event loop that the agent was used in was closed before there was an answer; send the prompt again."
    )


async def cancel_and_wait(*tasks: asyncio.Task[Any]) -> None:
    """Cancel the tasks, and return when all have ended. Their results and exceptions are ignored."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


async def uninterrupted(future: asyncio.Future[T]) -> T:
    """Await a future that must not be interrupted. A cancellation is delivered at the task's next await instead."""
    cancelled, process = False, os.getpid()
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            if process != os.getpid():  # a forked process has none of the threads that the future may wait for
                raise
            cancelled = True
    if cancelled:
        cancel_late()
    return future.result()


def cancel_late() -> None:
    """Deliver a cancellation that was held back at the task's next await, without counting it twice."""
    if task := asyncio.current_task():
        task.uncancel()
        task.cancel()


async def within(limit: float | asyncio.Timeout, awaitable: Awaitable[T]) -> T:
    """Await for at most this long. Raises `TimeoutError`.

    A timer is started only if the awaitable has to wait, because it costs as much as reading data that has arrived.

    Args:
        limit: Seconds, or an `asyncio.timeout` that is not entered yet, which tells afterwards whether it has expired.
        awaitable: What to await.
    """
    steps = awaitable.__await__()
    try:
        first = next(steps)
    except StopIteration as end:
        return cast("T", end.value)
    async with limit if isinstance(limit, asyncio.Timeout) else asyncio.timeout(limit):
        return await _Started(steps, first)


class ReusableTimeout:
    """Limits how long each of many blocks takes, with one timer for all of them.

        with timeout:
            data = await connection.read()

    A block that takes too long is cancelled, and raises `TimeoutError`. A timer of its own for each would cost as much
    as reading a piece of data. Only one task at a time may have a block, and the block must end when it is cancelled.
    `close` when there is nothing more to wait for.

    Args:
        seconds: How long each block may take, None for no limit.
    """

    def __init__(self, seconds: float | None) -> None:
        self._usual = self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at = 0.0
        """When the timer fires."""
        self._deadline = 0.0
        self._waiting: asyncio.Task[Any] | None = None
        self._cancellations = 0
        """How often the task had been cancelled when the block began."""
        self._expired = False

    @property
    def expired(self) -> bool:
        """Whether the latest block took too long."""
        return self._expired

    def of(self, seconds: float | None) -> Self:
        """The same timeout, with another limit for the next block; None for the usual one."""
        self._seconds = self._usual if seconds is None else seconds
        return self

    def __enter__(self) -> None:
        self._expired = False
        seconds, self._seconds = self._seconds, self._usual
        task = None if seconds is None else asyncio.current_task()
        if seconds is None or task is None:
            return
        self._waiting = task
        self._cancellations = task.cancelling()
        now = monotonic()
        self._deadline = now + seconds
        if self._timer is None or self._looks_at > self._deadline:
            self.close()
            # It looks again when it is too early, so that a later block with a shorter limit does not need another.
            self._look_in(seconds if self._usual is None else min(seconds, self._usual), now, task.get_loop())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._waiting = self._waiting, None
        if error is None or task is None or not self._expired:
            return
        if task.uncancel() <= self._cancellations and isinstance(error, asyncio.CancelledError):
            raise TimeoutError from error

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_in(self, seconds: float, now: float, loop: asyncio.AbstractEventLoop) -> None:
        self._looks_at = now + seconds
        # The loop keeps a cancelled timer until its time, perhaps for an hour, and with it the timer's context: in that
        # of a turn are its results.
        self._timer = loop.call_later(seconds, self._check, loop, context=contextvars.Context())

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel an await that takes too long; look again at the end of the time that a later one has."""
        self._timer = None
        if self._waiting is None:
            return
        if (now := monotonic()) < self._deadline:
            self._look_in(self._deadline - now, now, loop)
        else:
            self._expired = True
            self._waiting.cancel()


class _Started(Generic[T]):
    """The rest of an awaitable whose first step has run."""

    def __init__(self, steps: Generator[Any, Any, T], first: object) -> None:
        self._steps = steps
        self._first = first

    def __await__(self) -> Generator[Any, Any, T]:
        step = self._first
        while True:
            try:
                yield step
            except BaseException as error:  # noqa: BLE001 - every exception that is thrown in belongs to the awaitable
                try:
                    step = self._steps.throw(error)
                except StopIteration as end:
                    return cast("T", end.value)
            else:
                return (yield from self._steps)


def spawn(coroutine: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
    """Start a task that stays referenced until it ends. An exception that is never retrieved is not reported."""
    task = asyncio.get_running_loop().create_task(coroutine, name=name)
    _background.add(task)
    task.add_done_callback(_forget)
    return task


def _forget(task: asyncio.Task[Any]) -> None:
    _background.discard(task)
    if not task.cancelled():
        task.exception()


async def run_in_thread(function: Callable[[], T], *, interruptible: bool = False) -> T:
    """Run a blocking function in a daemon thread of its own, with the caller's context variables.

    Unlike with `asyncio.to_thread`, a function that never returns delays neither other functions nor the exit of the
    interpreter: cancelling the await leaves the thread behind. An idle thread waits a while for more work, because
    starting a thread is expensive. The event loop first blocks for a moment, because waking it takes longer than most
    quick functions do.

    Args:
        function: The function.
        interruptible: Whether cancelling the await raises `KeyboardInterrupt` in the function, as Ctrl-C does in the
            main thread: at its next Python instruction, and so not before a call such as `time.sleep` returns.

    Returns:
        What the function returns.
    """
    call = _ThreadCall(partial(contextvars.copy_context().run, function))
    _threads.run(call)
    try:
        return await call.outcome()
    except asyncio.CancelledError:
        if interruptible:
            call.interrupt()
        raise


class _ThreadCall(Generic[T]):
    """A function that is called in a thread and awaited on the event loop.

    The thread, when the function has ended, and the loop, when it stops blocking, race: the first of them decides
    whether the loop is released at once or has to be woken.
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
        self._interruption = ThreadInterruption(KeyboardInterrupt)

    def __call__(self) -> Callable[[], None]:
        """Run the function in the thread. Returns a callable that delivers the outcome to the loop."""
        self._interruption.begin()
        try:
            self._result = self._function()
        except Exception as error:  # noqa: BLE001 - every exception is raised in the awaiting task
            self._failure = RuntimeError(f"StopIteration: {error}") if isinstance(error, StopIteration) else error
        except BaseException as error:  # noqa: BLE001 - SystemExit or KeyboardInterrupt in a task would end the kernel
            self._failure = RuntimeError(f"{type(error).__name__}: {error}")
        self._interruption.end()  # an interruption that is too late is not meant for the next function in this thread
        return self._hand_over

    def interrupt(self) -> None:
        """Raise `KeyboardInterrupt` in the function if it runs."""
        self._interruption.interrupt()

    async def outcome(self) -> T:
        """Wait on the event loop for the function. Returns its result, or raises its exception."""
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
        """Whether this call is the first of the two; `list.pop` is atomic, so exactly one of them is."""
        try:
            return self._undecided.pop()
        except IndexError:
            return False

    def _wake(self) -> None:
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(None)


class _Threads:
    """A pool of daemon threads that grows as needed; the thread that became idle last is used first.

    Work returns a callable that delivers its result. It is called when the thread is already available again.
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

    def clear(self) -> None:
        """Drop all threads, in a forked process, where none of them runs."""
        self._idle.clear()

    def _serve(self, inbox: SimpleQueue[Callable[[], Callable[[], None]]]) -> None:
        with suppress(KeyboardInterrupt):  # came too late for its function, and this thread is not idle yet
            self._work(inbox)

    def _work(self, inbox: SimpleQueue[Callable[[], Callable[[], None]]]) -> None:
        while True:
            try:
                hand_over = inbox.get(timeout=IDLE)()
            except Empty:
                try:
                    self._idle.remove(inbox)
                except ValueError:
                    continue  # `run` has just popped this thread, so the work will come
                return
            self._idle.append(inbox)
            with suppress(RuntimeError):  # the loop is closed, so no task waits
                hand_over()
            del hand_over  # an idle thread keeps no result alive


_threads = _Threads()

call_in_forks(_threads.clear)

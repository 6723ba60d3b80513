"""Blocking functions in daemon threads."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar, cast

from planck_nb.base.forks import call_in_forks
from planck_nb.base.interruption import ThreadInterruption

T = TypeVar("T")

IDLE = 2.0
"""Seconds after which a thread without work ends."""

MOMENT = 0.0002
"""Seconds for which the event loop blocks before it awaits a function."""


async def run_in_thread(function: Callable[[], T], *, interruptible: bool = False) -> T:
    """Run a blocking function in a daemon thread.

    It has the caller's context variables.

    Unlike with `asyncio.to_thread`, a function which never returns delays neither other functions nor the interpreter's
    exit: cancelling the await leaves the thread behind. An idle thread waits a while for more work, because starting a
    thread is expensive. The event loop first blocks for a moment, because waking it takes longer than most quick
    functions do.

    Args:
        function: The function.
        interruptible: Whether cancelling the await raises `KeyboardInterrupt` in the function, as Ctrl-C does in the
            main thread: at its next Python instruction, so only after a call such as `time.sleep` has returned.

    Returns:
        The function's result.
    """
    call = _ThreadCall(partial(contextvars.copy_context().run, function))
    _threads.run(call)
    try:
        return await call.outcome(_threads.moment)
    except asyncio.CancelledError:
        if interruptible:
            call.interrupt()
        raise


class _ThreadCall(Generic[T]):
    """A function in a thread, awaited on the event loop.

    The thread, once the function has ended, and the loop, once it stops blocking, race: the first to come decides
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
        """Run the function in the thread.

        Returns a callable which delivers the outcome to the loop.
        """
        self._interruption.begin()
        try:
            self._result = self._function()
        except Exception as error:  # noqa: BLE001 - every exception is raised in the awaiting task
            self._failure = RuntimeError(f"StopIteration: {error}") if isinstance(error, StopIteration) else error
        except BaseException as error:  # noqa: BLE001 - SystemExit or KeyboardInterrupt in a task would end the kernel
            self._failure = RuntimeError(f"{type(error).__name__}: {error}")
        self._interruption.end()  # a late interruption must not hit the next function in this thread
        return self._hand_over

    def interrupt(self) -> None:
        """Raise `KeyboardInterrupt` in the function if it runs."""
        self._interruption.interrupt()

    async def outcome(self, moment: float) -> T:
        """Wait for the function, at first by blocking the loop.

        Returns its result, or raises its exception.
        """
        if not self._over.acquire(timeout=moment):
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
        """Return whether this call is the first.

        `list.pop` is atomic, so exactly one call is.
        """
        try:
            return self._undecided.pop()
        except IndexError:
            return False

    def _wake(self) -> None:
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(None)


class _Threads:
    """A growing pool of daemon threads which prefers the latest idle thread.

    Work returns a callable which delivers its result, to be called once the thread is available again.
    """

    def __init__(self, *, idle: float = IDLE, moment: float = MOMENT) -> None:
        self._idle_seconds = idle
        self.moment = moment
        self._idle: list[SimpleQueue[Callable[[], Callable[[], None]]]] = []

    def run(self, work: Callable[[], Callable[[], None]]) -> None:
        try:
            inbox = self._idle.pop()
        except IndexError:
            inbox = SimpleQueue()
            threading.Thread(target=self._serve, args=(inbox,), name="planck-tool", daemon=True).start()
        inbox.put(work)

    def clear(self) -> None:
        """Drop all threads; in a forked process they are dead."""
        self._idle.clear()

    def _serve(self, inbox: SimpleQueue[Callable[[], Callable[[], None]]]) -> None:
        with suppress(KeyboardInterrupt):  # came too late for its function, and this thread is not idle yet
            self._work(inbox)

    def _work(self, inbox: SimpleQueue[Callable[[], Callable[[], None]]]) -> None:
        while True:
            try:
                hand_over = inbox.get(timeout=self._idle_seconds)()
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

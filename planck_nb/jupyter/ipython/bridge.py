"""Waits for coroutines in code that cannot await: inside `def`, `%%time`, `%%capture`."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeVar

from planck_nb.jupyter.ipython.blocked_loop import interruption_here

T = TypeVar("T")

OTHER_LOOP = (
    "Agents live on the notebook's own event loop, which a thread cannot wait for; "
    "use %planck in a cell or in an `async def` that the cell awaits."
)

_POLL_INTERVAL = 0.1

_ENDING = 3.0
"""Seconds that interrupted code has to end before another interrupt cancels it again."""

NEST_ASYNCIO_WARNING = (
    "nest_asyncio is active in this kernel: messages that arrive while it runs a nested loop are lost and "
    "`Run All` hangs; restart the kernel and use nest_asyncio2 instead."
)


def nest_asyncio_is_active() -> bool:
    """Return whether the old nest_asyncio was applied, which loses messages under ipykernel 7."""
    return "nest_asyncio" in sys.modules and hasattr(asyncio, "_nest_patched")


@contextmanager
def waking_loop() -> Iterator[None]:
    """Wake the running loop regularly, so that an interrupt (■) ends an idle cell at once.

    ipykernel schedules an interrupt on the loop without waking it.
    """
    loop = asyncio.get_running_loop()
    next_turn: asyncio.TimerHandle

    def turn() -> None:
        nonlocal next_turn
        next_turn = loop.call_later(_POLL_INTERVAL, turn)

    next_turn = loop.call_later(_POLL_INTERVAL, turn)
    try:
        yield
    finally:
        next_turn.cancel()


def wait_for(coroutine: Coroutine[Any, Any, T], idle_loop: Callable[[], asyncio.AbstractEventLoop]) -> T:
    """Run a coroutine, whether or not an event loop runs in this thread.

    While it runs nested in a running loop, the kernel handles no clicks. An interrupt (■) cancels the coroutine.

    Args:
        coroutine: The coroutine to run.
        idle_loop: Returns the loop to use if none runs.

    Returns:
        The coroutine's result.

    Raises:
        KeyboardInterrupt: The coroutine was interrupted; it has ended.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        loop = idle_loop()
    else:
        import nest_asyncio2  # noqa: PLC0415 - patches asyncio, so only when it is needed

        nest_asyncio2.apply(loop)
    task = loop.create_task(coroutine)
    with interrupts_cancel(task, loop, blocking=True) as interrupted:
        while True:
            try:
                return loop.run_until_complete(task)
            except asyncio.CancelledError:
                if interrupted():
                    raise KeyboardInterrupt from None
                raise
            except KeyboardInterrupt:  # raised in another task, which has ended; do not leave this one behind
                if task.done():
                    raise
                task.cancel()


@dataclass(eq=False)
class _Block:
    """A block of `interrupts_cancel` that runs; `before` is the handler to restore, `last` the time of an interrupt.

    `pending` is whether the event loop still has to cancel the task.
    """

    task: asyncio.Task[Any]
    loop: asyncio.AbstractEventLoop
    blocking: bool
    before: Any
    last: float | None = None
    pending: bool = False

    def interrupt(self) -> None:
        now = time.monotonic()
        if self.last is None or now - self.last > _ENDING:
            self.last, self.pending = now, True
            self.loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        self.pending = False
        self.task.cancel()


_blocks: list[_Block] = []
"""The blocks that run, in the order in which they began; tasks end theirs in any order."""


@contextmanager
def interrupts_cancel(
    task: asyncio.Task[Any], loop: asyncio.AbstractEventLoop, *, blocking: bool = False
) -> Iterator[Callable[[], bool]]:
    """While the block runs, SIGINT cancels the task instead of raising wherever the loop happens to be.

    If several blocks run, as in `asyncio.gather`, it cancels the tasks of all of them; of those that block only the
    newest, which raises `KeyboardInterrupt` in the others. More interrupts do nothing while a task ends, since a second
    cancellation would cut that short; after a few seconds they cancel it again. A tool that blocks the event loop is
    interrupted itself. While the event loop does not run, SIGINT does what it did before the first block.

    Args:
        task: The task to cancel.
        loop: Its event loop, which runs in this thread.
        blocking: Whether the block itself runs the loop, instead of awaiting.

    Yields:
        A function that returns whether there was an interrupt.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread may handle signals
        yield lambda: False
        return
    block = _Block(task, loop, blocking, signal.getsignal(signal.SIGINT))
    _blocks.append(block)
    signal.signal(signal.SIGINT, _on_interrupt)
    try:
        yield lambda: block.last is not None
    finally:
        index = _blocks.index(block)
        if block is _blocks[-1]:
            signal.signal(signal.SIGINT, block.before)
        else:
            _blocks[index + 1].before = block.before
        del _blocks[index]


def _on_interrupt(number: int, frame: FrameType | None) -> None:
    awaiting = [block for block in _blocks if not block.blocking and block.loop.is_running()]
    blocking = [block for block in _blocks if block.blocking][-1:]
    for block in awaiting + blocking:
        block.interrupt()
    if not (awaiting or blocking):  # what was left suspended when its cell ended does not handle later interrupts
        before = _blocks[0].before if _blocks else signal.default_int_handler
        if callable(before):
            before(number, frame)
    elif error := interruption_here(frame):
        raise error


def has_pending_interrupt() -> bool:
    """Return whether an interrupt has not reached its task yet. Code that blocks the event loop must not begin then."""
    return any(block.pending for block in _blocks)


@contextmanager
def interrupts_raise() -> Iterator[None]:
    """While the block runs, SIGINT raises `KeyboardInterrupt`, for code that blocks the event loop."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

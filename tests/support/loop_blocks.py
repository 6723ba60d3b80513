"""How long callbacks hold an event loop, by the CPU time of its own thread."""

from __future__ import annotations

import asyncio
import gc
import time
from asyncio.events import Handle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal


@dataclass
class LoopBlocks:
    """The longest time for which one callback held the loop.

    Args:
        seconds: CPU seconds in one piece, without those of the garbage collector, which depend on the whole process.
        where: The coroutine or the callback.
    """

    seconds: float = 0.0
    where: str = ""
    _collecting: list[float] = field(default_factory=lambda: [0.0, 0.0])

    def note(self, handle: Handle, seconds: float) -> None:
        """Remember a callback if it is the longest so far."""
        if seconds > self.seconds:
            task = getattr(getattr(handle, "_callback", None), "__self__", None)
            self.seconds = seconds
            self.where = repr(task.get_coro()) if isinstance(task, asyncio.Task) else repr(handle)

    def collected(self, phase: Literal["start", "stop"], _info: dict[str, int]) -> None:
        """Add up the time of the garbage collector."""
        now = time.thread_time()
        if phase == "start":
            self._collecting[0] = now
        else:
            self._collecting[1] += now - self._collecting[0]

    @property
    def collecting(self) -> float:
        """The CPU seconds of the garbage collector so far."""
        return self._collecting[1]


@contextmanager
def loop_blocks() -> Iterator[LoopBlocks]:
    """Measure all callbacks of event loops while the context is open."""
    blocks, original = LoopBlocks(), Handle._run

    def run(handle: Handle) -> None:
        collecting, began = blocks.collecting, time.thread_time()
        original(handle)
        blocks.note(handle, time.thread_time() - began - (blocks.collecting - collecting))

    Handle._run = run  # type: ignore[assignment,method-assign]  # asyncio measures wall time only, in its debug mode
    gc.callbacks.append(blocks.collected)
    try:
        yield blocks
    finally:
        gc.callbacks.remove(blocks.collected)
        Handle._run = original  # type: ignore[method-assign]

"""How often the kernel may send to the browser, whatever the number of live views.

Above a thousand messages a second the Jupyter server drops some, the kernel's idle status among them, and the cell
never ends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from weakref import WeakKeyDictionary

INTERVAL = 0.040
"""Seconds between two messages."""


class FrameThrottle:
    """Allows one message per `interval`, in the order in which views ask to send.

    A view asks again only after it has sent, so that with many views each gets every n-th turn. It uses no task or
    timer while no view waits. Belongs to one event loop.

    Args:
        interval: Seconds between two messages.
        clock: Returns the time in seconds.
        sleep: Waits for a number of seconds.
    """

    def __init__(
        self,
        *,
        interval: float = INTERVAL,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._interval = interval
        self._clock = clock
        self._sleep = sleep
        self._lock = asyncio.Lock()
        self._next = clock()

    async def turn(self) -> None:
        """Wait until the caller may send one message."""
        async with self._lock:
            wait = self._next - self._clock()
            if wait > 0:
                await self._sleep(wait)
            self._next = self._clock() + self._interval


_throttles: WeakKeyDictionary[asyncio.AbstractEventLoop, FrameThrottle] = WeakKeyDictionary()


def kernel_frame_throttle() -> FrameThrottle:
    """The throttle of the running event loop, which all live views of a kernel share."""
    loop = asyncio.get_running_loop()
    if loop not in _throttles:
        _throttles[loop] = FrameThrottle()
    return _throttles[loop]

"""Message rate from the kernel to the browser.

It is the same for any number of live views.

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
    """A limit for messages, in the order of the requests.

    A view asks again only after it has sent, so with many views each gets every n-th turn. Without waiting views it
    needs neither task nor timer. Belongs to one event loop.

    Args:
        interval: Seconds between two messages.
        clock: Returns the time in seconds.
        sleep: Waits for a time in seconds.
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
    """Return the running event loop's throttle, shared by the kernel's live views."""
    loop = asyncio.get_running_loop()
    if loop not in _throttles:
        _throttles[loop] = FrameThrottle()
    return _throttles[loop]

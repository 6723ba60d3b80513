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
    """Gives one turn per `interval` seconds, in the order in which views ask for it.

    A view asks again only after it has painted, so with many views each gets every n-th turn. Nothing runs while
    nobody asks. Belongs to one event loop.
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
        self._line = asyncio.Lock()
        self._next = clock()

    async def turn(self) -> None:
        """Return when the caller may send one message."""
        async with self._line:
            wait = self._next - self._clock()
            if wait > 0:
                await self._sleep(wait)
            self._next = self._clock() + self._interval


_throttles: WeakKeyDictionary[asyncio.AbstractEventLoop, FrameThrottle] = WeakKeyDictionary()


def kernel_frame_throttle() -> FrameThrottle:
    """The one painter of the running loop, which in a kernel is the kernel's."""
    loop = asyncio.get_running_loop()
    if loop not in _throttles:
        _throttles[loop] = FrameThrottle()
    return _throttles[loop]

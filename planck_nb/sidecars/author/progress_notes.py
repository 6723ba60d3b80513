"""A call's progress for its client, in order and without waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from planck_nb.agent.calling.progress import ProgressReporter
from planck_nb.base.text import encodable

Send = Callable[[float, str], Awaitable[None]]
"""A function which sends a notification, by number and text."""


class ProgressNotes:
    """Progress notifications for a call.

    Args:
        send: Sends a notification to the client.
    """

    def __init__(self, send: Send) -> None:
        self.send = send
        self._texts: asyncio.Queue[str | None] = asyncio.Queue()
        self._count = 0
        self._sending: asyncio.Task[None] | None = None
        self.report = ProgressReporter(self._put)
        """Shows text, from any thread; quick texts are joined."""

    def _put(self, text: str) -> None:
        if self._sending is None:  # most tools report nothing
            self._sending = asyncio.get_running_loop().create_task(self._send_all())
        self._texts.put_nowait(text)

    async def finish(self) -> None:
        """Send the remaining texts; called when the tool has ended."""
        self.report.close()
        if self._sending is not None:
            self._texts.put_nowait(None)
            await self._sending

    async def _send_all(self) -> None:
        while (text := await self._texts.get()) is not None:
            self._count += 1
            with suppress(Exception):  # the client has gone, and the call will notice
                await self.send(float(self._count), encodable(text))

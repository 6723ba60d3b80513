"""Sends the progress of a call to its client, in order, without making the tool wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from planck_nb.agent.calling.progress import ProgressReporter
from planck_nb.base.text import encodable

Send = Callable[[float, str], Awaitable[None]]
"""Sends a notification, given its number and its text."""


class ProgressNotes:
    """The progress of one call.

    Args:
        send: Sends a notification to the client.
    """

    def __init__(self, send: Send) -> None:
        self.send = send
        self._texts: asyncio.Queue[str | None] = asyncio.Queue()
        self._count = 0
        self._sending: asyncio.Task[None] | None = None
        self.report = ProgressReporter(self._put)
        """Shows text; can be called from any thread. Texts that come quickly are joined."""

    def _put(self, text: str) -> None:
        if self._sending is None:  # most tools report nothing
            self._sending = asyncio.get_running_loop().create_task(self._send_all())
        self._texts.put_nowait(text)

    async def finish(self) -> None:
        """Send what has not been sent yet; called when the tool has ended."""
        self.report.close()
        if self._sending is not None:
            self._texts.put_nowait(None)
            await self._sending

    async def _send_all(self) -> None:
        while (text := await self._texts.get()) is not None:
            self._count += 1
            with suppress(Exception):  # the client has gone, and the call will notice
                await self.send(float(self._count), encodable(text))

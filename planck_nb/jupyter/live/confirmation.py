"""A decision between two buttons in the running cell."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path

import traitlets

from planck_nb.agent.approval.gate import CONNECT_TIMEOUT
from planck_nb.jupyter.live.widget import Widget


class Confirmation(Widget):
    """Two buttons until one is clicked or the time is over.

    Create it on the event loop which waits.

    Args:
        question: The question, for screen readers.
        accept: The first button's label.
        decline: The second button's label.
        seconds: Time for the person.
    """

    script = _esm = Path(__file__).with_name("confirmation.js")
    question = traitlets.Unicode().tag(sync=True)
    accept = traitlets.Unicode().tag(sync=True)
    decline = traitlets.Unicode().tag(sync=True)
    ends = traitlets.Float().tag(sync=True)
    done = traitlets.Bool(False).tag(sync=True)

    def __init__(self, question: str, *, accept: str, decline: str, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._shown = asyncio.Event()
        self._answer: asyncio.Future[bool] = self._loop.create_future()
        super().__init__(question=question, accept=accept, decline=decline, ends=time.time() + seconds)
        self.on_msg(self._receive)

    async def answer(self) -> bool | None:
        """Return the decision: False if it is late, None without a browser."""
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    await self._shown.wait()
            if not self._shown.is_set():
                return None
            await asyncio.wait([self._answer], timeout=self._seconds)
            return self._answer.done() and self._answer.result()
        finally:
            self.done = True

    def _receive(self, _widget: object, content: object, _buffers: object) -> None:
        """Handle a message from the browser, perhaps on a foreign kernel thread."""
        with suppress(RuntimeError):  # the loop is closed: the kernel is about to end
            self._loop.call_soon_threadsafe(self._handle, content)

    def _handle(self, message: object) -> None:
        match message:
            case {"type": "shown"}:
                self._shown.set()
            case {"type": "answer", "accepted": bool(decision)} if not self._answer.done():
                self._answer.set_result(decision)

"""A prompt's wait for sidecars, and a button to end it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import traitlets

from planck_nb.jupyter.live.widget import Widget


class SidecarWait(Widget):
    """The starting sidecars, the seconds so far, and a button.

    Create it on the event loop which waits.

    Args:
        names: The sidecars.
    """

    script = _esm = Path(__file__).with_name("sidecar_wait.js")
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    begun = traitlets.Float().tag(sync=True)
    done = traitlets.Bool(False).tag(sync=True)

    def __init__(self, names: Sequence[str]) -> None:
        self._loop = asyncio.get_running_loop()
        self._left = asyncio.Event()
        super().__init__(names=list(names), begun=time.time())
        self.on_msg(self._receive)

    def update(self, names: Sequence[str]) -> None:
        """Show which sidecars are still waited for."""
        self.names = list(names)

    async def left(self) -> None:
        """Return when the person wants to go on without them."""
        await self._left.wait()

    def finish(self) -> None:
        """Take everything off the page."""
        self.done = True
        self.close()

    def _receive(self, _widget: object, content: object, _buffers: object) -> None:
        """Handle a message from the browser, perhaps on a foreign kernel thread."""
        if content == {"type": "leave"}:
            with suppress(RuntimeError):  # the loop is closed: the kernel is about to end
                self._loop.call_soon_threadsafe(self._left.set)

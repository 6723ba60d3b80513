"""A call's progress, as its server reports it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from planck_nb.base.visible import visible


class CallProgress:
    """A receiver for a call's progress from the MCP library.

    Args:
        show: Called with each text.
    """

    def __init__(self, show: Callable[[str], None] | None) -> None:
        self._show = show
        self.newest = 0.0
        """Time at the newest progress, by the event loop's clock."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Note the newest progress, and show it."""
        self.newest = asyncio.get_running_loop().time()
        text = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
        if self._show is not None:
            self._show((visible(message) if message else text) + "\n")

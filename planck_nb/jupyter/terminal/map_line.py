"""A map's progress in a terminal: one line."""

from __future__ import annotations

import shutil
from typing import TextIO

from planck_nb.base.async_tasks import spawn
from planck_nb.base.text import encodable
from planck_nb.rendering.plain_output import for_terminal
from planck_nb.workspace import MapRun

INTERVAL = 1.0
"""Seconds between two updates."""

_NARROWEST = 20


class MapLine:
    """A line about a running map, rewritten until its end.

    Create it on the run's event loop.

    Args:
        run: The map.
        output: Where to write.
        interval: Seconds between two updates.
    """

    def __init__(self, run: MapRun, output: TextIO, *, interval: float = INTERVAL) -> None:
        self._run = run
        self._output = output
        self._interval = interval
        self._is_rewritten = output.isatty()
        if self._is_rewritten:
            spawn(self._follow(), name="planck map line")

    def finish(self) -> None:
        """Write the last state, and what a person should know."""
        progress = self._run.progress
        begin = "\r" if self._is_rewritten else ""
        self._write(f"{begin}{self._line()}\n")
        if progress.sentence and progress.state not in {"failed", "changed"}:  # with an error of their own
            self._write(f"{for_terminal(progress.sentence)}\n")

    async def _follow(self) -> None:
        while not self._run.done:
            self._write(f"\r{self._line()}")
            await self._run.wait(self._interval)

    def _line(self) -> str:
        line = for_terminal(encodable(str(self._run.progress)))
        if not self._is_rewritten:
            return line
        width = max(shutil.get_terminal_size().columns - 1, _NARROWEST)
        return line[:width].ljust(width)

    def _write(self, text: str) -> None:
        encoding = self._output.encoding or "utf-8"
        self._output.write(text.encode(encoding, "replace").decode(encoding))
        self._output.flush()

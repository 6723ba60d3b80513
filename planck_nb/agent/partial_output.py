"""A structured answer while the model writes it."""

from __future__ import annotations

import time
from typing import Any

from planck_nb.agent.output import OutputSpec

PARTIAL_INTERVAL = 0.1
"""Seconds between two readings of an answer that is being written, by default."""

_PAUSE_FACTOR = 20
"""The pause after a reading is at least this many times as long as the reading, which starts from the beginning."""


class PartialOutput:
    """Reads an answer again and again while it grows.

    Args:
        spec: The structured output that the answer must have.
        interval: Seconds between two readings, at least.
    """

    def __init__(self, spec: OutputSpec, interval: float) -> None:
        self.value: Any = None
        """The data of the newest reading; None before there is any."""
        self._spec = spec
        self._interval = interval
        self._pieces: list[str] = []
        self._next = 0.0

    def add(self, text: str) -> bool:
        """Add text that the model wrote. Returns whether `value` changed; not every piece of text changes it."""
        self._pieces.append(text)
        return time.monotonic() >= self._next and self._read()

    def finish(self, text: str) -> bool:
        """Read a complete reply; whether `value` changed. Text that is added later belongs to another reply."""
        self._pieces = [text]
        changed = self._read()
        self._pieces, self._next = [], 0.0
        return changed

    def _read(self) -> bool:
        began = time.monotonic()
        self._pieces = ["".join(self._pieces)]
        value = self._spec.read_partial(self._pieces[0])
        ended = time.monotonic()
        self._next = ended + max(self._interval, _PAUSE_FACTOR * (ended - began))
        if value is None or value == self.value:
            return False
        self.value = value
        return True

"""A sidecar's newest log lines, in bounded memory."""

from __future__ import annotations

import re
from collections import deque

from planck_nb.base.secrets import redact
from planck_nb.base.visible import visible

KEPT_LINES = 500
"""Number of lines to keep."""

_LINE_BYTES = 4_000
"""Longest line in bytes; longer ones are cut."""

_ESCAPES = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # terminals' titles and links
    r"|\x1b[PX^_].*?(?:\x1b\\|$)"
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # colours and movements
    r"|\x1b[ -/]*[0-~]"
)


class LogLines:
    """The newest lines, cheap to add: decoded and redacted only on reading.

    Args:
        kept: Number of lines to keep.
    """

    def __init__(self, kept: int = KEPT_LINES) -> None:
        self._kept = kept
        self._lines: deque[bytes] = deque(maxlen=kept)
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Add bytes as they come; a line may be in several pieces."""
        *lines, rest = (self._rest + data).split(b"\n")
        self._lines.extend(line[:_LINE_BYTES] for line in lines[-self._kept :])
        self._rest = rest[:_LINE_BYTES]

    def add(self, line: str) -> None:
        """Add planck_nb's own line."""
        self._lines.extend(part[:_LINE_BYTES] for part in line.encode("utf-8", "replace").split(b"\n"))

    def clear(self) -> None:
        """Forget all lines."""
        self._lines.clear()
        self._rest = b""

    def lines(self, count: int | None = None) -> list[str]:
        """Return the newest lines without control codes and secrets, the oldest first."""
        newest = [*self._lines, *([self._rest] if self._rest else [])]
        if count is not None:
            newest = newest[-count:]
        if not newest:
            return []
        # Redacted as one text, because a private key, for example, has many lines.
        text = "\n".join(_ESCAPES.sub("", line.decode("utf-8", "replace").rstrip("\r")) for line in newest)
        return [visible(line.rpartition("\r")[2]) for line in redact(text, formats=True).split("\n")]

"""A stream that replaces another one: it diverts what some code writes, and the original gets the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TextIO

Writer = Callable[[str], object]


class RoutedStream:
    """A stream that passes text to the owner of the running code's output, or else to the stream that it replaces.

    Args:
        original: The stream that it replaces.
        writer: Returns what takes the text of the running code; None if the original stream does.
    """

    def __init__(self, original: TextIO, writer: Callable[[], Writer | None]) -> None:
        self.original = original
        self._writer = writer

    def write(self, text: str) -> int:
        """Write text."""
        write = self._writer()
        if write is None:
            return self.original.write(text)
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        write(str(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush the original stream; what is passed on is never held back."""
        if self._writer() is None:
            self.original.flush()

    def isatty(self) -> bool:
        """Return whether the output of the running code goes to a terminal."""
        return self._writer() is None and self.original.isatty()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the stream
        return getattr(self.original, name)

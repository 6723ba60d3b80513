"""Cuts a stream of bytes into lines of limited length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_ENDS = 2_000


@dataclass(frozen=True, slots=True)
class TooLongLine:
    """A line that was too long and is not kept.

    Args:
        head: Its beginning.
        tail: Its end.
    """

    head: bytes
    tail: bytes


class LineCutter:
    """Cuts bytes into lines. Of a line that is too long only the beginning and the end are kept.

    Args:
        limit: The number of bytes that a line may have.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0
        self._head: bytes | None = None
        """The beginning of the line that is being dropped."""

    def feed(self, data: bytes) -> Iterator[bytes | TooLongLine]:
        """Add bytes, and yield the lines that they complete, without their ends."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._add(data[start:end] if start or end < len(data) else data)
            yield self._finish()
            start = end + 1
        if start < len(data):
            self._add(data[start:] if start else data)

    def rest(self) -> bytes:
        """Return what has arrived of the line that is not complete."""
        return b"".join(self._pieces)

    def _add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self._limit:
            held = b"".join(self._pieces)
            if self._head is None:
                self._head = held[:_ENDS]
            self._pieces = [held[-_ENDS:]]
            self._size = self._limit  # one more byte drops it again

    def _finish(self) -> bytes | TooLongLine:
        line = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        head, self._head = self._head, None
        self._pieces, self._size = [], 0
        return line if head is None else TooLongLine(head, line[-_ENDS:])

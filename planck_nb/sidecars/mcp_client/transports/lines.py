"""Lines with limited length, cut from a byte stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_ENDS = 2_000


@dataclass(frozen=True, slots=True)
class TooLongLine:
    """A line which was too long and is not kept.

    Args:
        head: Its beginning.
        tail: Its end.
    """

    head: bytes
    tail: bytes


class LineCutter:
    """A cutter for lines of bytes, which keeps an overlong line's ends.

    Args:
        limit: Longest line in bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0
        self._head: bytes | None = None
        """The beginning of an overlong line."""

    def feed(self, data: bytes) -> Iterator[bytes | TooLongLine]:
        """Add bytes, and yield the completed lines without their ends."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._add(data[start:end] if start or end < len(data) else data)
            yield self._finish()
            start = end + 1
        if start < len(data):
            self._add(data[start:] if start else data)

    def rest(self) -> bytes:
        """Return the incomplete line so far."""
        return b"".join(self._pieces)

    def _add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self._limit:
            content = b"".join(self._pieces)
            if self._head is None:
                self._head = content[:_ENDS]
            self._pieces = [content[-_ENDS:]]
            self._size = self._limit  # one more byte drops it again

    def _finish(self) -> bytes | TooLongLine:
        line = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        head, self._head = self._head, None
        self._pieces, self._size = [], 0
        return line if head is None else TooLongLine(head, line[-_ENDS:])

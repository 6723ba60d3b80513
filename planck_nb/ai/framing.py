"""Splits a stream of bytes into the payloads of its frames, without I/O and without decoding text.

Bytes are split at line feeds and carriage returns only. `str.splitlines`, and with it the line iterators of HTTP
clients, also splits at U+2028 and U+0085, which may occur inside JSON.
"""

from __future__ import annotations

from typing import Literal, Protocol

from planck_nb.base.errors import ProviderProtocolError

MAX_FRAME = 32 * 1024 * 1024
"""The most bytes of one frame: a longer one is not an event but a fault or an attack."""

_BOM = b"\xef\xbb\xbf"


class Splitter(Protocol):
    """Turns chunks of any size into the payloads of complete frames. Used for one stream."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The payloads of the frames that this chunk completes. Raises `ProviderProtocolError` beyond `MAX_FRAME`."""
        ...

    def end(self) -> list[bytes]:
        """The payload of a last frame that lacks its terminator, if there is one; called at the end of the bytes."""
        ...


class _Pieces:
    """The received pieces of an unfinished frame, joined only when its terminator arrives."""

    __slots__ = ("_size", "waiting")

    def __init__(self) -> None:
        self.waiting: list[bytes] = []
        self._size = 0

    def add(self, piece: bytes) -> None:
        if piece:
            self.waiting.append(piece)
            self._size += len(piece)
            if self._size > MAX_FRAME:
                raise ProviderProtocolError(
                    f"The server sent a single event of more than {MAX_FRAME // 1024 // 1024} MB; "
                    "check that base_url names an LLM server."
                )

    def ends_with(self, tail: bytes) -> bool:
        return bool(self.waiting) and self.waiting[-1].endswith(tail)

    def take(self, last: bytes = b"") -> bytes:
        if not self.waiting:
            return last
        joined = b"".join((*self.waiting, last))
        self.waiting.clear()
        self._size = 0
        return joined


class SseSplitter:
    """Server-sent events: the `data` of each event, its lines joined by line feeds. Other fields are skipped."""

    def __init__(self) -> None:
        self._pieces = _Pieces()
        self._after_return = False
        self._started = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that this chunk completes."""
        # `find`, because `in` costs several times as much: it first checks whether its operand is an integer.
        if self._after_return or chunk.find(b"\r") >= 0:
            chunk = self._line_feeds_only(chunk)
        pieces = self._pieces
        # The usual case while a model writes: the chunk is exactly one event.
        if chunk.startswith(b"data: ") and chunk.endswith(b"\n\n") and not pieces.waiting:
            data = chunk[6:-2]
            if data and data.find(b"\n") < 0:
                self._started = True
                return [data]
        if b"\n\n" not in chunk and not (chunk.startswith(b"\n") and pieces.ends_with(b"\n")):
            pieces.add(chunk)
            return []
        *frames, rest = (pieces.take(chunk) if pieces.waiting else chunk).split(b"\n\n")
        if rest:
            pieces.add(rest)
        if not self._started:
            self._started = True
            frames[0] = frames[0].removeprefix(_BOM)
        # Nearly every server sends a single data line and nothing else.
        return [
            data
            for frame in frames
            if (data := frame[6:] if frame.startswith(b"data: ") and frame.find(b"\n") < 0 else _data(frame))
        ]

    def end(self) -> list[bytes]:
        """The data of an event that the stream ended without its empty line."""
        data = _data(self._pieces.take().removeprefix(b"" if self._started else _BOM))
        return [data] if data else []

    def _line_feeds_only(self, chunk: bytes) -> bytes:
        if self._after_return and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_return = False
        if b"\r" in chunk:
            self._after_return = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return chunk


def _data(frame: bytes) -> bytes:
    lines = [line[5:].removeprefix(b" ") for line in frame.split(b"\n") if line.startswith(b"data:")]
    return lines[0] if len(lines) == 1 else b"\n".join(lines)


class NdjsonSplitter:
    """One JSON value per line. Empty lines are skipped."""

    def __init__(self) -> None:
        self._pieces = _Pieces()

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes."""
        if b"\n" not in chunk:
            self._pieces.add(chunk)
            return []
        *lines, rest = self._pieces.take(chunk).split(b"\n")
        self._pieces.add(rest)
        return [stripped for line in lines if (stripped := line.strip())]

    def end(self) -> list[bytes]:
        """The last line, if it lacks its line feed."""
        rest = self._pieces.take().strip()
        return [rest] if rest else []


def splitter(framing: Literal["sse", "ndjson"]) -> Splitter:
    """A new splitter for one stream."""
    return SseSplitter() if framing == "sse" else NdjsonSplitter()

"""Output of any size in bounded memory: the beginning and the end are kept, the whole goes to a file."""

from __future__ import annotations

import codecs
import os
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import BinaryIO

from planck_nb.base.forks import call_in_forks
from planck_nb.base.secrets import MAX_LENGTH, around_secret
from planck_nb.tools.private_folders import make_private_folder, remove_stale_folders

HEAD = 24_000
TAIL = 12_000
"""Bytes kept of the beginning and of the end of an output that is longer than both."""

HEAD_LINES = 1_000
TAIL_LINES = 500

_CONTINUATION = bytes(range(0x80, 0xC0))
"""The bytes of a UTF-8 character after its first."""

FILE_LIMIT = 100_000_000
"""Bytes of one output that are written to a file at most, so that an endless command cannot fill the disk."""

# Output that is not text would be thousands of meaningless tokens.
_BINARY_SHARE = 0.2
"""The share of non-text bytes that makes an output binary: text may have NUL separators, or some Latin-1 letters."""

_MIN_BINARY_BYTES = 64
"""Non-text bytes that a binary output has at least: fewer do no harm."""

_NOT_TEXT = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b\b\a"))
"""Control characters that do not occur in text; terminals use the others."""

_BINARY_FORMATS = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF", "a PDF file"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"7z\xbc\xaf", "a 7z archive"),
    (b"\x7fELF", "an ELF program"),
    (b"MZ", "a Windows program"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"PAR1", "a Parquet file"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"OggS", "Ogg media"),
    (b"ID3", "MP3 audio"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)


@cache
def spill_folder() -> Path:
    """The folder for long outputs: private, and removed when this process ends."""
    remove_stale_folders()
    return make_private_folder()


# The folder of the parent is removed when the parent ends.
call_in_forks(spill_folder.cache_clear)


class Capture:
    """One output stream of a command. `share` scales its limits if several streams share a result."""

    def __init__(self, share: float = 1.0) -> None:
        self._head_bytes, self._tail_bytes = int(HEAD * share), int(TAIL * share)
        self._head_lines, self._tail_lines = int(HEAD_LINES * share), int(TAIL_LINES * share)
        self._head = bytearray()
        self._tail = bytearray()
        self._size = 0
        self._file: BinaryIO | None = None

    def feed(self, data: bytes) -> None:
        """Add output."""
        if self._file is None and self._size + len(data) > self._head_bytes + self._tail_bytes:
            self._file = self._open()
        self._spill(data)
        self._size += len(data)
        missing = self._head_bytes + MAX_LENGTH - len(self._head)
        self._head += data[:missing]
        self._tail += data[missing:]
        if self._file is not None:
            del self._tail[: -self._tail_bytes - MAX_LENGTH]

    def text(self) -> str:
        """Return the output; a long one as its beginning, a line that names the file with all of it, and its end.

        Bytes that are not UTF-8 are replaced; no character and no secret is cut. Output that is not text becomes a
        line that says what it is and names the file with it. Call this once, after the last `feed`.
        """
        if kind := binary_kind(bytes(self._head), bytes(self._tail)):
            self._file = file = self._file or self._open()
            file.flush()
            return f"[{kind}, {self._size:,} bytes: cannot be shown as text; {self._kept} in {file.name}]\n"
        whole = bytes(self._head + self._tail) if self._size == len(self._head) + len(self._tail) else None
        if self._file is None and whole is not None:
            text = whole.decode("utf-8", "replace")
            if len(text.splitlines()) <= self._head_lines + self._tail_lines:
                return text
            self._file = self._open()
            head_bytes = tail_bytes = self._size
        else:
            head_bytes, tail_bytes = self._head_bytes, self._tail_bytes
        first = _beginning(bytes(self._head) if whole is None else whole, head_bytes, self._head_lines)
        last = _end(bytes(self._tail) if whole is None else whole, tail_bytes, self._tail_lines)
        return f"{first}{'' if first.endswith(chr(10)) else chr(10)}{self._note(first, last)}\n{last}"

    def close(self) -> None:
        """Close the file of a long output; it stays until this process ends."""
        if self._file is not None:
            self._file.close()

    def _note(self, first: str, last: str) -> str:
        file = self._file
        if file is None:
            raise RuntimeError("Only an output that has a file is cut.")
        file.flush()
        left_out = max(self._size - len(first.encode()) - len(last.encode()), 0)
        return f"[… {left_out:,} bytes left out; {self._kept} in {file.name} …]"

    @property
    def _kept(self) -> str:
        """What of the output is in the file."""
        return "all of it" if self._size <= FILE_LIMIT else f"the first {FILE_LIMIT:,} of {self._size:,} bytes"

    def _open(self) -> BinaryIO:
        descriptor, name = tempfile.mkstemp(dir=spill_folder(), prefix="output-", suffix=".txt")
        os.close(descriptor)
        file = Path(name).open("wb")  # noqa: SIM115 - closed by close()
        file.write(self._head + self._tail)
        return file

    def _spill(self, data: bytes) -> None:
        if self._file is not None and self._size < FILE_LIMIT:
            self._file.write(data[: FILE_LIMIT - self._size])


def _beginning(data: bytes, size: int, lines: int) -> str:
    text = data.decode("utf-8", "replace")
    unfinished = codecs.getincrementaldecoder("utf-8")("replace")  # leaves out a character that is cut
    kept = unfinished.decode(data[:size])
    end = sum(map(len, kept.splitlines(keepends=True)[:lines]))
    return text[: around_secret(text, end)[0]]


def _end(data: bytes, size: int, lines: int) -> str:
    text = data.lstrip(_CONTINUATION).decode("utf-8", "replace")
    kept = data[-size:].lstrip(_CONTINUATION).decode("utf-8", "replace")
    start = len(text) - sum(map(len, kept.splitlines(keepends=True)[-lines:]))
    return text[around_secret(text, start)[1] :]


def binary_kind(head: bytes, tail: bytes) -> str:
    """What kind of binary data begins and ends like this; empty for text.

    The few bytes of a character that was cut are too few to count.
    """
    if not any(_noise(part) >= max(_MIN_BINARY_BYTES, _BINARY_SHARE * len(part)) for part in (head, tail)):
        return ""
    found = next((name for start, name in _BINARY_FORMATS if head.startswith(start)), "")
    if not found and head[:4] == b"RIFF":
        found = "a WebP image" if head[8:12] == b"WEBP" else "RIFF media"
    if not found and head[4:8] == b"ftyp":
        found = "MP4 or HEIF media"
    return f"binary output, {found}" if found else "binary output"


_INVALID = re.compile("[\udc80-\udcff]")


def _noise(data: bytes) -> int:
    """The number of bytes that are not UTF-8 or are in `_NOT_TEXT`."""
    escaped = data.decode("utf-8", "surrogateescape")
    return len(_INVALID.findall(escaped)) + len(data) - len(data.translate(None, _NOT_TEXT))

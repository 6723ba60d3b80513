"""Recognises output that is not text: as text it would be thousands of meaningless tokens."""

from __future__ import annotations

import re

_SHARE = 0.2
"""The share of non-text bytes that makes an output binary: text may have NUL separators, or some Latin-1 letters."""

_MIN_BYTES = 64
"""Non-text bytes that a binary output has at least: fewer do no harm."""

_NOT_TEXT = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b\b\a"))
"""Control characters that do not occur in text; terminals use the others."""

_FORMATS = (
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


def binary_kind(head: bytes, tail: bytes) -> str:
    """What kind of binary data begins and ends like this; empty for text.

    The few bytes of a character that was cut are too few to count.
    """
    if not any(_noise(part) >= max(_MIN_BYTES, _SHARE * len(part)) for part in (head, tail)):
        return ""
    found = next((name for start, name in _FORMATS if head.startswith(start)), "")
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

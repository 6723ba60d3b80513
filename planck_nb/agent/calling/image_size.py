"""The width and height of an image, with `imagesize` if it is installed.

A sidecar's environment has few packages, so the four formats that vendors accept are also read here.
"""

from __future__ import annotations

import io
import struct

_FRAME_HEADERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""The markers of a JPEG that its size follows."""

_NO_LENGTH = frozenset({0x01, *range(0xD0, 0xD9)})
"""The markers of a JPEG that no length follows."""


def dimensions(data: bytes) -> tuple[int, int] | None:
    """Return width and height in pixels of a PNG, JPEG, GIF or WebP, None if the data does not contain them."""
    try:
        import imagesize  # noqa: PLC0415 - it imports much that only files and URLs need
    except ImportError:
        width, height = read_dimensions(data)
    else:
        width, height = imagesize.get(io.BytesIO(data), exif_rotation=False)
    return (width, height) if width > 0 and height > 0 else None


def read_dimensions(data: bytes) -> tuple[int, int]:
    """Read width and height from the header of an image; -1 for both if they are not there."""
    try:
        if data.startswith(b"\x89PNG"):
            width, height = struct.unpack_from(">II", data, 16)
        elif data.startswith(b"GIF8"):
            width, height = struct.unpack_from("<HH", data, 6)
        elif data.startswith(b"RIFF"):
            width, height = _webp(data)
        else:
            width, height = _jpeg(data)
    except struct.error:
        return -1, -1
    return width, height


def _jpeg(data: bytes) -> tuple[int, int]:
    at = 2
    while True:
        start, marker = struct.unpack_from(">BB", data, at)
        if start != 0xFF:  # noqa: PLR2004 - the first byte of each marker
            return -1, -1
        at += 1 if marker == 0xFF else 2  # noqa: PLR2004 - fill bytes may precede a marker
        if marker == 0xFF or marker in _NO_LENGTH:  # noqa: PLR2004
            continue
        if marker in _FRAME_HEADERS:
            height, width = struct.unpack_from(">HH", data, at + 3)
            return width, height
        at += struct.unpack_from(">H", data, at)[0]


def _webp(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", data, 21)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            low, high, low_height, high_height = struct.unpack_from("<HBHB", data, 24)
            return (high << 16 | low) + 1, (high_height << 16 | low_height) + 1
        case _:
            return -1, -1

"""Finds images that no vendor could decode: one of them in a conversation makes every later request fail.

Nothing is decompressed. The structure of the file shows whether it is what it claims to be, and whether it is complete.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Callable
from dataclasses import replace

from planck_nb.agent.calling.images import format_of, size_of
from planck_nb.ai.messages import ImagePart

MAX_SIDE = 8_000
"""The greatest width and height in pixels that every vendor accepts."""

_NAMES = {
    b"BM": "bmp",
    b"II*\0": "tiff",
    b"MM\0*": "tiff",
    b"\0\0\1\0": "ico",
    b"<svg": "svg",
    b"<?xml": "svg or xml",
    b"%PDF": "pdf",
    b"8BPS": "photoshop",
}
_OF_ISO_MEDIA = {b"heic": "heic", b"heix": "heic", b"mif1": "heif", b"msf1": "heif", b"avif": "avif"}
_READ_BY_GOOGLE = frozenset({"heic", "heif"})

_CHECKED: dict[tuple[int, int], str] = {}
"""Results by hash and length of the data, which is not kept: a conversation is sent many times."""
_MAX_CHECKED = 10_000


def checked(image: ImagePart) -> tuple[ImagePart, str]:
    """Check an image.

    Args:
        image: The image. One that is given by its address is not looked at.

    Returns:
        The image, with the media type that its bytes have; and a clause that says why it cannot be used, empty if it
        can.
    """
    if not image.data:
        return image, "" if image.url else "because it is empty"
    key = hash(image.data), len(image.data)
    found = _CHECKED.get(key)
    if found is None:
        if len(_CHECKED) >= _MAX_CHECKED:
            _CHECKED.clear()
        found = _CHECKED[key] = _check(image.data)
    kind, _, problem = found.partition(":")
    mime = f"image/{kind}" if kind else image.mime
    return (image if mime == image.mime else replace(image, mime=mime)), problem


def unreadable_by(image: ImagePart, provider: str) -> str:
    """Why a vendor cannot use an image, as a clause; empty if it can, as far as its bytes show."""
    typed, problem = checked(image)
    kind = typed.mime.removeprefix("image/")
    return "" if provider == "google" and kind in _READ_BY_GOOGLE and problem == _foreign(kind) else problem


def placeholder(image: ImagePart, problem: str) -> str:
    """The text that stands for an image that is left out."""
    return f"[image {checked(image)[0].mime.removeprefix('image/')}, {_size(image):,} bytes: left out, {problem}]"


def _size(image: ImagePart) -> int:
    data = image.data or ""
    return len(data) * 3 // 4 - data[-2:].count("=")


def _foreign(kind: str) -> str:
    return f"because it is {kind}, which models cannot read; convert it to PNG or JPEG"


def _check(text: str) -> str:
    """The format, a colon, and the problem."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ":because its data is not base64"
    kind = format_of(data)
    if kind is None:
        other = next(
            (name for start, name in _NAMES.items() if data.lstrip()[: len(start)].lower() == start.lower()), None
        )
        if other is None and data[4:8] == b"ftyp":
            other = _OF_ISO_MEDIA.get(data[8:12])
        return f"{other}:{_foreign(other)}" if other else ":because its bytes are not an image"
    if problem := _STRUCTURES[kind](data):
        return f"{kind}:because {problem}"
    size = size_of(data)
    if size is None:
        return f"{kind}:because it has no width and height"
    if max(size) > MAX_SIDE:
        most = f"and {MAX_SIDE:,} a side are the most; scale it down"
        return f"{kind}:because it is {size[0]:,} x {size[1]:,} pixels, {most}"
    return f"{kind}:"


_CUT = "it is cut off"


def _png(data: bytes) -> str:
    position, pixels = 8, False
    while position + 12 <= len(data):
        length = int.from_bytes(data[position : position + 4], "big")
        kind, end = data[position + 4 : position + 8], position + 12 + length
        if end > len(data):
            return _CUT
        if position == 8 and kind != b"IHDR":  # noqa: PLR2004 - after the signature
            return "it is damaged"
        if zlib.crc32(memoryview(data)[position + 4 : end - 4]) != int.from_bytes(data[end - 4 : end], "big"):
            return "it is damaged"
        pixels = pixels or kind == b"IDAT"
        if kind == b"IEND":
            return "" if pixels else "it has no pixels"
        position = end
    return _CUT


def _jpeg(data: bytes) -> str:
    position = 2
    while position + 4 <= len(data):
        if data[position] != 0xFF:  # noqa: PLR2004 - every segment begins with it
            return "it is damaged"
        marker = data[position + 1]
        if marker == 0xFF:  # noqa: PLR2004 - padding
            position += 1
        elif marker == 0xDA:  # noqa: PLR2004 - the pixels, up to the end marker
            return "" if data.find(b"\xff\xd9", position) >= 0 else _CUT
        else:
            position += 2 + int.from_bytes(data[position + 2 : position + 4], "big")
    return _CUT


def _gif(data: bytes) -> str:
    return "" if data.rstrip(b"\0")[-1:] == b";" else _CUT


def _webp(data: bytes) -> str:
    return "" if int.from_bytes(data[4:8], "little") + 8 <= len(data) + 1 else _CUT


_STRUCTURES: dict[str, Callable[[bytes], str]] = {"png": _png, "jpeg": _jpeg, "gif": _gif, "webp": _webp}

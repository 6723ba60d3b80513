"""Images among a tool's results, recognised without importing any plotting library."""

from __future__ import annotations

import base64
import io
from typing import Any

from planck_nb.agent.calling.image_size import dimensions
from planck_nb.ai.messages import ImagePart

MAX_IMAGE_BYTES = 3_750_000
"""The largest image that every provider accepts: 5 MB as base64."""

_FORMATS = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF87a": "gif", b"GIF89a": "gif"}


def image_of(value: object) -> ImagePart | None:
    """Return the value as an image, or None if it is not one.

    Images are `ImagePart`, bytes in PNG, JPEG, GIF or WebP format, figures and axes of matplotlib and of libraries
    built on it, and objects with a PNG or JPEG representation for notebooks. Raises whatever drawing them raises.
    """
    if isinstance(value, ImagePart):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        kind = format_of(data)
        return ImagePart(data, f"image/{kind}") if kind else None
    return _notebook_image(value) or _figure_image(value)


def describe(image: ImagePart) -> str:
    """Describe an image, as in "[image 640x480 png]". Raises ValueError if its data is not base64."""
    kind = image.mime.removeprefix("image/")
    if image.data is None:
        return f"[image {image.url or kind}]"
    size = size_of(base64.b64decode(image.data, validate=True))
    return f"[image {size[0]}x{size[1]} {kind}]" if size else f"[image {kind}]"


def too_large(image: ImagePart) -> str | None:
    """Return a sentence about an image that is too large for some provider, None for others."""
    size = len(image.data or "") * 3 // 4
    if size <= MAX_IMAGE_BYTES:
        return None
    words = describe(image).rstrip("]")
    return f"{words}, {size:,} bytes: not shown, because {MAX_IMAGE_BYTES:,} are the most; return a smaller one]"


def format_of(data: bytes) -> str | None:
    """Return the format of these bytes as in its media type, None if they are not an image."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    return next((kind for start, kind in _FORMATS.items() if data.startswith(start)), None)


def size_of(data: bytes) -> tuple[int, int] | None:
    """Return width and height in pixels, None if the data does not contain them."""
    return None if format_of(data) is None else dimensions(data)


def _notebook_image(value: object) -> ImagePart | None:
    """The object's representation for notebooks, looked up on its class: some objects claim to have any attribute."""
    for kind in ("png", "jpeg"):
        show = getattr(type(value), f"_repr_{kind}_", None)
        if not callable(show):
            continue
        data = show(value)
        data = data[0] if isinstance(data, tuple) else data
        if isinstance(data, bytes | str) and data:
            return ImagePart(data, f"image/{kind}")
    return None


def _figure_image(value: Any) -> ImagePart | None:  # noqa: ANN401 - an object of a library that we do not import
    if not _is_from("matplotlib", value) and not _is_from("seaborn", value):
        return None
    figure = value if hasattr(value, "savefig") else getattr(value, "figure", None)
    save = getattr(figure, "savefig", None)
    if save is None:
        return None
    drawing = io.BytesIO()
    save(drawing, format="png", bbox_inches="tight")
    return ImagePart(drawing.getvalue(), "image/png")


def _is_from(library: str, value: object) -> bool:
    return any(kind.__module__.partition(".")[0] == library for kind in type(value).__mro__)

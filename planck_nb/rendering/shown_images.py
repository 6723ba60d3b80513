"""Images from tools, for both the live and the saved view."""

from __future__ import annotations

import re

from planck_nb.ai.messages import ImagePart

IMAGE_CHARACTERS = 2_000_000
"""Largest image to show, in characters of base64."""

_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def image_source(image: ImagePart) -> str:
    """Return an image's content as an address.

    Args:
        image: The image.

    Returns:
        A data address; empty for a very large image, and for an image with a URL alone, which is never loaded.
    """
    data = image.data or ""
    is_shown = image.mime in _TYPES and len(data) <= IMAGE_CHARACTERS and _BASE64.fullmatch(data)
    return f"data:{image.mime};base64,{data}" if is_shown else ""


def image_notice(image: ImagePart) -> str:
    """Return the text for an image which is not shown.

    Args:
        image: The image.
    """
    size = len(image.data or "")
    return f"[image, {size * 3 // 4_000_000:,} MB, too large to be kept here]" if size > IMAGE_CHARACTERS else "[image]"

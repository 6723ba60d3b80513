"""Images that a prompt carries: values that are or can draw one, and files. No plotting library is imported."""

from __future__ import annotations

import base64
import importlib.util
import io
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from planck_nb.agent.calling.image_check import checked
from planck_nb.agent.calling.image_size import dimensions
from planck_nb.agent.calling.images import MAX_IMAGE_BYTES, format_of, image_of
from planck_nb.ai.messages import ImagePart
from planck_nb.base.errors import UsageError, did_you_mean
from planck_nb.jupyter.values.guard import Guard, UnusableError
from planck_nb.jupyter.values.type_checks import attribute, is_a, is_lazy, names_of

SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
MAX_IMAGES = 20
MAX_SIDE = 2_000
"""Pixels to which an image of Pillow is scaled down; vendors scale larger ones down themselves."""

_SECONDS = 20.0
_IMAGES = frozenset({("PIL", "Image"), ("IPython", "Image")})
_PATH_CHARACTERS = 1_000
_QUALITY = 85


def can_be_image(value: object) -> bool:
    """Return whether a value is an image, can draw one, or is the path of one. Runs no code of the value."""
    kind = type(value)
    if is_a(value, bytes) or is_a(value, bytearray):
        return format_of(bytes(value[:16])) is not None
    if is_a(value, str) or is_a(value, Path):
        return _is_path_of_image(value)
    names = names_of(kind)
    if is_lazy(kind) or ("pandas", "DataFrame") in names:
        return False
    is_image = is_a(value, ImagePart) or not names.isdisjoint(_IMAGES) or _is_plotly(kind) or _is_figure(kind)
    return is_image or any(callable(attribute(kind, f"_repr_{name}_")) for name in ("png", "jpeg"))


def draw_image(name: str, value: object) -> ImagePart | None:
    """Draw a value that `can_be_image`.

    Args:
        name: Its variable.
        value: The value.

    Returns:
        The image, which every vendor can read; None for an object that turns out to have none.

    Raises:
        UsageError: It cannot be drawn, or is too large.
    """
    try:
        if is_a(value, str) or is_a(value, Path):
            return image_file(Path(value))
        # A library draws on this thread, because drawing is often not safe on another; foreign code has a deadline.
        image = _draw(value) if _is_of_library(type(value)) else Guard(_SECONDS).call(lambda: _draw(value))
    except UnusableError as error:
        raise UsageError(f"@{name} cannot be sent as an image: {error}.") from None
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001 - the library's own code
        raise UsageError(f"@{name} cannot be sent as an image: {type(error).__name__}: {error}") from None
    return None if image is None else _usable(image, f"@{name}")


def image_file(path: Path) -> ImagePart:
    """Read an image from a file.

    Args:
        path: The file.

    Returns:
        The image, which every vendor can read.

    Raises:
        UsageError: There is no such file, or it is not an image that can be sent.
    """
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a folder; --image needs an image, such as {path / 'photo.png'}.")
        if not path.is_file():
            raise UsageError(f"There is no file {path}. {did_you_mean(path.name, images_in(path.parent))}".rstrip())
        with path.open("rb") as file:
            data = file.read(MAX_IMAGE_BYTES + 1)
        if len(data) > MAX_IMAGE_BYTES:
            raise _too_large(str(path), path.stat().st_size)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"The image {path} cannot be read: {reason}.") from None
    if not data:
        raise UsageError(f"The file {path} is empty.")
    return _usable(ImagePart(data, f"image/{format_of(data) or 'png'}"), str(path))


def images_in(folder: Path) -> Mapping[str, str]:
    """Return the names of the images in a folder, each with a description for completion."""
    try:
        found = sorted(path.name for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    except OSError:
        return {}
    return dict.fromkeys(found[:100], "image")


def described(image: ImagePart) -> str:
    """Return the size and the format of an image, as in "640 x 480 PNG"."""
    if image.data is None:
        return image.mime.removeprefix("image/").upper()
    size = dimensions(base64.b64decode(image.data))
    kind = image.mime.removeprefix("image/").upper()
    return f"{size[0]:,} x {size[1]:,} {kind}" if size else kind


def _usable(image: ImagePart, what: str) -> ImagePart:
    """The image with the media type of its bytes. Raises `UsageError` if no vendor could use it."""
    if image.data is not None and len(image.data) * 3 // 4 > MAX_IMAGE_BYTES:
        raise _too_large(what, len(image.data) * 3 // 4)
    typed, problem = checked(image)
    if problem:
        raise UsageError(f"{what} cannot be sent as an image, {problem}.")
    return typed


def _too_large(what: str, size: int) -> UsageError:
    return UsageError(f"{what} has {size:,} bytes, and {MAX_IMAGE_BYTES:,} are the most; scale the image down.")


def _draw(value: Any) -> ImagePart | None:  # noqa: ANN401 - a value of a library that is not imported
    names = names_of(type(value))
    if ("PIL", "Image") in names:
        return _of_pillow(value)
    if ("IPython", "Image") in names and isinstance(value.data, bytes):
        return image_of(value.data)
    if _is_plotly(type(value)):
        return ImagePart(value.to_image(format="png"), "image/png")
    return image_of(value)


def _of_pillow(value: Any) -> ImagePart:  # noqa: ANN401
    """PNG of an image of Pillow; JPEG if that is too large for a vendor."""
    copy = value.copy()
    copy.thumbnail((MAX_SIDE, MAX_SIDE))
    if copy.mode not in {"1", "L", "LA", "P", "RGB", "RGBA"}:
        copy = copy.convert("RGB")
    target = io.BytesIO()
    copy.save(target, "PNG")
    if len(target.getvalue()) <= MAX_IMAGE_BYTES:
        return ImagePart(target.getvalue(), "image/png")
    target = io.BytesIO()
    copy.convert("RGB").save(target, "JPEG", quality=_QUALITY)
    return ImagePart(target.getvalue(), "image/jpeg")


def _is_figure(kind: type) -> bool:
    """Whether it is a figure or the axes of Matplotlib, or of a library built on it."""
    names = names_of(kind)
    if {"matplotlib", "seaborn"}.isdisjoint(package for package, _ in names):
        return False
    return attribute(kind, "savefig") is not None or ("matplotlib", "_AxesBase") in names


def _is_plotly(kind: type) -> bool:
    """Whether it is a figure of Plotly that can be drawn, for which Plotly needs Kaleido."""
    is_figure = ("plotly", "BaseFigure") in names_of(kind)
    return is_figure and ("kaleido" in sys.modules or importlib.util.find_spec("kaleido") is not None)


def _is_of_library(kind: type) -> bool:
    return not {"matplotlib", "seaborn", "PIL", "IPython"}.isdisjoint({package for package, _ in names_of(kind)})


def _is_path_of_image(value: object) -> bool:
    text = str.__str__(value) if is_a(value, str) else str(value)
    if len(text) > _PATH_CHARACTERS or not text.lower().endswith(SUFFIXES) or "\n" in text:
        return False
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False

"""Converts the result of a tool to text and images for the model."""

from __future__ import annotations

import json
from dataclasses import dataclass

from pydantic_core import PydanticSerializationError, to_json

from planck_nb.agent.calling.data_frames import table_text
from planck_nb.agent.calling.image_check import checked, placeholder
from planck_nb.agent.calling.images import describe, image_of, too_large
from planck_nb.agent.calling.previews import html_preview, table_preview
from planck_nb.agent.preview_types import Preview
from planck_nb.ai.messages import ImagePart, TextPart
from planck_nb.base.secrets import around_secret
from planck_nb.base.text import encodable, head_and_tail

MAX_RESULT_LINES = 2_000
MAX_RESULT_CHARACTERS = 50_000
"""Planck's limits of a result, in lines and characters (bytes in Planck)."""

MAX_IMAGES = 20
"""The maximum number of images in one result; the text has a note for each further one."""

_MAX_SPLIT_LENGTH = 20 * MAX_RESULT_CHARACTERS
"""A longer text is cut first, because splitting all of it into lines would take too long."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The result of a call.

    Args:
        text: The text that the model reads.
        images: Images, for models that accept them.
        previews: Tables and HTML that people see instead of a part of the text.

    Example:
        >>> ToolOutput("3 files").text
        '3 files'
    """

    text: str
    images: tuple[ImagePart, ...] = ()
    previews: tuple[Preview, ...] = ()


def as_output(value: object) -> ToolOutput:
    """Convert the result of a tool to text and images of limited size. Never raises.

    Text stays as it is; plain data, pydantic models and dataclasses become JSON; data frames and series become their
    first and last rows; figures and other images become an image and a few words. Lists and dictionaries may contain
    all of these. Any other object becomes its type and its `str`.

    Args:
        value: What the tool returned.

    Returns:
        The text and images for the model.
    """
    if isinstance(value, str):
        return ToolOutput(_bounded(value))
    reader = _OutputReader()
    try:
        text = reader.text(value)
    except Exception as error:  # noqa: BLE001 - the value's own code draws, prints and iterates here
        text = _unprintable(value, error)
    return ToolOutput(_bounded(text), tuple(reader.images), tuple(reader.previews))


class _OutputReader:
    """Converts a value to text and collects the images in it."""

    def __init__(self) -> None:
        self.images: list[ImagePart] = []
        self.previews: list[Preview] = []

    def text(self, value: object) -> str:
        if isinstance(value, str):
            return value
        if value is None:
            return "(no result)"
        if (rich := self._rich(value)) is not None:
            return rich
        if isinstance(value, bytes | bytearray | memoryview):
            return f"[binary data, {len(value)} bytes: cannot be shown]"
        if isinstance(value, list | tuple):
            pieces = [self._rich(item) for item in value]
            if any(piece is not None for piece in pieces):
                return "\n".join(
                    self.text(item) if piece is None else piece for item, piece in zip(value, pieces, strict=True)
                )
        if isinstance(value, dict):
            value = {key: item if (rich := self._rich(item)) is None else rich for key, item in value.items()}
        text = self._json(value)
        if not isinstance(value, dict) and (drawn := html_preview(value, text)) is not None:
            self.previews.append(drawn)
        return text

    def _rich(self, value: object) -> str | None:
        """The text for a value that is not plain data, None for plain data."""
        if isinstance(value, TextPart):
            return value.text
        if isinstance(value, ToolOutput):
            self.previews += value.previews
            return "\n".join([value.text, *filter(None, map(self._keep, value.images))])
        if isinstance(value, str | int | float | dict | list | tuple):
            return None
        try:
            if (image := image_of(value)) is not None:
                return self._keep(image) or describe(image)
            text = table_text(value)
            if text is not None and (table := table_preview(value, text)) is not None:
                self.previews.append(table)
        except Exception as error:  # noqa: BLE001 - the value's own code draws and prints here
            return _unprintable(value, error)
        return text

    def _keep(self, image: ImagePart) -> str | None:
        """Keep the image, or return why it is left out."""
        typed, problem = checked(image)
        if problem:
            return placeholder(image, problem)
        image = typed
        words = describe(image)
        if reason := too_large(image):
            return reason
        if image in self.images:  # each axes of a figure draws the whole figure
            return None
        if len(self.images) == MAX_IMAGES:
            return f"{words.rstrip(']')}: left out, because {MAX_IMAGES} images are the most]"
        self.images.append(image)
        return None

    def _json(self, value: object) -> str:
        def inner(item: object) -> object:
            if type(item).__module__ == "numpy" and hasattr(item, "tolist"):
                return item.tolist()
            if item is value:
                raise TypeError
            return _described(item) if (rich := self._rich(item)) is None else rich

        try:
            text = to_json(value, fallback=inner, bytes_mode="base64").decode()
        except (PydanticSerializationError, ValueError, RecursionError):
            return _described(value)
        return str(json.loads(text)) if text.startswith('"') else text


def _described(value: object) -> str:
    """The type and `str` of an object; not the default `repr`, whose address would differ from run to run."""
    kind = type(value)
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
        return f"[{_name(value)} object]"
    try:
        text = str(value)
    except Exception as error:  # noqa: BLE001 - the value's own code
        return _unprintable(value, error)
    return f"[{_name(value)}] {text}"


def _unprintable(value: object, error: Exception) -> str:
    return f"[{_name(value)} that cannot be shown: {type(error).__name__}]"


def _name(value: object) -> str:
    return type(value).__qualname__.rpartition("<locals>.")[2]


def _bounded(text: str) -> str:
    if len(text) > _MAX_SPLIT_LENGTH:
        text = _ends(text)
    text = encodable(text)
    return head_and_tail(text, characters=MAX_RESULT_CHARACTERS, lines=MAX_RESULT_LINES, around=around_secret)


def _ends(text: str) -> str:
    """The beginning and the end of a text that is too long to be split into lines as a whole."""
    head = "".join(text[: MAX_RESULT_CHARACTERS // 2].splitlines(keepends=True)[: MAX_RESULT_LINES // 2])
    head = text[: around_secret(text, len(head))[0]]
    tail = "".join(text[-MAX_RESULT_CHARACTERS // 4 :].splitlines(keepends=True)[-MAX_RESULT_LINES // 4 :])
    tail = text[around_secret(text, len(text) - len(tail))[1] :]
    return f"{head}\n[… {len(text) - len(head) - len(tail):,} characters left out …]\n{tail}"

"""What a tool returned, as a model reads it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from planck_nb.agent.calling.data_frames import table_text
from planck_nb.agent.calling.images import describe, picture_of, too_large
from planck_nb.ai.messages import ImagePart, TextPart
from planck_nb.base.text import encodable, head_and_tail

MAX_RESULT_LINES = 2_000
MAX_RESULT_CHARACTERS = 50_000
"""Planck's bounds on a result, in lines and (there bytes, here) characters."""

MAX_IMAGES = 20
"""Pictures of one result; of more only the text is kept."""

_HUGE = 20 * MAX_RESULT_CHARACTERS
"""A longer text is cut before anything else is done with it."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The result of a call: text, and pictures for models that see."""

    text: str
    images: tuple[ImagePart, ...] = ()


def as_output(value: object) -> ToolOutput:
    """A tool's result as the model reads it, within bounds. Never raises, whatever the value is.

    Text stays as it is; plain data, pydantic models and dataclasses become JSON; data frames and series their first
    and last rows; figures and other pictures an image and a few words; a list or dictionary may hold all of these. Of
    anything else the model sees its type and what `str` makes of it.
    """
    if isinstance(value, str):
        return ToolOutput(_bounded(value))
    reader = _OutputReader()
    try:
        text = reader.text(value)
    except Exception as error:  # noqa: BLE001 - foreign code draws, prints and iterates here
        text = _unshown(value, error)
    return ToolOutput(_bounded(text), tuple(reader.images))


class _OutputReader:
    """Turns a value into text and collects the pictures in it."""

    def __init__(self) -> None:
        self.images: list[ImagePart] = []

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
        return self._json(value)

    def _rich(self, value: object) -> str | None:
        """The text of what is more than plain data, None for plain data."""
        if isinstance(value, TextPart):
            return value.text
        if isinstance(value, ToolOutput):
            return "\n".join([value.text, *filter(None, map(self._keep, value.images))])
        if isinstance(value, str | int | float | dict | list | tuple):
            return None
        try:
            picture = picture_of(value)
            return table_text(value) if picture is None else self._keep(picture) or describe(picture)
        except Exception as error:  # noqa: BLE001 - foreign code draws and prints here
            return _unshown(value, error)

    def _keep(self, picture: ImagePart) -> str | None:
        """Keep the picture, or say why not. Raises ValueError for one whose data is not base64."""
        words = describe(picture)
        if reason := too_large(picture):
            return reason
        if picture in self.images:  # the parts of a figure all draw the whole of it
            return None
        if len(self.images) == MAX_IMAGES:
            return f"{words.rstrip(']')}: left out, because {MAX_IMAGES} pictures are the most]"
        self.images.append(picture)
        return None

    def _json(self, value: object) -> str:
        from pydantic_core import PydanticSerializationError, to_json  # noqa: PLC0415 - loaded with the first result

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
    """What `str` makes of an object, after its type; without the address, which would differ from run to run."""
    kind = type(value)
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
        return f"[{_name(value)} object]"
    try:
        said = str(value)
    except Exception as error:  # noqa: BLE001 - foreign code
        return _unshown(value, error)
    return f"[{_name(value)}] {said}"


def _unshown(value: object, error: Exception) -> str:
    return f"[{_name(value)} that cannot be shown: {type(error).__name__}]"


def _name(value: object) -> str:
    return type(value).__qualname__.rpartition("<locals>.")[2]


def _bounded(text: str) -> str:
    if len(text) > _HUGE:
        text = _ends(text)
    return head_and_tail(encodable(text), characters=MAX_RESULT_CHARACTERS, lines=MAX_RESULT_LINES)


def _ends(text: str) -> str:
    """Beginning and end of a text that is too long to be split into lines as a whole."""
    head = "".join(text[: MAX_RESULT_CHARACTERS // 2].splitlines(keepends=True)[: MAX_RESULT_LINES // 2])
    tail = "".join(text[-MAX_RESULT_CHARACTERS // 4 :].splitlines(keepends=True)[-MAX_RESULT_LINES // 4 :])
    return f"{head}\n[… {len(text) - len(head) - len(tail):,} characters left out …]\n{tail}"

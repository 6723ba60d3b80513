"""What a tool returned, as a model reads it."""

from __future__ import annotations

from dataclasses import dataclass

from planck_nb.ai.messages import ImagePart
from planck_nb.base.text import encodable, head_and_tail

MAX_RESULT_LINES = 2_000
MAX_RESULT_CHARACTERS = 50_000
"""Planck's bounds on a result, in lines and (there bytes, here) characters."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The result of a call: text, and pictures for models that see."""

    text: str
    images: tuple[ImagePart, ...] = ()


def as_output(value: object) -> ToolOutput:
    """A tool's result as the model reads it."""
    return value if isinstance(value, ToolOutput) else ToolOutput(_as_text(value))


def _as_text(value: object) -> str:
    """A tool's result as text: strings as they are, JSON for plain data, otherwise what `str` makes of it."""
    if isinstance(value, str):
        text = value
    elif value is None:
        text = "(no result)"
    elif isinstance(value, bytes | bytearray | memoryview):
        text = f"[binary data, {len(value)} bytes: cannot be shown]"
    else:
        text = _plain(value)
    return head_and_tail(encodable(text), characters=MAX_RESULT_CHARACTERS, lines=MAX_RESULT_LINES)


def _plain(value: object) -> str:
    from pydantic_core import PydanticSerializationError, to_json  # noqa: PLC0415 - loaded with the first result

    try:
        return to_json(value).decode()
    except (PydanticSerializationError, ValueError, RecursionError):
        return str(value)

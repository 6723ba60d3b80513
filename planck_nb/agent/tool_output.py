"""What a tool returned, as a model reads it."""

from __future__ import annotations

from dataclasses import dataclass

from planck_nb.ai.messages import ImagePart


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The result of a call: text, and pictures for models that see."""

    text: str
    images: tuple[ImagePart, ...] = ()

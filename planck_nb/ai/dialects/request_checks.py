"""Checks that every wire format makes before a request is sent."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_core import to_json

from planck_nb.ai.messages import FilePart, ImagePart, VideoPart
from planck_nb.ai.models import Model
from planck_nb.ai.providers import rules_of
from planck_nb.ai.request import Options, ToolSpec
from planck_nb.ai.server_rules import ServerRules
from planck_nb.base.errors import UnsupportedFeatureError, did_you_mean

_OUTPUT = "Answer with one JSON object and nothing else. It must match this JSON Schema: "

TOOL_CHOICES = frozenset({"auto", "none", "required"})
"""The values of `tool_choice` other than the name of a tool."""


def check_media(model: Model, part: ImagePart | FilePart | VideoPart) -> None:
    """Raise `UnsupportedFeatureError` for media which the model does not accept, and for empty media."""
    if part.type == "image" and not model.takes("image"):
        raise UnsupportedFeatureError(
            f"{model} cannot look at images; leave them out or choose another model.", about_media=True
        )
    if part.type == "file" and part.mime == "application/pdf" and not model.takes("pdf"):
        raise unreadable(model, part)
    if part.type == "video" and not rules_of(model).takes_videos:
        raise no_video(model)
    if not part.url and part.data is None:
        raise UnsupportedFeatureError(f"The {part.type} has neither data nor url; pass one of them.", about_media=True)


def no_video(model: Model) -> UnsupportedFeatureError:
    """The error for a video that the model's wire format cannot send."""
    return UnsupportedFeatureError(
        f"{model} cannot watch videos; choose a Gemini model, or send some of the frames as images.",
        about_media=True,
    )


def unreadable(model: Model, part: FilePart) -> UnsupportedFeatureError:
    """The error for a file of a kind that the model cannot read."""
    return UnsupportedFeatureError(
        f"{model} cannot read the file {part.name!r} ({part.mime}); give it the file's text or choose another model.",
        about_media=True,
    )


def output_prompt(rules: ServerRules, options: Options) -> str:
    """What the prompt says about structured output, for a server that does not hold the answer to a schema."""
    if options.output is None or rules.output_control == "json_schema":
        return ""
    return _OUTPUT + to_json(options.output).decode()


def check_choice(choice: str | None, tools: Sequence[ToolSpec]) -> None:
    """Raise `UnsupportedFeatureError` if there are tools and the choice is not among them."""
    names = [tool.name for tool in tools]
    if names and choice is not None and choice not in TOOL_CHOICES and choice not in names:
        raise UnsupportedFeatureError(
            f"tool_choice {choice!r} is not a tool of this request. {did_you_mean(choice, names)}"
        )

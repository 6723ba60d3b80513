"""Code that OpenAI's two formats, Responses and Chat Completions, share, for OpenAI and for compatible servers.

Functions that leave an option out of a request add a warning to their argument `warnings`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from planck_nb.ai.dialects.request_checks import check_choice, check_media, unreadable
from planck_nb.ai.messages import FilePart, ImagePart, ToolResultPart
from planck_nb.ai.models import LEVELS, Model, nearest_level
from planck_nb.ai.numbers import http_status
from planck_nb.ai.providers import rules_of
from planck_nb.ai.request import Context, Options, ToolSpec
from planck_nb.ai.schemas.schema_rules import SchemaRules
from planck_nb.ai.status_errors import status_error, words_and_kind
from planck_nb.base.errors import ProviderError
from planck_nb.base.json_types import JsonObject

_REASONING_IDS = re.compile(r"o\d|codex|gpt-([5-9]|\d\d)(?!.*chat)")
"""Matches ids of OpenAI's reasoning models, dated ones included, that the catalogue does not contain yet."""

_STRICT_FORMATS = frozenset("date-time time date duration email hostname ipv4 ipv6 uuid".split())
_STRICT_KEYWORDS = frozenset(
    "type properties required additionalProperties items enum const anyOf $defs definitions title description pattern "
    "format multipleOf minimum maximum exclusiveMinimum exclusiveMaximum minItems maxItems".split()
)
"""Keywords in a strict schema, from OpenAI's guide to structured outputs."""

SCHEMAS = SchemaRules()
"""OpenAI demands "type 'object'" and refuses "'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"."""

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]+")
_MAX_NAME_LENGTH = 64

_STATUS_WORDS = (
    (429, ("rate_limit", "insufficient_quota", "too_many_requests")),
    (401, ("authentication", "invalid_api_key")),
    (400, ("invalid_", "context_length", "image_", "_image", "_policy", "unsupported_", "data_residency")),
)


def reasons(model: Model) -> bool:
    """Whether this is one of OpenAI's reasoning models, which accept other options than the rest."""
    if not rules_of(model).is_vendor:
        return False
    return model.thinking or (model.context_window is None and _REASONING_IDS.match(model.id) is not None)


def address(model: Model, part: ImagePart | FilePart) -> str:
    """The URL of an image or a document, or its bytes as a data URL. Raises `UnsupportedFeatureError`."""
    check_media(model, part)
    if part.type == "file" and not rules_of(model).takes_files:
        raise unreadable(model, part)
    return part.url or f"data:{part.mime};base64,{part.data}"


def images_of(model: Model, result: ToolResultPart, warnings: list[str]) -> Sequence[ImagePart]:
    """The images in a tool's result, if the model accepts images.

    Otherwise there is a warning and no error, because the conversation may come from a model that accepts them.
    """
    if result.images and not model.takes("image"):
        warnings.append(f"{model} cannot look at images, so those that {result.name} returned were not sent.")
        return ()
    return result.images


def offered_tools(
    model: Model, context: Context, options: Options, warnings: list[str]
) -> tuple[Sequence[ToolSpec], str | None]:
    """The tools to send and the tool choice: auto, none, required, a tool's name, or None to send no choice.

    Raises `UnsupportedFeatureError` for the name of a tool that does not exist.
    """
    tools, choice = context.tools, options.tool_choice
    check_choice(choice, tools)
    if choice is None:
        return tools, None
    if not tools:
        if choice not in {"auto", "none"}:
            warnings.append(f"tool_choice {choice!r} was not sent, because there are no tools to choose from.")
        return tools, None
    named = [tool for tool in tools if tool.name == choice]
    # A server that ignores a choice by name is sent only that tool, which has the same effect.
    return (named, "required") if named and not rules_of(model).chooses_by_name else (tools, choice)


def effort(model: Model, options: Options, warnings: list[str]) -> str | None:
    """The reasoning effort to send; None if no level was requested, or the model or its server has no levels.

    An unsupported level is replaced by the nearest one.
    """
    level = options.thinking
    if level is None or rules_of(model).thinking_control == "enable_thinking":
        return None
    if not model.thinking and model.context_window is not None:
        if level != "off":
            warnings.append(f"{model} does not think, so thinking {level!r} was not sent.")
        return None
    known = model.thinking_levels
    if known and level not in known and level in LEVELS:
        near = nearest_level(level, [name for name in known if name != "off"])
        warnings.append(f"{model} does not support thinking {level!r}; {near!r} was sent.")
        level = near
    return "none" if level == "off" else level


def add_template_switch(body: JsonObject, model: Model, options: Options) -> None:
    """Turn thinking on or off for a server that passes the switch to the chat template."""
    if options.thinking is not None and rules_of(model).thinking_control == "enable_thinking":
        body["chat_template_kwargs"] = {"enable_thinking": options.thinking != "off"}


def add_sampling(body: JsonObject, model: Model, options: Options, word: str | None, warnings: list[str]) -> None:
    """Add temperature and top_p, which OpenAI's reasoning models refuse unless `word`, their effort, is "none"."""
    asked = {"temperature": options.temperature, "top_p": options.top_p}
    refused = model.settings.get("temperature", True) is False or (reasons(model) and word != "none")
    for name, value in asked.items():
        if value is not None and refused:
            warnings.append(f"{model} does not accept {name}, so it was not sent.")
        elif value is not None:
            body[name] = value


def output_format(schema: JsonObject) -> JsonObject:
    """A JSON Schema for the answer with its required name; strict if OpenAI can enforce it."""
    name = _NOT_IN_A_NAME.sub("_", str(schema.get("title") or ""))[:_MAX_NAME_LENGTH].strip("_")
    return {"name": name or "answer", "schema": schema, "strict": schema.get("type") == "object" and is_closed(schema)}


def is_closed(schema: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Whether OpenAI can enforce this schema strictly.

    Objects must require all their properties and allow no others, only the keywords of OpenAI's guide may be used, and
    a reference may have no other keywords.
    """
    if not isinstance(schema, Mapping):
        return False
    if "$ref" in schema:
        return len(schema) == 1
    if schema.keys() - _STRICT_KEYWORDS or schema.get("format", "date") not in _STRICT_FORMATS:
        return False
    properties = schema.get("properties", {})
    is_object = "object" in _types(schema) or "properties" in schema
    if is_object and (
        schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties)
    ):
        return False
    inner = [*properties.values(), *schema.get("anyOf", ())]
    inner += [part for name in ("$defs", "definitions") for part in schema.get(name, {}).values()]
    inner += [schema["items"]] if "items" in schema else []
    return all(is_closed(part) for part in inner)


def _types(schema: Mapping[str, Any]) -> Iterable[str]:
    types = schema.get("type", ())
    return (types,) if isinstance(types, str) else types


def failure_of(model: Model, error: Any) -> ProviderError:  # noqa: ANN401 - any JSON value
    """The error for an error object inside a stream, in any of the formats of the servers."""
    words, kind = words_and_kind({"error": error})
    code = error.get("code") if isinstance(error, dict) else None
    return status_error(model, _status(code, kind), words, kind=kind)


def _status(code: object, kind: str) -> int:
    """The HTTP status for an error inside a stream; 500 if it gives no hint."""
    return http_status(code) or next(
        (status for status, words in _STATUS_WORDS if any(word in kind for word in words)), 500
    )

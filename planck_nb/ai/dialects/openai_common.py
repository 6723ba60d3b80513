"""What OpenAI's two formats, Responses and Chat Completions, have in common, at OpenAI and at servers that copy it.

Functions that leave something out of a request add a sentence about it to the `warnings` they are given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from planck_nb.ai.dialects.request_checks import check_choice, check_media, unreadable
from planck_nb.ai.messages import FilePart, ImagePart, ToolResultPart
from planck_nb.ai.models import LEVELS, Model, nearest_level
from planck_nb.ai.providers import is_first_party
from planck_nb.ai.request import Context, Options, ToolSpec
from planck_nb.ai.status_errors import status_error, words_and_kind
from planck_nb.base.errors import ProviderError
from planck_nb.base.json_types import JsonObject

_REASONING_IDS = re.compile(r"o\d|codex|gpt-([5-9]|\d\d)(?!.*chat)")
"""Ids of OpenAI's reasoning models, for those that the catalogue does not know yet, dated ones among them."""

_STRICT_FORMATS = frozenset("date-time time date duration email hostname ipv4 ipv6 uuid".split())
_STRICT_KEYWORDS = frozenset(
    "type properties required additionalProperties items enum const anyOf $defs definitions title description pattern "
    "format multipleOf minimum maximum exclusiveMinimum exclusiveMaximum minItems maxItems".split()
)
"""What OpenAI's guide to structured outputs allows in a schema that is enforced strictly."""

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]+")
_LONGEST_NAME = 64

_STATUS_WORDS = (
    (429, ("rate_limit", "insufficient_quota", "too_many_requests")),
    (401, ("authentication", "invalid_api_key")),
    (400, ("invalid_", "context_length", "image_", "_image", "_policy", "unsupported_", "data_residency")),
)


def is_vendor(model: Model) -> bool:
    """Whether OpenAI itself is asked, rather than a server that speaks its format."""
    return model.provider == "openai" and is_first_party(model)


def reasons(model: Model) -> bool:
    """Whether this is one of OpenAI's reasoning models, which take other options than the rest."""
    if not is_vendor(model):
        return False
    return model.thinking or (model.context_window is None and _REASONING_IDS.match(model.id) is not None)


def address(model: Model, part: ImagePart | FilePart) -> str:
    """Where a picture or a document is to be had, or its bytes as a data URL. Raises `UnsupportedFeatureError`."""
    check_media(model, part)
    if part.type == "file" and model.provider == "llama_cpp":  # its server takes pictures, but no files
        raise unreadable(model, part)
    return part.url or f"data:{part.mime};base64,{part.data}"


def images_of(model: Model, result: ToolResultPart, warnings: list[str]) -> Sequence[ImagePart]:
    """The pictures of a tool's result, where the model can look at them.

    The conversation may come from a model that could, so there is a warning and no error.
    """
    if result.images and not model.takes("image"):
        warnings.append(f"{model} cannot look at images, so those that {result.name} returned were not sent.")
        return ()
    return result.images


def offered_tools(
    model: Model, context: Context, options: Options, warnings: list[str]
) -> tuple[Sequence[ToolSpec], str | None]:
    """The tools to offer and the choice among them: auto, none, required, a tool's name, or None for no word about it.

    Raises `UnsupportedFeatureError` for the name of a tool that is not there.
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
    # The llama.cpp server overlooks a choice by name; with no other tool to call it comes to the same.
    return (named, "required") if named and model.provider == "llama_cpp" else (tools, choice)


def effort(model: Model, options: Options, warnings: list[str]) -> str | None:
    """The word for how much to think; None where nothing was asked or the model does not think.

    A level that the model does not know becomes the nearest one that it does.
    """
    level = options.thinking
    if level is None or model.provider == "llama_cpp":
        return None
    if not model.thinking and model.context_window is not None:
        if level != "off":
            warnings.append(f"{model} does not think, so thinking {level!r} was not sent.")
        return None
    known = model.thinking_levels
    if known and level not in known and level in LEVELS:
        near = nearest_level(level, [name for name in known if name != "off"])
        warnings.append(f"{model} does not know thinking {level!r}; {near!r} was sent.")
        level = near
    return "none" if level == "off" else level


def add_template_switch(body: JsonObject, model: Model, options: Options) -> None:
    """Switch thinking on or off the llama.cpp server's way, which is its chat template's."""
    if options.thinking is not None and model.provider == "llama_cpp":
        body["chat_template_kwargs"] = {"enable_thinking": options.thinking != "off"}


def add_sampling(body: JsonObject, model: Model, options: Options, word: str | None, warnings: list[str]) -> None:
    """Temperature and top_p, which OpenAI's reasoning models refuse unless `word`, their effort, is "none"."""
    asked = {"temperature": options.temperature, "top_p": options.top_p}
    refused = model.settings.get("temperature", True) is False or (reasons(model) and word != "none")
    for name, value in asked.items():
        if value is not None and refused:
            warnings.append(f"{model} takes no {name}, so it was not sent.")
        elif value is not None:
            body[name] = value


def output_format(schema: JsonObject) -> JsonObject:
    """A JSON Schema for the answer with the name it needs; enforced strictly where OpenAI can do so."""
    name = _NOT_IN_A_NAME.sub("_", str(schema.get("title") or ""))[:_LONGEST_NAME].strip("_")
    return {"name": name or "answer", "schema": schema, "strict": schema.get("type") == "object" and is_closed(schema)}


def is_closed(schema: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Whether OpenAI enforces this schema strictly.

    It asks that objects require all their properties and allow no others, and that nothing but the keywords of its
    guide is used; a reference stands alone.
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
    """What an error inside a stream means, in any of the shapes that servers give it."""
    words, kind = words_and_kind({"error": error})
    code = error.get("code") if isinstance(error, dict) else None
    return status_error(model, _status(code, kind), words, kind=kind)


def _status(code: object, kind: str) -> int:
    """The HTTP status that an error inside a stream stands for; 500 where it gives no hint."""
    if isinstance(code, str) and code.isdigit():
        code = int(code)
    if isinstance(code, int) and 400 <= code <= 599:  # noqa: PLR2004
        return code
    return next((status for status, words in _STATUS_WORDS if any(word in kind for word in words)), 500)

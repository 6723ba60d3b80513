"""Code that Google's two formats share: levels of thinking, sampling options and errors."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from pydantic_core import from_json

from planck_nb.ai.dialects.tool_fields import joined_tools
from planck_nb.ai.models import LEVELS, Model, nearest_level
from planck_nb.ai.numbers import http_status
from planck_nb.ai.request import Options
from planck_nb.ai.schemas.schema_rules import SchemaRules
from planck_nb.ai.status_errors import body_error, status_error, words_and_kind
from planck_nb.base.errors import ProviderError, ProviderStatusError
from planck_nb.base.json_types import JsonObject

MAX_STOPS = 5
"""The highest number of stop sequences in a request (API reference of GenerationConfig)."""

TOOL_SCHEMAS = SchemaRules(
    keywords=frozenset(
        "type format title description enum items prefixItems minItems maxItems minimum maximum anyOf properties "
        "additionalProperties required propertyOrdering".split()
    ),
    only_any_of=True,
    beside_references=False,
    recursion=False,
)
"""Keywords in `responseJsonSchema` and `parametersJsonSchema`; a reference stands alone, and a
repetition is only followed to some depth (ai.google.dev, GenerationConfig)."""

OUTPUT_SCHEMAS = replace(TOOL_SCHEMAS, untyped=False)

_THINKS_SINCE = 2.5
_GENERATION = re.compile(r"gemini-(\d+(?:\.\d+)?)")
_DELAY = re.compile(r"(\d+(?:\.\d+)?)s$")
_OVERFLOW = re.compile(r"token count.{0,100}exceeds the maximum", re.IGNORECASE)
_SPENT = re.compile(r"PerDay|credits? (are|is) depleted", re.IGNORECASE)

_STATUS_OF_ERROR = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
"""The HTTP statuses of Google's error codes (google/rpc/code.proto)."""


def generation(model: Model) -> float:
    """The model's generation, such as 2.5; the newest for names such as gemini-flash-latest, 0 for other families."""
    if "gemini" not in model.id:
        return 0.0
    number = _GENERATION.search(model.id)
    return float(number[1]) if number else math.inf


def level_for(model: Model, wanted: str) -> tuple[str | None, str | None]:
    """The vendor's name for the thinking level that is nearest to the requested one, and a warning if they differ.

    The name is None if the model does not think or has no levels.
    """
    unknown = model.context_window is None and not 0 < generation(model) < _THINKS_SINCE
    if not model.thinking and not unknown:
        return None, None if wanted == "off" else f"{model} does not think, so thinking={wanted!r} was not sent."
    levels = model.settings.get("levels")
    names = dict(levels) if isinstance(levels, Mapping) else {level: level for level in LEVELS[1:-2]}
    known = [level for level in LEVELS if names.get(level)]
    if wanted not in LEVELS or not known:
        return None, f"{model} has no thinking level {wanted!r}, so it was not sent."
    nearest = nearest_level(wanted, known)
    sentence = None if nearest == wanted else f"{model} cannot think at level {wanted!r}; {nearest!r} was sent instead."
    return str(names[nearest]), sentence


def sampling(model: Model, options: Options) -> tuple[JsonObject, list[str]]:
    """Temperature, top_p, token limit and stop sequences under the names of generateContent, and warnings."""
    found: JsonObject = {}
    warnings: list[str] = []
    if options.max_tokens is not None:
        found["maxOutputTokens"] = options.max_tokens
    for name, wire_name in (("temperature", "temperature"), ("top_p", "topP")):
        value = getattr(options, name)
        if value is None:
            continue
        if model.settings.get("temperature", True):
            found[wire_name] = value
        else:
            warnings.append(f"{model} does not accept {name}, so it was not sent.")
    if options.stop:
        found["stopSequences"] = list(options.stop[:MAX_STOPS])
        if len(options.stop) > MAX_STOPS:
            warnings.append(f"{model} accepts at most {MAX_STOPS} stop sequences; the others were not sent.")
    return found, warnings


def merge(body: JsonObject, extra: Mapping[str, object]) -> None:
    """Add the user's own fields: objects such as `generationConfig` and tools are merged with those in the body."""
    for name, value in extra.items():
        known = body.get(name)
        if name == "tools":
            body[name] = joined_tools(known, value)
            continue
        body[name] = {**known, **value} if isinstance(known, dict) and isinstance(value, Mapping) else value


def headers_for(key: str | None) -> dict[str, str]:
    """The header with the key. In the URL it would appear in logs."""
    return {"x-goog-api-key": key} if key else {}


def path_of(model: Model) -> str:
    """The path of the model in a URL. An id with a collection, such as tunedModels/x, is not changed."""
    name = quote(model.id, safe="/:@")
    return name if "/" in name else f"models/{name}"


def http_failure(model: Model, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """The error for an HTTP error response; `retry_after` is the delay that Google sends in the body."""
    try:
        data = from_json(body)
    except ValueError:
        data = None
    if not isinstance(data, dict | list):
        return body_error(model, status, headers, body)
    return failure(model, status, data, headers)


def failure(
    model: Model,
    status: int | None,
    data: Any,  # noqa: ANN401 - any JSON value
    headers: Mapping[str, str] | None = None,
) -> ProviderStatusError:
    """The error for an error object, `{"error": {"code", "message", "status", "details"}}` or only its inner object.

    Without an HTTP status, the object's own status is used.
    """
    words, kind = words_and_kind(data)
    if isinstance(data, list):
        data = data[0] if data else {}
    error = data.get("error", data) if isinstance(data, dict) else data
    error = error if isinstance(error, dict) else {}
    headers = dict(headers or {})
    for detail in _objects(error.get("details")):
        kind = f"{kind} {detail.get('reason') or ''}"
        if wait := _DELAY.match(str(detail.get("retryDelay"))):
            headers.setdefault("retry-after", wait[1])
        # A daily quota is not restored within the minute that the delay names.
        if any(_SPENT.search(str(violation.get("quotaId"))) for violation in _objects(detail.get("violations"))):
            kind = f"{kind} insufficient_quota"
    if _SPENT.search(words):
        kind = f"{kind} insufficient_quota"
    if _OVERFLOW.search(words):
        kind = f"{kind} context_length_exceeded"
    return status_error(model, status or _status_of(error), words, kind=kind.strip(), headers=headers)


def _objects(value: Any) -> list[JsonObject]:  # noqa: ANN401 - any JSON value
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _status_of(error: JsonObject) -> int:
    code = error.get("code")
    if (known := http_status(code)) is not None:
        return known
    words = f"{error.get('status') or ''} {code or ''}".upper()
    return next((status for name, status in _STATUS_OF_ERROR.items() if name in words), 500)

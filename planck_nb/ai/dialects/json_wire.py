"""Reads and writes the JSON of all dialects."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import from_json, to_json

from planck_nb.ai.models import Model
from planck_nb.base.errors import ProviderProtocolError
from planck_nb.base.json_types import JsonObject


def read_object(data: bytes, model: Model) -> JsonObject:
    """One frame's JSON object. Raises `ProviderProtocolError` for anything else.

    Invalid UTF-8 and halves of surrogate pairs, which small models produce, become U+FFFD.
    """
    try:
        value = from_json(data)
    except ValueError:
        value = _read_leniently(data)
    if isinstance(value, dict):
        return value
    start = data[:80].decode("utf-8", "replace")
    raise ProviderProtocolError(
        f"{model.provider} sent something that is not a JSON object in its stream ({start!r}); "
        "check that base_url names the right API.",
        provider=model.provider,
        model=model.id,
    )


def write_json(value: object) -> bytes:
    """A value as JSON bytes."""
    try:
        return to_json(value)
    except ValueError:
        return json.dumps(value).encode()  # escapes what has no UTF-8 form


def _read_leniently(data: bytes) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return _whole_text(json.loads(data.decode("utf-8", "replace")))
    except (ValueError, RecursionError):
        return None


def _whole_text(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_whole_text(item) for item in value]
    if isinstance(value, dict):
        return {key: _whole_text(item) for key, item in value.items()}
    return value

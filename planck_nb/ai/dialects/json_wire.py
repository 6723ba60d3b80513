"""Reads and writes the JSON of all dialects."""

from __future__ import annotations

import json
import math
from typing import Any

from pydantic_core import from_json, to_json

from planck_nb.ai.models import Model
from planck_nb.base.errors import ProviderProtocolError
from planck_nb.base.json_types import JsonObject, without_lone_surrogates
from planck_nb.base.long_json import in_pieces

_MAX_INDEX = 2**31 - 1
_MAX_NUMBER_DIGITS = 400
"""A longer integer becomes null; Python refuses to read much longer ones."""

_NESTED = 6
"""Levels from a request's body to the data of a message part; anything deeper is written at once."""


def read_object(data: bytes, model: Model) -> JsonObject:
    """One frame's JSON object.

    Invalid UTF-8 and halves of surrogate pairs, which small models produce, become U+FFFD. NaN and infinite numbers,
    which are not JSON, become null.

    Args:
        data: The frame.
        model: The model that was asked, for the message of the error.

    Returns:
        The object.

    Raises:
        ProviderProtocolError: The frame is anything else.
    """
    try:
        value = from_json(data, allow_inf_nan=False)
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


def text_of(value: object) -> str:
    """The value if it is a string, empty for null. Raises TypeError for anything else."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    raise TypeError(f"a text of type {type(value).__name__}")


def index_of(value: object) -> int:
    """The value if it can be the index of a part. Raises TypeError for anything else."""
    if isinstance(value, int) and not isinstance(value, bool) and -_MAX_INDEX <= value <= _MAX_INDEX:
        return value
    raise TypeError(f"an index of type {type(value).__name__} or out of range")


def write_json(value: object) -> bytes:
    """A value as JSON bytes."""
    try:
        return to_json(value)
    except ValueError:
        return json.dumps(value).encode()  # escapes what has no UTF-8 form


def write_long_json(value: object) -> bytes:
    """Like `write_json`, for a thread: writes in short steps, so that other threads can run in between."""
    try:
        return b"".join(in_pieces(value, _NESTED, to_json))
    except ValueError:
        return write_json(value)


def _read_leniently(data: bytes) -> Any:  # noqa: ANN401 - any JSON value
    try:
        text = data.decode("utf-8", "replace")
        return without_lone_surrogates(
            json.loads(text, parse_constant=lambda _: None, parse_float=_float, parse_int=_integer)
        )
    except (ValueError, RecursionError):
        return None


def _integer(text: str) -> int | None:
    return int(text) if len(text) <= _MAX_NUMBER_DIGITS else None


def _float(text: str) -> float | None:
    return number if math.isfinite(number := float(text)) else None

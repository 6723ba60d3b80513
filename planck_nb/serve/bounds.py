"""Bounds and redacts texts and data for other programs."""

from __future__ import annotations

import base64
import itertools
import math
from collections.abc import Mapping, Sized
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from planck_nb.base.secrets import around_secret, process_secrets, redact, redact_data
from planck_nb.base.text import encodable, head_and_tail

MAX_TEXT_LENGTH = 4_000
"""Longest text within a result, in characters."""

MAX_ANSWER_LENGTH = 200_000
"""Longest answer, document or result, in characters."""

_MAX_ITEMS = 1_000
_MAX_DEPTH = 20


def bounded_text(text: str, max_length: int = MAX_TEXT_LENGTH) -> str:
    """Return the text without secrets, and a long one without its middle."""
    return head_and_tail(redact(encodable(text), formats=True), characters=max_length, around=around_secret)


def bounded_data(data: object, max_length: int = MAX_TEXT_LENGTH) -> Any:  # noqa: ANN401 - any JSON value
    """Return any value as JSON data without secrets, with bounded texts."""
    return _bounded(redact_data(json_value(data), process_secrets()), max_length, _MAX_DEPTH)


def _bounded(data: Any, max_length: int, depth: int) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(data, str):
        return head_and_tail(data, characters=max_length, around=around_secret)
    if depth <= 0 and isinstance(data, dict | list):
        return "…"
    if isinstance(data, dict):
        items = itertools.islice(data.items(), _MAX_ITEMS)
        items_so_far = {key[:max_length]: _bounded(value, max_length, depth - 1) for key, value in items}
        return items_so_far if len(data) <= _MAX_ITEMS else {**items_so_far, "…": _left_out(data)}
    if isinstance(data, list):
        beginning = [_bounded(value, max_length, depth - 1) for value in data[:_MAX_ITEMS]]
        return beginning if len(data) <= _MAX_ITEMS else [*beginning, _left_out(data)]
    return data


def _left_out(data: Sized) -> str:
    return f"… and {len(data) - _MAX_ITEMS:,} more"


def json_value(value: object) -> Any:  # noqa: ANN401, PLR0911 - any JSON value; one line for each type
    """Return a DuckDB or Python value as JSON data.

    Times are in ISO format, durations in seconds.
    """
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return json_value(float(value))
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {encodable(str(key)): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [json_value(item) for item in value]
    return encodable(str(value))

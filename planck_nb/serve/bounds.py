"""Bounds and redacts texts and data before they are given to other programs."""

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
"""The most characters that a text within a result may have."""

MAX_ANSWER_LENGTH = 200_000
"""The most characters that an answer, a document, or all rows of a result may have."""

_MAX_ITEMS = 1_000
_MAX_DEPTH = 20


def bounded_text(text: str, max_length: int = MAX_TEXT_LENGTH) -> str:
    """Return the text without secrets, and without its middle if it is long."""
    return head_and_tail(redact(encodable(text), formats=True), characters=max_length, around=around_secret)


def bounded_data(data: object, max_length: int = MAX_TEXT_LENGTH) -> Any:  # noqa: ANN401 - any JSON value
    """Return any value as JSON data without secrets, every text in it bounded."""
    return _bounded(redact_data(json_value(data), process_secrets()), max_length, _MAX_DEPTH)


def _bounded(data: Any, max_length: int, depth: int) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(data, str):
        return head_and_tail(data, characters=max_length, around=around_secret)
    if depth <= 0 and isinstance(data, dict | list):
        return "…"
    if isinstance(data, dict):
        items = itertools.islice(data.items(), _MAX_ITEMS)
        bounded = {key[:max_length]: _bounded(value, max_length, depth - 1) for key, value in items}
        return bounded if len(data) <= _MAX_ITEMS else {**bounded, "…": _left_out(data)}
    if isinstance(data, list):
        shown = [_bounded(value, max_length, depth - 1) for value in data[:_MAX_ITEMS]]
        return shown if len(data) <= _MAX_ITEMS else [*shown, _left_out(data)]
    return data


def _left_out(data: Sized) -> str:
    return f"… and {len(data) - _MAX_ITEMS:,} more"


def json_value(value: object) -> Any:  # noqa: ANN401, PLR0911 - any JSON value; one line for each type
    """Return a value of DuckDB or Python as JSON data; times are in ISO format, durations in seconds."""
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

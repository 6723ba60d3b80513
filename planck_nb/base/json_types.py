"""JSON data: its type, and texts that are valid in it."""

from __future__ import annotations

from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object.

Its values are JSON values; `Any` because another schema defines their shape.
"""


def without_lone_surrogates(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Replace halves of surrogate pairs by U+FFFD; they lack a UTF-8 form.

    Args:
        value: Any JSON value.

    Returns:
        The value, ready to be encoded.
    """
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [without_lone_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {without_lone_surrogates(key): without_lone_surrogates(item) for key, item in value.items()}
    return value

"""Removes lone surrogates from JSON data.

Writing a message with one would fail and end the connection.
"""

from __future__ import annotations

from typing import Any

from planck_nb.base.text import encodable


def encodable_data(value: Any) -> Any:  # noqa: ANN401 - JSON data of the same type
    """Return the same JSON data, with question marks for lone surrogates.

    Names are included.
    """
    if isinstance(value, str):
        return value if value.isascii() else encodable(value)
    if isinstance(value, dict):
        return {encodable_data(key): encodable_data(item) for key, item in value.items()}
    if isinstance(value, list):
        return [encodable_data(item) for item in value]
    return value

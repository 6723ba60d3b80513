"""Reads values of stored JSON data, which may be of any type in a session not signed by this user."""

from __future__ import annotations

import json

from planck_nb.base.json_types import JsonObject


def object_in(text: str | None) -> JsonObject:
    """Return the JSON object that a text contains; empty if it contains none."""
    try:
        decoded = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return decoded if isinstance(decoded, dict) else {}


def texts_in(values: object) -> tuple[str, ...]:
    """Return the strings in a list; none if it is not a list."""
    return tuple(value for value in values if isinstance(value, str)) if isinstance(values, list) else ()

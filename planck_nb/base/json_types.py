"""JSON data as types, for type checkers."""

from __future__ import annotations

from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object.

Its values are JSON values; `Any` because another schema defines their shape.
"""

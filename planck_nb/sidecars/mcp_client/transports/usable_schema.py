"""JSON Schemas as their servers mean them."""

from __future__ import annotations

from typing import Any

from planck_nb.base.json_types import JsonObject

_WITH_NAMES = ("properties", "patternProperties", "$defs", "definitions")
_ANY_VALUE = ("default", "const", "enum", "examples", "example")
_NULL_VALUE = ("default", "const")
_TYPES = {
    "int": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "bool": "boolean",
    "str": "string",
    "list": "array",
    "dict": "object",
    "map": "object",
}
"""Types which JSON Schema calls otherwise."""


def usable_schema(schema: JsonObject) -> JsonObject:
    """Return a JSON Schema with its invalid parts as they are meant.

    Go writes null and PHP an empty list for an absent object, a type may have its name in another language, and
    `required` is seen in a wrong place or shape.

    Example:
        >>> usable_schema({"type": "object", "properties": {"n": {"type": "int", "enum": None}}, "required": None})
        {'type': 'object', 'properties': {'n': {'type': 'integer'}}}
    """
    result: JsonObject = _usable(schema)
    return result


def _usable(schema: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(schema, list):
        return [_usable(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    present = {key: value for key, value in schema.items() if value is not None or key in _NULL_VALUE}
    result: JsonObject = {
        key: value if key in _ANY_VALUE else _usable_value(key, value) for key, value in present.items()
    }
    if not isinstance(result.get("required", []), list):
        del result["required"]
    if result.get("type") == "any":
        del result["type"]
    properties = result.get("properties")
    if isinstance(properties, dict) and isinstance(properties.get("required"), list):  # in the wrong place
        result.setdefault("required", properties.pop("required"))
    return result


def _usable_value(key: str, value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if key in _WITH_NAMES and isinstance(value, dict):
        return {name: _usable({} if item is None else item) for name, item in value.items()}
    if key in _WITH_NAMES and value == []:
        return {}
    if key == "required" and isinstance(value, list):
        return [name for name in value if isinstance(name, str)]
    if key == "type" and isinstance(value, str):
        return _TYPES.get(value, value)
    return _usable(value)

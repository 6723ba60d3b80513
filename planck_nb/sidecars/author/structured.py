"""Structured results, from a function's return annotation.

A schema describes them, and values are converted to JSON data.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_type_hints

from planck_nb.base.errors import ToolError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import one_line

_PROBLEM_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class Structure:
    """The structured form of a tool's results.

    Args:
        schema: The JSON Schema of a result, of type object.
        convert: Returns a result as JSON data; raises `ToolError` if it does not match the schema.
    """

    schema: JsonObject
    convert: Callable[[object], object]


def structure_of(function: Callable[..., Any], name: str) -> Structure | None:
    """Return the structure of a function's results.

    It is None unless the function is annotated to return a model or a dictionary.

    Args:
        function: The function.
        name: Its tool's name, for error messages.
    """
    try:
        returns = get_type_hints(function, include_extras=True).get("return")
    except Exception:  # noqa: BLE001 - annotations that cannot be resolved describe no structure
        return None
    if returns is None or returns is Any or returns is type(None) or _is_plain(returns):
        return None
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - loaded with the first function tool

    try:
        adapter = TypeAdapter(returns)
        schema = adapter.json_schema(mode="serialization")
    except Exception:  # noqa: BLE001 - a type that pydantic cannot describe, such as a data frame
        return None
    schema = _with_object_root(schema)
    if schema.get("type") != "object":
        return None

    def convert(value: object) -> object:
        try:
            return adapter.dump_python(adapter.validate_python(value), mode="json")
        except (ValidationError, ValueError) as error:
            reason = one_line(str(error), _PROBLEM_CHARACTERS)
            raise ToolError(f"{name} returned a value that does not match its return annotation: {reason}") from error

    return Structure(schema, convert)


def _is_plain(returns: object) -> bool:
    """Return whether the class has only text, images or MCP content."""
    if not inspect.isclass(returns):
        return False
    home = returns.__module__.partition(".")[0]
    return issubclass(returns, str | bytes | int | float) or home in {"mcp_types", "mcp", "planck_nb"}


def _with_object_root(schema: JsonObject) -> JsonObject:
    """Return the schema with a type at its root.

    A recursive model's schema has only a reference there.
    """
    reference, definitions = schema.get("$ref"), schema.get("$defs")
    if not isinstance(reference, str) or not isinstance(definitions, dict):
        return schema
    target = definitions.get(reference.rpartition("/")[2])
    return {**schema, "type": "object"} if isinstance(target, dict) and target.get("type") == "object" else schema

"""Validation against JSON Schemas, with jsonschema, which is imported on first use.

Arguments with a wrapping too many are unwrapped before.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from pydantic_core import from_json

from planck_nb.base.errors import ToolError
from planck_nb.base.iri_parser import without_iri_parser
from planck_nb.base.json_types import JsonObject

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, ValidationError


def problem_of(schema: JsonObject) -> str:
    """What is wrong with a JSON Schema; empty if it is valid."""
    return _problem_of(json.dumps(schema, default=str))


def drop_infinite(node: object) -> None:
    """Remove the keywords whose value is a number that JSON cannot have, such as a default of NaN."""
    if isinstance(node, dict):
        for key in [key for key, value in node.items() if isinstance(value, float) and not math.isfinite(value)]:
            del node[key]
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        drop_infinite(child)


def validator(schema: JsonObject) -> Draft202012Validator:
    """Make a validator for the schema; it never fetches schemas that this one refers to."""
    with without_iri_parser():
        from jsonschema import Draft202012Validator  # noqa: PLC0415 - 40 ms that most programs never need
    from referencing import Registry  # noqa: PLC0415 - as above

    return Draft202012Validator(schema, registry=Registry())


def errors_of(checker: Draft202012Validator, value: object) -> list[ValidationError]:
    """The errors of a value.

    Raises:
        ToolError: If the schema refers to a schema that it does not contain, or to itself without end.
    """
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - loaded with the validator

    try:
        return list(checker.iter_errors(value))
    except Unresolvable as error:
        raise ToolError(f"Its schema refers to {error.ref}; write that out in the schema.") from None
    except RecursionError:
        raise ToolError(
            "Its schema refers to itself without end, or the value is nested too deeply; write the schema without $ref."
        ) from None


def unwrapped(args: JsonObject, schema: JsonObject) -> JsonObject:
    """Unwrap arguments.

    A list or an object in JSON text becomes one if the schema rules out text there, and a null is left out if the
    argument is optional and may not be null: https://github.com/jlowin/fastmcp/issues/932

    Args:
        args: The arguments as the model wrote them.
        schema: The JSON Schema for the tool's parameters.

    Returns:
        The arguments; the same object if they were not wrapped.

    Example:
        >>> ids = {"type": "array", "items": {"type": "string"}}
        >>> unwrapped({"ids": '["k1", "k2"]'}, {"type": "object", "properties": {"ids": ids}})
        {'ids': ['k1', 'k2']}
    """
    value = _unwrapped(args, schema, schema, _MAX_DEPTH)
    return value if isinstance(value, dict) else args


_MAX_DEPTH = 16

_TYPES: Mapping[type, str] = {dict: "object", list: "array", bool: "boolean", int: "integer", float: "number"}


def _unwrapped(value: object, schema: object, root: JsonObject, depth: int) -> object:
    if not isinstance(value, (str, dict, list)):
        return value
    plain = _resolved(schema, root)
    if plain is None or depth == 0:
        return value
    types = _types_of(plain, root)
    if isinstance(value, str) and types and "string" not in types:
        value = _value_of_text(value, types)
    if isinstance(value, dict) and isinstance(properties := plain.get("properties"), dict):
        needed_names = plain.get("required") or ()
        inner_values = {
            name: _unwrapped(inner, properties[name], root, depth - 1) if name in properties else inner
            for name, inner in value.items()
            if not (inner is None and name not in needed_names and _forbids_null(properties.get(name), root))
        }
        if len(inner_values) < len(value) or any(inner_values[name] is not value[name] for name in inner_values):
            return inner_values
    elif isinstance(value, list) and isinstance(plain.get("items"), dict):
        items = [_unwrapped(inner, plain["items"], root, depth - 1) for inner in value]
        if any(map(operator.is_not, items, value)):
            return items
    return value


def _value_of_text(text: str, types: frozenset[str]) -> object:
    """Parse a JSON text if its value has one of the types."""
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError:
        return text
    if value is None:
        return None if "null" in types else text
    kind = _TYPES.get(type(value), "string")
    return value if kind in types or (kind == "integer" and "number" in types) else text


def _forbids_null(schema: object, root: JsonObject) -> bool:
    plain = _resolved(schema, root)
    types = frozenset[str]() if plain is None else _types_of(plain, root)
    return bool(types) and "null" not in types


def _resolved(schema: object, root: JsonObject) -> JsonObject | None:
    """Follow a reference, and take the one object or list among the branches."""
    for _ in range(_MAX_DEPTH):
        if not isinstance(schema, dict):
            return None
        reference = schema.get("$ref")
        if isinstance(reference, str):
            kind, _, name = reference.removeprefix("#/").partition("/")
            schema = root.get(kind, {}).get(name) if kind in {"$defs", "definitions"} else None
            continue
        branches = [_resolved(branch, root) for branch in schema.get("anyOf") or schema.get("oneOf") or ()]
        deep = [branch for branch in branches if branch is not None and branch.get("type") in {"object", "array"}]
        return {**deep[0], **schema, "type": None} if len(deep) == 1 else schema
    return None


def _types_of(schema: JsonObject, root: JsonObject) -> frozenset[str]:
    """The types in a schema; empty if it allows any."""
    branches = schema.get("anyOf") or schema.get("oneOf")
    if branches:
        kinds = [_types_of(plain, root) for branch in branches if (plain := _resolved(branch, root)) is not None]
        return frozenset[str]().union(*kinds) if len(kinds) == len(branches) and all(kinds) else frozenset()
    kind = schema.get("type")
    return frozenset({kind} if isinstance(kind, str) else kind or ())


@lru_cache(1_000)
def _problem_of(schema: str) -> str:
    """Cached, because it takes milliseconds and the files with schemas are read at every turn."""
    with without_iri_parser():
        from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415 - as above

    try:
        Draft202012Validator.check_schema(json.loads(schema))
    except SchemaError as error:
        return str(error.message)
    return ""

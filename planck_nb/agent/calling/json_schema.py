"""Validates arguments and answers against JSON Schemas, with jsonschema, which is imported on first use."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import TYPE_CHECKING

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

"""The schema for a structured answer, as a server accepts it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json, to_json

from planck_nb.ai.schemas.schema_rules import SchemaRules
from planck_nb.ai.schemas.schema_writer import SchemaWriter
from planck_nb.base.json_types import JsonObject


@dataclass(frozen=True, slots=True)
class FittedOutput:
    """The schema for a structured answer in a request.

    Args:
        schema: The JSON Schema.
        read: Converts an answer to one for the requested schema; None if they are equal.
    """

    schema: JsonObject
    read: Callable[[str], str] | None = None


def fit_output(schema: JsonObject, rules: SchemaRules) -> FittedOutput:
    """Write an answer's schema in a server's part of JSON Schema.

    Args:
        schema: The requested schema.
        rules: The server's rules.

    Returns:
        The schema for the request.

    Example:
        >>> rules = SchemaRules(open_objects="pairs", closed=True)
        >>> fitted = fit_output({"type": "object", "additionalProperties": {"type": "number"}}, rules)
        >>> fitted.schema["type"], fitted.read('[{"key": "Ada", "value": 3.5}]')
        ('array', '{"Ada":3.5}')
    """
    wire = SchemaWriter(schema, rules).write()
    if wire.read is None:
        return FittedOutput(wire.schema)
    read_value = wire.read

    def read(text: str) -> str:
        try:
            value: Any = from_json(text, allow_inf_nan=False)
            return to_json(read_value(value)).decode()
        except ValueError:  # cut off, or not JSON: whoever asked for it says so
            return text

    return FittedOutput(wire.schema, read)


def with_objects(schema: JsonObject, value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Convert the beginning of an answer, with objects for pairs.

    Args:
        schema: The requested schema.
        value: The answer so far.

    Returns:
        The value in the schema's form.
    """
    read = SchemaWriter(schema, _PAIRS).write().read
    return value if read is None else read(value)


_PAIRS = SchemaRules(open_objects="pairs")

"""The schema of a structured answer as a server accepts it."""

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
    """The schema of a structured answer as it is sent.

    Args:
        schema: The JSON Schema.
        read: Converts the text of an answer to one for the schema that was asked for; None if they are the same.
    """

    schema: JsonObject
    read: Callable[[str], str] | None = None


def fit_output(schema: JsonObject, rules: SchemaRules) -> FittedOutput:
    """Write the schema of a structured answer in the part of JSON Schema that a server accepts.

    Args:
        schema: The schema that was asked for.
        rules: What the server accepts.

    Returns:
        The schema as it is sent.

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
    """The beginning of an answer, with an object where a list of pairs stands for one.

    Args:
        schema: The schema that was asked for.
        value: The answer as far as the model has written it.

    Returns:
        The value in the form of the schema.
    """
    read = SchemaWriter(schema, _PAIRS).write().read
    return value if read is None else read(value)


_PAIRS = SchemaRules(open_objects="pairs")

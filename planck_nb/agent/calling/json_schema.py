"""JSON Schemas of arguments and answers, checked by jsonschema, which is loaded with the first of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

from planck_nb.base.errors import ToolError
from planck_nb.base.json_types import JsonObject

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, ValidationError

_SLOW = "rfc3987_syntax"


def problem_of(schema: JsonObject) -> str:
    """What is wrong with a JSON Schema, empty where nothing is."""
    return _problem_of(json.dumps(schema, default=str))


def validator(schema: JsonObject) -> Draft202012Validator:
    """What checks values against the schema. It fetches nothing that the schema refers to."""
    with _without_slow_formats():
        from jsonschema import Draft202012Validator  # noqa: PLC0415 - 40 ms that most programs never need
    from referencing import Registry  # noqa: PLC0415 - as above

    return Draft202012Validator(schema, registry=Registry())


def errors_of(checker: Draft202012Validator, value: object) -> list[ValidationError]:
    """Where the value does not fit. Raises `ToolError` where the schema refers to what it does not hold."""
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - loaded with the validator

    try:
        return list(checker.iter_errors(value))
    except Unresolvable as error:
        raise ToolError(f"Its schema refers to {error.ref}; write that out in the schema.") from None


@lru_cache(1_000)
def _problem_of(schema: str) -> str:
    """Kept, because it takes milliseconds and files are read at every turn."""
    with _without_slow_formats():
        from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415 - as above

    try:
        Draft202012Validator.check_schema(json.loads(schema))
    except SchemaError as error:
        return str(error.message)
    return ""


@contextmanager
def _without_slow_formats() -> Iterator[None]:
    """Keep jsonschema from loading a parser of IRIs, which comes with JupyterLab and holds up the kernel for a second.

    Where something loaded it before, nothing changes. Otherwise only `"format": "iri"` goes unchecked, which nothing
    checks unless it is asked to.
    """
    if "jsonschema" in sys.modules or _SLOW in sys.modules:
        yield
        return
    sys.modules[_SLOW] = None  # type: ignore[assignment]  # how Python is told that there is no such module
    try:
        yield
    finally:
        sys.modules.pop(_SLOW, None)

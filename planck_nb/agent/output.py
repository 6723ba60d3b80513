"""Structured output: the JSON Schema for the model, and the conversion of the answer's text to a value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from json import JSONDecoder
from typing import Any

from pydantic_core import ValidationError, from_json, to_json

from planck_nb.agent.calling.json_schema import drop_infinite, errors_of, problem_of, validator
from planck_nb.ai.schemas.fitted_output import with_objects
from planck_nb.base.errors import UsageError
from planck_nb.base.json_types import JsonObject

_WRAPPED = "answer"
"""The property that holds a value which is not a JSON object: most models accept only schemas of objects."""

_MAX_PROBLEMS = 10

_OBJECT = re.compile(r'\{(?=\s*["}])')
_OBJECT_OR_ARRAY = re.compile(r'\{(?=\s*["}])|\[(?=\s*[]\[{"\d-])')
"""What begins JSON, and hardly anything else: a brace in prose is not followed by a quotation mark."""

_BLOCK_START = re.compile(r"```\s*(json[c5l]?)?", re.IGNORECASE)

_NUMBER_CHARACTERS = "-+.0123456789eE"


class OutputMismatch(Exception):
    """An answer's text does not match the output; the message lists the problems."""


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """The structured output that the final answer of a prompt must have.

    Args:
        schema: The JSON Schema that the model is sent.
        read: Converts the text of the answer to its value; raises `OutputMismatch` if it does not match.
        wrapped: Whether the model is asked for an object with the value as its only property.
    """

    schema: JsonObject
    read: Callable[[str], Any]
    wrapped: bool = False

    def read_partial(self, text: str) -> Any:  # noqa: ANN401 - any JSON value
        """The JSON value in an answer that is not complete, as far as it was written and not validated.

        Args:
            text: The text so far.

        Returns:
            The value, with a last string that may be cut; None if there is none yet.
        """
        value = read_partial_json(text, arrays=_may_be_array(self.schema, wrapped=self.wrapped))
        if value is not None:
            value = with_objects(self.schema, value)
        if self.wrapped and isinstance(value, dict) and value.keys() <= {_WRAPPED}:
            return value.get(_WRAPPED)
        return value


def output_spec(output: object) -> OutputSpec:
    """Make the specification of a structured output.

    Args:
        output: A JSON Schema, or a type that pydantic can read from JSON.

    Returns:
        The schema and the function that reads an answer.

    Raises:
        UsageError: If `output` is neither.
    """
    return _of_schema(output) if isinstance(output, dict) else _of_type(output)


def correction(problems: str, schema: JsonObject) -> str:
    """The message to the model about an answer that does not match the schema."""
    return (
        f"Your answer cannot be used: {problems}. "
        f"Answer again with nothing but JSON that fits this schema: {to_json(schema).decode()}"
    )


def _of_schema(schema: JsonObject) -> OutputSpec:
    if problem := problem_of(schema):
        raise UsageError(f"`output` is not a JSON Schema: {problem}.")
    checker = validator(schema)
    arrays = _may_be_array(schema, wrapped=False)

    def read(text: str) -> Any:  # noqa: ANN401 - any JSON value
        value = _json(text, arrays=arrays)
        problems = [_line(error.absolute_path, error.message) for error in errors_of(checker, value)]
        if problems:
            raise OutputMismatch(_joined(problems))
        return value

    return OutputSpec(schema, read)


def _of_type(kind: Any) -> OutputSpec:  # noqa: ANN401 - any type, or any value passed instead of one
    from pydantic import TypeAdapter  # noqa: PLC0415 - a third of the package's import time
    from pydantic.errors import PydanticUserError  # noqa: PLC0415

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        schema = adapter.json_schema()
        drop_infinite(schema)
    except (PydanticUserError, NameError) as error:
        raise UsageError(
            f"`output` cannot be {kind!r}, which JSON cannot be parsed into; use a pydantic model, a dataclass, a "
            f"TypedDict, or a JSON Schema ({str(error).splitlines()[0]})."
        ) from None
    is_object = _root(schema).get("type") == "object"

    def read(text: str) -> Any:  # noqa: ANN401 - an instance of `kind`
        value = _json(text, arrays=not is_object)
        if not is_object and isinstance(value, dict) and value.keys() == {_WRAPPED}:
            value = value[_WRAPPED]
        try:
            return adapter.validate_json(to_json(value))  # as JSON: a date is text there
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            raise OutputMismatch(_joined([_line(problem["loc"], problem["msg"]) for problem in found])) from None

    return OutputSpec(schema if is_object else _wrap(schema), read, wrapped=not is_object)


def _root(schema: JsonObject) -> JsonObject:
    """The schema itself, or the definition that it refers to, as the schemas of recursive models do."""
    reference = schema.get("$ref", "")
    name = reference.removeprefix("#/$defs/")
    return dict(schema["$defs"][name]) if name != reference else schema


def _wrap(schema: JsonObject) -> JsonObject:
    inner = dict(schema)
    definitions = inner.pop("$defs", None)
    wrapped: JsonObject = {
        "type": "object",
        "properties": {_WRAPPED: inner},
        "required": [_WRAPPED],
        "additionalProperties": False,
    }
    return {**wrapped, "$defs": definitions} if definitions else wrapped


def _may_be_array(schema: JsonObject, *, wrapped: bool) -> bool:
    return wrapped or _root(schema).get("type", "object") != "object"


def _json(text: str, *, arrays: bool) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return read_json(text, arrays=arrays)
    except NoJsonError as error:
        raise OutputMismatch(str(error)) from None


def _line(path: Any, message: str) -> str:  # noqa: ANN401 - an iterable of names and positions
    where = ".".join(map(str, path))
    return f"{where}: {message}" if where else message


def _joined(problems: list[str]) -> str:
    more = len(problems) - _MAX_PROBLEMS
    return "; ".join(problems[:_MAX_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")


class NoJsonError(ValueError):
    """There is no JSON in the answer, or more than one value; the message says which."""


def read_json(text: str, *, arrays: bool) -> Any:  # noqa: ANN401 - any JSON value
    """The JSON value of an answer: the whole text, or the only object in it.

    Args:
        text: The answer.
        arrays: Whether the value may be an array, so that an array within prose counts too.

    Raises:
        NoJsonError: There is none, it is malformed or cut, or there are several different ones.
    """
    try:
        return _parsed(text)
    except ValueError as error:
        problem = f"it is not JSON ({error})" if text.strip() else "it is empty"
    found = _in_blocks(text) or _in_prose(text, arrays=arrays)
    if not found:
        raise NoJsonError(problem)
    if any(value != found[0] for value in found[1:]):
        raise NoJsonError(f"it has {len(found)} different JSON values; write only one")
    return found[0]


def read_partial_json(text: str, *, arrays: bool) -> Any:  # noqa: ANN401 - any JSON value
    """The JSON value in an answer that is still being written, as far as it was received; None if there is none yet.

    A string at the end may be cut; a number is left out until it is complete.
    """
    start = (_OBJECT_OR_ARRAY if arrays else _OBJECT).search(text)
    if start is None:
        return None
    try:
        return from_json(text[start.start() :].rstrip(_NUMBER_CHARACTERS), allow_partial="trailing-strings")
    except ValueError:
        return None


def _parsed(text: str) -> Any:  # noqa: ANN401 - any JSON value
    return from_json(text, allow_inf_nan=False)


def _in_blocks(text: str) -> list[Any]:
    """The values of the fenced blocks that hold JSON; none if one of them is malformed."""
    try:
        return [_parsed(block) for block in _blocks(text)]
    except ValueError:
        return []


def _blocks(text: str) -> Iterator[str]:
    """The contents of the closed fenced blocks without a language, or whose language is JSON."""
    kept: list[str] | None = None
    is_json = False
    for line in text.split("\n"):
        stripped = line.strip()
        if kept is None and stripped.startswith("```"):
            kept, is_json = [], _BLOCK_START.fullmatch(stripped) is not None
        elif kept is not None and stripped == "```":
            if is_json:
                yield "\n".join(kept)
            kept = None
        elif kept is not None:
            kept.append(line)


def _in_prose(text: str, *, arrays: bool) -> list[Any]:
    """The objects in a text; none if one of them is malformed or cut, even if it contains objects that are not."""
    decoder, start = JSONDecoder(), _OBJECT_OR_ARRAY if arrays else _OBJECT
    found: list[Any] = []
    end = 0
    while (begin := start.search(text, end)) is not None:
        try:
            _, end = decoder.raw_decode(text, begin.start())
            found.append(_parsed(text[begin.start() : end]))
        except (ValueError, RecursionError):
            return []
    return found

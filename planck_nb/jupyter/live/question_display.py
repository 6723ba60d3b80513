"""A sidecar's question for the browser: bounded fields from its schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from planck_nb.base.errors import UsageError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import encodable, one_line
from planck_nb.base.visible import literal, visible
from planck_nb.rendering.shown_images import image_source
from planck_nb.sidecars.mcp_client.link.questions import Question

FieldKind: TypeAlias = Literal["text", "number", "boolean", "choice", "choices", "json"]
"""Editor for a field; "json" is for every other schema."""

_FIELDS = 30
_CHOICES = 200
_LABEL_CHARACTERS = 200
_DESCRIPTION_CHARACTERS = 1_000
_DEFAULT_CHARACTERS = 10_000
_IMAGES_CHARACTERS = 8_000_000


@dataclass(frozen=True, slots=True)
class QuestionField:
    """A field in a question.

    Args:
        label: Its title or name.
        description: An explanation; may be empty.
        kind: Its editor.
        default: The default as text; empty without one. For choices it is the chosen numbers as JSON.
        choices: Labels for the choices.
        required: Whether it must be filled in.
    """

    label: str
    description: str
    kind: FieldKind
    default: str
    choices: tuple[str, ...]
    required: bool


@dataclass(frozen=True, slots=True)
class QuestionDisplay:
    """A question for a person, with invisible characters spelled out.

    Args:
        id: Identifies the question.
        sidecar: The asking sidecar's name.
        message: The question.
        url: The whole address which the person is to visit; empty if the question has fields.
        fields: The fields.
        problem: Why the question cannot be answered; empty for a good question.
        deadline: Time when it is declined, in seconds since the epoch.
        images: Data addresses for its images.
    """

    id: str
    sidecar: str
    message: str
    url: str
    fields: tuple[QuestionField, ...]
    problem: str
    deadline: float
    images: tuple[str, ...] = ()


def question_display(question_id: str, question: Question, deadline: float) -> QuestionDisplay:
    """Describe a question for a person."""
    properties = _properties(question)
    problem = ""
    if len(properties) > _FIELDS:
        problem = f"It has {len(properties):,} fields, more than {_FIELDS}, so it can only be declined."
    images = tuple(map(image_source, question.images))
    if not all(images) or sum(map(len, images)) > _IMAGES_CHARACTERS:
        images, problem = (), "It has images which cannot be shown here, so it can only be declined."
    return QuestionDisplay(
        id=question_id,
        sidecar=visible(question.sidecar, lookalikes=True),
        message=encodable(question.message),
        url=question.url,
        fields=() if problem else tuple(_field(name, schema, question) for name, schema in properties.items()),
        problem=problem,
        deadline=deadline,
        images=images,
    )


def content_of(question: Question, values: Sequence[object]) -> dict[str, Any]:
    """Return the fields for an answer.

    Args:
        question: The question.
        values: A value for each field, in display order; None for an empty field. A choice is its number from 0,
            several are a list of numbers, and JSON is its text.

    Returns:
        The values by the names in the schema, without empty fields.

    Raises:
        UsageError: A value does not have its field's form.
    """
    properties = _properties(question)
    if len(values) != len(properties):
        raise UsageError("The answer does not have the fields of the question; answer it again.")
    return {
        name: _value(one_line(_label(name, schema), _LABEL_CHARACTERS), schema, value)
        for (name, schema), value in zip(properties.items(), values, strict=True)
        if value is not None
    }


def _properties(question: Question) -> Mapping[str, JsonObject]:
    properties = question.schema.get("properties")
    if not isinstance(properties, dict):
        return {}
    return {str(name): schema if isinstance(schema, dict) else {} for name, schema in properties.items()}


def _field(name: str, schema: JsonObject, question: Question) -> QuestionField:
    required_names = question.schema.get("required")
    kind = _kind(schema)
    return QuestionField(
        label=visible(one_line(_label(name, schema), _LABEL_CHARACTERS), lookalikes=True),
        description=visible(str(schema.get("description") or "")[:_DESCRIPTION_CHARACTERS]),
        kind=kind,
        default=_default(kind, schema),
        choices=tuple(visible(one_line(str(label), _LABEL_CHARACTERS)) for _, label in _choices(schema)),
        required=isinstance(required_names, list) and name in required_names,
    )


def _label(name: str, schema: JsonObject) -> str:
    title = schema.get("title")
    return title if isinstance(title, str) and title.strip() else name


def _kind(schema: JsonObject) -> FieldKind:
    if 0 < len(_choices(schema)) <= _CHOICES:
        return "choices" if schema.get("type") == "array" else "choice"
    match schema.get("type"):
        case "string" if "enum" not in schema and "oneOf" not in schema:
            return "text"
        case "number" | "integer":
            return "number"
        case "boolean":
            return "boolean"
        case _:
            return "json"


def _choices(schema: JsonObject) -> list[tuple[object, object]]:
    """Return values and labels for the choices in a schema.

    A list has them in the schema for its items.
    """
    items = schema.get("items")
    source = items if schema.get("type") == "array" and isinstance(items, dict) else schema
    if isinstance(values := source.get("enum"), list):
        names = source.get("enumNames")
        labels = names if isinstance(names, list) and len(names) == len(values) else values
        return list(zip(values, labels, strict=True))
    options = source.get("oneOf") or source.get("anyOf")
    if isinstance(options, list) and all(isinstance(option, dict) and "const" in option for option in options):
        return [(option["const"], option.get("title") or option["const"]) for option in options]
    return []


def _default(kind: FieldKind, schema: JsonObject) -> str:
    if "default" not in schema:
        return ""
    default, values = schema["default"], [value for value, _ in _choices(schema)]
    if kind == "choice":
        return str(values.index(default)) if default in values else ""
    if kind == "choices":
        defaults = default if isinstance(default, list) else []
        return json.dumps([values.index(value) for value in defaults if value in values])
    text = default if kind == "text" and isinstance(default, str) else json.dumps(default, ensure_ascii=False)
    return visible(text[:_DEFAULT_CHARACTERS])


def _value(label: str, schema: JsonObject, value: object) -> object:
    match _kind(schema), value:
        case "text", str(text):
            return encodable(literal(text))
        case "boolean", bool():
            return value
        case "number", int() | float() if not isinstance(value, bool):
            whole = isinstance(value, float) and value.is_integer() and schema.get("type") == "integer"
            return int(value) if whole else value
        case "choice", int(number) if not isinstance(value, bool) and 0 <= number < len(_choices(schema)):
            return _choices(schema)[number][0]
        case "choices", list(numbers):
            values = dict(enumerate(choice for choice, _ in _choices(schema)))
            if all(isinstance(number, int) and number in values for number in numbers):
                return [values[number] for number in numbers]
        case "json", str(text):
            try:
                return json.loads(literal(text))
            except (ValueError, RecursionError) as error:
                raise UsageError(f"{visible(label)} is not JSON: {error}.") from None
    raise UsageError(f"{visible(label)} does not have a value that fits the question; correct it.")

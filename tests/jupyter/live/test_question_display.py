"""Questions of sidecars as a person is shown them, whatever their schemas are, and the answers as sidecars get them."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from planck_nb.ai.messages import ImagePart
from planck_nb.base.errors import UsageError
from planck_nb.jupyter.live.question_display import content_of, question_display
from planck_nb.sidecars.mcp_client.link.questions import Question


def question(**properties: Any) -> Question:
    return Question("asker", "How?", {"type": "object", "properties": properties})


FIELDS: list[tuple[dict[str, Any], tuple[str, str, tuple[str, ...]], object, object]] = [
    ({"type": "string"}, ("text", "", ()), "typed", "typed"),
    ({"type": "string", "default": "a\u202eb"}, ("text", "a⟨U+202E⟩b", ()), "a⟨U+202E⟩b", "a\u202eb"),
    ({"type": "integer", "default": 3}, ("number", "3", ()), 4.0, 4),
    ({"type": "number"}, ("number", "", ()), 0.5, 0.5),
    ({"type": "boolean", "default": False}, ("boolean", "false", ()), True, True),
    ({"type": "string", "enum": ["x", "y"], "default": "y"}, ("choice", "1", ("x", "y")), 0, "x"),
    ({"enum": [1, 2], "enumNames": ["one", "two"]}, ("choice", "", ("one", "two")), 1, 2),
    ({"type": "string", "oneOf": [{"const": "#f00", "title": "Red"}]}, ("choice", "", ("Red",)), 0, "#f00"),
    (
        {"type": "array", "items": {"enum": ["a", "b", "c"]}, "default": ["a", "c"]},
        ("choices", "[0, 2]", ("a", "b", "c")),
        [1],
        ["b"],
    ),
    (
        {"type": "array", "items": {"anyOf": [{"const": "k", "title": "K"}]}},
        ("choices", "", ("K",)),
        [0],
        ["k"],
    ),
    ({"type": "object"}, ("json", "", ()), '{"a": 1}', {"a": 1}),
    ({}, ("json", "", ()), "[1]", [1]),
]


@pytest.mark.parametrize(("schema", "shown", "value", "content"), FIELDS, ids=lambda value: json.dumps(value)[:40])
def test_fields_are_shown_and_read_by_their_schema(
    schema: dict[str, Any], shown: tuple[str, str, tuple[str, ...]], value: object, content: object
) -> None:
    asked = question(field=schema)
    [field] = question_display("q1", asked, 0.0).fields
    assert (field.kind, field.default, field.choices) == shown
    assert content_of(asked, [value]) == {"field": content}
    assert content_of(asked, [None]) == {}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, True),
        ({"type": "integer"}, "3"),
        ({"type": "boolean"}, 1),
        ({"enum": ["x"]}, 1),
        ({"enum": ["x"]}, -1),
        ({"enum": ["x"]}, "x"),
        ({"type": "array", "items": {"enum": ["x"]}}, [5]),
        ({"type": "array", "items": {"enum": ["x"]}}, [[0]]),
        ({"type": "object"}, "{"),
        ({"type": "object"}, "[" * 100_000),
        ({"type": "string"}, 7),
    ],
)
def test_a_value_of_another_form_is_refused_by_name(schema: dict[str, Any], value: object) -> None:
    with pytest.raises(UsageError, match=r"^field "):
        content_of(question(field=schema), [value])


def test_an_answer_with_other_fields_is_refused() -> None:
    with pytest.raises(UsageError, match="does not have the fields"):
        content_of(question(a={"type": "string"}), ["x", "y"])


HOSTILE: list[object] = [
    {},
    {"properties": None},
    {"properties": ["a"]},
    {"properties": {"a": None, "b": "text", "c": []}},
    {"properties": {"a": {"type": "string", "title": 7, "description": {"x": 1}}}},
    {"properties": {"a": {"type": "string", "default": {"x": [1]}}}, "required": {"a": 1}},
    {"properties": {"a": {"type": ["string", "null"]}}},
    {"properties": {"a": {"enum": []}, "b": {"enum": "abc"}, "c": {"oneOf": [1, {"title": "x"}]}}},
    {"properties": {"a": {"enum": [{"x": 1}, [2], None]}}},
    {"properties": {"a": {"type": "array", "items": {"enum": ["x"]}, "default": "x"}}},
    {"properties": {"a": {"type": "string", "title": "t" * 1_000_000, "description": "d" * 1_000_000}}},
    {"properties": {"a": {"type": "string", "default": "d" * 1_000_000}}},
    {"properties": {"a": {"enum": [f"v{number}" for number in range(5_000)]}}},
    {"properties": {f"f{number}": {"type": "string"} for number in range(10_000)}},
    {"properties": {"<script>alert(1)</script>": {"type": "string", "title": "\u202e\ud800"}}},
]


@pytest.mark.parametrize("schema", HOSTILE, ids=lambda schema: json.dumps(schema)[:40])
def test_a_hostile_schema_is_bounded_and_shown_as_text(schema: dict[str, Any]) -> None:
    display = question_display("q1", Question("asker", "Who?", schema), 0.0)
    encoded = json.dumps(asdict(display), ensure_ascii=False)
    assert len(encoded) < 100_000
    assert "\u202e" not in encoded
    encoded.encode()
    assert bool(display.problem) == (len(schema.get("properties") or ()) > 30)


PIXEL = "iVBORw0KGgo="


def test_images_are_shown_or_the_question_can_only_be_declined() -> None:
    image = ImagePart(PIXEL, "image/png")
    shown = question_display("q1", Question("asker", "How?", images=(image, image)), 0.0)
    assert (shown.images, shown.problem) == ((f"data:image/png;base64,{PIXEL}",) * 2, "")
    for hidden in (ImagePart(PIXEL, "image/tiff"), ImagePart("A" * 8_000_000, "image/png")):
        display = question_display("q1", Question("asker", "How?", images=(image, hidden)), 0.0)
        assert (display.images, display.problem) == (
            (),
            "It has images which cannot be shown here, so it can only be declined.",
        )

"""Arguments that a model wrapped once more than the schema says."""

from __future__ import annotations

from typing import Any

import pytest

from planck_nb.agent.calling.json_schema import unwrapped

IDS = {"type": "array", "items": {"type": "string"}}
PAIR = {"type": "object", "properties": {"a": {"type": "integer"}}}
CASES: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "a list": (IDS, '["k1"]', ["k1"]),
    "an object": (PAIR, '{"a": 1}', {"a": 1}),
    "an object within": (PAIR, '{"a": "1"}', {"a": 1}),
    "a number": ({"type": "number"}, "3", 3),
    "a truth value": ({"type": "boolean"}, "true", True),
    "a reference": ({"$ref": "#/$defs/Ids"}, '["k1"]', ["k1"]),
    "a list or null": ({"anyOf": [IDS, {"type": "null"}]}, '["k1"]', ["k1"]),
    "items": ({"type": "array", "items": PAIR}, ['{"a": 1}'], [{"a": 1}]),
    "a text": ({"type": "string"}, '["k1"]', '["k1"]'),
    "a list or a text": ({"anyOf": [IDS, {"type": "string"}]}, '["k1"]', '["k1"]'),
    "another type": (IDS, '{"a": 1}', '{"a": 1}'),
    "no JSON": (IDS, "k1", "k1"),
    "no type": ({}, '["k1"]', '["k1"]'),
}


@pytest.mark.parametrize("name", CASES)
def test_a_value(name: str) -> None:
    schema, value, expected = CASES[name]
    root = {"type": "object", "properties": {"x": schema}, "$defs": {"Ids": IDS}}
    assert unwrapped({"x": value}, root) == {"x": expected}


def test_a_null_is_left_out_where_it_is_optional_and_not_allowed() -> None:
    root = {
        "type": "object",
        "properties": {"needed": {"type": "string"}, "free": {"type": "string"}, "empty": {"type": ["string", "null"]}},
        "required": ["needed"],
    }
    args = {"needed": None, "free": None, "empty": None}
    assert unwrapped(args, root) == {"needed": None, "empty": None}


def test_arguments_that_are_right_stay_the_same_object() -> None:
    args = {"x": ["k1"]}
    assert unwrapped(args, {"type": "object", "properties": {"x": IDS}}) is args

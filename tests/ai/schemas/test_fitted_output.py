"""Structured answers whose schema strict servers do not accept, and what the agent gets back."""

from __future__ import annotations

import json
from typing import Any, Literal

import jsonschema
import pytest
from pydantic import BaseModel, ConfigDict, TypeAdapter
from support.wire import client, replying, sse

from planck_nb import Agent, ai
from planck_nb.agent.output import output_spec
from planck_nb.ai.dialects.anthropic_options import OUTPUT_SCHEMAS as ANTHROPIC
from planck_nb.ai.dialects.google_common import OUTPUT_SCHEMAS as GOOGLE
from planck_nb.ai.schemas.fitted_output import fit_output
from planck_nb.base.json_types import JsonObject


class Hours(BaseModel):
    hours: dict[str, float]


class Node(BaseModel):
    name: str
    children: list[Node] = []


class Pair(BaseModel):
    left: Other | None = None


class Other(BaseModel):
    right: Pair | None = None


class Extra(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class Mixed(BaseModel):
    rows: list[dict[str, Any]]
    maybe: dict[str, list[int]] | None = None
    either: str | dict[str, bool]
    point: tuple[int, str]
    kind: Literal["a", 1]
    deep: dict[str, dict[str, Node]]
    any: Any


OPEN: JsonObject = {"type": "object", "properties": {"facts": {"type": "object"}}, "required": ["facts"]}
PATTERNS: JsonObject = {"type": "object", "patternProperties": {"^x-": {"type": "integer"}}}

CASES: list[tuple[Any, Any, str]] = [
    (Hours, {"hours": {"Ada": 3.5, "Bo": 1.0}}, "https://github.com/ag2ai/ag2/issues/2348"),
    (dict[str, float], {"Ada": 3.5}, "https://github.com/googleapis/js-genai/issues/708"),
    (
        Node,
        {"name": "a", "children": [{"name": "b", "children": [{"name": "c", "children": []}]}]},
        "https://github.com/pydantic/pydantic-ai/issues/4117",
    ),
    (Pair, {"left": {"right": {"left": None}}}, "https://github.com/vercel/ai/issues/19488"),
    (Extra, {"a": 1, "b": [2], "c": "d"}, "https://github.com/BerriAI/litellm/pull/35811"),
    (OPEN, {"facts": {"a": 1, "b": {"c": None}}}, "https://github.com/ax-llm/ax/issues/458"),
    (PATTERNS, {"x-a": 1}, "https://github.com/google/adk-java/pull/1476"),
    (
        Mixed,
        {
            "rows": [{"a": [1, {"b": "c"}]}, {}],
            "maybe": {"p": [1, 2]},
            "either": {"yes": True},
            "point": [1, "x"],
            "kind": 1,
            "deep": {"k": {"n": {"name": "a", "children": []}}},
            "any": [1, "2"],
        },
        "https://github.com/juspay/neurolink/pull/1691",
    ),
]
IDS = [getattr(kind, "__name__", f"schema {at}") for at, (kind, *_) in enumerate(CASES)]


def written(schema: JsonObject, value: Any, root: JsonObject) -> Any:  # noqa: PLR0911 - one for each form
    """What a strict server writes of a value: closed objects, pairs and JSON text where the schema has them."""
    if "$ref" in schema:
        return written(root["$defs"][schema["$ref"].rpartition("/")[2]], value, root)
    for branch in schema.get("anyOf", ()):
        attempt = written(branch, value, root)
        if jsonschema.Draft202012Validator({**branch, "$defs": root.get("$defs", {})}).is_valid(attempt):
            return attempt
    kinds = schema.get("type")
    if kinds == "array" and isinstance(value, dict):
        item = schema["items"]["properties"]["value"]
        return [{"key": key, "value": written(item, inner, root)} for key, inner in value.items()]
    if kinds == "array" and isinstance(value, list):
        return [written(schema["items"], inner, root) for inner in value]
    if kinds == "string" and "JSON text" in schema.get("description", ""):
        return json.dumps(value)
    if kinds == "object" and isinstance(value, dict):
        known = schema.get("properties", {})
        others = {key: inner for key, inner in value.items() if key not in known}
        found = {key: written(known[key], inner, root) for key, inner in value.items() if key in known}
        if "additional_properties" in known:
            return {**found, "additional_properties": written(known["additional_properties"], others, root)}
        free = schema.get("additionalProperties", False)
        kept = {key: written(free, inner, root) if isinstance(free, dict) else inner for key, inner in others.items()}
        return {**found, **(kept if free is not False else {})}
    return value


def refused_by_anthropic(schema: JsonObject, root: JsonObject, path: tuple[str, ...] = ()) -> str:
    """The refusals of Anthropic's structured outputs."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name in path:
            return f"Circular reference detected in schema definitions: {name}"
        return refused_by_anthropic(root["$defs"][name], root, (*path, name))
    if not {"type", "anyOf", "enum", "const"} & schema.keys():
        return "Schema must have a 'type'"
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        return "For 'object' type, 'additionalProperties' must be explicitly set to false"
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    inner += [schema["items"]] if "items" in schema else []
    return next(filter(None, (refused_by_anthropic(each, root, path) for each in inner)), "")


def schema_of(kind: Any) -> JsonObject:
    return output_spec(kind).schema


@pytest.mark.parametrize(("kind", "value", "source"), CASES, ids=IDS)
def test_nothing_is_lost_on_a_strict_server(kind: Any, value: Any, source: str) -> None:
    spec = output_spec(kind)
    fitted = fit_output(spec.schema, ANTHROPIC)
    assert refused_by_anthropic(fitted.schema, fitted.schema) == ""
    whole = {"answer": value} if spec.wrapped else value
    text = json.dumps(written(fitted.schema, whole, fitted.schema))
    assert fitted.read is not None
    assert json.loads(fitted.read(text)) == whole
    assert fitted.read(text[:-2]) == text[:-2]  # cut off


@pytest.mark.parametrize(("kind", "value", "source"), CASES, ids=IDS)
def test_nothing_is_lost_at_google(kind: Any, value: Any, source: str) -> None:
    spec = output_spec(kind)
    fitted = fit_output(spec.schema, GOOGLE)
    whole = {"answer": value} if spec.wrapped else value
    text = json.dumps(written(fitted.schema, whole, fitted.schema))
    assert json.loads(fitted.read(text) if fitted.read else text) == whole


def test_an_answer_that_is_written_as_asked_is_read_too() -> None:
    fitted = fit_output(schema_of(Hours), ANTHROPIC)
    assert fitted.read is not None
    assert fitted.read('{"hours": {"Ada": 3.5}}') == '{"hours":{"Ada":3.5}}'


def test_a_schema_that_is_strict_already_is_not_read() -> None:
    class Plain(BaseModel):
        a: int
        b: list[str]

    fitted = fit_output(TypeAdapter(Plain).json_schema(), ANTHROPIC)
    assert fitted.read is None
    assert fitted.schema["additionalProperties"] is False


def claude(text: str) -> list[bytes]:
    return sse(
        {"type": "message_start", "message": {"usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text[at : at + 9]}}
            for at in range(0, len(text), 9)
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    )


async def test_an_agent_gets_the_type_that_it_asked_for() -> None:
    http = client(replying(claude('{"hours": [{"key": "Ada", "value": 3.5}, {"key": "Bo", "value": 1}]}')))
    model = ai.get_model("anthropic", "claude-sonnet-4-6", api_key="k")
    async with Agent(model=model, client=http) as agent:
        result = await agent.prompt("Who worked?", output=Hours)
    assert result.output == Hours(hours={"Ada": 3.5, "Bo": 1.0})
    assert json.loads(result.text) == {"hours": {"Ada": 3.5, "Bo": 1.0}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"hours": [', {"hours": {}}),
        ('{"hours": [{"key": "Ad', {"hours": {}}),
        ('{"hours": [{"key": "Ada", "value": 3.5}, {"key": "B', {"hours": {"Ada": 3.5}}),
        ('{"hours": {"Ada": 3.5, "B', {"hours": {"Ada": 3.5}}),
    ],
)
def test_an_answer_that_is_being_written_has_objects(text: str, value: object) -> None:
    assert output_spec(Hours).read_partial(text) == value

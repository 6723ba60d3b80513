"""Schemas that servers have refused, and what is sent instead. A case is a line of `CASES`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import jsonschema
import pytest

from planck_nb import ai
from planck_nb.ai.dialects.anthropic_options import TOOL_SCHEMAS as ANTHROPIC
from planck_nb.ai.dialects.google_common import TOOL_SCHEMAS as GOOGLE
from planck_nb.ai.dialects.openai_common import SCHEMAS as OPENAI
from planck_nb.ai.providers import dialect
from planck_nb.ai.schemas.fitted_tools import fit_tools
from planck_nb.ai.schemas.schema_rules import NARROW, OF_GRAMMARS, SchemaRules
from planck_nb.base.json_types import JsonObject

TEXT = {"type": "string"}


def takes(**properties: Any) -> JsonObject:
    return {"type": "object", "properties": properties}


@dataclass(frozen=True)
class Case:
    """A schema, arguments that fit it, and the public report of a server that refused it."""

    schema: JsonObject
    args: JsonObject
    source: str
    wire: JsonObject = field(default_factory=dict)
    """The arguments as a model writes them for the schema that is sent to OpenAI and Anthropic, if they differ."""


CASES = {
    "no properties": Case({"type": "object"}, {}, "https://github.com/janhq/jan/issues/7017"),
    "no properties, from Go": Case(
        {"type": "object", "properties": None, "required": None},
        {},
        "https://github.com/xpzouying/xiaohongshu-mcp/issues/677",
    ),
    "no type": Case(
        {"properties": {"q": TEXT}}, {"q": "a"}, "https://github.com/spring-projects/spring-ai/issues/4776"
    ),
    "nothing": Case({}, {}, "https://github.com/smartsheet-platform/smar-mcp/issues/79"),
    "no items": Case(
        takes(tags={"type": "array", "description": "Replacement tags (max 50)"}),
        {"tags": ["a", 1]},
        "https://github.com/NousResearch/hermes-agent/pull/25846",
    ),
    "no items in a branch": Case(
        takes(ids={"anyOf": [{"type": "array"}, {"type": "null"}]}),
        {"ids": ["k1"]},
        "https://github.com/NousResearch/hermes-agent/pull/24208",
    ),
    "no items in a list of types": Case(
        takes(trajectoryIds={"type": ["array", "null"]}),
        {"trajectoryIds": ["x"]},
        "https://github.com/ruvnet/ruflo/issues/1294",
    ),
    "a choice of required names": Case(
        {
            **takes(version=TEXT, from_version=TEXT),
            "anyOf": [{"required": ["version"]}, {"required": ["from_version"]}],
        },
        {"version": "1"},
        "https://github.com/marianfoo/mcp-sap-docs/pull/51",
    ),
    "exactly one of three": Case(
        {
            **takes(yaml=TEXT, files={"type": "array", "items": TEXT}, dir=TEXT),
            "oneOf": [{"required": ["yaml"]}, {"required": ["files"]}, {"required": ["dir"]}],
        },
        {"files": ["a.yaml"]},
        "https://github.com/mobile-next/mobile-mcp/issues/344",
    ),
    "a union at the top": Case(
        {
            "oneOf": [
                {**takes(id=TEXT, full_path=TEXT), "required": ["id"]},
                {**takes(id=TEXT, full_path=TEXT), "required": ["full_path"]},
            ]
        },
        {"full_path": "a/b"},
        "https://github.com/zereight/gitlab-mcp/pull/551",
    ),
    "a union of definitions": Case(
        {
            "anyOf": [{"$ref": "#/$defs/Close"}, {"$ref": "#/$defs/Edit"}],
            "$defs": {
                "Close": {**takes(action={"const": "close"}, reason=TEXT), "required": ["action", "reason"]},
                "Edit": {**takes(action={"const": "edit"}, text=TEXT), "required": ["action"]},
            },
        },
        {"action": "close", "reason": "done"},
        "https://github.com/kenn-io/kata/pull/365",
    ),
    "parts that all hold": Case(
        {"allOf": [{**takes(a=TEXT), "required": ["a"]}, takes(b={"type": "integer"})], "type": "object"},
        {"a": "x", "b": 1},
        "https://github.com/anthropics/claude-code/issues/5319",
    ),
    "a condition at the top": Case(
        {**takes(a=TEXT, b=TEXT), "not": {"required": ["a", "b"]}},
        {"a": "x"},
        "https://github.com/kenn-io/kata/pull/365",
    ),
    "brackets in a name": Case(
        {**takes(**{"filter[bundleId]": TEXT, "limit": {"type": "integer"}}), "required": ["filter[bundleId]"]},
        {"filter[bundleId]": "org.x", "limit": 3},
        "https://github.com/beautyfree/appstore-connect-mcp/issues/2",
        {"filter_bundleId": "org.x", "limit": 3},
    ),
    "brackets at the end": Case(
        takes(**{"accounts[]": {"type": "array", "items": TEXT}}),
        {"accounts[]": ["1"]},
        "https://github.com/etnperlong/firefly-iii-mcp/issues/6",
        {"accounts": ["1"]},
    ),
    "dollars and at signs": Case(
        takes(**{"$top": {"type": "integer"}, "@microsoft.graph.conflictBehavior": TEXT, "top": TEXT}),
        {"$top": 5, "@microsoft.graph.conflictBehavior": "rename", "top": "x"},
        "https://github.com/ComposioHQ/composio/issues/3500",
        {"top_2": 5, "microsoft.graph.conflictBehavior": "rename", "top": "x"},
    ),
    "spaces": Case(
        takes(**{"Account Number": TEXT, "Purchase Date and Time": TEXT}),
        {"Account Number": "7"},
        "https://github.com/aws-solutions-library-samples/accelerated-intelligent-document-processing-on-aws/issues/709",
        {"Account_Number": "7"},
    ),
    "long names": Case(
        takes(**{"a" * 65: TEXT, "a" * 66: TEXT}),
        {"a" * 65: "x", "a" * 66: "y"},
        "https://github.com/anthropics/claude-code/issues/79418",
        {"a" * 64: "x", "a" * 60 + "_2": "y"},
    ),
    "letters of other alphabets": Case(
        takes(höhe={"type": "number"}, 名前=TEXT),
        {"höhe": 1.5, "名前": "x"},
        "https://github.com/twilio-labs/mcp/issues/58",
    ),
    "a definition in itself": Case(
        {
            "type": "object",
            "properties": {"group": {"$ref": "#/$defs/Group"}},
            "$defs": {"Group": takes(tags={"type": "array", "items": TEXT}, either={"$ref": "#/$defs/Group"})},
        },
        {"group": {"tags": ["a"], "either": {"tags": ["b"]}}},
        "https://github.com/luxus/pi-hindsight/issues/365",
    ),
    "a tree": Case(
        {
            "$ref": "#/$defs/Node",
            "$defs": {"Node": takes(value=TEXT, children={"type": "array", "items": {"$ref": "#/$defs/Node"}})},
        },
        {"value": "a", "children": [{"value": "b"}]},
        "https://github.com/OpenHands/software-agent-sdk/issues/1955",
    ),
    "a reference by id": Case(
        takes(tags={"$id": "TagGroup", **takes(inner={"$ref": "TagGroup"})}),
        {"tags": {"inner": {}}},
        "https://github.com/luxus/pi-hindsight/issues/365",
    ),
    "a reference to nowhere": Case(
        takes(x={"$ref": "https://example.com/schema.json"}), {"x": 1}, "https://github.com/vercel/ai/issues/19488"
    ),
    "values without a type": Case(
        takes(env={"type": "object", "additionalProperties": {}}, any={"anyOf": [{"not": {}}, TEXT]}),
        {"env": {"A": 1}, "any": "x"},
        "https://github.com/TencentCloudBase/CloudBase-AI-Toolkit/pull/626",
    ),
    "schemas that are no schemas": Case(
        {"type": "object", "properties": {"a": True, "type": "object"}},
        {"a": 1},
        "https://github.com/smallmain/vscode-unify-chat-provider/issues/162",
    ),
    "required without a property": Case(
        takes(items={"type": "array", "items": {"type": "object", "required": ["id"]}}),
        {"items": [{"id": 1}]},
        "https://github.com/Kilo-Org/kilocode/pull/11955",
    ),
    "an object without properties in a list": Case(
        takes(levels={"type": "array", "items": {"type": "object", "title": "Level"}}),
        {"levels": [{"points": 3}]},
        "https://github.com/tanaikech/ToolsForMCPServer/issues/13",
    ),
    "a list of types": Case(
        takes(since={"type": ["string", "null"], "format": "uri"}, n={"type": ["integer", "string"]}),
        {"since": "http://x", "n": 3},
        "https://github.com/zed-industries/zed/issues/44875",
    ),
    "an object that is any": Case(
        takes(query={"type": "object"}),
        {"query": {"a": 1}},
        "https://github.com/MarkusPfundstein/mcp-obsidian/issues/21",
    ),
    "limits of draft 4": Case(
        takes(n={"type": "number", "minimum": 0, "exclusiveMinimum": True}, choice={"enum": []}),
        {"n": 1},
        "https://github.com/anthropics/claude-code/issues/5878",
    ),
}

KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


def nodes(schema: Any) -> Iterator[JsonObject]:
    """All schemas in a schema."""
    if not isinstance(schema, dict):
        return
    yield schema
    for name in ("properties", "$defs"):
        for inner in (schema.get(name) or {}).values():
            yield from nodes(inner)
    for name in ("anyOf", "oneOf", "allOf"):
        for inner in schema.get(name) or ():
            yield from nodes(inner)
    for name in ("items", "additionalProperties"):
        yield from nodes(schema.get(name))


def refused_by_openai(schema: JsonObject) -> str:
    if schema.get("type") != "object" or {"anyOf", "oneOf", "allOf", "enum", "not"} & schema.keys():
        return "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"
    if "properties" not in schema:
        return "In context=(), object schema missing properties"
    return "array schema missing items" if any(_is_list(node) and "items" not in node for node in nodes(schema)) else ""


def refused_by_anthropic(schema: JsonObject) -> str:
    if schema.get("type") != "object":
        return "input_schema.type: Input should be 'object'"
    if {"anyOf", "oneOf", "allOf"} & schema.keys():
        return "input_schema does not support oneOf, allOf, or anyOf at the top level"
    if not all(map(KEY.fullmatch, schema.get("properties") or {})):
        return "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"
    return ""


def refused_by_google(schema: JsonObject) -> str:
    for node in nodes(schema):
        if "$ref" in node and len(node) > 1:
            return "if $ref is set, no other properties may be set"
    return refused_by_openai(schema)


def refused_by_narrow(schema: JsonObject) -> str:
    """What Gemini's OpenAPI subset refuses; a proxy in front of it, too."""
    refusals = (words for node in nodes(schema) for words in _refusals(node, is_top=node is schema))
    return next(refusals, "") or refused_by_openai(schema)


def _refusals(node: JsonObject, *, is_top: bool) -> Iterator[str]:
    if node.keys() - (NARROW.keywords or set()):
        yield "Unknown name: Cannot find field"
    if not isinstance(node.get("type", ""), str):
        yield "Proto field is not repeating, cannot start list"
    if node.get("type") == "array" and "items" not in node:
        yield "items: missing field"
    if not is_top and node.get("type") == "object" and not node.get("properties"):
        yield "should be non-empty for OBJECT type"
    if not all(isinstance(value, str) and value for value in node.get("enum", ())):
        yield "enum: only allowed for STRING type"
    if not {"type", "anyOf"} & node.keys():
        yield "Invalid value at type"
    if set(node.get("required", ())) - set(node.get("properties", {})):
        yield "required[0]: property is not defined"


def _is_list(node: JsonObject) -> bool:
    kinds = node.get("type", ())
    return "array" in ((kinds,) if isinstance(kinds, str) else kinds)


SERVERS = {
    "openai": (OPENAI, refused_by_openai),
    "anthropic": (ANTHROPIC, refused_by_anthropic),
    "google": (GOOGLE, refused_by_google),
    "narrow": (NARROW, refused_by_narrow),
}


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("name", CASES)
def test_a_server_accepts_the_schema_that_is_sent(name: str, server: str) -> None:
    rules, refused_by = SERVERS[server]
    case = CASES[name]
    given = json.dumps(case.schema)
    schema = fit_tools([ai.ToolSpec("tool", "A tool.", case.schema)], rules).specs[0].parameters
    assert refused_by(schema) == ""
    jsonschema.Draft202012Validator.check_schema(schema)
    assert json.dumps(case.schema) == given  # the tool itself keeps its schema


@pytest.mark.parametrize("server", ["openai", "anthropic", "google"])
@pytest.mark.parametrize("name", CASES)
def test_what_fits_the_schema_of_the_tool_fits_the_one_that_is_sent(name: str, server: str) -> None:
    case = CASES[name]
    tool = ai.ToolSpec("tool", "A tool.", case.schema)
    fitted = fit_tools([tool], SERVERS[server][0])
    sent = fitted.renamed_tools["tool"].sent(case.args) if "tool" in fitted.renamed_tools else case.args
    as_text = {key: value for key, value in sent.items() if _has_text(fitted.specs[0].parameters, key)}
    assert not as_text or server == "google"
    validator = jsonschema.Draft202012Validator(fitted.specs[0].parameters)
    if not as_text:
        assert [error.message for error in validator.iter_errors(sent)] == []
    if case.wire and server == "anthropic":
        assert sent == case.wire
        assert fitted.renamed_tools["tool"].original(case.wire) == case.args


def _has_text(schema: JsonObject, key: str) -> bool:
    return "JSON text" in json.dumps(schema.get("properties", {}).get(key, {})) or "JSON text" in json.dumps(
        schema.get("$defs", {})
    )


def test_the_rule_of_a_union_is_in_the_description() -> None:
    descriptions = [
        fit_tools([ai.ToolSpec("tool", "A tool.", CASES[name].schema)], ANTHROPIC).specs[0].description
        for name in ("exactly one of three", "a choice of required names", "a union of definitions")
    ]
    assert descriptions == [
        "A tool. Give exactly one of these: yaml; files; dir.",
        "A tool. Give at least one of these: version; from_version.",
        'A tool. Give at least one of these: action = "close" and reason; action = "edit".',
    ]


def test_a_name_in_other_letters_is_told() -> None:
    schema = fit_tools([ai.ToolSpec("t", "", takes(höhe={"type": "number", "description": "In m."}))], ANTHROPIC)
    assert schema.specs[0].parameters["properties"] == {
        "hohe": {"type": "number", "description": "In m. (named 'höhe')"}
    }


def test_values_that_are_written_as_text_are_read() -> None:
    schema = takes(deep=takes(tree=takes(any={"type": "object"})), any={}, n={"type": "integer"})
    fitted = fit_tools([ai.ToolSpec("t", "", schema)], NARROW)
    written = {"deep": {"tree": {"any": '{"a": [1]}'}}, "any": '"x"', "n": 3}
    assert fitted.renamed_tools["t"].original(written) == {"deep": {"tree": {"any": {"a": [1]}}}, "any": "x", "n": 3}
    assert fitted.renamed_tools["t"].original({"any": "no JSON"}) == {"any": "no JSON"}


def test_a_server_with_grammars_gets_the_schema_as_it_is() -> None:
    tools = [ai.ToolSpec(name, "", CASES[name].schema) for name in ("no properties", "exactly one of three")]
    assert list(fit_tools(tools, OF_GRAMMARS).specs) == tools
    model = ai.get_model("llama_cpp", "m")
    body = dialect(model).request(model, ai.Context(tools=tools), ai.Options(), None).body
    assert [tool["function"]["parameters"] for tool in body["tools"]] == [tool.parameters for tool in tools]


def test_refused_keywords_become_words() -> None:
    schema = takes(ids={"type": "array", "items": TEXT, "minItems": 2})
    model = ai.get_model("cerebras:m", api_key="k")
    context = ai.Context(tools=[ai.ToolSpec("t", "", schema)])
    sent = dialect(model).request(model, context, ai.Options(), None).body["tools"][0]["function"]["parameters"]
    assert sent["properties"]["ids"] == {"type": "array", "items": TEXT, "description": "(minItems: 2)"}


def test_a_schema_is_written_once() -> None:
    tool = ai.ToolSpec("t", "", {"type": "object"})
    first, second = (fit_tools([tool], OPENAI).specs[0] for _ in range(2))
    assert first is second
    whole = ai.ToolSpec("t", "", takes(a=TEXT))
    assert fit_tools([whole], OPENAI).specs[0] is whole


def test_what_is_repeated_without_end_ends() -> None:
    deep: JsonObject = TEXT
    for _ in range(60):
        deep = {"type": "array", "items": deep}
    wide = {f"D{n}": takes(**{f"p{m}": {"$ref": f"#/$defs/D{n + 1}"} for m in range(8)}) for n in range(12)}
    wide["D12"] = TEXT
    for schema in (takes(a=deep), {**takes(a={"$ref": "#/$defs/D0"}), "$defs": wide}, {"$ref": "#"}):
        for rules in (NARROW, OPENAI, SchemaRules(references=False, recursion=False)):
            fit_tools([ai.ToolSpec("t", "", schema)], rules)

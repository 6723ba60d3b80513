"""Tools in a request, as a server accepts them."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from planck_nb.ai.request import ToolSpec
from planck_nb.ai.schemas.schema_rules import SchemaRules
from planck_nb.ai.schemas.schema_writer import UNIONS, Reader, SchemaWriter, merged, plain_schema
from planck_nb.base.json_types import JsonObject

_CONDITIONS = ("not", "enum", "const", "if", "then", "else", "dependentSchemas", "dependentRequired")
"""Keywords OpenAI refuses at the top, as it does unions."""

_NOT_IN_A_KEY = re.compile(r"[^a-zA-Z0-9_.-]+")
_MAX_KEY = 64

_MAX_RULE = 600
"""Characters for a rule in a description."""

_CHOICES = {"anyOf": "at least one", "oneOf": "exactly one", "allOf": "all"}


@dataclass(frozen=True, slots=True)
class FittedTool:
    """A tool in the form for a request.

    Args:
        spec: The description, with rules missing from the schema, and the schema.
        keys: Names of arguments in requests, by their own names, where they differ.
        read: Converts argument values, under their own names; None if they have the same form.
    """

    spec: ToolSpec
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    read: Reader | None = None

    def original(self, args: JsonObject) -> JsonObject:
        """Convert arguments from a model to the tool's own.

        Args:
            args: The arguments under their sent names. Own names are understood, too.

        Returns:
            The arguments under their own names.
        """
        if self.keys:
            names = {key: name for name, key in self.keys.items()}
            args = {names.get(name, name): value for name, value in args.items()}
        read: Any = args if self.read is None else self.read(args)
        return read if isinstance(read, dict) else args

    def sent(self, args: JsonObject) -> JsonObject:
        """Convert an earlier call's arguments to sent names.

        Args:
            args: The arguments under their own names.

        Returns:
            The arguments under their sent names.
        """
        return {self.keys.get(name, name): value for name, value in args.items()}


@dataclass(frozen=True, slots=True)
class FittedTools:
    """Tools in a request, with those whose arguments differ there.

    Args:
        specs: The tools for the model, in their order.
        renamed_tools: Those whose arguments are named or written differently, by name.
    """

    specs: tuple[ToolSpec, ...] = ()
    renamed_tools: Mapping[str, FittedTool] = field(default_factory=dict[str, FittedTool])


def fit_tools(tools: Sequence[ToolSpec], rules: SchemaRules) -> FittedTools:
    """Write tool schemas in a server's part of JSON Schema.

    Args:
        tools: The tools. Their schemas must not change later.
        rules: The server's rules.

    Returns:
        The tools as they are sent.

    Example:
        >>> tool = ToolSpec("find", "Find items.", {"type": "object", "properties": {"$filter": {"type": "string"}}})
        >>> fitted = fit_tools([tool], SchemaRules(keys="[a-z]+"))
        >>> list(fitted.specs[0].parameters["properties"]), fitted.renamed_tools["find"].original({"filter": "x"})
        (['filter'], {'$filter': 'x'})
    """
    digest = hash(rules)  # takes longer than everything else for a known tool
    wire_tools = tuple([_fitted(tool, rules, digest) for tool in tools])
    renamed_tools = {tool.spec.name: tool for tool in wire_tools if tool.keys or tool.read}
    return FittedTools(tuple([tool.spec for tool in wire_tools]), renamed_tools)


def tool_key(tool: ToolSpec) -> str:
    """Identify a tool and its schema.

    Args:
        tool: A tool.

    Returns:
        A text, equal for equal name and schema.
    """
    text = json.dumps(tool.parameters, sort_keys=True, default=str)
    return f"{tool.name} {blake2b(text.encode('utf-8', 'backslashreplace'), digest_size=8).hexdigest()}"


_cache: OrderedDict[tuple[int, int], tuple[ToolSpec, SchemaRules, FittedTool]] = OrderedDict()
"""Results by tool id and rules; the tool keeps its id."""

_MAX_CACHED = 2_000


def _fitted(tool: ToolSpec, rules: SchemaRules, digest: int) -> FittedTool:
    place = (id(tool), digest)
    entry = _cache.get(place)
    if entry is not None and entry[0] is tool and entry[1] == rules:
        return entry[2]
    wire_tool = fit_tool(tool, rules)
    _cache[place] = (tool, rules, wire_tool)
    while len(_cache) > _MAX_CACHED:
        _cache.pop(next(iter(_cache)), None)  # another thread may be removing it
    return wire_tool


def fit_tool(tool: ToolSpec, rules: SchemaRules) -> FittedTool:
    """Write one tool as a server accepts it; see `fit_tools`."""
    writer = SchemaWriter(tool.parameters, rules)
    words: list[str] = []
    top = _object_at_top(writer.opened(tool.parameters), writer, rules, words)
    wire = writer.write(top)
    schema = wire.schema
    keys = _new_keys(schema.get("properties") or {}, rules.keys) if rules.keys else {}
    if keys:
        schema = _with_keys(schema, keys)
    if rules.properties:
        schema.setdefault("properties", {})
    description = " ".join(filter(None, (tool.description, *words)))
    is_equal = description == tool.description and schema == tool.parameters
    return FittedTool(tool if is_equal else ToolSpec(tool.name, description, schema), keys, wire.read)


def _object_at_top(schema: JsonObject, writer: SchemaWriter, rules: SchemaRules, words: list[str]) -> JsonObject:
    """Write an object for the top, and add rules to `words`."""
    top = {**plain_schema(schema), "type": "object"}
    if not rules.top_unions:
        top = _flattened(top, writer, words, set())
    if not rules.top_conditions:
        conditions = {name: top.pop(name) for name in _CONDITIONS if name in top}
        if conditions:
            words.append(_rule("The arguments must also fit", [_json(conditions)]))
    return top


def _flattened(schema: JsonObject, writer: SchemaWriter, words: list[str], references: set[str]) -> JsonObject:
    """Merge all branches of an object's unions into one object."""
    flat = {name: value for name, value in schema.items() if name not in UNIONS}
    for union in UNIONS:
        branches = [_opened(branch, writer, words, references) for branch in schema.get(union) or ()]
        if not branches:
            continue
        if union == "allOf":
            for branch in branches:
                flat = merged(flat, branch, "allOf")
            continue
        if rule := _choice(union, branches, flat):
            words.append(rule)
        joint = branches[0]
        for branch in branches[1:]:
            names = [name for name in joint.get("required") or () if name in (branch.get("required") or ())]
            joint = {**merged(joint, branch, "anyOf"), "required": names}
        flat = merged(flat, joint, "allOf")
    return {**plain_schema(flat), "type": "object"}


def _opened(branch: Any, writer: SchemaWriter, words: list[str], references: set[str]) -> JsonObject:  # noqa: ANN401
    """A branch without its own `$ref` or union."""
    schema = dict(branch) if isinstance(branch, Mapping) else {}
    if isinstance(reference := schema.pop("$ref", None), str) and reference not in references:
        schema = {**(writer.resolve(reference) or {}), **schema}
        references = {*references, reference}
    return _flattened(_typed(schema), writer, words, references)


def _typed(branch: JsonObject) -> JsonObject:
    """Type a branch; required names may be its neighbours' properties."""
    plain = plain_schema({name: value for name, value in branch.items() if name != "required"})
    return {**plain, "required": branch["required"]} if isinstance(branch.get("required"), list) else plain


def _choice(union: str, branches: Sequence[JsonObject], base: JsonObject) -> str:
    """Write a union's rule in words: each branch's requirements."""
    needed_names = base.get("required") or ()
    texts: list[str] = []
    for branch in branches:
        constants = {
            name: inner["const"]
            for name, inner in (branch.get("properties") or {}).items()
            if isinstance(inner, Mapping) and "const" in inner
        }
        names = [name for name in branch.get("required") or () if name not in needed_names and name not in constants]
        parts = [*(f"{name} = {_json(value)}" for name, value in constants.items()), *names]
        texts.append(" and ".join(parts))
    if len(set(texts)) < len(branches) or not all(texts):
        bare = [{name: value for name, value in branch.items() if name != "title"} for branch in branches]
        texts = [_json(branch) for branch in bare if branch.keys() - {"type"}]
    return _rule(f"Give {_CHOICES[union]} of these:", texts) if texts else ""


def _rule(words: str, parts: Sequence[str]) -> str:
    text = f"{words} {'; '.join(parts)}"
    return f"{text[:_MAX_RULE]}…" if len(text) > _MAX_RULE else f"{text}."


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _new_keys(properties: Mapping[str, object], pattern: str) -> dict[str, str]:
    """Names for properties, where the server rejects their own."""
    rule = re.compile(pattern)
    used_names = {name for name in properties if rule.fullmatch(name)}
    keys: dict[str, str] = {}
    for name in properties:
        if name in used_names:
            continue
        stem = _stem(name)
        if not rule.fullmatch(stem):
            stem = _NOT_IN_A_KEY.sub("_", f"arg_{stem}".replace(".", "_").replace("-", "_"))[:_MAX_KEY]
        key, number = stem, 2
        while key in used_names:
            key, number = f"{stem[: _MAX_KEY - 4]}_{number}", number + 1
        used_names.add(key)
        keys[name] = key
    return keys


def _stem(name: str) -> str:
    """Write a name in ASCII letters: hohe for höhe, filter_app for filter[app]."""
    plain = "".join(char for char in unicodedata.normalize("NFKD", name) if not unicodedata.combining(char))
    return _NOT_IN_A_KEY.sub("_", plain).strip("_")[:_MAX_KEY] or "argument"


def _with_keys(schema: JsonObject, keys: Mapping[str, str]) -> JsonObject:
    """Rename properties in a schema, and tell their own names in descriptions."""
    properties = {
        keys.get(name, name): {**inner, "description": f"{inner.get('description', '')} (named {name!r})".strip()}
        if name in keys
        else inner
        for name, inner in schema["properties"].items()
    }
    result = {**schema, "properties": properties}
    if "required" in schema:
        result["required"] = [keys.get(name, name) for name in schema["required"]]
    return result

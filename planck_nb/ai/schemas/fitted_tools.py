"""A request's tools as a server accepts them."""

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
"""Keywords at the top, refused by OpenAI beside "object", like unions."""

_NOT_IN_A_KEY = re.compile(r"[^a-zA-Z0-9_.-]+")
_MAX_KEY = 64

_MAX_RULE = 600
"""Characters for a rule in a description."""

_CHOICES = {"anyOf": "at least one", "oneOf": "exactly one", "allOf": "all"}


@dataclass(frozen=True, slots=True)
class FittedTool:
    """A tool as it is sent.

    Args:
        spec: What the model sees: a description with the rules which the schema cannot say, and the schema.
        keys: The arguments' names as they are sent, by their own names; only those which differ.
        read: Converts arguments' values, under their own names; None if they have the same form.
    """

    spec: ToolSpec
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    read: Reader | None = None

    def original(self, args: JsonObject) -> JsonObject:
        """Convert a model's arguments to those of the tool itself.

        Args:
            args: The arguments under the names as sent. Own names are understood, too.

        Returns:
            The arguments under their own names.
        """
        if self.keys:
            own_names = {key: name for name, key in self.keys.items()}
            args = {own_names.get(name, name): value for name, value in args.items()}
        read: Any = args if self.read is None else self.read(args)
        return read if isinstance(read, dict) else args

    def sent(self, args: JsonObject) -> JsonObject:
        """Convert an earlier call's arguments to the names as sent.

        Args:
            args: The arguments under their own names.

        Returns:
            The arguments under the names as sent.
        """
        return {self.keys.get(name, name): value for name, value in args.items()}


@dataclass(frozen=True, slots=True)
class FittedTools:
    """A request's tools as they are sent.

    Args:
        specs: What the model sees, in the tools' order.
        changed: Those among the tools whose arguments are then named or written differently, by name.
    """

    specs: tuple[ToolSpec, ...] = ()
    changed: Mapping[str, FittedTool] = field(default_factory=dict[str, FittedTool])


def fit_tools(tools: Sequence[ToolSpec], rules: SchemaRules) -> FittedTools:
    """Write tools' schemas in the part of JSON Schema a server accepts.

    Args:
        tools: The tools. Their schemas must not be changed later.
        rules: What the server accepts.

    Returns:
        The tools as they are sent.

    Example:
        >>> tool = ToolSpec("find", "Find items.", {"type": "object", "properties": {"$filter": {"type": "string"}}})
        >>> fitted = fit_tools([tool], SchemaRules(keys="[a-z]+"))
        >>> list(fitted.specs[0].parameters["properties"]), fitted.changed["find"].original({"filter": "x"})
        (['filter'], {'$filter': 'x'})
    """
    fitted_tools = tuple([_fitted(tool, rules) for tool in tools])
    changed_tools = {tool.spec.name: tool for tool in fitted_tools if tool.keys or tool.read}
    return FittedTools(tuple([tool.spec for tool in fitted_tools]), changed_tools)


def tool_key(tool: ToolSpec) -> str:
    """Identify a tool and its schema.

    Args:
        tool: A tool.

    Returns:
        A text, the same for the same name and schema.
    """
    text = json.dumps(tool.parameters, sort_keys=True, default=str)
    return f"{tool.name} {blake2b(text.encode('utf-8', 'backslashreplace'), digest_size=8).hexdigest()}"


_known_tools: OrderedDict[tuple[int, SchemaRules], tuple[ToolSpec, FittedTool]] = OrderedDict()
"""Results for tools, as each tool is in many requests.

A tool is kept beside its result, so its id stays its own.
"""

_MAX_KNOWN = 2_000


def _fitted(tool: ToolSpec, rules: SchemaRules) -> FittedTool:
    place = (id(tool), rules)
    entry = _known_tools.get(place)
    if entry is not None and entry[0] is tool:
        return entry[1]
    fitted_tool = fit_tool(tool, rules)
    _known_tools[place] = (tool, fitted_tool)
    while len(_known_tools) > _MAX_KNOWN:
        _known_tools.pop(next(iter(_known_tools)), None)  # another thread may be removing it
    return fitted_tool


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
    is_same = description == tool.description and schema == tool.parameters
    return FittedTool(tool if is_same else ToolSpec(tool.name, description, schema), keys, wire.read)


def _object_at_top(schema: JsonObject, writer: SchemaWriter, rules: SchemaRules, words: list[str]) -> JsonObject:
    """Return an object's schema without what is refused at the top.

    Its rules are added to `words`.
    """
    top = {**plain_schema(schema), "type": "object"}
    if not rules.top_unions:
        top = _flattened(top, writer, words, set())
    if not rules.top_conditions:
        conditions = {name: top.pop(name) for name in _CONDITIONS if name in top}
        if conditions:
            words.append(_rule("The arguments must also fit", [_json(conditions)]))
    return top


def _flattened(schema: JsonObject, writer: SchemaWriter, words: list[str], seen_references: set[str]) -> JsonObject:
    """Return an object with the properties from all its unions' branches.

    It requires what all branches require.
    """
    flat = {name: value for name, value in schema.items() if name not in UNIONS}
    for union in UNIONS:
        branches = [_opened(branch, writer, words, seen_references) for branch in schema.get(union) or ()]
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
            shared_names = [name for name in joint.get("required") or () if name in (branch.get("required") or ())]
            joint = {**merged(joint, branch, "anyOf"), "required": shared_names}
        flat = merged(flat, joint, "allOf")
    return {**plain_schema(flat), "type": "object"}


def _opened(branch: Any, writer: SchemaWriter, words: list[str], seen_references: set[str]) -> JsonObject:  # noqa: ANN401
    """Return a union's branch, without its own `$ref` or unions."""
    inner = dict(branch) if isinstance(branch, Mapping) else {}
    if isinstance(reference := inner.pop("$ref", None), str) and reference not in seen_references:
        inner = {**(writer.resolve(reference) or {}), **inner}
        seen_references = {*seen_references, reference}
    return _flattened(_typed(inner), writer, words, seen_references)


def _typed(branch: JsonObject) -> JsonObject:
    """Return a branch without making its required names properties.

    Those are its neighbours' properties.
    """
    plain = plain_schema({name: value for name, value in branch.items() if name != "required"})
    return {**plain, "required": branch["required"]} if isinstance(branch.get("required"), list) else plain


def _choice(union: str, branches: Sequence[JsonObject], base: JsonObject) -> str:
    """Return a union's rule in words.

    It says what each branch requires beyond the others; empty if it says nothing.
    """
    required_names = base.get("required") or ()
    choices: list[str] = []
    for branch in branches:
        constants = {
            name: inner["const"]
            for name, inner in (branch.get("properties") or {}).items()
            if isinstance(inner, Mapping) and "const" in inner
        }
        names = [name for name in branch.get("required") or () if name not in required_names and name not in constants]
        parts = [*(f"{name} = {_json(value)}" for name, value in constants.items()), *names]
        choices.append(" and ".join(parts))
    if len(set(choices)) < len(branches) or not all(choices):
        bare = [{name: value for name, value in branch.items() if name != "title"} for branch in branches]
        choices = [_json(branch) for branch in bare if branch.keys() - {"type"}]
    return _rule(f"Give {_CHOICES[union]} of these:", choices) if choices else ""


def _rule(words: str, parts: Sequence[str]) -> str:
    text = f"{words} {'; '.join(parts)}"
    return f"{text[:_MAX_RULE]}…" if len(text) > _MAX_RULE else f"{text}."


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _new_keys(properties: Mapping[str, object], pattern: str) -> dict[str, str]:
    """Return names for the properties whose own ones the server refuses."""
    accepted_name = re.compile(pattern)
    taken_keys = {name for name in properties if accepted_name.fullmatch(name)}
    keys: dict[str, str] = {}
    for name in properties:
        if name in taken_keys:
            continue
        stem = _stem(name)
        if not accepted_name.fullmatch(stem):
            stem = _NOT_IN_A_KEY.sub("_", f"arg_{stem}".replace(".", "_").replace("-", "_"))[:_MAX_KEY]
        key, number = stem, 2
        while key in taken_keys:
            key, number = f"{stem[: _MAX_KEY - 4]}_{number}", number + 1
        taken_keys.add(key)
        keys[name] = key
    return keys


def _stem(name: str) -> str:
    """Return a name in letters which every server accepts.

    Examples are hohe for höhe and filter_app for filter[app].
    """
    plain = "".join(letter for letter in unicodedata.normalize("NFKD", name) if not unicodedata.combining(letter))
    return _NOT_IN_A_KEY.sub("_", plain).strip("_")[:_MAX_KEY] or "argument"


def _with_keys(schema: JsonObject, keys: Mapping[str, str]) -> JsonObject:
    """Return the schema with other names for some properties.

    The properties' descriptions say their own names.
    """
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

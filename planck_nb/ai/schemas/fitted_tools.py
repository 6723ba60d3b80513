"""The tools of a request as a server accepts them."""

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
"""Keywords at the top that OpenAI refuses beside "object", as it does unions."""

_NOT_IN_A_KEY = re.compile(r"[^a-zA-Z0-9_.-]+")
_MAX_KEY = 64

_MAX_RULE = 600
"""Characters of a rule in a description."""

_CHOICES = {"anyOf": "at least one", "oneOf": "exactly one", "allOf": "all"}


@dataclass(frozen=True, slots=True)
class FittedTool:
    """A tool as it is sent.

    Args:
        spec: What the model sees: a description with the rules that the schema cannot say, and the schema.
        keys: The names of arguments as they are sent, by their own names; only those that differ.
        read: Converts the values of arguments, under their own names; None if they have the same form.
    """

    spec: ToolSpec
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    read: Reader | None = None

    def original(self, args: JsonObject) -> JsonObject:
        """Convert arguments that a model wrote to those of the tool itself.

        Args:
            args: The arguments under the names that were sent. Own names are understood, too.

        Returns:
            The arguments under their own names.
        """
        if self.keys:
            own = {sent: name for name, sent in self.keys.items()}
            args = {own.get(name, name): value for name, value in args.items()}
        read: Any = args if self.read is None else self.read(args)
        return read if isinstance(read, dict) else args

    def sent(self, args: JsonObject) -> JsonObject:
        """Convert the arguments of an earlier call to the names that are sent.

        Args:
            args: The arguments under their own names.

        Returns:
            The arguments under the names that are sent.
        """
        return {self.keys.get(name, name): value for name, value in args.items()}


@dataclass(frozen=True, slots=True)
class FittedTools:
    """The tools of a request as they are sent, and those among them whose arguments have another form then.

    Args:
        specs: What the model sees of them, in their order.
        changed: Those whose arguments are named or written differently, by name.
    """

    specs: tuple[ToolSpec, ...] = ()
    changed: Mapping[str, FittedTool] = field(default_factory=dict[str, FittedTool])


def fit_tools(tools: Sequence[ToolSpec], rules: SchemaRules) -> FittedTools:
    """Write the schemas of tools in the part of JSON Schema that a server accepts.

    Args:
        tools: The tools. The schema of a tool must not be changed later.
        rules: What the server accepts.

    Returns:
        The tools as they are sent.

    Example:
        >>> tool = ToolSpec("find", "Find items.", {"type": "object", "properties": {"$filter": {"type": "string"}}})
        >>> fitted = fit_tools([tool], SchemaRules(keys="[a-z]+"))
        >>> list(fitted.specs[0].parameters["properties"]), fitted.changed["find"].original({"filter": "x"})
        (['filter'], {'$filter': 'x'})
    """
    fitted = tuple([_fitted(tool, rules) for tool in tools])
    changed = {tool.spec.name: tool for tool in fitted if tool.keys or tool.read}
    return FittedTools(tuple([tool.spec for tool in fitted]), changed)


def tool_key(tool: ToolSpec) -> str:
    """Identify a tool and its schema.

    Args:
        tool: A tool.

    Returns:
        A text that is the same for the same name and schema.
    """
    text = json.dumps(tool.parameters, sort_keys=True, default=str)
    return f"{tool.name} {blake2b(text.encode('utf-8', 'backslashreplace'), digest_size=8).hexdigest()}"


_known: OrderedDict[tuple[int, SchemaRules], tuple[ToolSpec, FittedTool]] = OrderedDict()
"""Each tool is in many requests. It is kept beside its result, so that its id stays its own."""

_MAX_KNOWN = 2_000


def _fitted(tool: ToolSpec, rules: SchemaRules) -> FittedTool:
    place = (id(tool), rules)
    known = _known.get(place)
    if known is not None and known[0] is tool:
        return known[1]
    fitted = fit_tool(tool, rules)
    _known[place] = (tool, fitted)
    while len(_known) > _MAX_KNOWN:
        _known.pop(next(iter(_known)), None)  # another thread may be removing it
    return fitted


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
    same = description == tool.description and schema == tool.parameters
    return FittedTool(tool if same else ToolSpec(tool.name, description, schema), keys, wire.read)


def _object_at_top(schema: JsonObject, writer: SchemaWriter, rules: SchemaRules, words: list[str]) -> JsonObject:
    """The schema of an object, without what is not accepted at the top; its rules are added to `words`."""
    top = {**plain_schema(schema), "type": "object"}
    if not rules.top_unions:
        top = _flattened(top, writer, words, set())
    if not rules.top_conditions:
        conditions = {name: top.pop(name) for name in _CONDITIONS if name in top}
        if conditions:
            words.append(_rule("The arguments must also fit", [_json(conditions)]))
    return top


def _flattened(schema: JsonObject, writer: SchemaWriter, words: list[str], seen: set[str]) -> JsonObject:
    """An object that lists the properties of all branches of its unions, and requires what all of them require."""
    flat = {name: value for name, value in schema.items() if name not in UNIONS}
    for union in UNIONS:
        branches = [_opened(branch, writer, words, seen) for branch in schema.get(union) or ()]
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
            shared = [name for name in joint.get("required") or () if name in (branch.get("required") or ())]
            joint = {**merged(joint, branch, "anyOf"), "required": shared}
        flat = merged(flat, joint, "allOf")
    return {**plain_schema(flat), "type": "object"}


def _opened(branch: Any, writer: SchemaWriter, words: list[str], seen: set[str]) -> JsonObject:  # noqa: ANN401
    """A branch of a union, without a `$ref` or union of its own."""
    own = dict(branch) if isinstance(branch, Mapping) else {}
    if isinstance(reference := own.pop("$ref", None), str) and reference not in seen:
        own = {**(writer.resolve(reference) or {}), **own}
        seen = {*seen, reference}
    return _flattened(_typed(own), writer, words, seen)


def _typed(branch: JsonObject) -> JsonObject:
    """A branch whose required names are no properties of its own: those are its neighbours'."""
    plain = plain_schema({name: value for name, value in branch.items() if name != "required"})
    return {**plain, "required": branch["required"]} if isinstance(branch.get("required"), list) else plain


def _choice(union: str, branches: Sequence[JsonObject], base: JsonObject) -> str:
    """The rule of a union, in words: what each branch requires beyond the others; empty if it says nothing."""
    required = base.get("required") or ()
    shown: list[str] = []
    for branch in branches:
        fixed = {
            name: inner["const"]
            for name, inner in (branch.get("properties") or {}).items()
            if isinstance(inner, Mapping) and "const" in inner
        }
        names = [name for name in branch.get("required") or () if name not in required and name not in fixed]
        parts = [*(f"{name} = {_json(value)}" for name, value in fixed.items()), *names]
        shown.append(" and ".join(parts))
    if len(set(shown)) < len(branches) or not all(shown):
        bare = [{name: value for name, value in branch.items() if name != "title"} for branch in branches]
        shown = [_json(branch) for branch in bare if branch.keys() - {"type"}]
    return _rule(f"Give {_CHOICES[union]} of these:", shown) if shown else ""


def _rule(words: str, parts: Sequence[str]) -> str:
    text = f"{words} {'; '.join(parts)}"
    return f"{text[:_MAX_RULE]}…" if len(text) > _MAX_RULE else f"{text}."


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _new_keys(properties: Mapping[str, object], pattern: str) -> dict[str, str]:
    """Names for the properties whose own ones the server does not accept."""
    accepted = re.compile(pattern)
    taken = {name for name in properties if accepted.fullmatch(name)}
    keys: dict[str, str] = {}
    for name in properties:
        if name in taken:
            continue
        stem = _stem(name)
        if not accepted.fullmatch(stem):
            stem = _NOT_IN_A_KEY.sub("_", f"arg_{stem}".replace(".", "_").replace("-", "_"))[:_MAX_KEY]
        key, number = stem, 2
        while key in taken:
            key, number = f"{stem[: _MAX_KEY - 4]}_{number}", number + 1
        taken.add(key)
        keys[name] = key
    return keys


def _stem(name: str) -> str:
    """A name in letters that every server accepts, such as hohe for höhe and filter_app for filter[app]."""
    plain = "".join(each for each in unicodedata.normalize("NFKD", name) if not unicodedata.combining(each))
    return _NOT_IN_A_KEY.sub("_", plain).strip("_")[:_MAX_KEY] or "argument"


def _with_keys(schema: JsonObject, keys: Mapping[str, str]) -> JsonObject:
    """The schema with other names for some properties, whose descriptions say their own."""
    renamed = {
        keys.get(name, name): {**inner, "description": f"{inner.get('description', '')} (named {name!r})".strip()}
        if name in keys
        else inner
        for name, inner in schema["properties"].items()
    }
    found = {**schema, "properties": renamed}
    if "required" in schema:
        found["required"] = [keys.get(name, name) for name in schema["required"]]
    return found

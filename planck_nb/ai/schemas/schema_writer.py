"""Writer for JSON Schemas in a server's part of JSON Schema.

`SchemaRules` are the server's rules as data. The written schema allows each value the given one allows; other limits
become words in a description. Some values need another form, an open object as pairs or as JSON text; a `Reader`
converts them back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import unquote

from planck_nb.ai.schemas.schema_rules import SchemaRules
from planck_nb.base.json_types import JsonObject

Reader: TypeAlias = Callable[[Any], Any]
"""Converts values for the wire schema back. Unknown forms stay."""

UNIONS = ("allOf", "anyOf", "oneOf")

_VALUES = frozenset({"default", "const", "enum", "examples", "example"})
"""Keywords with values, which may be null, instead of schemas."""

_LOCAL = frozenset({"$schema", "$id", "$anchor", "$comment", "$defs", "definitions", "$dynamicAnchor", "$vocabulary"})
"""Keywords without meaning for values; definitions are written where needed."""

_SILENT = frozenset({"title", "discriminator", "propertyOrdering", "readOnly", "writeOnly", "deprecated", "nullable"})
"""Keywords left out without words."""

_INNER = frozenset({"not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems"})
_INNER_LISTS = frozenset({"prefixItems"})
_INNER_MAPPINGS = frozenset({"patternProperties", "dependentSchemas"})
_OF_OBJECTS = frozenset(
    "properties required additionalProperties patternProperties propertyNames minProperties maxProperties "
    "dependentRequired dependentSchemas unevaluatedProperties".split()
)
_OF_ARRAYS = frozenset("items prefixItems minItems maxItems uniqueItems contains minContains maxContains".split())
_OF_STRINGS = frozenset("minLength maxLength pattern format contentEncoding contentMediaType".split())
_OF_NUMBERS = frozenset("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf".split())
_OF_TYPE: Mapping[str, frozenset[str]] = {
    "object": _OF_OBJECTS,
    "array": _OF_ARRAYS,
    "string": _OF_STRINGS,
    "integer": _OF_NUMBERS,
    "number": _OF_NUMBERS,
}
_OF_ONE_TYPE = _OF_OBJECTS | _OF_ARRAYS | _OF_STRINGS | _OF_NUMBERS
_TYPE_OF_VALUE: Mapping[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    dict: "object",
    list: "array",
    type(None): "null",
}

_OTHERS = "additional_properties"
"""The property for pairs beside listed properties."""

_MAX_NODES = 5_000
"""Most schemas with references written out; the rest is text."""

_MAX_WORDS = 400


@dataclass(frozen=True, slots=True)
class WireSchema:
    """A schema for a request.

    Args:
        schema: The JSON Schema.
        read: Converts values; None if they have the same form in both schemas.
    """

    schema: JsonObject
    read: Reader | None = None


class SchemaWriter:
    """Writer for one schema and its definitions.

    Args:
        root: The whole schema.
        rules: The server's rules.
    """

    def __init__(self, root: JsonObject, rules: SchemaRules) -> None:
        self._root = root
        self._rules = rules
        self._stack = ["#"]
        """References being written."""
        self._names: dict[str, str] = {}
        self._definitions: dict[str, JsonObject] = {}
        self._readers: dict[str, Reader | None] = {}
        self._by_id: dict[str, JsonObject] | None = None
        self._count = 0

    def write(self, top: JsonObject | None = None) -> WireSchema:
        """Write the schema.

        Args:
            top: An object to write instead of the root, with references into it; it stays an object.

        Returns:
            The schema with its definitions.
        """
        wire = self._node(self.opened(self._root), 0) if top is None else self._keywords(top, 0)
        if not self._definitions:
            return wire
        return WireSchema({**wire.schema, "$defs": self._definitions}, wire.read)

    def opened(self, schema: Any) -> JsonObject:  # noqa: ANN401 - any JSON value
        """Open a schema's own `$ref`; its target counts as being written."""
        plain = dict(schema) if isinstance(schema, Mapping) else {}
        references: set[str] = set()
        while isinstance(reference := plain.pop("$ref", None), str) and reference not in references:
            references.add(reference)
            self._stack.append(reference)
            plain = {**(self.resolve(reference) or {}), **plain}
        return plain

    def resolve(self, reference: str) -> JsonObject | None:
        """Find a reference's target; None if the schema lacks it."""
        node: Any = self._root
        if not reference.startswith("#/"):
            return self._root if reference == "#" else self._named(reference.removeprefix("#"))
        for step in reference[2:].split("/"):
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(node, list) and key.isdecimal() and int(key) < len(node):
                node = node[int(key)]
            elif isinstance(node, Mapping) and key in node:
                node = node[key]
            else:
                return None
        return {} if node is True else node if isinstance(node, dict) else None

    def _named(self, name: str) -> JsonObject | None:
        """Find the schema with this name as its own."""
        if self._by_id is None:
            self._by_id = {}
            nodes: list[Any] = [self._root]
            while nodes:
                node = nodes.pop()
                if isinstance(node, Mapping):
                    for key in ("$id", "$anchor", "id"):
                        if isinstance(name_of_node := node.get(key), str):
                            self._by_id.setdefault(name_of_node, dict(node))
                nodes += node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ()
        return self._by_id.get(name)

    def _node(self, schema: Any, depth: int) -> WireSchema:  # noqa: ANN401 - any JSON value
        self._count += 1
        rules = self._rules
        plain = plain_schema(schema)
        if rules.only_any_of and "allOf" in plain:
            plain = self._merged(plain, set())
        if not rules.type_lists:
            plain = _with_nullable(plain)
        if isinstance(reference := plain.get("$ref"), str):
            return self._reference(reference, {name: plain[name] for name in plain if name != "$ref"}, depth)
        return self._in_other_form(plain, depth) or self._keywords(plain, depth)

    def _in_other_form(self, plain: JsonObject, depth: int) -> WireSchema | None:
        """Write a schema in another form if its values need one."""
        rules = self._rules
        is_deep = rules.depth is not None and depth > rules.depth
        if (is_deep or self._count > _MAX_NODES) and not _is_scalar(plain):
            return self._text(plain, "a JSON value")
        is_listed = isinstance(plain.get("type"), list)
        if is_listed and (not rules.type_lists or (is_open_object(plain) and rules.open_objects != "kept")):
            return self._split(plain, depth)
        if is_open_object(plain) and rules.open_objects != "kept":
            return self._open_object(plain, depth)
        if is_open_object(plain) and rules.keywords is not None:  # in the accepted keyword
            rest = {name: value for name, value in plain.items() if name != "patternProperties"}
            return self._keywords({**rest, "additionalProperties": _value_schema(plain)}, depth)
        if not rules.untyped and not {"type", "anyOf", "oneOf", "allOf", "enum", "const"} & plain.keys():
            return self._text(plain, "any JSON value")
        return None

    # References.

    def _reference(self, reference: str, beside: JsonObject, depth: int) -> WireSchema:
        rules = self._rules
        target = self.resolve(reference)
        name = _name_of(reference)
        if target is None:
            return self._node(_described(beside, f"(see {name})"), depth)
        repeats = reference in self._stack
        if repeats and not (rules.recursion and rules.references):
            return self._repeated({**target, **beside}, name)
        if not rules.references:
            self._stack.append(reference)
            wire = self._node({**target, **beside}, depth)
            self._stack.pop()
            return wire
        wire_name = self._define(reference, target, name, depth)
        read = (lambda value: self._read(reference, value)) if repeats else self._readers.get(reference)
        link: JsonObject = {"$ref": f"#/$defs/{wire_name}"}
        if not beside:
            return WireSchema(link, read)
        rest = self._keywords(beside, depth).schema
        if rules.closed:
            rest.pop("additionalProperties", None)
        return WireSchema({**link, **rest} if rules.beside_references else {"anyOf": [link], **rest}, read)

    def _define(self, reference: str, target: JsonObject, name: str, depth: int) -> str:
        """Write a definition when first needed; return its name."""
        if reference in self._names:
            return self._names[reference]
        unique, number = name, 2
        while unique in self._names.values():
            unique, number = f"{name}_{number}", number + 1
        self._names[reference] = unique
        if reference == "#":
            target = {key: value for key, value in target.items() if key not in _LOCAL}
        self._stack.append(reference)
        self._definitions[unique] = {}  # keeps their order
        wire = self._node(target, depth)
        self._stack.pop()
        self._definitions[unique], self._readers[reference] = wire.schema, wire.read
        return unique

    def _read(self, reference: str, value: Any) -> Any:  # noqa: ANN401 - any JSON value
        read = self._readers.get(reference)
        return value if read is None else read(value)

    def _repeated(self, schema: JsonObject, name: str) -> WireSchema:
        """Write a schema inside itself, where the server rejects it."""
        return self._text(plain_schema(schema), f"another {name}")

    # Unions.

    def _merged(self, schema: JsonObject, references: set[str]) -> JsonObject:
        """Merge parts in `allOf` into the schema."""
        rest = {name: value for name, value in schema.items() if name != "allOf"}
        parts = [part for part in schema["allOf"] if isinstance(part, Mapping)]
        if len(parts) == 1 and parts[0].keys() == {"$ref"} and _OF_ONE_TYPE.isdisjoint(rest):
            return {**rest, **parts[0]}
        for part in parts:
            inner = dict(part)
            if isinstance(reference := inner.pop("$ref", None), str):
                if reference in references:
                    continue
                references.add(reference)
                inner = {**(self.resolve(reference) or {}), **inner}
            if "allOf" in inner:
                inner = self._merged(inner, references)
            rest = merged(rest, inner, "allOf")
        return plain_schema(rest)

    def _split(self, schema: JsonObject, depth: int) -> WireSchema:
        """Split several types into a union, or write null as nullable."""
        types = [kind for kind in schema["type"] if isinstance(kind, str)]
        common = {name: value for name, value in schema.items() if name not in _OF_ONE_TYPE and name != "type"}
        branches = [
            {"type": kind, **{name: schema[name] for name in schema if name in _OF_TYPE.get(kind, ())}}
            for kind in types
            if kind != "null"
        ]
        nullable = "null" in types
        if not self._rules.type_lists:
            if len(branches) == 1:
                return self._node({**common, **branches[0], **({"nullable": True} if nullable else {})}, depth)
            return self._node({**common, "anyOf": branches, **({"nullable": True} if nullable else {})}, depth)
        return self._node({**common, "anyOf": [*branches, *([{"type": "null"}] if nullable else [])]}, depth)

    # Open objects, and other values in another form.

    def _open_object(self, schema: JsonObject, depth: int) -> WireSchema:
        properties = schema.get("properties") or {}
        if self._rules.open_objects == "text":
            if not properties:
                return self._text(schema, "a JSON object")
            return self._keywords(schema, depth)
        value = self._node(_value_schema(schema), depth + 2)
        key: JsonObject = {"type": "string"}
        if isinstance(patterns := schema.get("patternProperties"), Mapping):
            key["description"] = f"matches {' or '.join(patterns)}"
        pairs: JsonObject = {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"key": key, "value": value.schema},
                "required": ["key", "value"],
                "additionalProperties": False,
            },
        }
        words = "(an object, as a list of its keys and values)"
        if not properties:
            return WireSchema(_described({**_about(schema), **pairs}, words), _pairs_reader(value.read))
        name = _OTHERS
        while name in properties:
            name += "_"
        listed_part = {
            key: value for key, value in schema.items() if key not in {"additionalProperties", "patternProperties"}
        }
        wire = self._keywords({**listed_part, "additionalProperties": False}, depth)
        wire.schema["properties"][name] = _described(pairs, words)
        return WireSchema(wire.schema, _chained([wire.read, _others_reader(name, value.read)]))

    def _text(self, schema: JsonObject, words: str) -> WireSchema:
        """A value as JSON text."""
        details = {name: value for name, value in schema.items() if name not in {"title", "description"}}
        shape = json.dumps(details, ensure_ascii=False, default=str)
        about = _about(schema)
        if self._rules.keywords is not None and "title" not in self._rules.keywords:
            about.pop("title", None)
        details_text = f", {shape}" if details.keys() - {"type", "default"} and len(shape) <= _MAX_WORDS else ""
        return WireSchema(
            _described({**about, "type": "string"}, f"({words}, as JSON text{details_text})"), value_of_text
        )

    # Everything else.

    def _keywords(self, schema: JsonObject, depth: int) -> WireSchema:
        rules = self._rules
        wire: JsonObject = {}
        words: list[str] = []
        readers: list[Reader | None] = []
        if isinstance(schema.get("prefixItems"), list) and not self._accepts("prefixItems"):
            schema = _without_positions(schema)
        for name, value in schema.items():
            if name == "oneOf" and rules.only_any_of:
                name = "anyOf"  # noqa: PLW2901
            if not self._accepts(name, value):
                words += self._words(name, value, wire)
                continue
            if name == "properties" and isinstance(value, Mapping):
                wires = {key: self._node(inner, depth + 1) for key, inner in value.items()}
                wire[name] = {key: inner.schema for key, inner in wires.items()}
                readers.append(_object_reader({key: inner.read for key, inner in wires.items() if inner.read}))
            elif name == "items":
                inner = self._node(value, depth + 1)
                wire[name] = value if isinstance(value, bool) else inner.schema
                readers.append(_array_reader(inner.read))
            elif name in UNIONS and isinstance(value, list):
                branches = [self._node(inner, depth) for inner in value]
                wire[name] = [*wire.get(name, ()), *(inner.schema for inner in branches)]
                readers.append(_chained([inner.read for inner in branches]))
            elif name == "additionalProperties" and isinstance(value, Mapping):
                inner = self._node(value, depth + 1)
                wire[name] = inner.schema or True
                readers.append(_values_reader(inner.read, frozenset(schema.get("properties") or ())))
            else:
                wire[name] = self._inner(name, value, depth)
        if rules.closed and "object" in _types(wire):
            wire["additionalProperties"] = False
        return WireSchema(_described(wire, f"({', '.join(words)})" if words else ""), _chained(readers))

    def _inner(self, name: str, value: Any, depth: int) -> Any:  # noqa: ANN401 - any JSON value
        """Write a keyword's value, with references inside."""
        if name in _INNER and isinstance(value, Mapping):
            return self._node(value, depth + 1).schema
        if name in _INNER_LISTS and isinstance(value, list):
            return [self._node(inner, depth + 1).schema for inner in value]
        if name in _INNER_MAPPINGS and isinstance(value, Mapping):
            return {key: self._node(inner, depth + 1).schema for key, inner in value.items()}
        return value

    def _accepts(self, name: str, value: object = None) -> bool:
        rules = self._rules
        if name in rules.refused:
            return False
        if rules.keywords is None:
            return True
        is_accepted = name in rules.keywords
        if name == "format":
            is_accepted &= rules.formats is None or value in rules.formats
        elif name == "minItems":
            is_accepted &= not rules.closed or value in {0, 1}
        elif name == "enum":
            is_accepted &= isinstance(value, list) and all(map(self._may_be_listed, value))
        elif name == "const":
            is_accepted &= not isinstance(value, (dict, list))
        return is_accepted

    def _may_be_listed(self, value: object) -> bool:
        """Tell if `enum` may list this value."""
        rules = self._rules
        if not rules.references:  # Gemini's OpenAPI subset has only texts
            return isinstance(value, str) and bool(value)
        if rules.keywords is not None and "const" not in rules.keywords:  # its JSON Schema has numbers, too
            return isinstance(value, (str, int, float)) and not isinstance(value, bool)
        return not isinstance(value, (dict, list))

    def _words(self, name: str, value: Any, wire: JsonObject) -> list[str]:  # noqa: ANN401 - any JSON value
        """Express an unaccepted keyword in words, or in an accepted one."""
        if name == "const" and self._accepts("enum", [value]):
            wire["enum"] = [value]
            return []
        if name in {"enum", "const"} and not {"type", "anyOf"} & wire.keys():
            wire.update(_type_of_all(value if name == "enum" else [value], self._rules))
        if name in _SILENT or name.startswith("x-") or (name == "additionalProperties" and isinstance(value, bool)):
            return []
        if isinstance(value, (dict, list)):
            text = json.dumps(value, ensure_ascii=False, default=str)
            return [f"{name}: {text}"] if len(text) <= _MAX_WORDS else []
        return [f"{name}: {value}"]


def plain_schema(schema: Any) -> JsonObject:  # noqa: ANN401 - any JSON value
    """Write a schema as a typed object.

    Servers refuse some valid forms: arrays without `items`, `null` for a missing keyword, names in `required` without a
    property, or `anyOf` with an impossible branch.

    Args:
        schema: A schema, or any value in place of one.

    Returns:
        The same schema; schemas inside are unchanged.
    """
    if not isinstance(schema, Mapping):
        return {"not": {}} if schema is False else {}
    plain = {
        name: value
        for name, value in schema.items()
        if name not in _LOCAL and (value is not None or name in _VALUES) and not (name == "id" and "type" in schema)
    }
    for name in UNIONS:
        if isinstance(branches := plain.get(name), list):
            plain = _without_impossible(plain, name, branches)
    _set_type(plain)
    if "object" in _types(plain):
        _list_required(plain)
    if "array" in _types(plain):
        _set_items(plain)
    _set_limits(plain)
    return plain


def _without_impossible(plain: JsonObject, name: str, branches: list[Any]) -> JsonObject:
    """Remove impossible branches from a union."""
    fitting = [branch for branch in branches if branch not in ({"not": {}}, False)]
    rest = {key: value for key, value in plain.items() if key != name}
    if len(fitting) == 1 < len(branches) and isinstance(fitting[0], Mapping):
        return {**plain_schema(fitting[0]), **rest}
    return {**plain, name: fitting} if fitting else rest


def _set_items(plain: JsonObject) -> None:
    if isinstance(plain.get("items"), list):  # as it was until 2019
        plain["prefixItems"] = plain.pop("items")
        if "additionalItems" in plain:
            plain["items"] = plain.pop("additionalItems")
    plain.setdefault("items", {})


def _set_limits(plain: JsonObject) -> None:
    """Write limits as in draft 6, and values without repetitions."""
    for name, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):  # as in draft 4
        if isinstance(plain.get(name), bool) and plain.pop(name) and limit in plain:
            plain[name] = plain.pop(limit)
    if isinstance(values := plain.get("enum"), list):
        plain["enum"] = _distinct(values)
        if not values:
            del plain["enum"]


def _set_type(plain: JsonObject) -> None:
    """Add the type assumed by other keywords."""
    kind = plain.get("type")
    if isinstance(kind, list):
        types = _distinct(kind)
        plain["type"] = types[0] if len(types) == 1 else types
        if not types:
            del plain["type"]
    if "type" in plain or "$ref" in plain or any(name in plain for name in UNIONS):
        return
    if "properties" in plain or "additionalProperties" in plain or "patternProperties" in plain:
        plain["type"] = "object"
    elif "items" in plain or "prefixItems" in plain:
        plain["type"] = "array"
    elif isinstance(values := plain.get("enum", [plain["const"]] if "const" in plain else None), list) and values:
        types = _distinct([_TYPE_OF_VALUE.get(type(value), "string") for value in values])
        plain["type"] = types[0] if len(types) == 1 else types


def _list_required(plain: JsonObject) -> None:
    """Make required names properties, and self-declared required properties required names."""
    properties = plain.get("properties")
    names_value = plain.pop("required", None)
    names = [name for name in names_value if isinstance(name, str)] if isinstance(names_value, list) else []
    if isinstance(properties, Mapping):
        names += [name for name, inner in properties.items() if _calls_itself_required(inner)]
        properties = {name: _without_own_required(inner) for name, inner in properties.items()}
    elif "properties" in plain:
        properties = {}
    if names:
        plain["properties"] = {**(properties or {}), **{name: {} for name in names if name not in (properties or {})}}
        plain["required"] = _distinct(names)
    elif properties is not None:
        plain["properties"] = properties


def _calls_itself_required(schema: Any) -> bool:  # noqa: ANN401 - any JSON value
    return isinstance(schema, Mapping) and schema.get("required") is True


def _without_own_required(schema: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(schema, Mapping) and isinstance(schema.get("required"), bool):
        return {name: value for name, value in schema.items() if name != "required"}
    return schema


def is_open_object(schema: JsonObject) -> bool:
    """Tell if a schema allows an object with unlisted names.

    Listed properties alone do not mean so, though JSON Schema allows others.
    """
    if "object" not in _types(schema) or any(name in schema for name in (*UNIONS, "$ref", "enum", "const")):
        return False
    rest = schema.get("additionalProperties", "properties" not in schema)
    return "patternProperties" in schema or rest is True or isinstance(rest, Mapping)


def merged(first: JsonObject, other: JsonObject, union: str) -> JsonObject:
    """Merge two object schemas into one with both lists of properties.

    Args:
        first: A schema.
        other: Another one.
        union: "allOf" if values fit both, "anyOf" if they fit one.

    Returns:
        One schema. A property with differing descriptions has both.
    """
    result = {**other, **first}
    first_properties, other_properties = first.get("properties"), other.get("properties")
    if isinstance(first_properties, Mapping) and isinstance(other_properties, Mapping):
        result["properties"] = {**other_properties, **first_properties}
        for name in first_properties.keys() & other_properties.keys():
            if first_properties[name] != other_properties[name]:
                parts = _distinct(
                    [*_branches(first_properties[name], union), *_branches(other_properties[name], union)]
                )
                result["properties"][name] = {union: parts}
        result["properties"] = {name: result["properties"][name] for name in (*first_properties, *other_properties)}
    if union == "allOf":
        names = [*(first.get("required") or ()), *(other.get("required") or ())]
        if names:
            result["required"] = _distinct(names)
        if isinstance(first.get("enum"), list) and isinstance(other.get("enum"), list):
            result["enum"] = [value for value in first["enum"] if value in other["enum"]]
    closings = [schema.get("additionalProperties") is False for schema in (first, other)]
    if (
        any(closings)
        and not all(closings)
        and isinstance(first_properties, Mapping)
        and isinstance(other_properties, Mapping)
    ):
        del result["additionalProperties"]  # it would forbid the other part's properties
    return result


def _branches(schema: Any, union: str) -> list[Any]:  # noqa: ANN401 - any JSON value
    if isinstance(schema, Mapping) and schema.keys() == {union}:
        return list(schema[union])
    return [schema]


def _with_nullable(schema: JsonObject) -> JsonObject:
    """Write a union with null in OpenAPI's keyword `nullable`."""
    for name in ("anyOf", "oneOf"):
        branches = schema.get(name)
        if isinstance(branches, list) and {"type": "null"} in branches:
            rest = {key: value for key, value in schema.items() if key != name}
            kinds = [branch for branch in branches if branch != {"type": "null"}]
            if len(kinds) == 1 and isinstance(kinds[0], Mapping):
                return plain_schema({**kinds[0], **rest, "nullable": True})
            return {**rest, name: kinds, "nullable": True}
    return schema


def _value_schema(schema: JsonObject) -> Any:  # noqa: ANN401 - any JSON value
    """The schema for values in an open object."""
    patterns = schema.get("patternProperties")
    rest = schema.get("additionalProperties", not patterns)
    schemas = [*patterns.values()] if isinstance(patterns, Mapping) else []
    if rest is not False:
        schemas.append({} if rest is True else rest)
    return schemas[0] if len(schemas) == 1 else {"anyOf": _distinct(schemas)}


def _without_positions(schema: JsonObject) -> JsonObject:
    """Allow any item at each position in a list."""
    rest = {name: value for name, value in schema.items() if name not in {"prefixItems", "items"}}
    kinds = _distinct(schema["prefixItems"])
    if isinstance(schema.get("items"), Mapping) and schema["items"]:
        kinds = _distinct([*kinds, schema["items"]])
    words = f"(by position: {json.dumps(schema['prefixItems'], default=str)})"
    items = {} if not kinds else kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    return _described({**rest, "items": items}, words if len(words) <= _MAX_WORDS else "")


def _type_of_all(values: list[Any], rules: SchemaRules) -> JsonObject:
    types = _distinct([_TYPE_OF_VALUE.get(type(value), "string") for value in values])
    if len(types) == 1:
        return {"type": types[0]}
    return {"type": types} if rules.type_lists else {"anyOf": [{"type": kind} for kind in types if kind != "null"]}


def _about(schema: JsonObject) -> JsonObject:
    return {name: value for name, value in schema.items() if name in {"title", "description"}}


def _described(schema: JsonObject, words: str) -> JsonObject:
    if not words:
        return schema
    return {**schema, "description": " ".join(filter(None, (schema.get("description"), words)))}


def _types(schema: Mapping[str, Any]) -> Sequence[str]:
    types = schema.get("type", ())
    return (types,) if isinstance(types, str) else types


def _is_scalar(schema: JsonObject) -> bool:
    types = _types(schema)
    return bool(types) and {"object", "array"}.isdisjoint(types) and not any(name in schema for name in UNIONS)


def _name_of(reference: str) -> str:
    """Name a definition: its reference's last step, in ASCII letters."""
    last = unquote(reference).rstrip("/").rpartition("/")[2].removeprefix("#")
    return "".join(char if char.isascii() and (char.isalnum() or char in "_-.") else "_" for char in last) or "root"


def _distinct(values: Iterable[Any]) -> list[Any]:
    """The values without repetitions. `true` and 1 are different."""
    by_text: dict[str, Any] = {}
    for value in values:
        by_text.setdefault(json.dumps(value, sort_keys=True, default=repr), value)
    return [*by_text.values()]


# Readers.


def _chained(readers: Iterable[Reader | None]) -> Reader | None:
    steps = [read for read in readers if read is not None]
    if len(steps) <= 1:
        return steps[0] if steps else None

    def read_all(value: Any) -> Any:  # noqa: ANN401 - any JSON value
        for read in steps:
            value = read(value)
        return value

    return read_all


def _object_reader(readers: Mapping[str, Reader]) -> Reader | None:
    def read(value: Any) -> Any:  # noqa: ANN401 - any JSON value
        if not isinstance(value, dict):
            return value
        return {key: readers[key](inner) if key in readers else inner for key, inner in value.items()}

    return read if readers else None


def _values_reader(read_value: Reader | None, listed_names: frozenset[str]) -> Reader | None:
    def read(value: Any) -> Any:  # noqa: ANN401 - any JSON value
        if not isinstance(value, dict) or read_value is None:
            return value
        return {key: inner if key in listed_names else read_value(inner) for key, inner in value.items()}

    return None if read_value is None else read


def _array_reader(read_item: Reader | None) -> Reader | None:
    def read(value: Any) -> Any:  # noqa: ANN401 - any JSON value
        return [read_item(item) for item in value] if read_item and isinstance(value, list) else value

    return None if read_item is None else read


def _pairs_reader(read_value: Reader | None) -> Reader:
    def read(value: Any) -> Any:  # noqa: ANN401 - any JSON value
        pairs = _object_of_pairs(value)
        if not isinstance(pairs, dict) or read_value is None:
            return pairs
        return {key: read_value(inner) for key, inner in pairs.items()}

    return read


def _others_reader(name: str, read_value: Reader | None) -> Reader:
    read_pairs = _pairs_reader(read_value)

    def read(value: Any) -> Any:  # noqa: ANN401 - any JSON value
        if not isinstance(value, dict) or name not in value:
            return value
        pairs = read_pairs(value[name])
        rest = {key: inner for key, inner in value.items() if key != name}
        return {**pairs, **rest} if isinstance(pairs, dict) else value

    return read


def _object_of_pairs(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Convert pairs to an object; the last may lack its value."""
    if not isinstance(value, list) or not all(
        isinstance(pair, dict) and pair.keys() <= {"key", "value"} for pair in value
    ):
        return value
    return {str(pair["key"]): pair["value"] for pair in value if len(pair) > 1}


def value_of_text(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Parse a JSON text; any other value is unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return value


def _refuse(constant: str) -> object:
    raise ValueError(constant)

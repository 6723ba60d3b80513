"""A server's part of JSON Schema, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

OpenObjects: TypeAlias = Literal["kept", "pairs", "text"]
"""Forms for objects with unlisted names: unchanged, pairs, JSON text."""


@dataclass(frozen=True, slots=True)
class SchemaRules:
    """A server's part of JSON Schema.

    Args:
        keys: A regular expression for argument names; empty if all are accepted.
        properties: Whether an object at the top has to list its properties, even an empty list.
        top_unions: Whether `anyOf`, `oneOf` and `allOf` are accepted at the top.
        top_conditions: Whether `not`, `enum`, `if` and the like are accepted there.
        keywords: The accepted keywords, None for all. Limits in other keywords become words in the description.
        refused: Keywords left out, whatever `keywords` has.
        formats: The accepted values for `format`, None for all.
        only_any_of: Whether `anyOf` is the only union: `oneOf` becomes one, and parts in `allOf` are merged.
        references: Whether `$ref` is accepted; otherwise its target is written out.
        beside_references: Whether a `$ref` may have other keywords beside it.
        recursion: Whether a definition may refer to itself; otherwise its repetition is written as JSON text.
        type_lists: Whether `type` may be a list.
        untyped: Whether a schema without any type is accepted.
        open_objects: The form for an object with unlisted names.
        closed: Whether each object must exclude other properties.
        depth: How many levels are accepted, None for any number.

    Example:
        >>> SchemaRules(keys="[a-z]+").references
        True
    """

    keys: str = ""
    properties: bool = True
    top_unions: bool = False
    top_conditions: bool = False
    keywords: frozenset[str] | None = None
    refused: frozenset[str] = frozenset()
    formats: frozenset[str] | None = None
    only_any_of: bool = False
    references: bool = True
    beside_references: bool = True
    recursion: bool = True
    type_lists: bool = True
    untyped: bool = True
    open_objects: OpenObjects = "kept"
    closed: bool = False
    depth: int | None = None


OF_GRAMMARS = SchemaRules(properties=False, top_unions=True, top_conditions=True)
"""For servers with grammars, such as llama.cpp.

They take a schema unchanged, and read an empty list of properties as an object which is always empty.
"""

NARROW = SchemaRules(
    keys="[a-zA-Z_][a-zA-Z0-9_]{0,63}",
    keywords=frozenset(
        "type description enum properties required items anyOf format minimum maximum minItems maxItems "
        "nullable".split()
    ),
    formats=frozenset({"date-time", "int32", "int64", "float", "double"}),
    only_any_of=True,
    references=False,
    recursion=False,
    type_lists=False,
    untyped=False,
    open_objects="text",
    depth=8,
)
"""Accepted by every known server: about Gemini's OpenAPI subset.

https://github.com/zereight/gitlab-mcp/issues/166, https://github.com/MarkusPfundstein/mcp-obsidian/issues/21
"""

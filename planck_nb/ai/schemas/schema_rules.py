"""The part of JSON Schema that a server accepts, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

OpenObjects: TypeAlias = Literal["kept", "pairs", "text"]
"""How an object is sent whose names are not listed: as it is, as a list of its pairs, or as JSON text."""


@dataclass(frozen=True, slots=True)
class SchemaRules:
    """The part of JSON Schema that a server accepts.

    Args:
        keys: A regular expression for the names of arguments; empty if all are accepted.
        properties: Whether an object at the top has to list its properties, even if it has none.
        top_unions: Whether `anyOf`, `oneOf` and `allOf` are accepted at the top.
        top_conditions: Whether `not`, `enum`, `if` and the like are accepted there.
        keywords: The accepted keywords, None for all. The limits that others express become words of the description.
        refused: Keywords that are not accepted, whatever `keywords` has.
        formats: The accepted values of `format`, None for all.
        only_any_of: Whether `anyOf` is the only union: `oneOf` becomes one, and the parts of `allOf` are merged.
        references: Whether `$ref` is accepted; otherwise what it refers to is written out.
        beside_references: Whether a `$ref` may have other keywords beside it.
        recursion: Whether a definition may refer to itself; otherwise its repetition is written as JSON text.
        type_lists: Whether `type` may be a list.
        untyped: Whether a schema without any type is accepted.
        open_objects: How an object is sent whose names are not listed.
        closed: Whether each object must say that it has no other properties.
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
"""For servers that turn a schema into a grammar, such as llama.cpp.

They take it as it is, and understand an empty list of properties as an object that is always empty.
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
"""What every known server accepts: about the OpenAPI subset of Gemini's `FunctionDeclaration.parameters`.

https://github.com/zereight/gitlab-mcp/issues/166, https://github.com/MarkusPfundstein/mcp-obsidian/issues/21
"""

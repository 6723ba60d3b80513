"""A tool for finding tools, in place of a long list."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from planck_nb.agent.calling.tool import Tool, ToolContext
from planck_nb.base.errors import ToolError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import one_line

SEARCH_NAME = "find_tools"
MAX_FOUND = 10
"""Largest number of tools from one search."""

_WORD = re.compile(r"[a-z0-9]+")
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_LINE_CHARACTERS = 200
_IN_NAME = 3
"""Weight for a word in a tool's name, compared with its description."""


def find(query: str, tools: Iterable[Tool], *, limit: int = MAX_FOUND) -> list[Tool]:
    """Return the best matching tools for a query.

    Args:
        query: Some words, or a tool's name.
        tools: The tools to search.
        limit: Largest number of tools.

    Returns:
        The tools with the best match first; empty without a match.
    """
    query_words = _words(query)
    scored = []
    for place, tool in enumerate(tools):
        if tool.name.lower() == query.strip().lower():
            return [tool]
        name, text = _words(tool.name), _words(tool.description)
        score = sum(_IN_NAME * _matches(word, name) + _matches(word, text) for word in query_words)
        if score:
            scored.append((-score, place, tool))
    return [tool for _, _, tool in sorted(scored, key=lambda item: item[:2])[:limit]]


def search_tool(offered: Callable[[], Sequence[Tool]], add_tools: Callable[[str, Sequence[Tool]], None]) -> Tool:
    """Make the tool which finds tools and adds them to its caller.

    Args:
        offered: Returns all available tools.
        add_tools: Called with an agent's id and the tools to add to it.

    Returns:
        The tool.
    """

    def execute(args: JsonObject, context: ToolContext) -> str:
        query = str(args["query"])
        matches = find(query, offered())
        if not matches:
            raise ToolError(f"No tool matches {one_line(query)!r}; try other words for what it should do.")
        add_tools(context.agent_id, matches)
        lines = [f"- {tool.name}: {one_line(tool.description, _LINE_CHARACTERS)}" for tool in matches]
        return "\n".join(["You can call these tools from now on:", *lines])

    async def on_the_loop(args: JsonObject, context: ToolContext) -> str:
        return execute(args, context)

    return Tool(
        name=SEARCH_NAME,
        description=(
            "Find further tools by what they do. The tools that are found can be called from the next step on."
        ),
        parameters={
            "type": "object",
            "properties": {"query": {"type": "string", "description": "Some words, or the name of a tool."}},
            "required": ["query"],
        },
        execute_fn=on_the_loop,
    )


def _words(text: str) -> set[str]:
    return set(_WORD.findall(_WORD_START.sub(" ", text).lower()))


def _matches(word: str, words: set[str]) -> bool:
    """Return whether a word is there, perhaps as its singular or plural."""
    return not words.isdisjoint((word, f"{word}s", word.removesuffix("s")))

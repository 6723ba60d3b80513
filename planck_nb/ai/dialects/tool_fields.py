"""Tools in a request: from the agent, the server and the caller's fields."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from planck_nb.ai.models import Model
from planck_nb.ai.providers import rules_of
from planck_nb.ai.request import Context, ToolSpec
from planck_nb.ai.schemas.fitted_tools import FittedTool, fit_tools, tool_key
from planck_nb.ai.schemas.schema_rules import SchemaRules
from planck_nb.ai.server_rules import ServerRules
from planck_nb.ai.server_tools import ServerTool
from planck_nb.base.errors import UnsupportedFeatureError
from planck_nb.base.json_types import JsonObject


def fit_context(model: Model, context: Context, usual: SchemaRules) -> tuple[Context, Mapping[str, FittedTool]]:
    """The context with its tools as the model's server accepts them.

    Args:
        model: The model that may call them.
        context: The conversation and the tools.
        usual: The rules for schemas in this wire format.

    Returns:
        The context, and the tools whose arguments are sent under other names or in another form, by name.
    """
    if not context.tools:
        return context, {}
    rules = rules_of(model)
    cached = None if context.cache is None else context.cache.fitted
    if not isinstance(cached, _FittedContext) or not cached.holds(context.tools, rules, usual):
        cached = _FittedContext(context.tools, rules, usual)
        if context.cache is not None:
            context.cache.fitted = cached
    return context if cached.is_same else replace(context, tools=cached.tools.specs), cached.tools.renamed_tools


class _FittedContext:
    """A context's tools as one server accepts them."""

    __slots__ = ("_made_from", "is_same", "tools")

    def __init__(self, tools: Sequence[ToolSpec], rules: ServerRules, usual: SchemaRules) -> None:
        self._made_from = tools, rules, usual
        own_tools = tools
        if rules.refused_tools:
            own_tools = [tool for tool in tools if tool_key(tool) not in rules.refused_tools]
        self.tools = fit_tools(own_tools, _schema_rules(rules.tool_schemas or usual, rules.refused_keywords))
        self.is_same = own_tools is tools and all(map(operator.is_, self.tools.specs, tools))

    def holds(self, *now: object) -> bool:
        """Compare the origins; a list might have changed."""
        return isinstance(now[0], tuple) and all(map(operator.is_, self._made_from, now))


@lru_cache
def _schema_rules(rules: SchemaRules, refused: frozenset[str]) -> SchemaRules:
    return replace(rules, refused=rules.refused | refused) if refused else rules


def wire_tools(model: Model, tools: Iterable[ServerTool], known: Mapping[str, JsonObject]) -> list[JsonObject]:
    """The tools as a vendor spells them, with their settings.

    Args:
        model: The model that may call them.
        tools: The tools.
        known: The vendor's tools by our names.

    Returns:
        An object for each tool, in their order.

    Raises:
        UnsupportedFeatureError: The vendor has no such tool.
    """
    found: list[JsonObject] = []
    for tool in tools:
        if tool.name not in known:
            has = f"it has {', '.join(known)}" if known else f"its format {model.api!r} has none"
            raise UnsupportedFeatureError(
                f"{model} has no server tool {tool.name} ({has}); remove it from the agent's tools, or choose another "
                "model."
            )
        spelled = known[tool.name]
        if len(spelled) == 1 and isinstance(inner := next(iter(spelled.values())), dict):  # Google's form
            found.append({name: {**inner, **dict(tool.settings)} for name in spelled})
        else:
            found.append({**spelled, **dict(tool.settings)})
    return found


def add_extra(body: JsonObject, extra: Mapping[str, object]) -> None:
    """Add the caller's own fields. Tools are added to those of the agent; one of the same name is replaced."""
    for name, value in extra.items():
        body[name] = joined_tools(body.get("tools"), value) if name == "tools" else value


def joined_tools(known: object, given: object) -> object:
    """Both lists of tools as one; `given` itself if either is not a list."""
    if not isinstance(known, list) or not isinstance(given, (list, tuple)):
        return given
    names = {_name(tool) for tool in given} - {None}
    declared = [tool for tool in given if _declarations(tool)]
    joined = []
    for tool in known:
        if own := _declarations(tool):  # Google has all functions in one tool
            theirs = [declaration for other in declared for declaration in _declarations(other)]
            names_of_theirs = {_name(declaration) for declaration in theirs}
            kept = [declaration for declaration in own if _name(declaration) not in names_of_theirs]
            joined.append({**tool, "functionDeclarations": [*kept, *theirs]})
            given = [other for other in given if other not in declared]
        elif _name(tool) not in names:
            joined.append(tool)
    return [*joined, *given]


def _declarations(tool: object) -> list[Any]:
    found = tool.get("functionDeclarations") if isinstance(tool, Mapping) else None
    return found if isinstance(found, list) else []


def _name(tool: object) -> str | None:
    if not isinstance(tool, Mapping):
        return None
    function = tool.get("function")
    name = function.get("name") if isinstance(function, Mapping) else tool.get("name")
    return name if isinstance(name, str) else None

"""The options that Anthropic's models accept, and the API version that supports them.

The rules follow the vendor's documentation for its models, API versions and structured outputs. An option that a
model does not accept is left out with a warning.
"""

from __future__ import annotations

import re

from planck_nb.ai.dialects.request_checks import check_choice
from planck_nb.ai.dialects.tool_fields import add_extra
from planck_nb.ai.models import LEVELS, Model, nearest_level
from planck_nb.ai.providers import rules_of
from planck_nb.ai.request import Context, Options
from planck_nb.ai.schemas.fitted_output import FittedOutput
from planck_nb.ai.schemas.schema_rules import SchemaRules
from planck_nb.base.json_types import JsonObject

VERSION = "2026-10-21"
"""The API version for requests to Anthropic."""

SAMPLING_VERSION = "2023-06-01"
"""The previous version, which has sampling options and is supported by other servers."""

_GENERATION = re.compile(r"claude-(?:[a-z]+-)?(\d+)(?:-(\d{1,2}))?(?:-|$)")
_BINDING = (5, 1)
_THINKS_BY_DEFAULT = (5, 0)

_SAMPLING = frozenset({"temperature", "top_p", "top_k"})

_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 24576, "max": 32768}
_MIN_BUDGET_TOKENS = 1024
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_ADAPTIVE = {"type": "adaptive", "display": "summarized"}
"""Some models send neither thinking nor the text between calls unless a summary is requested."""

_CHOICES = {"auto": "auto", "none": "none", "required": "any"}

TOOL_SCHEMAS = SchemaRules(keys="[a-zA-Z0-9_.-]{1,64}", top_conditions=True)
"""The API refuses unions at the top in a tool's schema, and other letters in the names it gives arguments.

https://github.com/zereight/gitlab-mcp/pull/551, https://github.com/decocms/studio/pull/6874; conditions such as `not`
are accepted at the top: https://github.com/kenn-io/kata/pull/365
"""

OUTPUT_SCHEMAS = SchemaRules(
    keywords=frozenset(
        "type properties required additionalProperties items enum const anyOf title description default format "
        "minItems examples".split()
    ),
    formats=frozenset("date-time time date duration email hostname uri ipv4 ipv6 uuid".split()),
    only_any_of=True,
    recursion=False,
    untyped=False,
    open_objects="pairs",
    closed=True,
)
"""Structured outputs are strict: closed objects, no recursion (platform.claude.com, "Structured outputs").

https://github.com/ax-llm/ax/issues/458
"""


def thinks_in_budgets(model: Model) -> bool:
    """Whether the model is an older one, whose thinking is set as a number of tokens instead of an effort."""
    return model.settings.get("thinking") == "budget"


def binds_to_tools(model: Model) -> bool:
    """Whether the model signs its thinking together with system prompt and tools, not only with the messages.

    Anthropic's models do so from generation 5.1 on. For an unknown model the stricter rule is assumed.
    """
    return rules_of(model).binds_thinking and (_generation(model) or _BINDING) >= _BINDING


def _generation(model: Model) -> tuple[int, int] | None:
    """The generation in a model id: 4 and 6 for claude-sonnet-4-6."""
    found = _GENERATION.match(model.id)
    return (int(found[1]), int(found[2] or 0)) if found else None


def version_for(model: Model, body: JsonObject) -> str:
    """Return the API version to use."""
    sampled = not _SAMPLING.isdisjoint(body)
    return VERSION if rules_of(model).is_vendor and not sampled else SAMPLING_VERSION


def add_options(
    body: JsonObject, model: Model, context: Context, options: Options, output: FittedOutput | None
) -> list[str]:
    """Add the options to the body, which contains messages, tools and max_tokens. Returns warnings about omitted ones.

    Raises `UnsupportedFeatureError` if `tool_choice` names a tool that is not among the tools.
    """
    warnings: list[str] = []
    forced = _add_tool_choice(body, model, context, options, warnings)
    level = options.thinking
    if forced:
        if level not in {None, "off"}:
            warnings.append(f"{model} cannot think when it must call a tool, so thinking={level!r} was not sent.")
        level = "off"
    _add_thinking(body, model, level, warnings)
    _add_sampling(body, model, options, warnings)
    if stops := [stop for stop in options.stop if stop.strip()]:
        body["stop_sequences"] = stops
    if len(stops) < len(options.stop):
        warnings.append(f"{model} does not accept stop sequences of white space only, so they were not sent.")
    if output is not None:
        form = {"type": "json_schema", "schema": output.schema}
        body["output_config"] = {**body.get("output_config", {}), "format": form}
    add_extra(body, options.extra)
    return warnings


def _always_thinks(model: Model) -> bool:
    return bool(model.thinking_levels) and "off" not in (model.thinking_levels or ())


def _add_tool_choice(body: JsonObject, model: Model, context: Context, options: Options, warnings: list[str]) -> bool:
    """Add the tool choice to the body. Returns whether the model must call a tool."""
    choice = options.tool_choice
    if choice is None:
        return False
    check_choice(choice, context.tools)
    kind = _CHOICES.get(choice, "tool")
    forced = kind in {"any", "tool"}
    if forced and not context.tools:
        warnings.append(f"{model} was given no tools, so tool_choice={choice!r} was not sent.")
        return False
    if forced and _always_thinks(model):
        warnings.append(f"{model} cannot be made to call a tool, so tool_choice={choice!r} was not sent.")
        return False
    if context.tools:
        body["tool_choice"] = {"type": kind, "name": choice} if kind == "tool" else {"type": kind}
    return forced


def _add_thinking(body: JsonObject, model: Model, level: str | None, warnings: list[str]) -> None:
    """Turn thinking on or off with the parameters that the model has."""
    if _always_thinks(model):
        body["thinking"] = dict(_ADAPTIVE)
        if level == "off":
            warnings.append(f"{model} always thinks; the lowest effort was sent.")
            level = "low"
    if level is None:
        return
    if level == "off":
        # An unknown model may not accept this parameter.
        if model.thinking_levels and (_generation(model) or (0, 0)) >= _THINKS_BY_DEFAULT:
            body["thinking"] = {"type": "disabled"}
    elif level not in LEVELS:
        warnings.append(
            f"There is no thinking level {level!r}, so it was not sent; the levels are {', '.join(LEVELS)}."
        )
    elif model.thinking_levels == () or (model.context_window is not None and not model.thinking):
        warnings.append(f"{model} does not think, so thinking={level!r} was not sent.")
    elif thinks_in_budgets(model):
        _add_budget(body, model, level, warnings)
    else:
        body["thinking"] = dict(_ADAPTIVE)
        body["output_config"] = {"effort": _effort(model, level, warnings)}


def _effort(model: Model, level: str, warnings: list[str]) -> str:
    """The effort that is nearest to a level."""
    known = [effort for effort in _EFFORTS if model.thinking_levels is None or effort in model.thinking_levels]
    effort = nearest_level(level, known)
    if effort != level and level not in (model.thinking_levels or ("minimal",)):
        warnings.append(f"{model} does not support thinking={level!r}; {effort!r} was sent instead.")
    return effort


def _add_budget(body: JsonObject, model: Model, level: str, warnings: list[str]) -> None:
    budget = min(_BUDGETS[level], body["max_tokens"] - _MIN_BUDGET_TOKENS)
    if budget < _MIN_BUDGET_TOKENS:
        warnings.append(
            f"{model} cannot think within max_tokens={body['max_tokens']}, so thinking={level!r} was not sent; "
            f"allow it {2 * _MIN_BUDGET_TOKENS} or more."
        )
    elif _is_amid_calls_without_thinking(body["messages"]):
        warnings.append(
            f"{model} cannot start thinking between a tool call and its result, so thinking={level!r} was not sent."
        )
    else:
        body["thinking"] = {"type": "enabled", "budget_tokens": budget}


def _is_amid_calls_without_thinking(messages: list[JsonObject]) -> bool:
    """Whether the last message contains results of calls that were made without thinking, or whose thinking is lost.

    The API refuses such a conversation if there is a budget for thinking.
    """
    if len(messages) < 2 or not any(block["type"] == "tool_result" for block in messages[-1]["content"]):  # noqa: PLR2004
        return False
    return not str(messages[-2]["content"][0]["type"]).endswith("thinking")


def _add_sampling(body: JsonObject, model: Model, options: Options, warnings: list[str]) -> None:
    thinks = body.get("thinking", {"type": "disabled"})["type"] != "disabled"
    for name, value in (("temperature", options.temperature), ("top_p", options.top_p)):
        if value is None:
            continue
        if not model.settings.get("temperature", True):
            reason = f"does not accept {name}"
        elif thinks:
            reason = f"does not accept {name} while it thinks"
        elif name == "top_p" and "temperature" in body and rules_of(model).is_vendor:
            reason = "accepts either temperature or top_p"
        else:
            body[name] = value
            continue
        warnings.append(f"{model} {reason}, so {name}={value} was not sent.")

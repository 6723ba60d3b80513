"""Reads the request options in the description of a member."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from math import isfinite
from typing import Any

from planck_nb.agent.calling.json_schema import problem_of
from planck_nb.ai.models import LEVELS
from planck_nb.ai.numbers import MAX_TOKENS
from planck_nb.ai.request import Options
from planck_nb.base.errors import did_you_mean
from planck_nb.base.json_types import JsonObject
from planck_nb.teams.problems import MAX_SHOWN_LENGTH, named

OPTION_NAMES = tuple(item.name for item in fields(Options))

_SHOWN = 10


def read_options(written: Mapping[Any, Any]) -> tuple[JsonObject, list[tuple[str, str]]]:
    """Read request options.

    Args:
        written: Values by the names of the fields of `ai.Options`. None is the same as not given.

    Returns:
        The values that can be used, and the name and the reason of each one that is left out.
    """
    read: JsonObject = {}
    problems: list[tuple[str, str]] = []
    unknown = [str(name) for name in written if name not in OPTION_NAMES]
    for name in unknown[:_SHOWN]:
        hint = did_you_mean(name[:MAX_SHOWN_LENGTH], OPTION_NAMES)
        problems.append((named(name), f"unknown option {named(name)!r}, which is not used. {hint}"))
    if len(unknown) > _SHOWN:
        problems.append(("", f"{len(unknown) - _SHOWN:,} more unknown options, which are not used"))
    for name in OPTION_NAMES:
        value = written.get(name)
        if value is None:
            continue
        if name == "stop" and isinstance(value, str):
            value = [value]
        try:
            problem = _problem(name, value)
        except (RecursionError, TypeError, ValueError):
            problem = "must be JSON data"
        if problem:
            problems.append((name, f"{problem}; the option is not used"))
        else:
            read[name] = value
    return read, problems


def _problem(name: str, value: object) -> str:  # noqa: PLR0911 - one line for each option
    """What an option must be, as the end of a sentence; empty if the value can be used."""
    match name:
        case "max_tokens":
            is_count = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_TOKENS
            return "" if is_count else f"must be a whole number from 1 to {MAX_TOKENS:,}"
        case "temperature":
            return "" if _is_number(value, 100.0) else "must be a number of 0 or more, such as 0.5"
        case "top_p":
            return "" if _is_number(value, 1.0) else "must be a number from 0 to 1"
        case "stop":
            is_texts = isinstance(value, list | tuple) and all(isinstance(text, str) and text for text in value)
            return "" if is_texts else "must be a list of strings"
        case "thinking":
            return "" if value in LEVELS else f"must be one of {', '.join(LEVELS)}"
        case "tool_choice":
            return "" if isinstance(value, str) and value.strip() else "must be auto, none, required or a tool's name"
        case "output":
            if not isinstance(value, Mapping):
                return "must be a JSON Schema"
            problem = problem_of(dict(value))
            return f"must be a JSON Schema ({problem[:200]})" if problem else ""
        case _:
            is_fields = isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
            return "" if is_fields else "must be an object with fields of the request"


def _is_number(value: object, maximum: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and 0 <= value <= maximum

"""Finds the JSON in a model's answer, which may be in a fenced code block or within prose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from json import JSONDecoder
from typing import Any

from pydantic_core import from_json

_OBJECT = re.compile(r'\{(?=\s*["}])')
_OBJECT_OR_ARRAY = re.compile(r'\{(?=\s*["}])|\[(?=\s*[]\[{"\d-])')
"""What begins JSON, and hardly anything else: a brace in prose is not followed by a quotation mark."""

_BLOCK_START = re.compile(r"```\s*(json[c5l]?)?", re.IGNORECASE)

_NUMBER_CHARACTERS = "-+.0123456789eE"


class NoJsonError(ValueError):
    """There is no JSON in the answer, or more than one value; the message says which."""


def read_json(text: str, *, arrays: bool) -> Any:  # noqa: ANN401 - any JSON value
    """The JSON value of an answer: the whole text, or the only object in it.

    Args:
        text: The answer.
        arrays: Whether the value may be an array, so that an array within prose counts too.

    Raises:
        NoJsonError: There is none, it is malformed or cut, or there are several different ones.
    """
    try:
        return _parsed(text)
    except ValueError as error:
        problem = f"it is not JSON ({error})" if text.strip() else "it is empty"
    found = _in_blocks(text) or _in_prose(text, arrays=arrays)
    if not found:
        raise NoJsonError(problem)
    if any(value != found[0] for value in found[1:]):
        raise NoJsonError(f"it has {len(found)} different JSON values; write only one")
    return found[0]


def read_partial_json(text: str, *, arrays: bool) -> Any:  # noqa: ANN401 - any JSON value
    """The JSON value in an answer that is still being written, as far as it was received; None if there is none yet.

    A string at the end may be cut; a number is left out until it is complete.
    """
    start = (_OBJECT_OR_ARRAY if arrays else _OBJECT).search(text)
    if start is None:
        return None
    try:
        return from_json(text[start.start() :].rstrip(_NUMBER_CHARACTERS), allow_partial="trailing-strings")
    except ValueError:
        return None


def _parsed(text: str) -> Any:  # noqa: ANN401 - any JSON value
    return from_json(text, allow_inf_nan=False)


def _in_blocks(text: str) -> list[Any]:
    """The values of the fenced blocks that hold JSON; none if one of them is malformed."""
    try:
        return [_parsed(block) for block in _blocks(text)]
    except ValueError:
        return []


def _blocks(text: str) -> Iterator[str]:
    """The contents of the closed fenced blocks without a language, or whose language is JSON."""
    kept: list[str] | None = None
    is_json = False
    for line in text.split("\n"):
        stripped = line.strip()
        if kept is None and stripped.startswith("```"):
            kept, is_json = [], _BLOCK_START.fullmatch(stripped) is not None
        elif kept is not None and stripped == "```":
            if is_json:
                yield "\n".join(kept)
            kept = None
        elif kept is not None:
            kept.append(line)


def _in_prose(text: str, *, arrays: bool) -> list[Any]:
    """The objects in a text; none if one of them is malformed or cut, even if it contains objects that are not."""
    decoder, start = JSONDecoder(), _OBJECT_OR_ARRAY if arrays else _OBJECT
    found: list[Any] = []
    end = 0
    while (begin := start.search(text, end)) is not None:
        try:
            _, end = decoder.raw_decode(text, begin.start())
            found.append(_parsed(text[begin.start() : end]))
        except (ValueError, RecursionError):
            return []
    return found

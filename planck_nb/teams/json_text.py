"""Parses JSON files of unknown origin: strictly, and to a limited depth, so that all other code can recurse."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, NoReturn

MAX_DEPTH = 50
"""How deep lists and objects may be nested."""

_MAX_DIGITS = 100


def parse_json(content: bytes) -> object:
    """Return the data of a UTF-8 file with JSON text, with or without a byte order mark.

    Duplicate keys in an object are refused, because a person may see one of them while a program uses the other.

    Raises:
        ValueError: The content is something else; the message is the end of a sentence.
    """
    text = decode(content)
    try:
        data = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_float=_float,
            parse_int=_int,
        )
    except RecursionError:
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels") from None
    _check_depth(data)
    return data


def decode(content: bytes) -> str:
    """The text of a UTF-8 file, without its byte order mark. Raises ValueError with the end of a sentence."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        other = " (it looks like UTF-16)" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else ""
        raise ValueError(f"it is not UTF-8 text at byte {error.start + 1:,}{other}; save it as UTF-8") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice[:_MAX_DIGITS]!r} is in one object twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _float(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"the number {text[:_MAX_DIGITS]} is too large")
    return number


def _int(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"a number has {len(text):,} digits")
    return int(text)


def _check_depth(data: object) -> None:
    """Raise ValueError for data that is nested too deep; checks level by level, without recursion."""
    level: list[object] = [data]
    for _ in range(MAX_DEPTH + 1):
        level = [
            part
            for node in level
            for part in (node.values() if isinstance(node, dict) else node if isinstance(node, list) else ())
            if isinstance(part, dict | list)
        ]
        if not level:
            return
    raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")

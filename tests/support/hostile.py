"""Values that no honest server and no undamaged file contains, and ways to put them into JSON data."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

RAW = "\x00raw:"
"""Begins a text that stands for JSON text which Python does not write, such as NaN."""

DEEP: Any = []
for _ in range(150):
    DEEP = [DEEP]

NONSENSE: dict[str, Any] = {
    "a fraction": 1.5,
    "a huge fraction": 1e308,
    "a huge number": 10**30,
    "a number of 400 digits": 10**399,
    "a number that Python refuses to read": f"{RAW}{'9' * 5000}",
    "infinity": f"{RAW}1e999",
    "minus infinity": f"{RAW}-Infinity",
    "not a number": f"{RAW}NaN",
    "a negative number": -50_000_000,
    "minus one": -1,
    "more than 32 bits": 2**32 + 1,
    "more than 64 bits": 2**64 + 1,
    "a billion": 10**9,
    "true": True,
    "false": False,
    "null": None,
    "a word": "x",
    "an empty text": "",
    "a number as text": "12",
    "a huge text": "x" * 300_000,
    "control characters": "\x1b]52;c;aGk=\x07\x00\x9b31m\u202e",
    "half of a surrogate pair": f'{RAW}"\\ud800"',
    "an empty object": {},
    "a nested object": {"input_tokens": {"input_tokens": -5}},
    "an empty list": [],
    "a list": [1, "x", None],
    "a deep list": DEEP,
}


def changed(data: Any, value: Any) -> Iterator[Any]:
    """Copies of JSON data, each with `value` in place of one value in it, and one without that value."""
    for path in _paths(data):
        copied = copy.deepcopy(data)
        inner = copied
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = value
        yield copied


def _paths(data: Any) -> Iterator[tuple[Any, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for step, value in items:
        yield (step,)
        for rest in _paths(value):
            yield (step, *rest)


def raw(text: str) -> str:
    """JSON text with the texts that stand for other JSON text replaced by it."""
    while (start := text.find('"\\u0000raw:')) >= 0:
        end = start + len('"\\u0000raw:')
        while text[end] != '"':
            end += 1 + (text[end] == "\\")
        inside = text[start + len('"\\u0000raw:') : end].replace('\\"', '"').replace("\\\\", "\\")
        text = text[:start] + inside + text[end + 1 :]
    return text

"""New information in structured content."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")
_MAX_VALUES = 2_000
"""Largest number of values to look for in a text.

Content with more is passed on whole.
"""

_MAX_CHARACTERS = 100_000
"""Longest text to search; a longer one leaves no room anyway."""

_OUTCOMES = {"success": True, "ok": True, "isError": False, "error": None}
"""Fields which only repeat that a call succeeded."""


def added_content(content: Any, text: str) -> Any | None:  # noqa: ANN401 - any JSON value
    """Return the part of structured content which is not in a text.

    A text says a value if it contains the same words or number, in whatever arrangement.

    Args:
        content: The structured content, None without any.
        text: All text beside it.

    Returns:
        An object's new fields, or another value as a whole; None without news.

    Example:
        >>> added_content({"count": 2, "names": ["Rhine", "Danube"]}, "Found 2 rivers.")
        {'names': ['Rhine', 'Danube']}
        >>> added_content({"city": "Bonn", "degrees": 21.0}, "It is 21 degrees in Bonn.") is None
        True
    """
    if content is None or content in ({}, []) or len(text) > _MAX_CHARACTERS:
        return None
    if not text.strip():
        return content
    statements = _Statements(text)
    if not isinstance(content, dict):
        return content if statements.lack(content) else None
    news = {name: value for name, value in content.items() if not _repeats(name, value) and statements.lack(value)}
    return news or None


def _repeats(name: str, value: object) -> bool:
    return name in _OUTCOMES and value is _OUTCOMES[name]


class _Statements:
    """The words and numbers in a text."""

    def __init__(self, text: str) -> None:
        self._text = _flat(text)
        self._numbers = {float(number.replace(",", "")) for number in _NUMBER.findall(text)}
        try:
            self._value: Any = json.loads(text)
        except (ValueError, RecursionError):
            self._value = None

    def lack(self, value: Any) -> bool:  # noqa: ANN401 - any JSON value
        """Return whether a value is missing in the text."""
        if self._value is not None and self._value == value:
            return False
        return any(number >= _MAX_VALUES or not self._has(item) for number, item in enumerate(_leaves(value)))

    def _has(self, value: object) -> bool:
        if isinstance(value, bool):
            words = ("true", "yes") if value else ("false", "no")
            return re.search(rf"\b(?:{'|'.join(words)})\b", self._text, re.IGNORECASE) is not None
        if isinstance(value, int | float):
            return float(value) in self._numbers
        text = str(value)
        forms = (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
        return any(_flat(form) in self._text for form in forms)


def _leaves(value: Any) -> Iterator[object]:  # noqa: ANN401 - any JSON value
    """Yield the texts, numbers and truth values in a value."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict | list):
            waiting.extend(item.values() if isinstance(item, dict) else item)
        elif item not in (None, ""):
            yield item


def _flat(text: str) -> str:
    return " ".join(text.split())

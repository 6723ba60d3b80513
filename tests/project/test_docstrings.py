"""Every public callable documents its arguments and what it returns."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docstring_parser
import pytest
from support.public_api import public_callables

LIST = Path(__file__).with_name("undocumented.txt")
"""Public names of the callables whose docstrings are not complete yet. It only ever gets shorter."""


def gaps(function: Callable[..., Any]) -> list[str]:
    """What the docstring of a function or class does not document."""
    text = inspect.getdoc(function) or ""
    parsed = docstring_parser.parse(text, style=docstring_parser.DocstringStyle.GOOGLE)
    missing = [] if parsed.short_description else ["a description"]
    documented = _documented(function)
    missing += [name for name in _parameters(function) if name not in documented]
    if not inspect.isclass(function) and _returns(function) and not parsed.returns:
        missing += [] if re.match(r"(Return|Yield)", text) and not _parameters(function) else ["Returns"]
    if re.search(r"Raises? `", text):
        missing.append("Raises as a section")
    return missing


def _documented(function: Callable[..., Any]) -> set[str]:
    owners = function.__mro__ if inspect.isclass(function) else (function,)
    parsed = (
        docstring_parser.parse(owner.__doc__ or "", style=docstring_parser.DocstringStyle.GOOGLE) for owner in owners
    )
    return {parameter.arg_name.lstrip("*") for docstring in parsed for parameter in docstring.params}


def _parameters(function: Callable[..., Any]) -> list[str]:
    if inspect.isclass(function) and (getattr(function, "_is_protocol", False) or issubclass(function, BaseException)):
        return []
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return []
    tag = {"type"} if inspect.isclass(function) and hasattr(function, "__dataclass_fields__") else set[str]()
    return [name for name in signature.parameters if name not in {"self", "cls", *tag} and not name.startswith("_")]


def _returns(function: Callable[..., Any]) -> bool:
    return inspect.signature(function).return_annotation not in ("None", None, "Never", "NoReturn")


def incomplete() -> Iterator[tuple[str, list[str]]]:
    for name, function in public_callables():
        if missing := gaps(function):
            yield name, missing


def test_docstrings_are_complete() -> None:
    known = set(LIST.read_text().split())
    assert {name: missing for name, missing in incomplete() if name not in known} == {}


def undocumented(text: str, *, loud: bool = False) -> str:
    """Return the text in capitals.

    Args:
        text: What to write in capitals.
    """
    return text.upper() if loud else text


def documented(text: str) -> str:
    """Write the text in capitals.

    Args:
        text: What to write in capitals.

    Returns:
        The text in capitals.
    """
    return text.upper()


class Documented:
    """A box.

    Args:
        size: Its size in metres.
    """

    def __init__(self, size: float) -> None:
        self.size = size


@pytest.mark.parametrize(
    ("function", "missing"), [(undocumented, ["loud", "Returns"]), (documented, []), (Documented, [])]
)
def test_gaps_are_found(function: Callable[..., Any], missing: list[str]) -> None:
    assert gaps(function) == missing

"""Every public callable documents its arguments, what it returns and what it raises."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import docstring_parser
import pytest
from support.public_api import public_callables


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
    return missing + sorted(_raised(function) - {known.type_name or "" for known in parsed.raises})


def _documented(function: Callable[..., Any]) -> set[str]:
    owners = function.__mro__ if inspect.isclass(function) else (function,)
    parsed = (
        docstring_parser.parse(owner.__doc__ or "", style=docstring_parser.DocstringStyle.GOOGLE) for owner in owners
    )
    return {parameter.arg_name.lstrip("*") for docstring in parsed for parameter in docstring.params}


def _raised(function: Callable[..., Any]) -> set[str]:
    """The names of the exceptions that the function raises itself, not in functions that it calls or defines."""
    code: object = function
    if inspect.isclass(function):
        if getattr(function, "_is_protocol", False) or issubclass(function, BaseException):
            return set()
        code = function.__dict__.get("__post_init__") or function.__dict__.get("__init__")
    if not inspect.isfunction(code) or code.__code__.co_filename == "<string>":  # a dataclass's
        return set()
    [defined] = ast.parse(textwrap.dedent(inspect.getsource(code))).body
    return set(_raised_in(defined))


def _raised_in(code: ast.AST) -> Iterator[str]:
    for node in ast.iter_child_nodes(code):
        if isinstance(node, ast.Raise):
            raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            name = ast.unparse(raised).rpartition(".")[2] if raised is not None else ""
            if name[:1].isupper():  # others are variables, which hold what was caught
                yield name
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield from _raised_in(node)


def _parameters(function: Callable[..., Any]) -> list[str]:
    if inspect.isclass(function) and (
        getattr(function, "_is_protocol", False) or issubclass(function, BaseException | Enum)
    ):
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


@pytest.mark.slow
def test_docstrings_are_complete() -> None:
    assert dict(incomplete()) == {}


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


def raising(text: str) -> str:
    """Write the text in capitals.

    Args:
        text: What to write in capitals.

    Returns:
        The text in capitals.

    Raises:
        ValueError: The text is empty.
    """

    def unlike(other: str) -> None:
        raise OSError(other)  # this one is raised by another function

    if not text:
        raise ValueError(text)
    for _ in text:
        if text == "?":
            raise inspect.ClassFoundException
        try:
            unlike(text)
        except OSError as error:
            kept = error
            raise kept from None
    return text.upper()


class Documented:
    """A box.

    Args:
        size: Its size in metres.
    """

    def __init__(self, size: float) -> None:
        self.size = size


class Raising:
    """A box.

    Args:
        size: Its size in metres.
    """

    def __init__(self, size: float) -> None:
        if size < 0:
            raise ValueError(size)
        self.size = size


@pytest.mark.parametrize(
    ("function", "missing"),
    [
        (undocumented, ["loud", "Returns"]),
        (documented, []),
        (raising, ["ClassFoundException"]),
        (Documented, []),
        (Raising, ["ValueError"]),
    ],
)
def test_gaps_are_found(function: Callable[..., Any], missing: list[str]) -> None:
    assert gaps(function) == missing

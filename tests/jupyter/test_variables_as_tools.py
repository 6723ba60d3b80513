"""Under which names the functions of a notebook become tools, and are found again when a session is resumed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from planck_nb import tool
from planck_nb.base.errors import UsageError
from planck_nb.jupyter.namespace import tool_finder, tools_named


def delete(path: str, really: bool) -> str:
    """Delete a file."""
    return f"{path} {really}"


@tool(name="renamed")
def with_a_name(x: int) -> int:
    """Return it."""
    return x


class Search:
    """Looks for texts."""

    def __call__(self, text: str) -> str:
        """Find a text."""
        return text

    def newest(self, count: int) -> str:
        """Find the newest texts."""
        return str(count)


VARIABLES: dict[str, object] = {
    "delete": delete,
    "dry": partial(delete, really=False),
    "wet": partial(delete, really=True),
    "find": Search(),
    "latest": Search().newest,
    "short": lambda text: text,
    "with_a_name": with_a_name,
}
NAMES = {
    "delete": ("delete", ["path", "really"]),
    "dry": ("dry", ["path"]),
    "wet": ("wet", ["path"]),
    "find": ("find", ["text"]),
    "latest": ("latest", ["count"]),
    "short": ("short", ["text"]),
    "with_a_name": ("renamed", ["x"]),
}


@pytest.mark.parametrize("name", VARIABLES)
def test_what_has_no_name_of_its_own_is_named_by_its_variable(name: str) -> None:
    [named] = tools_named([name], VARIABLES, None)  # type: ignore[arg-type]
    found = tool_finder(VARIABLES)(name)
    assert found is not None
    for made in (named, found):
        assert (made.name, list(made.parameters["properties"])) == NAMES[name]
        assert made.description == found.description


def test_several_partials_of_a_function_are_several_tools() -> None:
    dry, wet = tools_named(["dry", "wet"], VARIABLES, None)  # type: ignore[arg-type]
    assert (dry("a"), wet("a")) == ("a False", "a True")
    assert (dry.description, wet.description) == ("Delete a file.",) * 2


def test_a_partial_that_was_stored_is_found_with_what_it_has_bound() -> None:
    """The function alone would do what the partial prevents."""
    [stored] = tools_named(["dry"], VARIABLES, None)  # type: ignore[arg-type]
    found = tool_finder(VARIABLES)(stored.name)
    assert found is not None
    assert found("a") == "a False"


def test_two_functions_of_one_name_are_refused() -> None:
    def scale(factor: int) -> Callable[[int], int]:
        def scaled(value: int) -> int:
            return factor * value

        return scaled

    namespace: dict[str, Any] = {"double": scale(2), "triple": scale(3)}
    with pytest.raises(UsageError, match="Two different functions make a tool named scaled"):
        tools_named(["double", "triple"], namespace, None)  # type: ignore[arg-type]
    assert [each.name for each in tools_named(["double", "double"], namespace, None)] == ["scaled"]  # type: ignore[arg-type]

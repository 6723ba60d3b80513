from __future__ import annotations

import functools
import json
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from planck_nb import Agent, Tool, ToolContext, tool
from planck_nb.agent.calling.functions import ToolLike
from planck_nb.agent.calling.json_schema import errors_of, problem_of, validator
from planck_nb.base.errors import ToolError, UsageError
from planck_nb.testing import scripted_model


class Point(BaseModel):
    x: int
    y: int = 0


def test_the_schema_comes_from_hints_and_docstring() -> None:
    @tool
    def forecast(city: str, days: int = 1, unit: Literal["C", "F"] = "C") -> str:
        """Forecast the weather.

        Looks at the sky.

        Args:
            city: Where.
            days: How far ahead, in days.
        """
        return f"{city} {days} {unit}"

    assert forecast.name == "forecast"
    assert forecast.description == "Forecast the weather.\n\nLooks at the sky."
    assert forecast.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where."},
            "days": {"type": "integer", "default": 1, "description": "How far ahead, in days."},
            "unit": {"enum": ["C", "F"], "type": "string", "default": "C"},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


class Finder:
    def find(self, text: str) -> str:
        return text


def test_an_agent_does_not_take_two_different_functions_of_one_name() -> None:
    def scale(value: int, factor: int) -> int:
        return value * factor

    double, triple = (functools.partial(scale, factor=factor) for factor in (2, 3))
    with pytest.raises(UsageError, match="Two different functions make a tool named scale; give one of them another"):
        Agent(model=scripted_model([]), tools=[double, triple])
    finder = Finder()
    tools: list[ToolLike] = [scale, tool(scale), tool(name="triple")(triple), finder.find, finder.find]
    assert [each.name for each in Agent(model=scripted_model([]), tools=tools).tools] == ["scale", "triple", "find"]


async def test_arguments_are_converted_and_the_tool_stays_a_function() -> None:
    @tool(name="norm", description="Sum of coordinates.")
    def total(points: list[Point], scale: Annotated[float, Field(gt=0)] = 1.0) -> float:
        return scale * sum(point.x + point.y for point in points)

    assert (await total.run({"points": [{"x": 1}, {"x": 2, "y": 3}], "scale": "2"})).text == "12.0"
    assert total([Point(x=1)]) == 1.0
    with pytest.raises(ToolError, match="scale: Input should be greater than 0"):
        await total.run({"points": [], "scale": -1})


async def test_unusual_parameter_names_work() -> None:
    def odd(model_config: int, schema: int, _private: int) -> int:
        return model_config + schema + _private

    made = tool(odd)
    assert list(made.parameters["properties"]) == ["model_config", "schema", "_private"]
    assert (await made.run({"model_config": 1, "schema": 2, "_private": 3})).text == "6"


def test_a_function_that_json_cannot_call_is_refused_in_one_sentence() -> None:
    def positional(a: int, /) -> int:
        return a

    def stars(*args: int) -> None: ...

    def callback(function: Callable[[int], int]) -> None: ...

    class Unknown: ...

    def custom(thing: Unknown) -> None: ...

    custom.__annotations__["thing"] = Unknown
    for function in (positional, stars, custom, callback):
        with pytest.raises(UsageError, match="cannot be a tool"):
            tool(function)


async def test_an_exception_is_reported_with_its_class_and_text() -> None:
    def bad() -> None:
        raise KeyError("city")

    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(ToolError, match="KeyError: 'city'"):
        await tool(bad).run({})
    with pytest.raises(ToolError, match="SystemExit: 3"):
        await tool(leave).run({})


async def test_a_default_that_json_cannot_have_is_not_sent() -> None:
    def clip(
        values: list[float], low: float = float("-inf"), high: Annotated[float, Field(le=math.inf)] = math.nan
    ) -> str:
        return f"{values} {low} {high}"

    made = tool(clip)
    assert json.dumps(made.parameters, allow_nan=False)
    assert (await made.run({"values": [1]})).text == "[1.0] -inf nan"


def test_calling_a_tool_without_a_function_says_why() -> None:
    made = Tool(name="raw", description="", execute_fn=lambda args: None)
    with pytest.raises(TypeError, match="raw is not made from a Python function"):
        made()


def test_descriptions_and_defaults_survive() -> None:
    def book(
        guests: Annotated[int, Field(description="How many.")],
        who: dict[str, str] = {"title": "Mr"},  # noqa: B006
    ) -> None: ...

    properties = tool(book).parameters["properties"]
    assert properties["guests"] == {"type": "integer", "description": "How many."}
    assert properties["who"]["default"] == {"title": "Mr"}
    assert "title" not in properties["who"]


@pytest.mark.parametrize("name", ["", "a b", "größe", "<lambda>", "a" * 65, "a.b", None])
def test_a_name_that_vendors_refuse_is_refused(name: Any) -> None:
    with pytest.raises(UsageError, match=r"cannot be the name of a tool: .* give another `name`"):
        Tool(name=name, description="", execute_fn=print)


def test_a_function_without_a_name_that_vendors_take_needs_another() -> None:
    def double(x: int) -> int:
        return 2 * x

    double.__name__ = "größe"
    with pytest.raises(UsageError, match="'größe' cannot be the name of a tool"):
        tool(double)
    assert tool(name="size")(double).name == "size"


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("parameters", [1], "must be a JSON Schema, a dictionary"),
        ("execute_fn", 3, "must be a function, not 3"),
        ("timeout", -1, "above 0 seconds"),
    ],
)
def test_a_tool_that_could_never_run_is_refused(field: str, value: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Tool(**{"name": "t", "description": "", "execute_fn": print, field: value})


class Shelf:
    """A shelf of books."""

    def __init__(self, books: dict[str, int]) -> None:
        self.books = books

    def pages(self, title: str, factor: int = 1) -> int:
        """Count the pages of a book.

        Args:
            title: Its title.
        """
        return self.books[title] * factor

    async def find(self, title: str) -> bool:
        """Look for a book."""
        return title in self.books

    @classmethod
    def sort_key(cls, title: str) -> str:
        """Make a key."""
        return title.lower()


class Search:
    """Searches a library."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf

    def __call__(self, title: str) -> bool:
        """Search for a title.

        Args:
            title: The title.
        """
        return title in self.shelf.books


class Later:
    """Answers later."""

    async def __call__(self, text: str, context: ToolContext) -> str:
        context.progress("soon")
        return text.upper()


def scale(value: float, factor: float, *, unit: str = "m", note: Annotated[str, Field(max_length=3)] = "") -> str:
    """Scale a value.

    Args:
        value: What to scale.
        factor: By how much.
        unit: The unit.
    """
    return f"{value * factor:g} {unit}{note}"


async def slow(value: int, factor: int) -> int:
    """Multiply slowly."""
    return value * factor


def with_context(context: ToolContext, value: int, factor: int) -> str:
    """Multiply for a caller."""
    return f"{context.call_id}{value * factor}"


SHELF = Shelf({"Dune": 600})
WRAPPED = functools.update_wrapper(functools.partial(scale, factor=2.0), scale)

CALLABLES: tuple[tuple[Callable[..., Any], str, str, list[str], dict[str, Any], str], ...] = (
    (SHELF.pages, "pages", "Count the pages of a book.", ["title", "factor"], {"title": "Dune"}, "600"),
    (SHELF.find, "find", "Look for a book.", ["title"], {"title": "Emma"}, "false"),
    (SHELF.sort_key, "sort_key", "Make a key.", ["title"], {"title": "Emma"}, "emma"),
    (Search(SHELF), "Search", "Search for a title.", ["title"], {"title": "Dune"}, "true"),
    (Later(), "Later", "Answers later.", ["text"], {"text": "yes"}, "YES"),
    (functools.partial(scale, factor=2.0), "scale", "Scale a value.", ["value", "unit", "note"], {"value": 3}, "6 m"),
    (functools.partial(scale, 3), "scale", "Scale a value.", ["factor", "unit", "note"], {"factor": 2}, "6 m"),
    (WRAPPED, "scale", "Scale a value.", ["value", "unit", "note"], {"value": 3}, "6 m"),
    (
        functools.partial(functools.partial(scale, unit="km"), factor=2),
        "scale",
        "Scale a value.",
        ["value", "note"],
        {"value": 4},
        "8 km",
    ),
    (functools.partial(slow, factor=3), "slow", "Multiply slowly.", ["value"], {"value": 2}, "6"),
    (
        functools.partial(SHELF.pages, factor=2),
        "pages",
        "Count the pages of a book.",
        ["title"],
        {"title": "Dune"},
        "1200",
    ),
    (functools.partial(SHELF.pages, "Dune"), "pages", "Count the pages of a book.", ["factor"], {}, "600"),
    (functools.partial(Search(SHELF), title="Dune"), "Search", "Search for a title.", [], {}, "true"),
    (
        functools.partial(tool(scale), factor=5),
        "scale",
        "Scale a value.",
        ["value", "unit", "note"],
        {"value": 1},
        "5 m",
    ),
    (functools.partial(with_context, factor=2), "with_context", "Multiply for a caller.", ["value"], {"value": 2}, "4"),
)


@pytest.mark.parametrize("case", CALLABLES)
async def test_any_callable_is_a_tool_without_its_bound_arguments(
    case: tuple[Callable[..., Any], str, str, list[str], dict[str, Any], str],
) -> None:
    function, name, description, names, args, text = case
    agent = Agent(model=scripted_model(["-"]), tools=[function])
    (made,) = agent.tools
    assert (made.name, made.description) == (name, description)
    assert list(made.parameters["properties"]) == names
    assert (await made.run(args)).text == text
    if names:
        with pytest.raises(ToolError, match="Extra inputs are not permitted"):
            await made.run({**args, "unknown": 1})


def test_annotations_and_descriptions_of_what_is_not_bound_are_kept() -> None:
    made = tool(functools.partial(scale, factor=2.0))
    assert made.parameters == {
        "type": "object",
        "properties": {
            "value": {"type": "number", "description": "What to scale."},
            "unit": {"type": "string", "default": "m", "description": "The unit."},
            "note": {"type": "string", "default": "", "maxLength": 3},
        },
        "required": ["value"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("function", [lambda: 1, functools.partial(lambda city: city, city="Rome")])
def test_what_has_no_name_is_refused_in_one_sentence_that_says_how_to_give_one(function: Callable[..., Any]) -> None:
    with pytest.raises(
        UsageError, match=r'There is no name for a tool .*; give it one: tool\(name="…"\)\(function\)\.'
    ):
        Agent(model=scripted_model(["-"]), tools=[function])
    assert tool(name="anything")(function).name == "anything"


# What checks arguments and answers against JSON Schemas.

CODE = """
import sys
from planck_nb.agent.calling.json_schema import problem_of, validator
problem_of({}), validator({})
assert "jsonschema" in sys.modules
print({"rfc3987_syntax", "lark"} & set(sys.modules))
"""


@pytest.mark.process
@pytest.mark.parametrize("before", ["", "sys.modules['lark'] = None; import jsonschema; del sys.modules['lark']"])
def test_no_parser_of_addresses_is_loaded_with_it(before: str) -> None:
    code = f"import sys; {before}\n{CODE}"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "set()\n"


def test_a_schema_is_checked_and_then_checks() -> None:
    assert problem_of({"type": "object"}) == ""
    assert "is not valid" in problem_of({"type": 3})
    assert [error.message for error in errors_of(validator({"type": "integer"}), "x")] == [
        "'x' is not of type 'integer'"
    ]
    inner = {"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}
    assert errors_of(validator(inner), 1) == []


def test_what_a_schema_does_not_hold_is_not_looked_for() -> None:
    with pytest.raises(ToolError, match=r"refers to file:///etc/hostname; write that out in the schema\."):
        errors_of(validator({"$ref": "file:///etc/hostname"}), 1)

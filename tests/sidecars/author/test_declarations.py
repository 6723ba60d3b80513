"""What the decorators turn functions into."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any, Literal

import pydantic
import pytest
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from planck_nb import ai
from planck_nb.agent.calling.docstrings import documented, read_docstring
from planck_nb.agent.calling.image_size import read_dimensions
from planck_nb.agent.context.compactor import Compact
from planck_nb.agent.events import TurnStart, encode_event
from planck_nb.base.errors import ToolError, UsageError
from planck_nb.sidecars import CompactedModel, Sidecar, compactor, execute_tool, observer, tool
from planck_nb.sidecars.author.offerings import prompt_of
from planck_nb.sidecars.conventions import clamp_timeout_ms


def top_level(number: int) -> int:
    return number


async def top_level_async(number: int) -> int:
    return number


class Counter:
    def count(self, number: int) -> int:
        return number


def closure() -> Any:
    def inner(number: int) -> int:
        return number

    return inner


@pytest.mark.parametrize(
    ("function", "process", "runs"),
    [
        (top_level, None, "process"),
        (top_level, True, "process"),
        (top_level, False, "thread"),
        (closure(), None, "thread"),
        (Counter().count, None, "thread"),
        (top_level_async, None, "async"),
        (top_level_async, False, "async"),
    ],
)
def test_how_a_function_runs(function: Any, process: bool | None, runs: str) -> None:
    assert tool(process=process)(function).runs == runs


@pytest.mark.parametrize("function", [closure(), Counter().count, top_level_async])
def test_a_process_cannot_be_forced(function: Any) -> None:
    with pytest.raises(UsageError, match="process=True"):
        tool(process=True)(function)


@pytest.mark.parametrize("timeout_ms", [0, -1, 3_600_001, 1.5, "10", True, None])
def test_timeouts_are_checked(timeout_ms: Any) -> None:
    with pytest.raises(UsageError, match="timeout_ms of top_level"):
        tool(timeout_ms=timeout_ms)(top_level)


@pytest.mark.parametrize(
    ("given", "clamped"), [(0, 1), (-5, 1), (1, 1), (1.6, 2), (3_600_000, 3_600_000), (1e300, 3_600_000)]
)
def test_timeouts_of_calls_are_clamped(given: float, clamped: int) -> None:
    assert clamp_timeout_ms(given) == clamped
    assert clamp_timeout_ms(float("nan")) == 1


class Point(pydantic.BaseModel):
    x: int


@dataclasses.dataclass
class Line:
    points: list[Point]


class Row(TypedDict):
    value: float


class Tree(pydantic.BaseModel):
    children: list[Tree] = []


@pytest.mark.parametrize("returned", [Point, Line, Row, Tree, dict[str, int], dict])
def test_models_and_dictionaries_are_structured(returned: Any) -> None:
    def make() -> None: ...

    make.__annotations__["return"] = returned
    structure = tool(make).structure
    assert structure is not None
    assert structure.schema["type"] == "object"


@pytest.mark.parametrize("returned", [str, int, list[int], None, Any, bytes, object, Literal["a"]])
def test_other_results_are_not_structured(returned: Any) -> None:
    def make() -> None: ...

    make.__annotations__["return"] = returned
    assert tool(make).structure is None


MESSAGES: list[ai.Message] = [ai.UserMessage(word) for word in ("a", "b", "same", "same")]


def compacted(made: Any) -> Any:
    sidecar = Sidecar("s")
    sidecar.add(made)
    numbered = [{"id": number, **ai.encode_message(message)} for number, message in enumerate(MESSAGES, 10)]
    args = {"messages": numbered, "model": {"reference": "x:y", "context_window": 1_000}}
    return execute_tool(made.name, "", args, module=sidecar)


def test_kept_messages_become_ids_also_if_two_are_equal() -> None:
    @compactor
    def last(messages: list[ai.Message], model: CompactedModel) -> tuple[str, list[ai.Message]]:
        return f"{model.reference} {model.context_window}", messages[-1:]

    assert compacted(last) == {"action": "compact", "summary": "x:y 1000", "keep_ids": [13]}


def test_a_compactor_may_be_async_and_need_no_model() -> None:
    @compactor(name="all")
    async def keep(messages: list[ai.Message]) -> Compact:
        await asyncio.sleep(0)
        return Compact("sum", messages[:2])

    assert keep.name == "planck_compact_all"
    assert compacted(keep) == {"action": "compact", "summary": "sum", "keep_ids": [10, 11]}


def test_a_compactor_may_skip() -> None:
    @compactor
    def nothing(messages: list[ai.Message], model: CompactedModel) -> None:
        return None

    assert compacted(nothing) == {"action": "skip"}


@pytest.mark.parametrize(
    "returned", [("sum", [ai.UserMessage("a")]), ("", []), (" ", []), 3, ("sum",), ("sum", "text"), {"summary": "x"}]
)
def test_a_compactor_cannot_rewrite_messages(returned: object) -> None:
    @compactor(name="odd")
    def odd(messages: list[ai.Message], model: CompactedModel) -> object:
        return returned

    with pytest.raises(ToolError, match="The compactor odd returned"):
        compacted(odd)


@pytest.mark.parametrize("name", ["", "a b", "é", "x" * 49, "a.b"])
def test_names_of_compactors_and_observers_are_checked(name: str) -> None:
    named = name or " "
    with pytest.raises(UsageError, match="cannot be the name"):
        compactor(name=named)(top_level)
    with pytest.raises(UsageError, match="cannot be the name"):
        observer(name=named)(top_level)


def test_an_observer_gets_events_and_leaves_out_what_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[object, str]] = []

    @observer
    def watch(events: list[object], session_id: str) -> None:
        seen.extend((event, session_id) for event in events)

    event = TurnStart(index=1, model="m", agent_id="a", session_id="s", turn=1, seq=1, time=0.0)
    sidecar = Sidecar("s")
    sidecar.add(watch)
    events = [encode_event(event), {"type": "of the future"}]
    execute_tool(watch.name, "", {"events": events, "session_id": "s"}, module=sidecar)
    assert seen == [(event, "s")]
    assert "of the future" in capsys.readouterr().err


def test_arguments_of_a_prompt() -> None:
    def greet(name: str, style: Literal["warm", "cold"] = "warm") -> str:
        """Greet a person.

        Args:
            name: Who it is.
        """
        return f"{style} {name}"

    made = prompt_of(greet, name=None, description=None)
    assert (made.name, made.description) == ("greet", "Greet a person.")
    assert [(item.name, item.description, item.required) for item in made.arguments] == [
        ("name", "Who it is.", True),
        ("style", "", False),
    ]
    assert made.arguments[1].choices == ("warm", "cold")


@pytest.mark.parametrize(
    "docstring",
    [
        "",
        "Add two numbers.",
        "Add two numbers.\n\nThey may be large.",
        "Add.\n\nArgs:\n    a: The first.\n    b (int): The second,\n        on two lines.\n\nReturns:\n    The sum.\n",
        "Add.\n\nArgs:\n    a: The first.\n\nRaises:\n    ValueError: Never.\n\nExample:\n    >>> 1\n",
        ":param a: The first.\n:param int b: The second.\n:returns: The sum.",
        "Add.\n\n:param a: The first.\n",
    ],
)
def test_docstrings_are_read_alike_without_the_library(docstring: str) -> None:
    with_library, without = documented(docstring), read_docstring(docstring)
    assert without.summary == with_library.summary
    assert without.arguments == with_library.arguments


@pytest.mark.parametrize("kind", ["png", "jpeg", "gif", "webp"])
def test_sizes_of_images_are_read_without_the_library(kind: str) -> None:
    import io

    from PIL import Image

    for lossless in (False, True):
        drawing = io.BytesIO()
        options: dict[str, Any] = {"lossless": lossless} if kind == "webp" else {}
        Image.new("RGB", (301, 17), "red").save(drawing, format=kind, **options)
        assert read_dimensions(drawing.getvalue()) == (301, 17)
        assert read_dimensions(drawing.getvalue()[:8]) == (-1, -1)


def test_the_size_of_an_extended_webp() -> None:
    header = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + (300).to_bytes(3, "little") + (16).to_bytes(3, "little")
    assert read_dimensions(header) == (301, 17)

"""Calls end with their turn, failures count as failures, and a model that repeats itself is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator
from typing import Any, NamedTuple

import pytest
from support.agents import Listening, kinds

from planck_nb import Agent, Tool
from planck_nb.agent.calling.tool import ToolContext
from planck_nb.agent.calling.user_code import STOPPED
from planck_nb.agent.limits import REPETITIONS, Limits
from planck_nb.ai.messages import ToolResultPart
from planck_nb.base.errors import ConfigError
from planck_nb.testing import Call, Reply, scripted_model


class Stubborn:
    """A tool that ignores its cancellation, shows progress afterwards and ends when the test lets it."""

    def __init__(self) -> None:
        self.begun, self.go, self.over = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work(self, context: ToolContext) -> str:
        self.begun.set()
        while not self.go.is_set():
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                continue
        context.progress("still here\n")
        self.over.set()
        return "done after all"


@pytest.fixture
async def stubborn() -> AsyncIterator[Stubborn]:
    tool = Stubborn()
    yield tool
    tool.go.set()  # else closing the event loop would wait for it


@pytest.mark.slow
@pytest.mark.parametrize("fails", [False, True])
async def test_a_tool_that_outlives_its_turn_shows_nothing_in_the_next(stubborn: Stubborn, *, fails: bool) -> None:
    quick = asyncio.Event()

    async def wait() -> str:
        await quick.wait()
        return "waited"

    script: list[Reply | str] = [Reply(calls=[Call("work", {})]), Reply(calls=[Call("wait", {})]), "second"]
    agent = Agent(model=scripted_model(script), tools=[stubborn.work, wait], limits=Limits(seconds=1 if fails else 60))
    first = agent.prompt("A")
    await stubborn.begun.wait()
    if not fails:
        await agent.abort()
    await first.wait()
    ended = [event for event in first.events.since(0) if event.type == "tool_end"]
    assert [(event.name, event.result, event.error) for event in ended] == [("work", STOPPED, True)]
    assert kinds(first.events.since(0), "tool_end", "aborted", "turn_end")[0] == "tool_end"
    agent.limits = Limits()
    second = agent.prompt("B")
    async for event in second:
        if event.type == "tool_start":
            break
    stubborn.go.set()
    await stubborn.over.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    quick.set()
    assert (await second).text == "second"
    told = [event for event in second.events.since(0) if event.type in {"tool_start", "tool_end", "tool_progress"}]
    assert [event.name for event in told] == ["wait", "wait"]
    assert agent.state.running == ()


def results(agent: Agent) -> list[ToolResultPart]:
    return [
        part for entry in agent.state.messages if entry.message.type == "tool_result" for part in entry.message.content
    ]


class Outcome(NamedTuple):
    word: str
    value: str


def pair() -> object:
    return "error", "no such file"


async def awaited_pair() -> object:
    return "error", "no such file"


def yielded_pair() -> Generator[object, None, object]:
    yield "looking"
    return ("error", "no such file")


async def async_yielded_pair() -> AsyncIterator[object]:
    yield "looking"
    yield ("error", "no such file")


async def _late() -> object:
    return "error", "no such file"


def returned_awaitable() -> object:
    return _late()


@pytest.mark.parametrize("function", [pair, awaited_pair, yielded_pair, async_yielded_pair, returned_awaitable])
async def test_a_pair_of_error_and_reason_is_a_failure(function: Any) -> None:
    agent = Agent(model=scripted_model([Reply(calls=[Call("look", {})]), "done"]))
    agent.add_tool(Tool(name="look", description="Look.", execute_fn=lambda _args: function()))
    run = agent.prompt("go")
    await run
    [result] = results(agent)
    assert (result.text, result.is_error) == ("Error: no such file", True)
    [ended] = [event for event in run.events.since(0) if event.type == "tool_end"]
    assert ended.error


@pytest.mark.parametrize("reason", [{"code": 4}, None, 4, ["a", "b"]])
async def test_the_reason_may_be_any_value(reason: object) -> None:
    agent = Agent(model=scripted_model([Reply(calls=[Call("look", {})]), "done"]))
    agent.add_tool(Tool(name="look", description="Look.", execute_fn=lambda _args: ("error", reason)))
    await agent.prompt("go")
    [result] = results(agent)
    assert result.is_error
    assert result.text.startswith("Error: ")


@pytest.mark.parametrize(
    "value",
    [["error", "a list"], ("error",), ("error", "of", "three"), ("errors", "2"), ("ok", "x"), Outcome("error", "x")],
)
async def test_other_values_with_the_word_error_are_results(value: object) -> None:
    agent = Agent(model=scripted_model([Reply(calls=[Call("look", {})]), "done"]))
    agent.add_tool(Tool(name="look", description="Look.", execute_fn=lambda _args: value))
    await agent.prompt("go")
    [result] = results(agent)
    assert not result.is_error


async def test_the_errors_of_a_task_group_are_named() -> None:
    async def fail(reason: str) -> None:
        raise ValueError(reason)

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail("one"))
            group.create_task(fail("two"))

    agent = Agent(model=scripted_model([Reply(calls=[Call("work", {})]), "done"]), tools=[work])
    await agent.prompt("go")
    [result] = results(agent)
    assert result.text == "Error: ValueError: one; ValueError: two"


def looping(times: int, calls: int = 1) -> list[Reply | str]:
    return [*(Reply(calls=[Call("read", {"b": 2, "a": 1})] * calls) for _ in range(times)), "done"]


def read(a: int, b: int) -> str:
    return f"{a} {b}"


@pytest.mark.parametrize(("times", "calls"), [(9, 1), (3, 3), (1, 9)])
async def test_below_the_limit_nothing_changes(times: int, calls: int) -> None:
    client = Listening()
    agent = Agent(model=scripted_model(looping(times, calls)), tools=[read], client=client)
    run = agent.prompt("go")
    await run
    assert {result.text for result in results(agent)} == {"1 2"}
    assert "warning" not in kinds(run.events.since(0))


@pytest.mark.parametrize("calls", [1, 3, 10])
async def test_the_model_is_told_of_every_tenth_identical_call(calls: int) -> None:
    agent = Agent(model=scripted_model(looping(30 // calls, calls)), tools=[read])
    run = agent.prompt("go")
    assert (await run).text == "done"
    noted = [number for number, result in enumerate(results(agent), 1) if "do something else" in result.text]
    assert noted == [10, 20, 30]
    assert results(agent)[9].text == (
        "1 2\n\n[read was called 10 times in this turn with the same arguments and the same result; "
        "do something else, or answer.]"
    )
    warnings = [event.text for event in run.events.since(0) if event.type == "warning"]
    assert warnings[0] == "The model has called read 10 times with the same arguments and result."
    assert len(warnings) == 3


async def test_other_arguments_or_results_are_not_the_same_call() -> None:
    counted = iter(range(1_000))

    def count() -> int:
        return next(counted)

    script = [Reply(calls=[Call("count", {}), Call("read", {"a": number, "b": 0})]) for number in range(40)]
    agent = Agent(model=scripted_model([*script, "done"]), tools=[count, read])
    assert (await agent.prompt("go")).text == "done"
    assert not [result for result in results(agent) if "do something else" in result.text]


async def test_the_count_begins_anew_with_each_turn() -> None:
    agent = Agent(model=scripted_model([*looping(6), *looping(6)]), tools=[read])
    await agent.prompt("go")
    await agent.prompt("again")
    assert {result.text for result in results(agent)} == {"1 2"}


async def test_a_turn_of_nothing_but_repetition_ends_with_a_sentence() -> None:
    bound = 2
    agent = Agent(model=scripted_model(looping(99)), tools=[read], limits=Limits(repeated_calls=bound))
    run = agent.prompt("go")
    result = await run
    assert result.limit == (
        "The model called read 10 times with the same arguments and the same result; rephrase the prompt, or "
        "raise `repeated_calls` in the limits."
    )
    assert len(results(agent)) == bound * REPETITIONS
    [reached] = [event for event in run.events.since(0) if event.type == "limit_reached"]
    assert reached.limit == "repeated_calls"


async def test_without_the_limit_nothing_is_counted() -> None:
    agent = Agent(model=scripted_model(looping(49)), tools=[read], limits=Limits(repeated_calls=None))
    assert (await agent.prompt("go")).limit == ""
    assert {result.text for result in results(agent)} == {"1 2"}


@pytest.mark.parametrize("bound", [0, 1, -1, "x"])
def test_a_limit_of_less_than_two_is_one_sentence(bound: Any) -> None:
    with pytest.raises(ConfigError, match="The limit `repeated_calls` must be"):
        Limits(repeated_calls=bound)

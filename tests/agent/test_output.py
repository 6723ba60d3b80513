"""Structured answers: the caller's type or schema, corrections, and streaming."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from pydantic import BaseModel, Field
from support.growth import check_growth
from support.wire import chat_chunk, client, replying, sse
from typing_extensions import TypedDict

from planck_nb import Agent, ai
from planck_nb.agent.output import OutputMismatch, OutputSpec, output_spec
from planck_nb.agent.run import PartialOutput
from planck_nb.base.errors import OutputError, ToolError, UsageError
from planck_nb.testing import Call, Reply, scripted_model


class City(BaseModel):
    name: str
    people: int = Field(gt=0)


class Tree(BaseModel):
    children: list[Tree] = []


@dataclass
class Point:
    x: int
    y: int


class Row(TypedDict):
    day: dt.date


ROME = '{"name": "Rome", "people": 2800000}'
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def agent_saying(*replies: str | Reply, **rest: Any) -> Agent:
    return Agent(model=scripted_model(replies), **rest)


def prompts(agent: Agent) -> list[str]:
    return [entry.message.text for entry in agent.state.messages if isinstance(entry.message, ai.UserMessage)]


def test_a_default_that_json_cannot_have_is_not_sent() -> None:
    @dataclass
    class Measured:
        value: float = math.nan

    assert json.dumps(output_spec(Measured).schema, allow_nan=False)


async def test_a_pydantic_model() -> None:
    agent = agent_saying(ROME)
    result = await agent.prompt("Which city?", output=City)
    assert result.output == City(name="Rome", people=2_800_000)
    assert result.output.people == 2_800_000  # typed
    assert result.text == ROME
    assert prompts(agent) == ["Which city?"]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Point, '{"x": 1, "y": 2}', Point(1, 2)),
        (Row, '{"day": "2026-11-21"}', {"day": dt.date(2026, 11, 21)}),
        (Tree, '{"children": [{}]}', Tree(children=[Tree()])),
        (list[Point], '{"answer": [{"x": 1, "y": 2}]}', [Point(1, 2)]),
        (list[int], "[1, 2]", [1, 2]),
        (int | None, '{"answer": null}', None),
        (City, f"```json\n{ROME}\n```", City(name="Rome", people=2_800_000)),
        (SCHEMA, '{"n": 5}', {"n": 5}),
    ],
)
async def test_other_types(kind: Any, text: str, value: object) -> None:
    assert (await agent_saying(text).prompt("?", output=kind)).output == value


async def test_without_an_output_type_the_output_is_the_text() -> None:
    assert (await agent_saying("Hello.").prompt("hi")).output == "Hello."


@pytest.mark.parametrize(
    ("kind", "first", "problem"),
    [
        (City, "Rome, I think.", "it is not JSON"),
        (City, '{"name": "Rome", "people": -1}', "people: Input should be greater than 0"),
        (City, '{"name": "Rome"}', "people: Field required"),
        (City, "[]", "should be an object"),
        (SCHEMA, '{"n": "x"}', "n: 'x' is not of type 'integer'"),
        (SCHEMA, "NaN", "it is not JSON"),
    ],
)
async def test_the_model_is_told_once_that_its_answer_does_not_fit(kind: Any, first: str, problem: str) -> None:
    good = '{"n": 5}' if kind is SCHEMA else ROME
    agent = agent_saying(first, good)
    result = await agent.prompt("?", output=kind)
    assert result.output == ({"n": 5} if kind is SCHEMA else City(name="Rome", people=2_800_000))
    _, told = prompts(agent)
    assert told.startswith("Your answer cannot be used: ")
    assert problem in told
    assert '"properties"' in told
    assert [message.type for message in result.messages] == ["user", "assistant", "user", "assistant"]


async def test_a_second_answer_that_does_not_fit_fails_the_run() -> None:
    agent = agent_saying("no", '{"name": 5}', "Hello.")
    run = agent.prompt("?", output=City)
    with pytest.raises(OutputError, match=r"does not match `output` \(name: .*choose another model\.$"):
        await run
    assert run.status == "failed"
    assert len(prompts(agent)) == 2
    assert (await agent.prompt("hi")).output == "Hello."


async def test_each_prompt_has_its_one_correction() -> None:
    agent = agent_saying("no", ROME, "no", ROME)
    for _ in range(2):
        assert (await agent.prompt("?", output=City)).output.name == "Rome"


async def test_only_the_final_answer_counts() -> None:
    def look() -> str:
        return "seen"

    agent = agent_saying(Reply("Let me look.", calls=[Call("look", {})]), ROME, tools=[look])
    assert (await agent.prompt("?", output=City)).output.name == "Rome"
    assert prompts(agent) == ["?"]


async def test_the_schema_goes_to_the_model_for_that_turn_only() -> None:
    seen: list[Any] = []
    chunks = sse(chat_chunk({"content": ROME}), chat_chunk({}, "stop"), "[DONE]")
    asked: list[ai.Options] = []

    class Watching(ai.Client):
        def stream(self, model: ai.Model, context: ai.Context, options: ai.Options | None = None) -> ai.Stream:
            asked.append(options or ai.Options())
            return super().stream(model, context, options)

    model = ai.get_model("openai", "m", base_url="http://127.0.0.1:9/v1", has_api_key=False)
    async with Watching(credentials={}, transport=replying(chunks, seen=seen)) as watching:
        agent = Agent(model=model, client=watching, options=ai.Options(temperature=0.5))
        assert (await agent.prompt("?", output=City)).output.name == "Rome"
        either: Any = list[int] | City
        assert (await agent.prompt("?", output=either)).output == City(name="Rome", people=2_800_000)
        assert (await agent.prompt("hi")).output == ROME
    first, second, third = asked
    assert first == ai.Options(temperature=0.5, output=City.model_json_schema())
    assert second.output is not None
    assert (second.output["type"], second.output["required"]) == ("object", ["answer"])
    assert "City" in second.output["$defs"]
    assert third == ai.Options(temperature=0.5)
    assert '"people"' in json.dumps(seen[0])
    assert '"people"' not in json.dumps({**seen[2], "messages": []})


async def test_prompts_with_different_outputs_are_never_answered_together() -> None:
    agent = agent_saying("first", "two", ROME, '{"x": 1, "y": 2}', '{"x": 3, "y": 4}', "last")
    first = agent.prompt("1")
    plain = [agent.prompt("2", join=True), agent.prompt("3", join=True)]
    city = agent.prompt("4", output=City)
    points = [agent.prompt("5", output=Point), agent.prompt("6", output=Point)]
    last = agent.prompt("7")
    assert (await first).output == "first"
    assert [(await run).output for run in plain] == ["two", "two"]
    assert (await city).output.name == "Rome"
    assert [(await run).output for run in points] == [Point(1, 2), Point(3, 4)]
    assert (await last).output == "last"
    assert agent.state.turn == 5
    assert not agent.state.queue


async def test_a_stopped_run_has_no_output() -> None:
    released = asyncio.Event()

    async def wait() -> str:
        await released.wait()
        return ""

    agent = agent_saying(Reply("Wait.", calls=[Call("wait", {})]), ROME, tools=[wait])
    run = agent.prompt("?", output=City)
    queued = agent.prompt("?", output=City)
    async for event in run:
        if event.type == "tool_start":
            break
    queued.abort()
    run.abort()
    for stopped in (await run, await queued):
        assert stopped.aborted
        assert str(stopped.output) == "None"


async def test_a_refusal_is_not_argued_with() -> None:
    chunks = sse(chat_chunk({"refusal": "No."}), chat_chunk({}, "stop"), "[DONE]")
    model = ai.get_model("openai", "m", base_url="http://127.0.0.1:9/v1")
    async with client(replying(chunks)) as asked:
        agent = Agent(model=model, client=asked)
        with pytest.raises(OutputError):
            await agent.prompt("?", output=City)
    assert prompts(agent) == ["?"]


@pytest.mark.parametrize("kind", [asyncio.Event, 5, {"type": "smoke"}])
async def test_an_output_that_json_cannot_express_is_refused(kind: Any) -> None:
    agent = agent_saying("x")
    with pytest.raises(UsageError, match="`output`"):
        agent.prompt("?", output=kind)
    assert agent.status == "idle"


PROSE = (
    (City, f"Here is the JSON:\n```json\n{ROME}\n```\nAnything else?", City(name="Rome", people=2_800_000)),
    (City, f"Sure! {ROME} I hope {{this}} helps [1].", City(name="Rome", people=2_800_000)),
    (City, f"```\n{ROME}\n```", City(name="Rome", people=2_800_000)),
    (City, f"Draft: {ROME} Final: {ROME}", City(name="Rome", people=2_800_000)),
    (list[int], "The numbers are [1, 2].", [1, 2]),
    (list[int], 'The numbers: {"answer": [1, 2]}.', [1, 2]),
    (SCHEMA, 'As {"n": 5}, which says "}".', {"n": 5}),
    (SCHEMA, '```python\nx = {"n": 1}\n```\n```JSON\n{"n": 2}\n```', {"n": 2}),
)


@pytest.mark.parametrize(("kind", "text", "value"), PROSE)
async def test_json_within_prose_is_read(kind: Any, text: str, value: object) -> None:
    agent = agent_saying(text)
    assert (await agent.prompt("?", output=kind)).output == value
    assert len(prompts(agent)) == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('First {"n": 1}, then {"n": 2}.', "it has 2 different JSON values; write only one"),
        ('```json\n{"n": 1}\n```\nor\n```json\n{"n": 2}\n```', "it has 2 different JSON values"),
        ('All of it: {"items": [{"n": 1}, {"n": 2}', "it is not JSON"),
        ('Here: {"n": 1,}', "it is not JSON"),
        ('Draft {"n": 1}. Final {"n": ', "it is not JSON"),
        ("{{{{" * 50_000, "it is not JSON"),
        ('{"n":' * 50_000, "it is not JSON"),
        ("[{" * 50_000, "it is not JSON"),
        ("```json\n" * 50_000, "it is not JSON"),
    ],
)
async def test_json_within_prose_is_not_guessed(text: str, problem: str) -> None:
    agent = agent_saying(text, '{"n": 3}')
    assert (await agent.prompt("?", output=SCHEMA)).output == {"n": 3}
    assert problem in prompts(agent)[1]


async def test_a_structured_answer_is_streamed_while_it_is_written() -> None:
    seen = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        for chunk in sse(chat_chunk({"content": 'Here: {"name": "Ro'})):
            yield chunk
        await seen.wait()
        for chunk in sse(chat_chunk({"content": 'me", "people": 2800000} as JSON.'}), chat_chunk({}, "stop"), "[DONE]"):
            yield chunk

    transport = httpx.MockTransport(
        lambda _: httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body())
    )
    model = ai.get_model("openai", "m", base_url="http://127.0.0.1:9/v1", has_api_key=False)
    run = Agent(model=model, client=client(transport)).prompt("Which city?", output=City)
    found: list[Any] = []
    async for partial in run.stream_output():
        found.append(partial)
        seen.set()
    assert found[0] == {"name": "Ro"}
    assert found[-1] == {"name": "Rome", "people": 2_800_000}
    assert (await run).output == City(name="Rome", people=2_800_000)


def test_every_beginning_of_an_answer_is_read_as_far_as_it_goes() -> None:
    text = 'Here: {"name": "Rome", "people": 2800000, "more": [1, {"a": null}]} as JSON.'
    spec = output_spec(City)
    found = [spec.read_partial(text[:end]) for end in range(len(text) + 1)]
    assert found[0] is None
    assert {} in found
    assert found[-1] == {"name": "Rome", "people": 2_800_000, "more": [1, {"a": None}]}
    begun = found[found.index({}) :]
    assert None not in begun
    assert {partial.get("people") for partial in begun} == {None, 2_800_000}
    assert all("Rome".startswith(partial.get("name", "")) for partial in begun)


async def test_what_is_streamed_starts_again_with_the_corrected_answer_and_fails_with_the_run() -> None:
    agent = agent_saying('{"name": "Rome"}', ROME, '{"name": "Oslo"}', "no")
    assert [item async for item in agent.prompt("?", output=City).stream_output()][-1] == {
        "name": "Rome",
        "people": 2_800_000,
    }
    failing = agent.prompt("?", output=City).stream_output()
    assert await anext(failing) == {"name": "Oslo"}
    with pytest.raises(OutputError):
        await anext(failing)
    with pytest.raises(UsageError, match="has no structured answer"):
        await anext(agent_saying("hi").prompt("?").stream_output())


async def test_a_list_is_streamed_without_its_wrapping_and_leaving_early_aborts_nothing() -> None:
    run = agent_saying('{"answer": [{"x": 1, "y": 2}]}').prompt("?", output=list[Point])
    async for item in run.stream_output(interval=0):
        assert isinstance(item, list)
        break
    assert (await run).output == [Point(1, 2)]


def test_a_long_answer_is_not_read_again_with_every_word(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = output_spec(list[str])
    readings: list[int] = []

    def reading(self: OutputSpec, text: str) -> object:
        readings.append(len(text))
        return [str(len(text))]

    monkeypatch.setattr(OutputSpec, "read_partial", reading)
    partial = PartialOutput(spec, interval=60)
    for _ in range(10_000):
        partial.add('"word", ')
    assert partial.finish("end")
    assert readings == [len('"word", '), 3]


def test_a_schema_that_refers_to_itself_is_one_sentence() -> None:
    with pytest.raises(ToolError, match="refers to itself without end"):
        output_spec({"$ref": "#"}).read('{"a": 1}')


# Reading an answer takes time in proportion to it.


def _read(text: str) -> None:
    with pytest.raises(OutputMismatch):
        output_spec(int).read(text)


@pytest.mark.no_cover
@pytest.mark.parametrize("name", ["```json\n", "```\n\n", "\n", "```", "{", "["])
def test_reading_an_answer_is_linear(name: str) -> None:
    check_growth(_read, name, 100_000)


def test_a_fenced_answer_with_blank_lines_is_read_at_once() -> None:
    check_growth(lambda text: _read(f"```json\n{text}x"), "\n", 15_000)

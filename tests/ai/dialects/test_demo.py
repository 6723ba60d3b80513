"""The demo model: it reads prompts, drives tools for real, and is the same every time."""

from __future__ import annotations

import pytest

from planck_nb import Agent, ai
from planck_nb.ai.dialects.demo import Reply, answer, scripted
from planck_nb.base.errors import ConfigError, ProviderProtocolError
from planck_nb.testing import Call, scripted_model


def get_weather(city: str, days: int = 1) -> str:
    """Forecast the weather of a city."""
    return f"sunny in {city} for {days}"


def get_time(city: str) -> str:
    """Tell the local time."""
    return f"12:00 in {city}"


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def paint(colour: str, shapes: list[str], bright: bool = False) -> str:
    """Paint shapes."""
    return f"{colour} {shapes} {bright}"


def calls_for(prompt: str) -> list[tuple[str, dict[str, object]]]:
    from planck_nb.agent.calling.functions import tool

    specs = [tool(function).spec for function in (get_weather, get_time, add, paint)]
    reply = answer(ai.Context(messages=[ai.UserMessage(prompt)], tools=specs))
    return [(call.name, call.args) for call in reply.calls]


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("What is the weather in Paris?", [("get_weather", {"city": "Paris"})]),
        (
            "Tell me the weather in Paris, and the time in Rome",
            [("get_weather", {"city": "Paris"}), ("get_time", {"city": "Rome"})],
        ),
        ("weather in 'São Paulo' for 3 days", [("get_weather", {"city": "São Paulo", "days": 3})]),
        ("What is 20 and 22? Use @add.", [("add", {"a": 20, "b": 22})]),
        ("add -1 and 2.5 with @add", [("add", {"a": -1, "b": 2.5})]),
        ("add(b=1, a=2)", [("add", {"a": 2, "b": 1})]),
        (
            'The weather of "Oslo" and then the weather of "Bergen"',
            [("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Bergen"})],
        ),
        (
            'paint colour=red "disc" "cube" bright',
            [("paint", {"colour": "red", "shapes": ["disc", "cube"], "bright": True})],
        ),
        ("how warm is Oslo?", []),
        ("Please add.", []),
    ],
)
def test_arguments_come_from_the_prompt(prompt: str, expected: list[tuple[str, dict[str, object]]]) -> None:
    assert calls_for(prompt) == expected


async def test_results_are_reported_in_the_answer() -> None:
    agent = Agent(model="demo", tools=[get_weather, get_time])
    result = await agent.prompt("the weather in Paris and the time in Rome")
    assert "`sunny in Paris for 1`" in result.text
    assert "`12:00 in Rome`" in result.text


async def test_it_introduces_itself_and_its_tools() -> None:
    plain = await Agent(model="demo").prompt("hello")
    assert "not a language model" in plain.text
    assert "%planck model" in plain.text
    assert "- `add`: Add two numbers." in (await Agent(model="demo", tools=[add]).prompt("hello")).text
    assert "no value for `a` and `b`" in (await Agent(model="demo", tools=[add]).prompt("please add")).text


async def test_the_same_conversation_gives_the_same_messages() -> None:
    async def talk() -> tuple[ai.Message, ...]:
        agent = Agent(model="demo", tools=[add])
        return (await agent.prompt("add 1 and 2")).messages + (await agent.prompt("thanks")).messages

    assert await talk() == await talk()


async def test_words_stream_one_by_one_and_join_to_the_text() -> None:
    text = "  one two\n\nthree  four\n"
    async with ai.stream(scripted_model([text]), ai.Context(messages=[ai.UserMessage("x")])) as stream:
        words = [event.text async for event in stream if event.type == "text_delta"]
    assert len(words) > 3
    assert "".join(words) == text == stream.message.text


def test_a_script_is_followed_by_the_number_of_replies_given() -> None:
    script = [{"calls": [{"name": "add", "arguments": {"a": 1}}]}, "It is {result}."]
    assert scripted(script, ai.Context()).calls == (Call("add", {"a": 1}),)
    asked = ai.AssistantMessage((ai.ToolCallPart("1", "add", {}),))
    answered = ai.ToolResultMessage((ai.ToolResultPart("1", "add", "3"),))
    assert scripted(script, ai.Context(messages=[asked, answered])) == Reply("It is 3.")
    with pytest.raises(ProviderProtocolError, match="has 2 replies and the conversation asks for reply 3"):
        scripted(script, ai.Context(messages=[asked, answered, asked]))


@pytest.mark.parametrize("reply", [3, {"txt": "typo"}, ["list"]])
def test_a_misspelt_script_is_refused(reply: object) -> None:
    with pytest.raises(ConfigError, match="A reply of a demo script is"):
        scripted_model([reply])  # type: ignore[list-item]


DELEGATE = ai.ToolSpec(
    "delegate_task",
    "Give another agent of your team a task.",
    {
        "type": "object",
        "properties": {"agent_id": {"type": "string"}, "task": {"type": "string"}},
        "required": ["task"],
    },
)
RESPOND = ai.ToolSpec(
    "send_response", "Send the result.", {"type": "object", "properties": {"response": {"type": "string"}}}
)


def turn_of_a_team(messages: list[ai.Message]) -> Reply:
    return answer(ai.Context(messages=messages, tools=[DELEGATE, RESPOND]))


def delegated(number: int, agent: str) -> list[ai.Message]:
    """A delegation with its result."""
    call = ai.ToolCallPart(f"call {number}", "delegate_task", {"agent_id": agent, "task": "Go."})
    return [
        ai.AssistantMessage((call,), stop_reason="tool_use"),
        ai.ToolResultMessage((ai.ToolResultPart(call.id, "delegate_task", "Task sent."),)),
        ai.AssistantMessage((ai.TextPart("I wait for the response."),)),
    ]


def test_a_cell_to_correct_comes_back_as_it_is() -> None:
    request = "Correct it.\n\nThe notebook's cell In [3], which failed:\n\n````python\nx = '```'\n````\n\nIts error:"
    reply = answer(ai.Context(messages=[ai.UserMessage(request)]))
    assert "````python\nx = '```'\n````" in reply.text
    assert "demo model" in reply.text


def test_in_a_team_it_delegates_one_task_after_another_and_reports_the_responses() -> None:
    messages: list[ai.Message] = [
        ai.UserMessage('delegate_task to "ann" the task "Go.", then delegate_task to "bob" "Go."')
    ]
    for number, agent in enumerate(("ann", "bob")):
        reply = turn_of_a_team(messages)
        assert [(call.name, call.args) for call in reply.calls] == [
            ("delegate_task", {"agent_id": agent, "task": "Go."})
        ]
        messages += delegated(number, agent)[:2]
        assert turn_of_a_team(messages) == Reply(text="I wait for the response.")
        messages += [*delegated(number, agent)[2:], ai.UserMessage(f"Response from {agent}: {agent} is done: yes.")]
    assert turn_of_a_team(messages).text == (
        "**ann** responded: ann is done: yes.\n\n**bob** responded: bob is done: yes."
    )
    again = turn_of_a_team([*messages, ai.AssistantMessage((ai.TextPart("So."),)), ai.UserMessage("Thank you.")])
    assert "demo model" in again.text, "the responses belong to the prompt before"


@pytest.mark.parametrize("prompt", ["Task from lead: hello", "Send me a response about the task.", "Which agent?"])
def test_tools_for_teams_are_called_only_by_their_names(prompt: str) -> None:
    reply = turn_of_a_team([ai.UserMessage(prompt)])
    assert not reply.calls
    assert "delegate_task" not in reply.text


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("Response from ann: `add` returned `42`.", '{"total": 42, "city": "", "ok": false, "parts": []}'),
        ('Task from lead: 7 in "Rome", ok', '{"total": 7, "city": "Rome", "ok": true, "parts": []}'),
        ("total: 3, city = rome.", '{"total": 3, "city": "rome", "ok": false, "parts": []}'),
        ("", '{"total": 0, "city": "", "ok": false, "parts": []}'),
    ],
)
def test_a_structured_answer_takes_its_values_from_the_conversation(told: str, expected: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            "total": {"type": "integer"},
            "city": {"type": "string"},
            "ok": {"type": "boolean"},
            "parts": {"type": "array", "items": {"type": "string"}},
        },
    }
    messages: list[ai.Message] = [ai.UserMessage(told), ai.AssistantMessage((ai.TextPart("So."),))]
    if told.startswith("Response"):
        messages.append(ai.UserMessage("Give the final answer now, as JSON."))
    assert answer(ai.Context(messages=messages), schema).text == expected


def test_a_structured_answer_prefers_a_prompt_which_names_values_to_earlier_results() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}, "total": {"type": "number"}}}
    results = ai.ToolResultMessage((ai.ToolResultPart("1", "find_book", "Emma is on shelf 12"),))
    messages: list[ai.Message] = [ai.UserMessage("find_book"), results, ai.UserMessage('city: "Rome", total: 4.5')]
    assert answer(ai.Context(messages=messages), schema).text == '{"city": "Rome", "total": 4.5}'

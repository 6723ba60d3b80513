"""A real llama.cpp server with Mistral's rule for roles answers after whatever left the roles out of order."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest
from support.agents import Hold, prompts
from support.llama import llama_server

from planck_nb import Agent, ai
from planck_nb.agent.calling.tool_output import ToolOutput
from planck_nb.ai.messages import Message
from planck_nb.errors import ProviderError

pytestmark = [pytest.mark.timeout(180), pytest.mark.process]

# The rule and its sentence: https://github.com/mistralai/mistral-vibe/issues/255
ALTERNATE = """{%- set turn = namespace(count=0) -%}
{%- for message in messages if message.role == 'user' or (message.role == 'assistant' and not message.tool_calls) -%}
{%- if (message.role == 'user') != (turn.count % 2 == 0) -%}
{{- raise_exception('After the optional system message, conversation roles must alternate user and assistant roles \
except for tool calls and results.') -}}
{%- endif -%}
{%- set turn.count = turn.count + 1 -%}
{%- endfor -%}
"""
SCRIPT: list[dict[str, object]] = [{"calls": [{"name": "hold", "arguments": {}}]}, {"text": "Done."}]
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
FIRST_WORDS = {"text_delta", "thinking_delta", "tool_start"}
UNREACHABLE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with llama_server(tmp_path_factory.mktemp("alternating"), SCRIPT, guard=ALTERNATE) as url:
        yield url


@pytest.fixture
def tool() -> Hold:
    return Hold()


@pytest.fixture
async def agent(server: str, tool: Hold) -> AsyncIterator[Agent]:
    model = ai.get_model("llama_cpp", "default", base_url=server, has_api_key=False)
    async with Agent(model=model, tools=[tool.hold], system_prompt="You help.") as made:
        yield made


async def is_answered(agent: Agent) -> bool:
    """Whether the server answers the next prompt; its first words are enough, as the model may go on for long."""
    run = agent.prompt("And now?")
    seen = False
    async for event in run:
        if event.type in FIRST_WORDS:
            seen = True
            run.abort()
    await run
    return seen


async def test_the_server_refuses_roles_out_of_order(server: str) -> None:
    model = ai.get_model("llama_cpp", "default", base_url=server, has_api_key=False)
    said = ai.AssistantMessage((ai.TextPart("Hello."),), provider=model.provider, model=model.id, api=model.api)
    wrong: list[Message] = [said, ai.UserMessage("hi")]
    context = ai.Context(messages=wrong)
    async with ai.Client() as client:
        before = (await client.preview(model, context)).body["messages"]
        assert (await client.complete(model, context)).content
        after = (await client.preview(model, context)).body["messages"]
    assert [[message["role"] for message in each] for each in (before, after)] == [
        ["assistant", "user"],
        ["user", "assistant", "user"],
    ]


async def test_after_a_stop_during_a_tool(agent: Agent, tool: Hold) -> None:
    run = agent.prompt("Hold.")
    async for event in run:
        if event.type == "tool_start":
            await tool.entered.wait()
            run.abort()
    await run
    tool.release()
    assert await is_answered(agent)


async def test_after_a_prompt_that_failed(agent: Agent, tool: Hold) -> None:
    tool.release()
    good = agent.model
    agent.model = replace(good, base_url=UNREACHABLE)
    with pytest.raises(ProviderError):
        await agent.prompt("Lost?")
    agent.model = good
    assert await is_answered(agent)


async def test_after_a_steering_message(agent: Agent, tool: Hold) -> None:
    run = agent.prompt("Hold.")
    steered = answered = False
    async for event in run:
        if steered and event.type in FIRST_WORDS:
            answered = True
            run.abort()
        elif event.type == "tool_start":
            await tool.entered.wait()
            agent.steer("Be quick.")
            tool.release()
            steered = True
    await run
    assert answered
    assert "Be quick." in prompts(agent)
    assert await is_answered(agent)


async def test_after_an_image_from_a_tool(server: str) -> None:
    async def hold() -> ToolOutput:
        return ToolOutput("seen", images=(ai.ImagePart(PIXEL, "image/png"),))

    model = ai.get_model("llama_cpp", "default", base_url=server, has_api_key=False)
    async with Agent(model=model, tools=[hold], system_prompt="You help.") as agent:
        await agent.prompt("Look.")
        assert await is_answered(agent)
        result = agent.state.messages[2].message
    assert isinstance(result, ai.ToolResultMessage)
    assert result.content[0].images

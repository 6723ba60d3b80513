"""A tool loop against the real llama.cpp server, over both formats that it and we speak."""

from __future__ import annotations

import pytest

from planck_nb import ai

CITY = {"city": {"type": "string"}}
TOOLS = [  # the scripted model writes these arguments, which the server holds against the schemas
    ai.ToolSpec(
        "get_weather",
        "The weather.",
        {"type": "object", "properties": {**CITY, "note": {"type": "string"}}, "required": ["city"]},
    ),
    ai.ToolSpec("get_time", "The time.", {"type": "object", "properties": CITY, "required": ["city"]}),
]
ANSWERS = {"get_weather": "sunny", "get_time": "12:00"}


@pytest.mark.parametrize("api", ["chat", "messages"])
async def test_tool_loop_with_thinking(llama: str, api: str) -> None:
    model = ai.get_model("llama_cpp", base_url=llama, api=api)
    messages: list[ai.Message] = [ai.UserMessage("weather in Paris and time in Rome?")]
    async with ai.Client() as client:
        first = await client.complete(model, ai.Context(messages=messages, tools=TOOLS))
        assert first.stop_reason == "tool_use"
        assert first.thinking
        assert [call.name for call in first.tool_calls] == ["get_weather", "get_time"]
        assert len({call.id for call in first.tool_calls}) == 2
        assert not str(first.tool_calls[0].args).isascii()
        assert first.usage is not None
        assert first.usage.output_tokens > 0
        results = tuple(ai.ToolResultPart(call.id, call.name, ANSWERS[call.name]) for call in first.tool_calls)
        messages += [first, ai.ToolResultMessage(results)]
        async with client.stream(model, ai.Context(messages=messages, tools=TOOLS)) as stream:
            deltas = [event.text async for event in stream if event.type == "text_delta" and event.text]
        assert stream.message.text == "".join(deltas)
        assert "It is sunny in Paris, and 12:00 in Rome." in stream.message.text
        assert len(deltas) > 1
        assert stream.message.stop_reason == "stop"


async def test_discovery(llama: str) -> None:
    (model,) = await ai.discover("llama_cpp", llama)
    assert model.context_window is not None
    assert (await ai.complete(model, ai.Context(messages=[ai.UserMessage("hi")]), max_tokens=3)).stop_reason == "length"
    assert ai.list_models("llama_cpp", base_url=llama) == [model]

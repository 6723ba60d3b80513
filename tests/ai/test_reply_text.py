"""Thinking and calls that models write into their text: lists of cases with the public reports they come from."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from support.wire import chat_chunk, client, replying, sse

from planck_nb import ai
from planck_nb.ai.message_builder import MessageBuilder
from planck_nb.ai.reply_text import ReplyText
from planck_nb.ai.server_rules import THINK_TAGS
from planck_nb.ai.stream_events import Finish, PartEnd, TextChunk
from planck_nb.errors import ProviderError

OWN = ai.get_model("llama_cpp", "m", base_url="http://127.0.0.1:9", has_api_key=False)
OTHER = ai.get_model("openai", "m", base_url="http://127.0.0.1:9/v1")
TOOLS = [ai.ToolSpec(name, "Tells.", {"type": "object", "properties": {}}) for name in ("get_weather", "get_time")]
NAMES = [tool.name for tool in TOOLS]
ASK = ai.Context(messages=[ai.UserMessage("hi")], tools=TOOLS)
PARIS = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
WEATHER = ("get_weather", {"city": "Paris"})


def received(text: str, size: int) -> tuple[ai.AssistantMessage, list[Any]]:
    """The message of an own server whose text comes in chunks of a size, and its events."""
    builder = MessageBuilder(OWN)
    builder.text = ReplyText(THINK_TAGS, NAMES, may_lack_opening=True)
    events: list[Any] = []
    for at in range(0, len(text), size):
        events += builder.feed([TextChunk(0, text[at : at + size])])
    events += builder.feed([PartEnd(0), Finish("stop")])
    return builder.build(), events


Expected = tuple[str, str, list[tuple[str, dict[str, Any]]]]

TEXTS: dict[str, tuple[str, Expected, str]] = {
    "thinking": ("<think>Hm.</think>Four.", ("Hm.", "Four.", []), "https://github.com/earendil-works/pi/issues/9007"),
    "thinking in lines": (
        "<think>\nHm.\n</think>\n\nFour.",
        ("Hm.\n", "Four.", []),
        "https://github.com/Stack-Cairn/LiveAgent/issues/670",
    ),
    "thought": (
        "<thought>Hm.</thought>Four.",
        ("Hm.", "Four.", []),
        "https://github.com/tinyhumansai/openhuman/issues/6184",
    ),
    "no opening tag": (
        "Hm.\n</think>\n\nFour.",
        ("Hm.\n", "Four.", []),
        "https://github.com/LostRuins/koboldcpp/issues/2099",
    ),
    "no opening tag before JSON": (
        'Hm.\n</think>{"a": 1}',
        ("Hm.\n", '{"a": 1}', []),
        "https://github.com/nbramia/LifeOS/pull/568",
    ),
    "no closing tag": ("<think>Hello!", ("Hello!", "", []), "https://github.com/openclaw/openclaw/issues/37696"),
    "tags in a sentence": (
        "Use <think> and </think> around it.",
        ("", "Use <think> and </think> around it.", []),
        "https://github.com/sipeed/picoclaw/issues/1233",
    ),
    "JSON text": (PARIS, ("", "", [WEATHER]), "https://github.com/cline/cline/issues/11272"),
    "a fenced block": (f"```json\n{PARIS}\n```", ("", "", [WEATHER]), "https://github.com/jundot/omlx/issues/1153"),
    "after prose": (
        f"I look.\n```json\n{PARIS}\n```",
        ("", "I look.\n", [WEATHER]),
        "https://github.com/Nano-Collective/nanocoder/issues/493",
    ),
    "tags": (
        f"I look.\n<tool_call>\n{PARIS}\n</tool_call>",
        ("", "I look.\n", [WEATHER]),
        "https://github.com/cline/cline/issues/11272",
    ),
    "after thinking": (
        f"<think>Hm.</think>\n{PARIS}",
        ("Hm.", "", [WEATHER]),
        "https://github.com/Bike4Mind/bike4mind/pull/51",
    ),
    "the same call three times": (
        "\n".join([PARIS] * 3),
        ("", "", [WEATHER]),
        "https://github.com/Gitlawb/openclaude/issues/287",
    ),
    "an inner function": (
        '{"type": "function", "function": {"name": "get_time", "parameters": {"city": "Rome"}}}',
        ("", "", [("get_time", {"city": "Rome"})]),
        "https://github.com/jundot/omlx/issues/2565",
    ),
    "a list": (
        '[{"name": "get_time", "arguments": {}}, {"name": "get_weather", "arguments": "{\\"city\\": \\"Paris\\"}"}]',
        ("", "", [("get_time", {}), WEATHER]),
        "https://github.com/NousResearch/hermes-agent/pull/83023",
    ),
    "Mistral's": (f"[TOOL_CALLS][{PARIS}]", ("", "", [WEATHER]), "https://github.com/ollama/ollama/issues/15529"),
    "an answer in JSON": (
        '{"name": "Ada", "age": 3}',
        ("", '{"name": "Ada", "age": 3}', []),
        "https://github.com/Bike4Mind/bike4mind/pull/51",
    ),
    "numbers": ("[1, 2, 3]", ("", "[1, 2, 3]", []), "https://github.com/Bike4Mind/bike4mind/pull/51"),
    "a program": (
        "```python\nprint(1)\n```\nSo.",
        ("", "```python\nprint(1)\n```\nSo.", []),
        "https://github.com/Bike4Mind/bike4mind/issues/686",
    ),
    "the definition of a tool": (
        '{"name": "get_time", "parameters": {"type": "object", "properties": {}}}',
        ("", '{"name": "get_time", "parameters": {"type": "object", "properties": {}}}', []),
        "https://github.com/Fast-Editor/Lynkr/pull/38",
    ),
    "an angle": ("<", ("", "<", []), "https://github.com/earendil-works/pi/issues/9007"),
    "plain": ("Hello.", ("", "Hello.", []), "https://github.com/earendil-works/pi/issues/9007"),
}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("name", TEXTS)
def test_a_text_in_chunks_of_any_size(name: str, size: int) -> None:
    text, (thinking, said, calls), _ = TEXTS[name]
    message, events = received(text, size)
    assert (message.thinking, message.text) == (thinking, said)
    assert [(call.name, call.args) for call in message.tool_calls] == calls
    shown = "".join(event.text for event in events if event.type == "text_delta")
    assert shown.count('"arguments"') == said.count('"arguments"')


async def ask(
    text: str, model: ai.Model = OWN, context: ai.Context = ASK, options: ai.Options | None = None
) -> ai.AssistantMessage:
    chunks = sse(chat_chunk({"content": text}), chat_chunk({}, "stop"), "[DONE]")
    return await client(replying(chunks)).complete(model, context, options)


async def test_a_call_ends_the_reply_as_a_call() -> None:
    message = await ask(PARIS)
    assert (message.stop_reason, [call.name for call in message.tool_calls]) == ("tool_use", ["get_weather"])


async def test_other_servers_tools_and_structured_answers_have_no_calls_in_their_text() -> None:
    native = ai.AssistantMessage(
        (ai.ToolCallPart("a", "get_time", {}),), provider=OWN.provider, model=OWN.id, api=OWN.api
    )
    result = ai.ToolResultMessage((ai.ToolResultPart("a", "get_time", "12:00"),))
    after_native = ai.Context(messages=[*ASK.messages, native, result], tools=TOOLS)
    for message in (
        await ask(PARIS, OTHER),
        await ask(PARIS, context=ai.Context(messages=ASK.messages)),
        await ask(PARIS, options=ai.Options(output={"type": "object"})),
        await ask(PARIS, context=after_native),
    ):
        assert (message.text, message.tool_calls) == (PARIS, ())


async def test_after_a_call_in_the_text_the_next_is_found_too() -> None:
    first = await ask(PARIS)
    result = ai.ToolResultMessage((ai.ToolResultPart(first.tool_calls[0].id, "get_weather", "sunny"),))
    second = await ask(PARIS, context=ai.Context(messages=[*ASK.messages, first, result], tools=TOOLS))
    assert [call.name for call in second.tool_calls] == ["get_weather"]


async def test_what_is_held_back_is_kept_when_the_stream_breaks() -> None:
    async def broken() -> Any:
        yield sse(chat_chunk({"content": '{"name": "get_weather", "argum'}))[0]
        raise httpx.ReadError("gone")

    transport = httpx.MockTransport(
        lambda _: httpx.Response(200, headers={"content-type": "text/event-stream"}, content=broken())
    )
    stream = client(transport).stream(OWN, ASK)
    with pytest.raises(ProviderError):
        _ = [event async for event in stream]
    assert stream.message.text == '{"name": "get_weather", "argum'

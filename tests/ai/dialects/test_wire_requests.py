"""What we send: accepted by the vendors' own request types, whatever the conversation went through."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.referees import chat_params, messages_params
from support.wire import ASK, CHAT_HELLO, CHAT_TOOLS, MESSAGES, MESSAGES_TOOLS, client, replying

from planck_nb import ai
from planck_nb.ai.message_history.portable_history import INTERRUPTED, prepare
from planck_nb.ai.providers import dialect
from planck_nb.base.json_types import JsonObject

OPENAI = ai.get_model("openai", "gpt-4o", api="chat")
CLAUDE = ai.get_model("anthropic", "claude-sonnet-4-6")
LLAMA = ai.get_model("llama_cpp", "m")
TOOLS = [ai.ToolSpec("get_weather", "The weather.", {"type": "object", "properties": {"city": {"type": "string"}}})]
VALIDATORS = {"chat": chat_params, "messages": messages_params}


def body(model: ai.Model, *messages: ai.Message, options: ai.Options | None = None, system: str = "S") -> JsonObject:
    context = ai.Context(system, messages, TOOLS)
    request = dialect(model).request(model, context, options or ai.Options(), "k")
    VALIDATORS[model.api]().validate_python(request.body)
    return request.body


def said(*parts: ai.AssistantPart, model: ai.Model = CLAUDE, stop: ai.StopReason = "stop") -> ai.AssistantMessage:
    return ai.AssistantMessage(parts, stop, provider=model.provider, model=model.id)


def call(name: str) -> ai.ToolCallPart:
    return ai.ToolCallPart(name, "get_weather", {"city": "Rom"})


def results(*names: str) -> ai.ToolResultMessage:
    return ai.ToolResultMessage(tuple(ai.ToolResultPart(name, "get_weather", f"r{name}") for name in names))


HI = ai.UserMessage("hi")


def test_chat_request() -> None:
    sent = body(OPENAI, HI, said(ai.TextPart("t"), call("a"), model=OPENAI), results("a"))
    assert sent["messages"] == [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "t",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Rom"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "ra"},
    ]
    assert sent["stream_options"] == {"include_usage": True}


def test_messages_request() -> None:
    sent = body(CLAUDE, HI, said(ai.TextPart("t"), call("a"), call("b")), results("b", "a"), ai.UserMessage("go on"))
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "user"]
    assert sent["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": "ra"},
        {"type": "tool_result", "tool_use_id": "b", "content": "rb"},
        {"type": "text", "text": "go on"},
    ]
    assert sent["cache_control"] == {"type": "ephemeral"}
    assert sent["max_tokens"] == CLAUDE.max_output
    assert "thinking" not in sent


@pytest.mark.parametrize(("chunks", "model"), [(CHAT_TOOLS, LLAMA), (MESSAGES_TOOLS, CLAUDE), (CHAT_HELLO, OPENAI)])
async def test_what_a_model_said_goes_back_to_it_as_it_came(chunks: list[bytes], model: ai.Model) -> None:
    seen: list[Any] = []
    http = client(replying(chunks, seen=seen))
    context = ai.Context(messages=[HI])
    message = await http.complete(model, context)
    answers = ai.ToolResultMessage(tuple(ai.ToolResultPart(part.id, part.name, "r") for part in message.tool_calls))
    await http.complete(model, ai.Context(messages=[HI, message, answers], tools=TOOLS))
    VALIDATORS[model.api]().validate_python(seen[1])
    echoed = seen[1]["messages"][1]
    if model is LLAMA:
        assert echoed["reasoning_content"] == "Let me see."
        assert echoed["content"] == "Asking\u2028both"
    if model is CLAUDE:
        assert echoed["content"] == [
            {"type": "thinking", "thinking": "Hm\u2028m.", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "eHl6"},
            {"type": "text", "text": "Asking \U0001f600."},
            {"type": "tool_use", "id": "toolu_1", "name": "get_time", "input": {"a": 1}},
        ]


def test_what_another_model_signed_is_left_out() -> None:
    signed = {"type": "thinking", "signature": "s"}
    message = said(ai.ThinkingPart("t", signed), ai.TextPart("", {"type": "x"}), ai.TextPart("hello"), call("a|b c"))
    other = ai.get_model("anthropic", "claude-opus-5")
    assert body(other, HI, message)["messages"][1]["content"] == [
        {"type": "text", "text": "hello"},
        {"type": "tool_use", "id": "a_b_c", "name": "get_weather", "input": {"city": "Rom"}},
    ]
    assert body(CLAUDE, HI, message)["messages"][1]["content"][0] == {**signed, "thinking": "t"}
    assert "reasoning" not in str(body(OPENAI, HI, message))


def test_an_interrupted_thought_without_signature_is_not_sent() -> None:
    sent = body(CLAUDE, HI, said(ai.ThinkingPart("half"), ai.TextPart("x"), stop="aborted"), HI)
    assert sent["messages"][1]["content"] == [{"type": "text", "text": "x"}]


def test_orphans_are_repaired() -> None:
    repaired = prepare([results("z"), HI, said(call("a"), call("b")), HI, results("b", "b", "y"), said()], CLAUDE)
    assert [message.type for message in repaired] == ["user", "assistant", "tool_result", "user"]
    assert repaired[2] == ai.ToolResultMessage(
        (ai.ToolResultPart("a", "get_weather", INTERRUPTED, is_error=True), ai.ToolResultPart("b", "get_weather", "rb"))
    )


ids = st.sampled_from(["a", "b", "call_1", "x y", "ü" * 80])
messages = st.one_of(
    st.just(HI),
    st.builds(
        lambda names, text, own: said(
            *([ai.TextPart(text)] if text else []), *map(call, names), model=CLAUDE if own else OPENAI
        ),
        st.lists(ids, unique=True, max_size=3),
        st.sampled_from(["", "text"]),
        st.booleans(),
    ),
    st.builds(lambda names: results(*names), st.lists(ids, max_size=3)),
)


@given(st.lists(messages, max_size=8))
def test_every_call_is_answered_once_right_after_it(conversation: list[ai.Message]) -> None:
    prepared = prepare(conversation, CLAUDE)
    seen: set[str] = set()
    for at, message in enumerate(prepared):
        if message.type == "assistant":
            assert message.content
            names = [part.id for part in message.tool_calls]
            assert not seen & set(names)
            seen.update(names)
            if names:
                following = prepared[at + 1]
                assert following.type == "tool_result"
                assert [part.id for part in following.content] == names
        elif message.type == "tool_result":
            assert prepared[at - 1].type == "assistant"
    assert prepare(prepared, CLAUDE) == prepared
    body(CLAUDE, *conversation)
    body(OPENAI, *conversation)


@pytest.mark.parametrize(
    ("model", "level", "expected"),
    [
        (
            CLAUDE,
            "high",
            {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "high"}},
        ),
        (CLAUDE, "off", {}),
        (
            ai.get_model("anthropic", "claude-haiku-4-5"),
            "low",
            {"thinking": {"type": "enabled", "budget_tokens": 2048}},
        ),
        (LLAMA, "off", {"chat_template_kwargs": {"enable_thinking": False}}),
        (OPENAI, "high", {}),
        (ai.get_model("openai", "gpt-5", api="chat"), "low", {"reasoning_effort": "low"}),
        (ai.get_model("openai", "x", base_url="http://h/v1"), "off", {"reasoning_effort": "none"}),
    ],
)
def test_thinking(model: ai.Model, level: str, expected: JsonObject) -> None:
    context = ai.Context(messages=[HI])
    plain = dialect(model).request(model, context, ai.Options(), "k").body
    asked = dialect(model).request(model, context, ai.Options(thinking=level), "k").body
    assert asked == plain | expected


def test_options() -> None:
    options = ai.Options(max_tokens=9, temperature=0.5, top_p=0.9, stop=["x"], extra={"seed": 1})
    first, foreign = body(OPENAI, HI, options=options), body(LLAMA, HI, options=options)
    assert (first["max_completion_tokens"], first["stop"], first["seed"]) == (9, ["x"], 1)
    assert (foreign["max_tokens"], foreign["temperature"], foreign["top_p"]) == (9, 0.5, 0.9)
    assert body(CLAUDE, HI, options=options)["stop_sequences"] == ["x"]
    assert "temperature" not in body(ai.get_model("anthropic", "claude-opus-5"), HI, options=options)


@pytest.mark.parametrize(
    ("model", "url"),
    [
        (OPENAI, "https://api.openai.com/v1/chat/completions"),
        (CLAUDE, "https://api.anthropic.com/v1/messages"),
        (LLAMA, "http://127.0.0.1:8080/v1/chat/completions"),
        (ai.get_model("llama_cpp", "m", base_url="http://h:1/"), "http://h:1/v1/chat/completions"),
        (ai.get_model("ollama", "m", base_url="http://h:1/v1/", api="chat"), "http://h:1/v1/chat/completions"),
        (ai.get_model("openai", "m", base_url="http://h:1"), "http://h:1/v1/chat/completions"),
        (ai.get_model("openai", "m", base_url="https://h/api/paas/v4"), "https://h/api/paas/v4/chat/completions"),
        (MESSAGES, "http://127.0.0.1:9/v1/messages"),
    ],
)
def test_addresses(model: ai.Model, url: str) -> None:
    assert dialect(model).request(model, ai.Context(), ai.Options(), None).url == url


async def test_text_without_a_utf8_form_is_sent() -> None:
    seen: list[Any] = []
    await client(replying(CHAT_HELLO, seen=seen)).complete(LLAMA, ai.Context(messages=[ai.UserMessage("\ud83d!")]))
    assert seen[0]["messages"][0]["content"].endswith("!")


async def test_a_custom_transport_is_given_what_httpx_would_make() -> None:
    asked: list[httpx.Request] = []

    def look(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(CHAT_HELLO))

    model = ai.get_model("openai", "m", base_url="http://localhost:1234/v1", has_api_key=False)
    await client(httpx.MockTransport(look)).complete(model, ASK)
    named = {name: value for name, value in asked[0].headers.items() if name not in {"host", "content-length"}}
    made = httpx.Request("POST", asked[0].url, headers=named, content=asked[0].content)
    assert made.headers == asked[0].headers
    assert b"messages" in made.content

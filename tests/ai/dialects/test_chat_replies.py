"""Replies as servers of Chat Completions send them: lists of cases with the public reports they come from."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from support.wire import ASK, CHAT, chat_chunk, client, decode, replying, sse

from planck_nb import ai
from planck_nb.ai.stream_events import Finish, StreamWarning
from planck_nb.base.errors import (
    AuthenticationError,
    BadRequestError,
    ProviderStatusError,
    ProviderUnavailableError,
    RateLimitError,
)
from planck_nb.base.json_types import JsonObject


async def ask(*chunks: object, model: ai.Model = CHAT) -> ai.AssistantMessage:
    return await client(replying(sse(*chunks))).complete(model, ASK)


# Finish reasons.

UNKNOWN_REASONS = {
    "model_length": "https://docs.mistral.ai/api",
    "insufficient_system_resource": "https://api-docs.deepseek.com/api/create-chat-completion",
    "abort": "https://github.com/vllm-project/vllm/issues/57082",
    "max_tokens": "https://github.com/UKGovernmentBEIS/inspect_ai/issues/5143",
    "MAX_TOKENS": "https://docs.pipelex.com/latest/errors/llm-completion-truncated-error/",
    "model_context_window_exceeded": "https://docs.pipelex.com/latest/errors/llm-completion-truncated-error/",
    "SAFETY": "https://github.com/zed-industries/zed/issues/44875",
}


@pytest.mark.parametrize("reason", UNKNOWN_REASONS)
async def test_an_unknown_finish_reason_cuts_off_and_keeps_the_text(reason: str) -> None:
    seen: list[Any] = []
    chunks = sse(chat_chunk({"content": "Half an"}), chat_chunk({}, reason), "[DONE]")
    async with client(replying(chunks, seen=seen), retries=3).stream(CHAT, ASK) as stream:
        told = [event async for event in stream if isinstance(event, StreamWarning)]
    assert (stream.message.text, stream.message.stop_reason, len(seen)) == ("Half an", "length", 1)
    assert [(each.about, f"({reason})" in each.text) for each in told] == [("cut_off", True)]


@pytest.mark.parametrize("reason", ["stop", "STOP", "eos", "tool_calls", "function_call", None])
async def test_words_of_success(reason: str | None) -> None:
    *_, last = decode(CHAT, sse(chat_chunk({"content": "Whole"}), chat_chunk({}, reason), "[DONE]"))
    assert isinstance(last, Finish)
    assert last.stop_reason in {"stop", "tool_use"}


@pytest.mark.parametrize(
    ("model", "chunks"),
    [
        (
            ai.get_model("anthropic", "m", base_url="http://127.0.0.1:9"),
            sse(
                {"type": "message_start", "message": {}},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Half"}},
                {"type": "message_delta", "delta": {"stop_reason": "server_overload"}},
                {"type": "message_stop"},
            ),
        ),
        (
            ai.get_model("ollama", "m", base_url="http://127.0.0.1:9"),
            [
                b'{"message": {"role": "assistant", "content": "Half"}, "done": false}\n',
                b'{"message": {"content": ""}, "done": true, "done_reason": "server_overload"}\n',
            ],
        ),
        (
            ai.get_model("openai", "m", base_url="http://127.0.0.1:9", api="responses"),
            sse(
                {"type": "response.output_text.delta", "item_id": "i", "content_index": 0, "delta": "Half"},
                {
                    "type": "response.incomplete",
                    "response": {"output": [], "incomplete_details": {"reason": "server_overload"}},
                },
            ),
        ),
    ],
    ids=["messages", "ollama", "responses"],
)
def test_every_format_cuts_off_for_an_unknown_reason(model: ai.Model, chunks: list[bytes]) -> None:
    *_, told, last = decode(model, chunks)
    assert last == Finish("length")
    assert isinstance(told, StreamWarning)
    assert (told.about, "(server_overload)" in told.text) == ("cut_off", True)


# Errors inside a stream.

NEOGRAPH = "https://github.com/fox1245/NeoGraph/issues/124"
ERRORS: dict[str, tuple[object, type[ProviderStatusError], str, str]] = {
    "SGLang": (
        {"object": "error", "message": "The input is longer", "type": "BadRequestError", "code": 400},
        BadRequestError,
        "The input is longer",
        "https://github.com/vllm-project/vllm/issues/6862",
    ),
    "FastAPI": (
        {"detail": "model is loading"},
        ProviderUnavailableError,
        "model is loading",
        NEOGRAPH,
    ),
    "FastAPI, a list": (
        {"detail": [{"loc": ["body"], "msg": "field required"}]},
        ProviderUnavailableError,
        "field required",
        "https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/670",
    ),
    "a text": ({"error": "STREAM_EXPLODED"}, ProviderUnavailableError, "STREAM_EXPLODED", NEOGRAPH),
    "empty choices": (
        {"choices": [], "error": {"message": "Worker local total request limit reached (33/32)", "code": 502}},
        ProviderUnavailableError,
        "request limit reached",
        "https://github.com/diegosouzapw/OmniRoute/pull/8210",
    ),
    "a quota": (
        {"error": {"message": "quota exceeded", "code": 429}},
        RateLimitError,
        "quota exceeded",
        "https://github.com/apache/rocketmq-dashboard/issues/2178",
    ),
    "MiniMax": (
        {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}, "choices": None},
        ProviderUnavailableError,
        "insufficient balance",
        "https://github.com/milind-soni/OpenMausBot/pull/1200",
    ),
    "MiniMax, with counts": (
        {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}, "usage": {"total_tokens": 0}},
        ProviderUnavailableError,
        "insufficient balance",
        "https://github.com/milind-soni/OpenMausBot/pull/1200",
    ),
    "a gateway": (
        {"success": False, "errors": [{"code": 5007, "message": "No such model"}]},
        ProviderUnavailableError,
        "No such model",
        "https://developers.cloudflare.com/workers-ai/platform/errors",
    ),
    "a proxy": (
        {"error_type": "upstream_error", "error_message": "the upstream closed"},
        ProviderUnavailableError,
        "upstream closed",
        "https://github.com/NousResearch/hermes-agent/pull/65643",
    ),
    "an upstream": (
        {"status": 401, "message": "invalid token", "code": "401"},
        AuthenticationError,
        "invalid token",
        "https://github.com/decolua/9router/pull/3051",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
async def test_an_error_inside_a_stream_is_no_empty_answer(name: str) -> None:
    event, kind, words, _ = ERRORS[name]
    with pytest.raises(kind, match=words.replace("(", r"\(")):
        await ask(event, "[DONE]")


@pytest.mark.parametrize("name", ERRORS)
async def test_an_error_with_status_200_says_what_the_server_said(name: str) -> None:
    event, _, words, _ = ERRORS[name]
    for kind in ("application/json", "text/event-stream"):
        transport = replying([json.dumps(event).encode()], kind=kind)
        with pytest.raises(ProviderStatusError) as caught:
            await client(transport).complete(CHAT, ASK)
        assert words in str(caught.value)
        assert "base_url" not in str(caught.value)


@pytest.mark.parametrize(
    "chunk",
    [
        {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}},
        {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
        {"object": "chat.completion.chunk", "timings": {"predicted_n": 3}},
        {"msg": "success", "code": 0},
        {"type": "ping"},
    ],
)
async def test_a_chunk_without_choices_is_no_error(chunk: JsonObject) -> None:
    assert (await ask(chunk, chat_chunk({"content": "Hello"}), chunk, chat_chunk({}, "stop"), "[DONE]")).text == "Hello"


# Calls.


def call(name: str | None = None, arguments: object = None, **fields: object) -> JsonObject:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {"function": function, **fields}


def streamed(*deltas: JsonObject | list[JsonObject]) -> list[object]:
    lists = [delta if isinstance(delta, list) else [delta] for delta in deltas]
    return [*(chat_chunk({"tool_calls": each}) for each in lists), chat_chunk({}, "tool_calls"), "[DONE]"]


A, B = '{"path": "a"}', '{"path": "b"}'
CALLS: dict[str, tuple[list[object], list[tuple[str, JsonObject]], str]] = {
    "two at one index, with ids": (
        streamed(call("read", A, index=0, id="a"), call("read", B, index=0, id="b")),
        [("read", {"path": "a"}), ("read", {"path": "b"})],
        "https://github.com/apache/maka/issues/1976",
    ),
    "two at one index, only the first with an id": (
        streamed(call("read", A, index=0, id="a"), call("list", B, index=0)),
        [("read", {"path": "a"}), ("list", {"path": "b"})],
        "https://github.com/vercel/ai/issues/14277",
    ),
    "no index": (
        streamed(call("read", A), call("read", B)),
        [("read", {"path": "a"}), ("read", {"path": "b"})],
        "https://github.com/SamSaffron/term-llm/pull/314",
    ),
    "the rest without an index": (
        streamed(call("read", "", id="a"), call(None, A[:5]), call(None, A[5:])),
        [("read", {"path": "a"})],
        "https://github.com/openai/openai-python/pull/3246",
    ),
    "the rest with an id only": (
        streamed(call("read", A[:5], index=0, id="a"), call(None, A[5:], id="a")),
        [("read", {"path": "a"})],
        "https://github.com/diegosouzapw/OmniRoute/pull/6905",
    ),
    "interleaved": (
        streamed(
            call("read", A[:5], index=0, id="a"),
            call("read", B[:5], index=1, id="b"),
            call(None, A[5:], index=0),
            call(None, B[5:], index=1),
        ),
        [("read", {"path": "a"}), ("read", {"path": "b"})],
        "https://github.com/QwenLM/Qwen-Agent/pull/943",
    ),
    "the head at another index": (
        streamed(call("read", A, index=0, id="a"), call("read", "", index=0, id="b"), call(None, B, index=1)),
        [("read", {"path": "a"}), ("read", {"path": "b"})],
        "https://github.com/agno-agi/agno/pull/8880",
    ),
    "a name in pieces": (
        streamed(call("read_", "", index=0, id="a"), call("file", "", index=0), call(None, A, index=0)),
        [("read_file", {"path": "a"})],
        "https://github.com/NVIDIA-NeMo/Switchyard/pull/785",
    ),
    "a name in each delta": (
        streamed(call("read", "", index=0, id="a"), call("read", A[:5], index=0), call("read", A[5:], index=0)),
        [("read", {"path": "a"})],
        "https://github.com/BerriAI/litellm/issues/20543",
    ),
    "a name that grows": (
        streamed(call("re", "", index=0, id="a"), call("read", "", index=0), call(None, A, index=0)),
        [("read", {"path": "a"})],
        "https://github.com/NVIDIA-NeMo/Switchyard/pull/785",
    ),
    "a name after the arguments": (
        streamed(call(None, A, index=0, id="a"), call("read", "", index=0)),
        [("read", {"path": "a"})],
        "https://github.com/NVIDIA-NeMo/Switchyard/pull/785",
    ),
    "arguments so far": (
        streamed(call("read", A[:5], index=0, id="a"), call(None, A[:9], index=0), call(None, A, index=0)),
        [("read", {"path": "a"})],
        "https://github.com/InternLM/lmdeploy/issues/3412",
    ),
    "all arguments again": (
        streamed(call("read", A[:5], index=0, id="a"), call(None, A[5:], index=0), call("read", A, index=0)),
        [("read", {"path": "a"})],
        "https://github.com/danny-avila/LibreChat/pull/14416",
    ),
    "an empty object first": (
        streamed(call("read", "{}", index=0, id="a"), call(None, A, index=0)),
        [("read", {"path": "a"})],
        "https://github.com/BerriAI/litellm/issues/4537",
    ),
    "an object": (
        streamed(call("read", {"path": "a"}, index=0, id="a")),
        [("read", {"path": "a"})],
        "https://github.com/openclaw/openclaw/pull/40425",
    ),
    "the former field": (
        [
            chat_chunk({"function_call": {"name": "read", "arguments": ""}}),
            chat_chunk({"function_call": {"arguments": A}}),
            chat_chunk({}, "function_call"),
            "[DONE]",
        ],
        [("read", {"path": "a"})],
        "https://platform.openai.com/docs/api-reference/chat-streaming",
    ),
    "no arguments": (
        streamed(call("now", None, index=0, id="a"), call("read", A, index=1, id="b")),
        [("now", {}), ("read", {"path": "a"})],
        "https://github.com/openai/openai-agents-js/issues/664",
    ),
}


@pytest.mark.parametrize("name", CALLS)
async def test_calls(name: str) -> None:
    chunks, expected, _ = CALLS[name]
    message = await ask(*chunks)
    assert [(each.name, each.args) for each in message.tool_calls] == expected
    assert all(each.invalid is None for each in message.tool_calls)


ARGUMENTS = {
    "null": ("null", {}, "https://github.com/1jehuang/jcode/issues/225"),
    "nothing": ("", {}, "https://github.com/openai/openai-agents-js/issues/664"),
    "a JSON text": (json.dumps(A), {"path": "a"}, "https://github.com/tailcallhq/forgecode/pull/2764"),
    "a JSON text twice": (
        json.dumps(json.dumps(A)),
        {"path": "a"},
        "https://github.com/FoundationAgents/OpenManus/pull/989",
    ),
    "a fenced block": (f"```json\n{A}\n```", {"path": "a"}, "https://github.com/huggingface/smolagents/pull/1003"),
    "half a pair": ('{"path": "\\ud83d!"}', {"path": "\ufffd!"}, "https://github.com/HKUDS/nanobot/issues/4952"),
    "two halves": (
        '{"path": "\\ud83d\\ude00"}',
        {"path": "\U0001f600"},
        "https://github.com/HKUDS/nanobot/issues/4952",
    ),
}


@pytest.mark.parametrize("name", ARGUMENTS)
async def test_arguments_that_only_need_unwrapping(name: str) -> None:
    text, expected, _ = ARGUMENTS[name]
    message = await ask(*streamed(call("read", text, index=0, id="a")))
    assert [(each.args, each.invalid) for each in message.tool_calls] == [(expected, None)]


@pytest.mark.parametrize("text", ["file_path=foo", '{"path": ', "[1]", '"x"', "{}{}{}", "5"])
async def test_other_arguments_are_reported_to_the_model(text: str) -> None:
    message = await ask(*streamed(call("read", text, index=0, id="a")))
    assert [(each.args, each.invalid) for each in message.tool_calls] == [({}, text)]


# Reasoning, and what comes back unread.

THOUGHTS: dict[str, tuple[JsonObject, str]] = {
    "an empty field beside it": ({"reasoning_content": "", "reasoning": "Hm."}, "reasoning"),
    "Copilot": ({"reasoning_text": "Hm."}, "reasoning_text"),
    "both fields": ({"reasoning_content": "Hm.", "reasoning": "Hm."}, "reasoning_content"),
    "Magistral": ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]}, ""),
    "Magistral, a text": ({"content": [{"type": "thinking", "thinking": "Hm."}]}, ""),
    "OpenRouter": ({"reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]}, ""),
}


@pytest.mark.parametrize("name", THOUGHTS)
async def test_reasoning_wherever_it_stands(name: str) -> None:
    delta, field = THOUGHTS[name]
    message = await ask(chat_chunk(delta), chat_chunk({"content": "Four."}), chat_chunk({}, "stop"), "[DONE]")
    assert (message.thinking, message.text) == ("Hm.", "Four.")
    part = message.content[0]
    assert (part.provider_state or {}).get("field") == field


SIGNED = {"google": {"thought_signature": "c2ln"}}
DETAILS = [
    {"type": "reasoning.text", "index": 0, "text": "Let me", "format": "anthropic-claude-v1"},
    {"type": "reasoning.text", "index": 0, "text": " see.", "signature": "c2ln"},
    {"type": "reasoning.encrypted", "index": 1, "data": "eA=="},
]
WHOLE = [
    {"type": "reasoning.text", "index": 0, "text": "Let me see.", "format": "anthropic-claude-v1", "signature": "c2ln"},
    {"type": "reasoning.encrypted", "index": 1, "data": "eA=="},
]
OPAQUE: dict[str, tuple[list[object], JsonObject, JsonObject, str]] = {
    "Gemini's, on a call": (
        streamed({**call("read", A, index=0, id="a"), "extra_content": SIGNED}),
        {},
        {"extra_content": SIGNED},
        "https://github.com/langroid/langroid/pull/969",
    ),
    "Gemini's, in a delta after it": (
        streamed(call("read", A, index=0, id="a"), {"extra_content": SIGNED}),
        {},
        {"extra_content": SIGNED},
        "https://github.com/HKUDS/OpenHarness/pull/338",
    ),
    "Vertex's": (
        streamed({**call("read", A, index=0, id="a"), "extra_content": {"vertex": {"thought_signature": "c2ln"}}}),
        {},
        {"extra_content": {"vertex": {"thought_signature": "c2ln"}}},
        "https://github.com/earendil-works/pi/pull/7745",
    ),
    "OpenRouter's": (
        [
            *(chat_chunk({"reasoning": "…", "reasoning_details": [each]}) for each in DETAILS),
            *streamed(call("read", A)),
        ],
        {"reasoning_details": WHOLE},
        {},
        "https://github.com/8monkey-ai/hebo-gateway/issues/226",
    ),
    "LiteLLM's, inside the function": (
        streamed(
            {
                "index": 0,
                "id": "a",
                "function": {"name": "read", "arguments": A, "provider_specific_fields": SIGNED["google"]},
            }
        ),
        {},
        {"provider_specific_fields": {"thought_signature": "c2ln"}},
        "https://github.com/HKUDS/nanobot/pull/2453",
    ),
    "LiteLLM's, of Claude": (
        [
            chat_chunk({"thinking_blocks": [{"type": "thinking", "thinking": "Hm"}]}),
            chat_chunk({"thinking_blocks": [{"type": "thinking", "thinking": "m.", "signature": "c2ln"}]}),
            *streamed(call("read", A)),
        ],
        {"thinking_blocks": [{"type": "thinking", "thinking": "Hmm.", "signature": "c2ln"}]},
        {},
        "https://docs.litellm.ai/docs/reasoning_content",
    ),
    "Copilot's": (
        [chat_chunk({"reasoning_opaque": "eA=="}), *streamed(call("read", A))],
        {"reasoning_opaque": "eA=="},
        {},
        "https://github.com/anomalyco/opencode/pull/8900",
    ),
}
TOOL = ai.ToolSpec("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})


@pytest.mark.parametrize("name", OPAQUE)
async def test_what_has_to_come_back_unread_comes_back_to_the_same_endpoint_only(name: str) -> None:
    chunks, of_message, of_call, _ = OPAQUE[name]
    http = client(replying(sse(*chunks)))
    message = await http.complete(CHAT, ASK)
    results = ai.ToolResultMessage(tuple(ai.ToolResultPart(each.id, "read", "x") for each in message.tool_calls))
    context = ai.Context(messages=[*ASK.messages, message, results], tools=[TOOL])

    async def sent(model: ai.Model) -> JsonObject:
        body = (await http.preview(model, context)).body
        return next(each for each in body["messages"] if each["role"] == "assistant")

    back = await sent(CHAT)
    assert of_message.items() <= back.items()
    assert of_call.items() <= back["tool_calls"][0].items()
    for other in (
        ai.get_model("openai", CHAT.id, base_url="http://127.0.0.1:10/v1"),
        ai.get_model("openai", "another", base_url=CHAT.base_url),
        ai.get_model("groq", CHAT.id, api_key="k"),
    ):
        there = await sent(other)
        assert not (of_message.keys() | of_call.keys()) & (there.keys() | there["tool_calls"][0].keys())


async def test_an_id_that_is_a_signature_comes_back_with_its_result() -> None:
    long = "call_1__thought__" + "c2ln" * 200
    http = client(replying(sse(*streamed(call("read", A, index=0, id=long)))))
    message = await http.complete(CHAT, ASK)
    assert message.tool_calls[0].id == "call_1"
    results = ai.ToolResultMessage((ai.ToolResultPart("call_1", "read", "x"),))
    body = (await http.preview(CHAT, ai.Context(messages=[*ASK.messages, message, results], tools=[TOOL]))).body
    assert body["messages"][1]["tool_calls"][0]["id"] == body["messages"][2]["tool_call_id"] == long


async def test_an_empty_body_and_a_page_are_told_as_before() -> None:
    transport = httpx.MockTransport(
        lambda _: httpx.Response(200, headers={"content-type": "application/json"}, content=b'{"status": "ok"}')
    )
    with pytest.raises(Exception, match="one JSON document instead of a stream"):
        await client(transport).complete(CHAT, ASK)

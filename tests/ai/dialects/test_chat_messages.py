"""The order of the messages in a Chat Completions request, and conversations that another format began."""

from __future__ import annotations

import json
from dataclasses import replace

import httpx
import pytest
from support.wire import chat_chunk, client, replying, sse

from planck_nb import ai
from planck_nb.ai.dialects.chat_messages import arrange, with_system
from planck_nb.ai.server_rules import ServerRules
from planck_nb.base.json_types import JsonObject

STRICT = ServerRules(alternates=True)


def user(text: str) -> JsonObject:
    return {"role": "user", "content": text}


def reply(text: str, **more: object) -> JsonObject:
    return {"role": "assistant", "content": text, **more}


CALL = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
RESULT: JsonObject = {"role": "tool", "tool_call_id": "a", "content": "seen"}
IMAGE: JsonObject = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aQ=="}}


def test_neighbours_of_one_role_are_one_message() -> None:
    messages = [user("a"), user("b"), reply("c"), reply("d")]
    assert arrange(messages, ServerRules()) == [user("a\n\nb"), reply("c\n\nd")]


def test_text_and_an_image_are_one_list() -> None:
    merged = arrange([user("a"), {"role": "user", "content": [IMAGE]}], ServerRules())
    assert merged == [{"role": "user", "content": [{"type": "text", "text": "a"}, IMAGE]}]


def test_results_stay_apart() -> None:
    messages = [user("a"), reply("", tool_calls=[CALL, CALL]), RESULT, RESULT]
    assert arrange(messages, ServerRules()) == messages


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        ("user tool user", "user tool assistant user"),
        ("assistant user", "user assistant user"),
        ("user assistant", "user assistant user"),
        ("user assistant user", "user assistant user"),
        ("", ""),
    ],
)
def test_alternating_roles(roles: str, expected: str) -> None:
    messages: list[JsonObject] = [{"role": role, "content": "x"} for role in roles.split()]
    assert " ".join(message["role"] for message in arrange(messages, STRICT)) == expected
    assert all(message["content"] == "x" for message in messages)  # unchanged


def test_a_server_without_a_system_role_has_the_prompt_in_the_first_message() -> None:
    rules = ServerRules(system_role=False)
    assert with_system([user("a")], "Brief.", rules) == [user("Brief.\n\na")]
    assert with_system([], "Brief.", rules) == [user("Brief.")]


# A conversation that one format began goes on in another.

TOOL = ai.ToolSpec("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})
MODELS = {
    "chat": ai.get_model("openai", "m", base_url="http://127.0.0.1:9/v1", api="chat"),
    "responses": ai.get_model("openai", "m", base_url="http://127.0.0.1:9/v1", api="responses"),
    "messages": ai.get_model("anthropic", "m", base_url="http://127.0.0.1:9"),
    "google": ai.get_model("google", "gemini-3-pro", base_url="http://127.0.0.1:9"),
    "ollama": ai.get_model("ollama", "m", base_url="http://127.0.0.1:9"),
}
STATES: dict[str, JsonObject] = {
    "chat": {"field": "reasoning_content", "endpoint": "e", "fields": {"reasoning_details": ["c2VjcmV0"]}},
    "responses": {"id": "rs_1", "encrypted_content": "c2VjcmV0"},
    "messages": {"signature": "c2VjcmV0"},
    "google": {"signature": "c2VjcmV0"},
    "ollama": {"field": "thinking"},
}


@pytest.mark.parametrize("to", MODELS)
@pytest.mark.parametrize("begun", MODELS)
async def test_a_conversation_of_any_format_goes_on_in_any_other(begun: str, to: str) -> None:
    model = MODELS[begun]
    said = ai.AssistantMessage(
        (
            ai.ThinkingPart("I look.", STATES[begun]),
            ai.TextPart("Looking."),
            ai.ToolCallPart("call_1", "look", {"at": "x"}, provider_state=STATES[begun]),
        ),
        provider=model.provider,
        model=model.id,
        api=model.api,
    )
    results = ai.ToolResultMessage((ai.ToolResultPart("call_1", "look", "seen"),))
    context = ai.Context("Brief.", [ai.UserMessage("Look."), said, results, ai.UserMessage("And?")], [TOOL])
    body = json.dumps(
        (await client(httpx.MockTransport(lambda _: httpx.Response(500))).preview(MODELS[to], context)).body
    )
    assert all(text in body for text in ("Look.", "Looking.", "seen", "And?", "Brief."))
    if to != begun:
        assert "c2VjcmV0" not in body


async def test_a_call_from_text_is_an_ordinary_call_elsewhere() -> None:
    own = ai.get_model("llama_cpp", "m", base_url="http://127.0.0.1:9", has_api_key=False)
    text = '{"name": "look", "arguments": {"at": "x"}}'
    chunks = sse(chat_chunk({"content": text}), chat_chunk({}, "stop"), "[DONE]")
    http = client(replying(chunks))
    context = ai.Context(messages=[ai.UserMessage("Look.")], tools=[TOOL])
    message = await http.complete(own, context)
    results = ai.ToolResultMessage((ai.ToolResultPart(message.tool_calls[0].id, "look", "seen"),))
    there = replace(context, messages=[*context.messages, message, results])
    for model in MODELS.values():
        body = json.dumps((await http.preview(model, there)).body)
        assert "look" in body
        assert "in_text" not in body

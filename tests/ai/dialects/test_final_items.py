"""A final item counts where it says more than its deltas, and a reply without content is not sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.wire import CHAT, chat_chunk, client, replying, sse

from planck_nb import ai

RESPONSES = ai.get_model("openai", "some-model", base_url="http://127.0.0.1:9/v1", api="responses")
OLLAMA = ai.get_model("ollama", "some-model", base_url="http://127.0.0.1:9")
ASK = ai.Context(messages=[ai.UserMessage("hi")])


def text_item(text: str, **more: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"id": "msg_1", "type": "message", "role": "assistant", "content": content, **more}


def call_item(arguments: str) -> dict[str, Any]:
    return {"id": "fc_1", "type": "function_call", "call_id": "c1", "name": "look", "arguments": arguments}


def thought_item(text: str) -> dict[str, Any]:
    return {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}


DELTAS = {
    "message": ("response.output_text.delta", "content_index"),
    "function_call": ("response.function_call_arguments.delta", "content_index"),
    "reasoning": ("response.reasoning_summary_text.delta", "summary_index"),
}


async def answered(
    item: dict[str, Any], said: str, done: dict[str, Any] | None, final: list[Any]
) -> ai.AssistantMessage:
    kind, field = DELTAS[item["type"]]
    place = {"item_id": item["id"], "output_index": 0}
    events: list[object] = [{"type": "response.output_item.added", "output_index": 0, "item": item}]
    events += [{"type": kind, **place, field: 0, "delta": chunk} for chunk in (said[:3], said[3:]) if chunk]
    if done is not None:
        events.append({"type": "response.output_item.done", "output_index": 0, "item": done})
    events.append({"type": "response.completed", "response": {"output": final}})
    return await client(replying(sse(*events))).complete(RESPONSES, ASK)


@pytest.mark.parametrize("place", ["done", "completed"])
@pytest.mark.parametrize(
    ("said", "whole", "text"),
    [
        ("Hello", "Hello, world", "Hello, world"),
        ("Hello", "Why, Hello", "Why, Hello"),
        ("", "All at once", "All at once"),
        ("Hello", "Hallo", "Hallo"),
        ("Hello", "", "Hello"),
        ("Hello, world", "Hello", "Hello, world"),
        ("Hello", "Hello", "Hello"),
    ],
)
async def test_the_text_of_the_final_item_counts_if_it_has_more(place: str, said: str, whole: str, text: str) -> None:
    done = text_item(whole) if place == "done" else text_item(said)
    final = [text_item(whole)] if place == "completed" else []
    message = await answered(text_item(""), said, done, final)
    assert message.text == text
    assert len(message.content) == 1
    again = ai.Context(messages=[ai.UserMessage("hi"), message, ai.UserMessage("and?")])
    preview = await client().preview(RESPONSES, again)
    assert preview.body["input"][1]["content"][0]["text"] == text


@pytest.mark.parametrize("place", ["done", "completed"])
async def test_thinking_and_arguments_likewise(place: str) -> None:
    done, final = ('{"a": 1, "b": 2}', []) if place == "done" else ('{"a": 1}', [call_item('{"a": 1, "b": 2}')])
    message = await answered(call_item(""), '{"a": 1}', call_item(done), final)
    assert message.tool_calls[0].args == {"a": 1, "b": 2}
    message = await answered(call_item(""), '{"a": 1}', call_item("{broken"), [])
    assert message.tool_calls[0].args == {"a": 1}
    final = [thought_item("Hm. Really.")] if place == "completed" else []
    message = await answered(thought_item(""), "Hm.", thought_item("Hm." if final else "Hm. Really."), final)
    assert message.thinking == "Hm. Really."


async def test_a_whole_message_in_place_of_deltas_counts_once() -> None:
    whole = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}]}
    assert (await client(replying(sse(whole, "[DONE]"))).complete(CHAT, ASK)).text == "Hello"
    assert (
        await client(replying(sse(chat_chunk({"content": "Hello"}), whole, "[DONE]"))).complete(CHAT, ASK)
    ).text == "Hello"


@pytest.mark.parametrize("model", [CHAT, OLLAMA, RESPONSES], ids=["chat", "ollama", "responses"])
@pytest.mark.parametrize("state", [None, {"field": "reasoning_content"}])
async def test_a_reply_that_was_stopped_while_thinking_is_not_sent(
    model: ai.Model, state: dict[str, str] | None
) -> None:
    http = client(replying([]))
    stopped = ai.AssistantMessage(
        (ai.ThinkingPart("Let me see", state),), stop_reason="aborted", provider=model.provider, model=model.id
    )
    body = (
        await http.preview(model, ai.Context(messages=[ai.UserMessage("hi"), stopped, ai.UserMessage("and?")]))
    ).body
    sent = body["input" if model is RESPONSES else "messages"]
    assert {message["role"] for message in sent} == {"user"}
    called = ai.AssistantMessage(
        (ai.ThinkingPart("Let me see", state), ai.ToolCallPart("a", "look", {})),
        provider=model.provider,
        model=model.id,
    )
    body = (await http.preview(model, ai.Context(messages=[ai.UserMessage("hi"), called]))).body
    assert "look" in json.dumps(body)

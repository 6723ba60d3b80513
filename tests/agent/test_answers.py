"""Answers that are cut off, refused or missing say so, and the model can be asked to go on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.agents import Hold, Listening, calling, kinds, said
from support.wire import chat_chunk, client, replying, sse

from planck_nb import Agent, RunResult, Session, ai
from planck_nb.agent.answers import problem_of, request_to_continue, warning
from planck_nb.agent.events import Warned, decode_event, encode_event
from planck_nb.agent.limits import Limits
from planck_nb.ai.messages import (
    AssistantMessage,
    AssistantPart,
    Message,
    StopReason,
    SummaryMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
    Usage,
    UserMessage,
)
from planck_nb.base.errors import OutputError
from planck_nb.testing import Call, Reply, scripted_model

CUT = "demo:script was cut off after 3 tokens, at its token limit; let it go on with `agent.continue_()`"
REFUSED = "demo:script refused to answer; rephrase the prompt"
THOUGHT = "demo:script thought but wrote no answer; `agent.continue_()` or `%planck continue` asks for it."


@pytest.mark.parametrize(
    ("reply", "stop_reason", "sentence", "word"),
    [
        (Reply("one two three", stop_reason="length"), "length", CUT, "cut off"),
        (
            Reply(thinking="one two three", stop_reason="length"),
            "length",
            "limit after 3 tokens before it wrote",
            "cut",
        ),
        (Reply(stop_reason="length"), "length", "before it wrote an answer; raise `max_tokens`", "cut off"),
        (Reply("I cannot.", stop_reason="refusal"), "refusal", REFUSED, "refused"),
        (Reply(stop_reason="refusal"), "refusal", REFUSED, "refused"),
        (Reply(thinking="hm"), "stop", THOUGHT, "no answer"),
        (Reply("  \n", thinking="hm"), "stop", THOUGHT, "no answer"),
    ],
)
async def test_an_answer_that_is_not_whole_says_so(reply: Reply, stop_reason: str, sentence: str, word: str) -> None:
    agent = Agent(model=scripted_model([reply]))
    run = agent.prompt("go")
    result = await run
    assert result.stop_reason == stop_reason
    assert sentence in result.warning
    assert word in repr(result)
    assert result.warning in (result._repr_markdown_() or "")
    events = [event async for event in run]
    [warned] = [event for event in events if event.type == "warning"]
    assert warned.text == result.warning
    assert kinds(events, "message", "warning", "turn_end")[-2:] == ["warning", "turn_end"]


async def test_a_whole_answer_has_no_warning() -> None:
    agent = Agent(model=scripted_model([*calling(("ghost", {}))]))
    result = await agent.prompt("go")
    assert (result.stop_reason, result.warning, result.limit) == ("stop", "", "")
    assert result._repr_markdown_() == "done"


async def test_the_last_of_several_replies_counts() -> None:
    script: list[Reply | str] = [Reply("Let me", calls=[Call("ghost", {})], stop_reason="length"), "whole"]
    run = Agent(model=scripted_model(script)).prompt("go")
    result = await run
    assert (result.stop_reason, result.warning) == ("stop", "")
    assert [event.about for event in run.events.since(0) if event.type == "warning"] == ["cut_off"]


async def test_a_stopped_turn_and_one_at_a_limit_have_their_own_stop_reasons() -> None:
    hold = Hold()
    agent = Agent(model=scripted_model(calling(("hold", {}))), tools=[hold.hold])
    run = agent.prompt("go")
    await hold.entered.wait()
    run.abort()
    assert (await run).stop_reason == "aborted"
    limited = Agent(model=scripted_model(calling(("ghost", {}))), limits=Limits(rounds=1))
    assert (await limited.prompt("go")).stop_reason == "tool_use"


def test_a_full_context_window_is_named() -> None:
    model = replace(scripted_model(["x"]), context_window=4_096)
    reply = AssistantMessage((TextPart("so"),), "length", Usage(4_000, 90))
    assert "fills its context window of 4,096 tokens; shorten it" in warning(reply, model)
    assert "at its token limit" in warning(replace(reply, usage=Usage(2_000, 90)), model)
    assert "at its token limit" in warning(replace(reply, usage=None), model)


@pytest.mark.parametrize("text", ['{"name": "Ro', "", "I will"])
async def test_a_structured_answer_that_is_cut_off_advises_more_tokens_and_is_not_asked_for_again(text: str) -> None:
    client = Listening()
    agent = Agent(model=scripted_model([Reply(text, stop_reason="length"), "{}"]), client=client)
    with pytest.raises(OutputError, match=r"was cut off before its JSON was complete.*raise `max_tokens`"):
        await agent.prompt("go", output={"type": "object"})
    assert len(client.asked) == 1


async def test_a_structured_answer_that_is_complete_all_the_same_is_read() -> None:
    agent = Agent(model=scripted_model([Reply('{"a": 1}', stop_reason="length")]))
    result = await agent.prompt("go", output={"type": "object"})
    assert result.output == {"a": 1}
    assert result.stop_reason == "length"


def reply(*parts: AssistantPart, stop: StopReason = "stop") -> AssistantMessage:
    return AssistantMessage(parts, stop)


TEXT, THOUGHT_PART = TextPart("so"), ThinkingPart("hm")
CALL = ToolCallPart("1", "f", {})
RESULT = ToolResultMessage((ToolResultPart("1", "f", "x"),))
GO = UserMessage("go")


@pytest.mark.parametrize(
    ("conversation", "expected"),
    [
        ([GO], ""),
        ([GO, reply(CALL, stop="tool_use"), RESULT], ""),
        ([GO, reply()], ""),  # an empty reply is never sent
        ([SummaryMessage("So far.")], ""),
        ([GO, reply(TEXT, stop="length")], "Go on exactly where it ended"),
        ([GO, reply(TEXT, stop="aborted")], "Go on exactly where it ended"),
        ([GO, reply(TEXT, stop="error")], "Go on exactly where it ended"),
        ([GO, reply(THOUGHT_PART)], "Answer now."),
        ([GO, reply(TEXT)], "Go on."),
        ([GO, reply(TEXT, stop="refusal")], "Go on."),
    ],
)
def test_how_a_model_is_asked_to_go_on(conversation: Sequence[Message], expected: str) -> None:
    message = request_to_continue(conversation)
    assert expected in message.text
    assert bool(message.content) == bool(expected)


async def test_a_cut_answer_goes_on_where_it_ended() -> None:
    client = Listening()
    agent = Agent(model=scripted_model([Reply("one two", stop_reason="length"), "three"]), client=client)
    assert (await agent.prompt("count")).stop_reason == "length"
    run = agent.continue_()
    assert run is not None
    result = await run
    assert (result.text, result.stop_reason, result.warning) == ("three", "stop", "")
    assert client.texts()[:2] == ["user: count", "assistant: one two"]
    assert client.texts()[2].startswith("user: Your reply was cut off. Go on exactly where it ended")


async def test_a_stopped_answer_can_be_continued() -> None:
    agent = Agent(model=scripted_model(["one two three four", "five"], pace=0.005))
    run = agent.prompt("count")
    async for event in run:
        if event.type == "text_delta":
            run.abort()
    assert run.status == "aborted"
    following = agent.continue_()
    assert following is not None
    assert (await following).text == "five"
    assert "cut off" in said(agent)[-2]


async def test_what_is_said_of_an_answer_is_stored(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        agent = Agent(model=scripted_model([Reply("one", stop_reason="length")]), session=session)
        await agent.prompt("go")
        await agent.stop()
        [stored] = [event for event in session.events(agent.id) if event.type == "warning"]
        assert stored.about == "cut_off"


def test_a_warning_of_an_earlier_version_can_be_read() -> None:
    data: dict[str, Any] = encode_event(Warned("a", None, 0, 0, 0.0, "The option was left out."))
    del data["about"]
    event = decode_event(data)
    assert isinstance(event, Warned)
    assert event.about == ""


def anthropic(stop_reason: str, text: str = "so far") -> list[bytes]:
    return sse(
        {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    )


def gemini(reason: str) -> list[bytes]:
    return sse({"candidates": [{"content": {"parts": [{"text": "so far"}]}, "finishReason": reason}]})


def responses(status: str, *, refusal: bool = False, why: str = "") -> list[bytes]:
    part = {"type": "refusal", "refusal": "so far"} if refusal else {"type": "output_text", "text": "so far"}
    item = {"type": "message", "id": "m", "role": "assistant", "content": [part]}
    response: dict[str, Any] = {"id": "r", "status": status, "output": [item], "usage": None}
    if why:
        response["incomplete_details"] = {"reason": why}
    kind = "response.refusal.delta" if refusal else "response.output_text.delta"
    return sse(
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": kind, "item_id": "m", "output_index": 0, "content_index": 0, "delta": "so far"},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": f"response.{status}", "response": response},
    )


def chat(finish: str, key: str = "content") -> list[bytes]:
    return sse(chat_chunk({"role": "assistant", key: "so far"}), chat_chunk({}, finish), "[DONE]")


def ollama(reason: str) -> list[bytes]:
    line = {"message": {"role": "assistant", "content": "so far"}, "done": True, "done_reason": reason}
    return [json.dumps(line).encode() + b"\n"]


ENDINGS_OF_VENDORS = [
    ("messages", anthropic("max_tokens"), "length"),
    ("messages", anthropic("model_context_window_exceeded"), "length"),
    ("messages", anthropic("refusal"), "refusal"),
    ("chat", chat("length"), "length"),
    ("chat", chat("stop", key="refusal"), "refusal"),
    ("chat", chat("content_filter"), "refusal"),
    ("responses", responses("incomplete", why="max_output_tokens"), "length"),
    ("responses", responses("incomplete", why="content_filter"), "refusal"),
    ("responses", responses("completed", refusal=True), "refusal"),
    ("generate_content", gemini("MAX_TOKENS"), "length"),
    *(
        ("generate_content", gemini(reason), "refusal")
        for reason in ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE")
    ),
    ("ollama", ollama("length"), "length"),
]


@pytest.mark.parametrize(("api", "body", "expected"), ENDINGS_OF_VENDORS)
async def test_every_way_in_which_a_vendor_cuts_off_or_refuses_is_said(
    api: str, body: list[bytes], expected: str
) -> None:
    provider = {"messages": "anthropic", "generate_content": "google", "ollama": "ollama"}.get(api, "openai")
    named = None if api == "ollama" else api
    model = ai.get_model(provider, "some-model", base_url="http://127.0.0.1:9", api=named)
    kind = "application/x-ndjson" if api == "ollama" else "text/event-stream"
    run = Agent(model=model, client=client(replying(body, kind=kind))).prompt("go")
    result = await run
    assert result.text == "so far"
    assert result.stop_reason == expected
    assert result.warning
    assert ("cut off" if expected == "length" else "refused") in repr(result)
    [warned] = [event for event in run.events.since(0) if event.type == "warning" and event.about]
    assert warned.text == result.warning
    assert warned.about == ("cut_off" if expected == "length" else "refused")


def test_a_message_that_is_not_a_reply_has_no_problem() -> None:
    assert [problem_of(message) for message in (GO, RESULT, SummaryMessage("x"))] == ["", "", ""]


# How a result is shown.

CITY = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def result(text: str, **rest: object) -> RunResult[object]:
    messages = (ai.UserMessage("hi"), ai.AssistantMessage((ai.TextPart(text),)))
    return RunResult(messages, ai.Usage(), None, **{"output": text, **rest})  # type: ignore[arg-type]


def test_its_repr_is_one_short_line() -> None:
    assert repr(result("It is\n42.")) == "<RunResult 'It is 42.'>"
    assert len(repr(result("words " * 1_000))) < 120
    assert repr(result("It", aborted=True)) == "<RunResult aborted 'It'>"
    assert repr(result("It", limit="The limit of 2 rounds is reached.")) == "<RunResult limited 'It'>"
    assert repr(RunResult((), ai.Usage(), None, aborted=True)) == "<RunResult aborted ''>"


def test_a_notebook_shows_its_text_as_markdown() -> None:
    assert result("**It** is 42.")._repr_markdown_() == "**It** is 42."
    assert result("It", aborted=True, output=None)._repr_markdown_() == "It"


def test_a_notebook_shows_a_structured_answer_as_json() -> None:
    text = '{"name": "Rome"}'
    assert result(text, output={"name": "Rome"})._repr_markdown_() == f"```json\n{text}\n```"

"""Conversations that other models wrote, that were interrupted, and that were changed since: what may still be sent."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.dialects import WIRES, Reply, Say, Wire
from support.wire import client, replying

from planck_nb import ai
from planck_nb.ai.dialect import Dialect
from planck_nb.ai.dialects import anthropic_messages, ollama
from planck_nb.ai.dialects import google_generate_content as generate_content
from planck_nb.ai.dialects import google_interactions as interactions
from planck_nb.ai.dialects import openai_chat as chat
from planck_nb.ai.dialects import openai_responses as responses
from planck_nb.ai.message_history.portable_history import INTERRUPTED, Prefix, prepare, seal, without_signatures
from planck_nb.ai.messages import SUMMARY_HEADING, AssistantMessage, SummaryMessage, TextPart, UserMessage
from planck_nb.ai.providers import dialect

READER = ai.get_model("anthropic", "claude-sonnet-4-6")
WRITER = ai.get_model("openai", "gpt-4o")
HI = ai.UserMessage("hi")
SIGNED = ai.ThinkingPart("Hm.", {"type": "thinking", "signature": "s"})


def said(
    *parts: ai.AssistantPart, model: ai.Model = READER, api: str | None = None, stop: ai.StopReason = "stop"
) -> ai.AssistantMessage:
    api = model.api if api is None else api
    return ai.AssistantMessage(parts, stop, provider=model.provider, model=model.id, api=api)


def call(name: str) -> ai.ToolCallPart:
    return ai.ToolCallPart(name, "f", {"x": name}, provider_state={"s": 1})


def results(*names: str) -> ai.ToolResultMessage:
    return ai.ToolResultMessage(tuple(ai.ToolResultPart(name, "f", f"result of {name}") for name in names))


# From one model, and from one wire format, to another


def test_what_another_model_signed_is_left_out_and_what_it_said_stays() -> None:
    opaque = ai.TextPart("", {"type": "server_tool_use"})
    message = said(SIGNED, opaque, ai.TextPart("So.", {"citations": [1]}), call("a"), model=WRITER)
    prepared = prepare([HI, message, results("a")], READER)
    assert prepared[1].content == (ai.TextPart("So."), replace(call("a"), provider_state=None))


@pytest.mark.parametrize(("api", "kept"), [("messages", True), ("", True), ("chat", False)])
def test_state_belongs_to_the_wire_format_it_came_in(api: str, kept: bool) -> None:
    prepared = prepare([HI, said(SIGNED, ai.TextPart("So."), api=api)], READER)
    assert prepared[1].content == ((SIGNED, ai.TextPart("So.")) if kept else (ai.TextPart("So."),))


@pytest.mark.parametrize("wire", [pytest.param(wire, id=name) for name, wire in WIRES.items()])
async def test_a_message_names_its_wire_format(wire: Wire) -> None:
    chunks = wire.write(Reply((Say(("Yes.",)),)))
    message = await client(replying(chunks, kind=wire.kind)).complete(wire.model, ai.Context(messages=[HI]))
    assert message.api == wire.model.api


@pytest.mark.parametrize("wire", [pytest.param(wire, id=name) for name, wire in WIRES.items()])
def test_images_go_to_another_model_too(wire: Wire) -> None:
    image = ai.ImagePart(b"image bytes", "image/png")
    seen = ai.ToolResultMessage((ai.ToolResultPart("a", "f", "drawn", images=(image,)),))
    history: list[ai.Message] = [ai.UserMessage([ai.TextPart("Look"), image]), said(call("a")), seen, HI]
    body = dialect(wire.model).request(wire.model, ai.Context(messages=history), ai.Options(), None).body
    assert json.dumps(body).count(str(image.data)) == 2


# Calls and their results


def test_orphans_are_repaired() -> None:
    repaired = prepare([results("z"), HI, said(call("a"), call("b")), HI, results("b", "b", "y"), said()], READER)
    assert [message.type for message in repaired] == ["user", "assistant", "tool_result", "user"]
    assert repaired[2] == ai.ToolResultMessage(
        (ai.ToolResultPart("a", "f", INTERRUPTED, is_error=True), ai.ToolResultPart("b", "f", "result of b"))
    )


def test_calls_of_one_id_are_told_apart() -> None:
    prepared = prepare([said(call("a"), call("a")), results("a", "a")], READER)
    assert [part.id for part in said(*prepared[0].content).tool_calls] == ["a", "a_2"]
    assert [part.id for part in prepared[1].content] == ["a", "a_2"]  # type: ignore[union-attr]


def test_a_result_stays_with_its_call_when_ids_change() -> None:
    strange = "call|1:ü " + "x" * 80
    history: list[ai.Message] = [
        said(call(strange), model=WRITER),
        results(strange),
        said(call("a")),
        results("a"),
        said(call("a")),
    ]
    prepared = prepare(history, READER)
    ids = [part.id for message in prepared if message.type == "assistant" for part in message.tool_calls]
    assert ids == ["call_1___" + "x" * 31, "a", "a_2"]
    answers = [part for message in prepared if message.type == "tool_result" for part in message.content]
    assert [part.id for part in answers] == ids
    assert [part.text for part in answers] == [f"result of {strange}", "result of a", INTERRUPTED]


names = st.sampled_from(["a", "b", "call_1", "x y", "ü" * 80, "", "call"])
parts = st.one_of(st.builds(call, names), st.just(SIGNED), st.sampled_from(["", "text", "\ud83d"]).map(ai.TextPart))
messages = st.one_of(
    st.just(HI),
    st.just(ai.UserMessage(())),
    st.builds(
        lambda found, model: said(*found, model=model), st.lists(parts, max_size=4), st.sampled_from([READER, WRITER])
    ),
    st.builds(lambda found: results(*found), st.lists(names, max_size=3)),
)


@given(st.lists(messages, max_size=8))
def test_every_call_is_answered_once_right_after_it_by_an_id_that_every_vendor_accepts(
    history: list[ai.Message],
) -> None:
    prepared = prepare(history, READER)
    seen: set[str] = set()
    for at, message in enumerate(prepared):
        assert message.content
        if message.type == "tool_result":
            assert prepared[at - 1].type == "assistant"
        if message.type == "assistant" and (calls := [part.id for part in message.tool_calls]):
            assert len({*seen, *calls}) == len(seen) + len(calls)
            seen.update(calls)
            following = prepared[at + 1]
            assert following.type == "tool_result"
            assert [part.id for part in following.content] == calls
    foreign = [
        part.id
        for message in prepare(history, ai.get_model("demo"))
        if message.type == "assistant"
        for part in message.tool_calls
    ]
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", name) for name in foreign)
    assert prepare(prepared, READER) == prepared
    for wire in WIRES.values():
        dialect(wire.model).request(wire.model, ai.Context(messages=history), ai.Options(), None)


# Signatures and what they were made for


def grown(turns: list[list[ai.AssistantPart]]) -> list[ai.Message]:
    """A conversation of these replies, each signed for what comes before it."""
    history: list[ai.Message] = []
    for number, reply in enumerate(turns):
        history.append(ai.UserMessage(f"question {number}"))
        prefix = Prefix()
        prepare(history, READER, prefix)
        history.append(said(*seal(reply, prefix.digest)))
    return history


def thoughts(history: list[ai.Message]) -> list[ai.AssistantPart]:
    prepared = prepare(history, READER, Prefix())
    return [
        part
        for message in prepared
        if message.type == "assistant"
        for part in message.content
        if part.type == "thinking"
    ]


replies = st.lists(
    st.lists(
        st.sampled_from([SIGNED, ai.TextPart("a"), ai.TextPart("\ud83d", {"x": 1.5}), ai.ThinkingPart("open")]),
        max_size=4,
    ),
    min_size=1,
    max_size=4,
)


@given(replies, st.data())
def test_a_signature_is_sent_as_long_as_nothing_before_it_changed(
    turns: list[list[ai.AssistantPart]], data: st.DataObject
) -> None:
    history = grown(turns)
    assert thoughts(history) == [part for reply in turns for part in reply if part.type == "thinking"]
    changed = data.draw(st.integers(0, len(turns) - 1))
    history[2 * changed] = ai.UserMessage("another question")
    left = [part for reply in turns[:changed] for part in reply if part.type == "thinking"]
    unsigned = [part for reply in turns[changed:] for part in reply if part == ai.ThinkingPart("open")]
    assert thoughts(history) == [*left, *unsigned]


def test_any_difference_changes_the_prefix_digest() -> None:
    image = ai.ImagePart(b"a")
    values: list[object] = [
        "a", ("a",), ai.TextPart("a"), ai.ThinkingPart("a"), image, ai.ImagePart(b"b"), call("a"), call("b"),
        ai.ToolResultPart("a", "f", "x"), ai.ToolResultPart("a", "f", "x", is_error=True),
        ai.ToolResultPart("a", "f", "x", images=(image,)), ai.ToolSpec("f", "", {}), ai.ToolSpec("f", "", {"a": 1}),
    ]  # fmt: skip
    digests = [Prefix(value).digest for value in values]
    digests += [Prefix("a", "a").digest, Prefix("aa").digest, Prefix().digest]
    assert len(set(digests)) == len(digests)


def test_signatures_are_removed_and_text_stays() -> None:
    signed = ai.ToolCallPart("a", "f", {}, provider_state={"thoughtSignature": "s", "id": "7"})
    history: list[ai.Message] = [
        HI,
        said(SIGNED, ai.TextPart("So.", {"type": "text", "citations": [1]}), signed),
        results("a"),
    ]
    lighter, found = without_signatures(history)
    assert lighter == [
        HI,
        said(ai.TextPart("So.", {"type": "text", "citations": [1]}), replace(signed, provider_state={"id": "7"})),
        results("a"),
    ]
    assert len(found) == 2
    assert without_signatures(history, found) == (lighter, found)
    assert without_signatures(history, ()) == (history, frozenset())
    assert without_signatures(lighter) == (lighter, frozenset())


MODEL = ai.Model("openai", "small", api="chat", base_url="http://127.0.0.1:1/v1")


def test_a_model_reads_a_summary_as_a_users_message() -> None:
    reply = AssistantMessage((TextPart("yes"),))
    prepared = prepare([SummaryMessage("They agreed."), reply, UserMessage("go on")], MODEL)
    assert prepared == [UserMessage(f"{SUMMARY_HEADING}\n\nThey agreed."), reply, UserMessage("go on")]


@pytest.mark.parametrize("format_", [chat, generate_content, interactions, anthropic_messages, ollama, responses])
def test_every_wire_format_sends_a_summary(format_: object) -> None:
    dialect: Dialect = format_.DIALECT  # type: ignore[attr-defined]  # each of these modules has one
    context = ai.Context(messages=[SummaryMessage("They agreed."), UserMessage("go on")])
    body = json.dumps(dialect.request(MODEL, context, ai.Options(), "key").body)
    assert json.dumps(f"{SUMMARY_HEADING}\n\nThey agreed.")[1:-1] in body
    assert '"summary"' not in body

"""Interactions: requests that Google's own types accept, streams that its SDK reads as we do."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.referees import genai, genai_types, interactions
from support.wire import client, decode, replying, sse

from planck_nb import ai
from planck_nb.ai.providers import dialect
from planck_nb.ai.stream_events import Finish, StreamWarning
from planck_nb.base.errors import ProviderUnavailableError, RateLimitError, StreamTruncated
from planck_nb.base.json_types import JsonObject

MODEL = ai.get_model("google", "gemini-3.5-flash", base_url="http://127.0.0.1:9", api="interactions")
TOOLS = [ai.ToolSpec("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})]
HI = ai.UserMessage("hi")
USAGE = {"total_input_tokens": 10, "total_output_tokens": 4, "total_thought_tokens": 6, "total_cached_tokens": 3}


def start(index: int, kind: str, **fields: Any) -> JsonObject:
    return {"event_type": "step.start", "index": index, "step": {"type": kind, **fields}}


def delta(index: int, kind: str, **fields: Any) -> JsonObject:
    return {"event_type": "step.delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index: int) -> JsonObject:
    return {"event_type": "step.stop", "index": index}


def completed(status: str = "completed", **fields: Any) -> JsonObject:
    return {
        "event_type": "interaction.completed",
        "interaction": {"id": "v1_a", "status": status, "usage": USAGE, **fields},
    }


OPENING = {"event_type": "interaction.created", "interaction": {"id": "v1_a", "status": "in_progress"}}
SEARCH = {"type": "google_search_call", "id": "s1", "arguments": {"queries": ["q"]}, "signature": "c2VhcmNo"}
FOUND = {
    "type": "google_search_result",
    "call_id": "s1",
    "result": [{"search_suggestions": "s"}, {"search_suggestions": "t"}],
}
CITATION = {"type": "url_citation", "url": "https://example.org", "start_index": 0, "end_index": 3}
EVENTS: list[JsonObject] = [
    OPENING,
    {"event_type": "interaction.status_update", "interaction_id": "v1_a", "status": "in_progress"},
    start(0, "thought"),
    delta(0, "thought_summary", content={"type": "text", "text": "Hm"}),
    delta(0, "thought_summary", content={"type": "text", "text": "m\u2028."}),
    delta(0, "thought_signature", signature="dGhvdWdodA=="),
    stop(0),
    start(1, "google_search_call", id="s1", arguments={}),
    delta(1, "google_search_call", arguments={"queries": ["q"]}, signature="c2VhcmNo"),
    stop(1),
    start(2, "google_search_result", call_id="s1", result=[]),
    delta(2, "google_search_result", result=[{"search_suggestions": "s"}]),
    delta(2, "google_search_result", result=[{"search_suggestions": "t"}]),
    stop(2),
    start(3, "model_output"),
    delta(3, "text", text="See"),
    delta(3, "text", text=" this: "),
    delta(3, "text_annotation_delta", annotations=[CITATION]),
    delta(3, "image", data="cG5n", mime_type="image/png"),
    delta(3, "text", text="done"),
    stop(3),
    {"event_type": "news", "index": 3},
    start(4, "function_call", id="f1", name="look", arguments={}),
    delta(4, "arguments_delta", arguments='{"at": "Zü'),
    delta(4, "arguments_delta", arguments='rich"}'),
    stop(4),
    start(5, "function_call", id="f2", name="look", arguments={"at": "here"}),
    stop(5),
    completed("requires_action"),
]


def bodies(*events: JsonObject) -> list[bytes]:
    return [
        b"event: %s\n%s" % (event["event_type"].encode(), frame)
        for event, frame in zip(events, sse(*events), strict=True)
    ]


WHOLE = [*bodies(*EVENTS), b"event: done\ndata: [DONE]\n\n"]


async def answer(*events: JsonObject) -> ai.AssistantMessage:
    return await client(replying(bodies(*events))).complete(MODEL, ai.Context())


def request(*messages: ai.Message, tools: Any = TOOLS, **options: Any) -> Any:
    context = ai.Context("S", messages or (HI,), tools)
    made = dialect(MODEL).request(MODEL, context, ai.Options(**options), "k")
    taken: Any = interactions.CreateModelInteraction.model_validate(made.body)
    assert "UNKNOWN" not in str([step.type for step in taken.input])  # what the SDK's types do not know
    return made


def test_the_stream_says_what_the_sdk_reads() -> None:
    body = b"".join(WHOLE)
    transport = httpx2.MockTransport(
        lambda request: httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body)
    )
    text, thinking, arguments, kinds = "", "", {4: "", 5: '{"at":"here"}'}, []
    with httpx2.Client(transport=transport) as http:
        sdk = genai.Client(api_key="k", http_options=genai_types.HttpOptions(httpx_client=http))
        stream: Any = sdk.interactions.create(model="gemini-3.5-flash", input="x", stream=True)
        for event in stream:
            kinds.append(event.event_type)
            if event.event_type != "step.delta":
                continue
            if event.delta.type == "text":
                text += event.delta.text
            elif event.delta.type == "thought_summary":
                thinking += event.delta.content.text
            elif event.delta.type == "arguments_delta":
                arguments[event.index] += event.delta.arguments
    assert kinds[-1] == "interaction.completed"
    from planck_nb.ai.message_builder import MessageBuilder, parse_arguments

    builder = MessageBuilder(MODEL)
    builder.feed(decode(MODEL, WHOLE))
    message = builder.build()
    assert (message.text, message.thinking) == (text, thinking)
    assert [call.args for call in message.tool_calls] == [parse_arguments(args) for args in arguments.values()]


async def test_steps_go_back_as_they_came() -> None:
    message = await client(replying(WHOLE)).complete(MODEL, ai.Context())
    assert (message.text, message.thinking) == ("See this: done", "Hmm\u2028.")
    assert message.stop_reason == "tool_use"
    assert message.usage == ai.Usage(10, 10, 3, 0, 6)
    results = ai.ToolResultMessage(
        (
            ai.ToolResultPart("f1", "look", "sun"),
            ai.ToolResultPart("f2", "look", "no", is_error=True, images=(ai.ImagePart(b"png"),)),
        )
    )
    assert request(HI, message, results).body["input"] == [
        {"type": "user_input", "content": [{"type": "text", "text": "hi"}]},
        {"type": "thought", "signature": "dGhvdWdodA==", "summary": [{"type": "text", "text": "Hmm\u2028."}]},
        SEARCH,
        FOUND,
        {
            "type": "model_output",
            "content": [
                {"type": "text", "text": "See this: ", "annotations": [CITATION]},
                {"type": "image", "data": "cG5n", "mime_type": "image/png"},
                {"type": "text", "text": "done"},
            ],
        },
        {"type": "function_call", "id": "f1", "name": "look", "arguments": {"at": "Zürich"}},
        {"type": "function_call", "id": "f2", "name": "look", "arguments": {"at": "here"}},
        {"type": "function_result", "call_id": "f1", "name": "look", "result": "sun"},
        {
            "type": "function_result",
            "call_id": "f2",
            "name": "look",
            "result": [
                {"type": "text", "text": "no"},
                {"type": "image", "mime_type": "image/png", "data": "cG5n"},
            ],
            "is_error": True,
        },
    ]


LIST = {"type": "array", "items": {"type": "string"}}


def test_nothing_is_stored_at_the_vendor() -> None:
    made = request(
        max_tokens=9,
        top_p=0.5,
        stop=["a"],
        thinking="off",
        tool_choice="look",
        output=LIST,
        extra={"generation_config": {"seed": 3}},
    )
    assert made.url == "http://127.0.0.1:9/v1beta/interactions"
    assert made.headers == {"x-goog-api-key": "k", "api-revision": "2026-05-20"}
    assert made.body == {
        "model": "gemini-3.5-flash",
        "input": [{"type": "user_input", "content": [{"type": "text", "text": "hi"}]}],
        "stream": True,
        "store": False,
        "system_instruction": "S",
        "tools": [{"type": "function", "name": "look", "description": "Looks.", "parameters": TOOLS[0].parameters}],
        "response_format": {"type": "text", "mime_type": "application/json", "schema": LIST},
        "generation_config": {
            "max_output_tokens": 9,
            "top_p": 0.5,
            "stop_sequences": ["a"],
            "tool_choice": {"allowed_tools": {"mode": "any", "tools": ["look"]}},
            "thinking_level": "minimal",
            "thinking_summaries": "none",
            "seed": 3,
        },
    }
    assert len(made.warnings) == 1


def test_images_and_documents() -> None:
    user = ai.UserMessage([ai.ImagePart(url="https://example.org/a.png"), ai.FilePart(b"%PDF")])
    assert request(user).body["input"][0]["content"] == [
        {"type": "image", "mime_type": "image/png", "uri": "https://example.org/a.png"},
        {"type": "document", "mime_type": "application/pdf", "data": "JVBERg=="},
    ]


@given(st.integers(1, 300), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_any_rechunking_gives_the_same_events(size: int, newline: bytes) -> None:
    body = b"".join(WHOLE).replace(b"\n", newline)
    assert decode(MODEL, [body[at : at + size] for at in range(0, len(body), size)]) == decode(MODEL, WHOLE)


def test_an_interaction_that_is_not_completed_is_truncated() -> None:
    for count in range(len(EVENTS)):
        with pytest.raises(StreamTruncated):
            decode(MODEL, WHOLE[:count])


@pytest.mark.parametrize(
    ("status", "reason"), [("completed", "stop"), ("incomplete", "length"), ("budget_exceeded", "length")]
)
async def test_statuses(status: str, reason: str) -> None:
    assert (await answer(start(0, "model_output"), delta(0, "text", text="x"), completed(status))).stop_reason == reason


async def test_an_unknown_status_is_reported() -> None:
    *_, told, last = decode(MODEL, bodies(completed("celebrated")))
    assert last == Finish("length")
    assert isinstance(told, StreamWarning)


async def test_a_failed_interaction_says_why() -> None:
    error = {"code": 13, "message": "the kitchen burns"}
    with pytest.raises(ProviderUnavailableError, match="the kitchen burns"):
        await answer(OPENING, start(0, "model_output", error=error), stop(0), completed("failed"))


async def test_an_error_event() -> None:
    event = {"event_type": "error", "error": {"code": "resource_exhausted", "message": "too much"}}
    with pytest.raises(RateLimitError, match="too much"):
        await answer(OPENING, event)


async def test_steps_that_come_whole() -> None:
    steps = [{"type": "model_output", "content": [{"type": "text", "text": "all"}]}]
    assert (await answer(OPENING, completed(steps=steps))).text == "all"
    signed = {"type": "thought", "signature": "c2ln", "summary": [{"type": "text", "text": "t"}]}
    message = await answer(start(0, "thought", **{k: v for k, v in signed.items() if k != "type"}), completed())
    assert request(HI, message).body["input"][1] == signed


async def test_steps_without_their_beginning_and_interleaved() -> None:
    message = await answer(
        delta(1, "text", text="b"),
        delta(0, "thought_signature", signature="c2ln"),
        delta(1, "text", text="c"),
        completed(),
    )
    assert message.text == "bc"
    assert [part.type for part in message.content] == ["text", "thinking"]
    assert message.content[1].provider_state == {"signature": "c2ln"}

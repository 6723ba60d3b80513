"""The Responses format: streams with their traps, and what is sent back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recordings import recorded, request_of
from support.referees import responses_params
from support.wire import ASK, client, decode, replying, sse

from planck_nb import ai
from planck_nb.ai.providers import dialect
from planck_nb.base.errors import (
    BadRequestError,
    ContextOverflowError,
    ProviderProtocolError,
    ProviderStatusError,
    ProviderUnavailableError,
    RateLimitError,
    StreamTruncated,
    UnsupportedFeatureError,
)
from planck_nb.base.json_types import JsonObject

FIRST_PARTY = ("openai", "responses")
GPT = ai.get_model("openai", "gpt-4o", api_key="k")
REASONING = ai.get_model("openai", "gpt-5", api_key="k")
LLAMA = ai.get_model("llama_cpp", "m", api="responses")
PNG = ai.ImagePart(b"\x89PNG", "image/png")
PDF = ai.FilePart(b"%PDF-1.4", name="a.pdf")
HI = ai.UserMessage("hi")
CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = [ai.ToolSpec("get_weather", "The weather.", CITY), ai.ToolSpec("get_time", "The time.", CITY)]


THOUGHT: JsonObject = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "First\u2028."}, {"type": "summary_text", "text": "Then."}],
    "encrypted_content": "gAAAA+/==",
}
SAID: JsonObject = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "phase": "commentary",
    "content": [
        {"type": "output_text", "text": "Looking \U0001f600.", "annotations": [{"type": "x"}], "logprobs": []},
        {"type": "output_text", "text": " Now.", "annotations": [], "logprobs": []},
    ],
}
SEARCH: JsonObject = {
    "id": "ws_1",
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "q"},
}
WEATHER: JsonObject = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "call_id": "call_1",
    "name": "get_weather",
    "arguments": '{"city": "Zürich"}',
}
TIME = {**WEATHER, "id": "fc_2", "call_id": "call_2", "name": "get_time", "arguments": "{}"}
OUTPUT = [THOUGHT, SAID, SEARCH, WEATHER, TIME]
USAGE = {
    "input_tokens": 50,
    "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 5},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 12},
}


def added(item: JsonObject, place: int, **empty: object) -> JsonObject:
    return {"type": "response.output_item.added", "output_index": place, "item": {**item, **empty}}


def delta(kind: str, item: str, place: int, text: str, **at: int) -> JsonObject:
    return {"type": f"response.{kind}.delta", "item_id": item, "output_index": place, "delta": text, **at}


def done(item: JsonObject, place: int) -> JsonObject:
    return {"type": "response.output_item.done", "output_index": place, "item": item}


def ended(how: str = "completed", **fields: object) -> JsonObject:
    return {"type": f"response.{how}", "response": {"status": how, "output": [], "usage": USAGE, **fields}}


EVENTS: list[JsonObject] = [
    {"type": "response.created", "response": {"status": "in_progress", "output": []}},
    {"type": "keepalive"},
    added(THOUGHT, 0, summary=[], encrypted_content="gA"),
    delta("reasoning_summary_text", "rs_1", 0, "First\u2028", summary_index=0),
    delta("reasoning_summary_text", "rs_1", 0, ".", summary_index=0),
    delta("reasoning_summary_text", "rs_1", 0, "Then.", summary_index=1),
    done(THOUGHT, 0),
    added(SAID, 1, content=[], status="in_progress"),
    delta("output_text", "msg_1", 1, "Looking ", content_index=0),
    delta("output_text", "msg_1", 1, "\U0001f600.", content_index=0),
    delta("output_text", "msg_1", 1, " Now.", content_index=1),
    done(SAID, 1),
    added(SEARCH, 2, status="in_progress"),
    {"type": "response.web_search_call.searching", "item_id": "ws_1", "output_index": 2},
    done(SEARCH, 2),
    added(WEATHER, 3, arguments=""),
    added(TIME, 4, arguments=""),
    delta("function_call_arguments", "fc_1", 3, '{"city": "Zü'),
    delta("function_call_arguments", "fc_2", 4, "{"),
    delta("function_call_arguments", "fc_1", 3, 'rich"}'),
    delta("function_call_arguments", "fc_2", 4, "}"),
    done(WEATHER, 3),
    done(TIME, 4),
    ended(output=OUTPUT),
]


async def ask(events: list[JsonObject], model: ai.Model = GPT) -> ai.AssistantMessage:
    return await client(replying(sse(*events))).complete(model, ASK)


def body(
    model: ai.Model, *messages: ai.Message, options: ai.Options | None = None, tools: bool = True
) -> tuple[JsonObject, tuple[str, ...]]:
    context = ai.Context("S", messages, TOOLS if tools else ())
    request = dialect(model).request(model, context, options or ai.Options(), "k")
    responses_params().validate_python(request.body)
    return request.body, request.warnings


def answers(message: ai.AssistantMessage) -> ai.ToolResultMessage:
    return ai.ToolResultMessage(tuple(ai.ToolResultPart(call.id, call.name, "r") for call in message.tool_calls))


async def test_parts_in_order() -> None:
    message = await ask(EVENTS, REASONING)
    assert [(part.type, getattr(part, "text", "")) for part in message.content] == [
        ("thinking", "First\u2028."),
        ("thinking", "Then."),
        ("text", "Looking \U0001f600."),
        ("text", " Now."),
        ("text", ""),
        ("tool_call", ""),
        ("tool_call", ""),
    ]
    assert [(call.id, call.name, call.args) for call in message.tool_calls] == [
        ("call_1", "get_weather", {"city": "Zürich"}),
        ("call_2", "get_time", {}),
    ]
    assert message.stop_reason == "tool_use"
    assert message.usage == ai.Usage(50, 20, cache_read_tokens=30, cache_write_tokens=5, thinking_tokens=12)
    assert message.cost is not None


def test_no_text_is_repeated() -> None:
    events = decode(GPT, sse(*EVENTS))
    assert "".join(event.text for event in events if event.type == "text_delta") == "Looking \U0001f600. Now."
    assert all(event.text for event in events if event.type in {"text_delta", "thinking_delta", "tool_args_delta"})


@pytest.mark.parametrize("times", [1, 3])
async def test_all_items_go_back_as_they_came_at_every_turn(times: int) -> None:
    seen: list[Any] = []
    http = client(replying(sse(*EVENTS), seen=seen))
    messages: list[ai.Message] = [HI]
    for _ in range(times + 1):
        message = await http.complete(REASONING, ai.Context("S", messages, TOOLS))
        message = ai.decode_message(json.loads(json.dumps(ai.encode_message(message))))  # type: ignore[assignment]
        messages += [message, answers(message)]
    responses_params().validate_python(seen[-1])
    turn = [*OUTPUT, *({"type": "function_call_output", "call_id": f"call_{at}", "output": "r"} for at in (1, 2))]
    assert seen[-1]["input"][: 1 + len(turn)] == [{"role": "user", "content": "hi"}, *turn]
    assert len(seen[-1]["input"]) == 1 + times * len(turn)


async def test_what_another_format_signed_is_left_out() -> None:
    message = await ask(EVENTS, REASONING)
    other = ai.get_model("openai", "gpt-5-mini")
    sent = body(other, HI, message)[0]["input"]
    assert sent[1:5] == [
        {"type": "message", "role": "assistant", "content": "Looking \U0001f600."},
        {"type": "message", "role": "assistant", "content": " Now."},
        {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city":"Zürich"}'},
        {"type": "function_call", "call_id": "call_2", "name": "get_time", "arguments": "{}"},
    ]
    chat = ai.get_model("openai", "gpt-5", api="chat")
    wire = dialect(chat).request(chat, ai.Context("", [HI, message]), ai.Options(), "k").body
    assert wire["messages"][1]["content"] == "Looking \U0001f600. Now."


async def test_no_item_names_an_id_whose_reasoning_is_gone() -> None:
    message = await ask(EVENTS, REASONING)
    kept = tuple(part for part in message.content if part.type != "thinking")
    edited = ai.AssistantMessage(kept, "tool_use", provider="openai", model="gpt-5", api="responses")
    sent = body(REASONING, HI, edited)[0]["input"]
    assert sent[1] == {
        "type": "message",
        "role": "assistant",
        "phase": "commentary",
        "content": "Looking \U0001f600. Now.",
    }
    assert [item.get("id") for item in sent[3:5]] == [None, None]


async def test_reasoning_without_a_following_item_is_not_sent() -> None:
    cut = [*EVENTS[:7], added(WEATHER, 1, arguments=""), delta("function_call_arguments", "fc_1", 1, "{")]
    stream = client(replying(sse(*cut))).stream(REASONING, ASK)
    with pytest.raises(StreamTruncated):
        async for _ in stream:
            pass
    assert [part.type for part in stream.message.content] == ["thinking", "thinking"]
    assert body(REASONING, HI, stream.message, HI)[0]["input"] == [{"role": "user", "content": "hi"}] * 2


async def test_unsigned_reasoning_is_not_sent_nor_its_followers_ids() -> None:
    bare = {**THOUGHT, "encrypted_content": None}
    message = await ask([done(bare, 0), done(WEATHER, 1), ended()], REASONING)
    assert message.thinking
    (call,) = [item for item in body(REASONING, HI, message)[0]["input"] if item.get("type") == "function_call"]
    assert "id" not in call
    assert call["arguments"] == WEATHER["arguments"]


async def test_edited_arguments_are_sent_as_edited() -> None:
    (call,) = (await ask([done(WEATHER, 0), ended()])).tool_calls
    edited = ai.ToolCallPart(call.id, call.name, {"city": "Bern"}, provider_state=call.provider_state)
    sent = body(GPT, HI, ai.AssistantMessage((edited,), "tool_use", provider="openai", model="gpt-4o"))[0]
    assert sent["input"][1] == {**WEATHER, "arguments": '{"city":"Bern"}'}


async def test_a_call_that_was_cut_before_its_arguments_goes_back_with_none() -> None:
    message = await ask([done({**WEATHER, "arguments": ""}, 0), ended()])
    assert body(GPT, HI, message)[0]["input"][1]["arguments"] == "{}"


async def test_ids_that_change_on_the_way() -> None:
    events = [
        added(WEATHER, 0, arguments="", id="x1"),
        added(TIME, 1, arguments="", id="x2"),
        delta("function_call_arguments", "y1", 0, '{"city":'),
        delta("function_call_arguments", "y2", 1, "{}"),
        delta("function_call_arguments", "z1", 0, ' "Zürich"}'),
        done({**WEATHER, "id": "w1"}, 0),
        done({**TIME, "id": "w2"}, 1),
        ended(output=[{**WEATHER, "id": "v1"}, {**TIME, "id": "v2"}]),
    ]
    message = await ask(events)
    assert [(call.id, call.args) for call in message.tool_calls] == [("call_1", {"city": "Zürich"}), ("call_2", {})]


async def test_a_server_that_numbers_nothing() -> None:
    events = [
        {key: value for key, value in event.items() if key not in {"item_id", "output_index", "content_index"}}
        for event in (*EVENTS[6:10], *EVENTS[11:15], EVENTS[15], EVENTS[17], EVENTS[19], *EVENTS[21:])
    ]
    message = await ask(events)
    assert message.text == "Looking \U0001f600. Now."
    assert [(call.name, call.args) for call in message.tool_calls] == [
        ("get_weather", {"city": "Zürich"}),
        ("get_time", {}),
    ]


async def test_deltas_without_an_item_and_items_without_deltas() -> None:
    message = await ask([delta("output_text", "m", 0, "a", content_index=0), ended()])
    assert message.text == "a"
    message = await ask([done(SAID, 0), done(WEATHER, 1), ended()])
    assert (message.text, message.tool_calls[0].args) == ("Looking \U0001f600. Now.", {"city": "Zürich"})
    assert (await ask([ended(output=OUTPUT)])).tool_calls[1].name == "get_time"
    assert (await ask([added(SAID, 0, content=[]), ended(output=[SAID])])).text == "Looking \U0001f600. Now."


async def test_empty_and_unknown_items_are_carried() -> None:
    empty = {**SAID, "content": []}
    new = {"type": "something_new", "id": "n", "deep": [{"a": None}]}
    message = await ask([{"type": "response.something_new.delta"}, done(empty, 0), done(new, 1), ended()])
    assert message.text == ""
    assert message.stop_reason == "stop"
    context = ai.Context("", [HI, message])
    assert dialect(GPT).request(GPT, context, ai.Options(), "k").body["input"][1:] == [empty, new]


@pytest.mark.parametrize(
    ("events", "stop"),
    [
        ([ended()], "stop"),
        ([done(WEATHER, 0), ended()], "tool_use"),
        ([ended("incomplete", incomplete_details={"reason": "max_output_tokens"})], "length"),
        ([ended("incomplete", incomplete_details={"reason": "content_filter"})], "refusal"),
        ([delta("refusal", "m", 0, "No.", content_index=0), ended()], "refusal"),
        (
            [done({"type": "message", "id": "m", "content": [{"type": "refusal", "refusal": "No."}]}, 0), ended()],
            "refusal",
        ),
    ],
)
async def test_stop_reasons(events: list[JsonObject], stop: str) -> None:
    message = await ask(events)
    assert message.stop_reason == stop
    assert message.text == ("No." if "No." in str(events) else "")


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (ended("failed", error={"code": "server_error", "message": "Busy"}), ProviderUnavailableError),
        (ended("failed", error={"code": "rate_limit_exceeded", "message": "Busy"}), RateLimitError),
        (ended("failed", error={"code": "invalid_prompt", "message": "Busy"}), BadRequestError),
        (ended("failed", error={"code": "image_too_large", "message": "Busy"}), BadRequestError),
        (ended("failed", error=None), ProviderUnavailableError),
        ({"type": "error", "code": "context_length_exceeded", "message": "Busy", "param": None}, ContextOverflowError),
        ({"type": "error", "error": {"type": "tokens", "code": "rate_limit_exceeded", "message": "B"}}, RateLimitError),
        ({"error": {"code": 500, "message": "Busy", "type": "server_error"}}, ProviderUnavailableError),
    ],
)
async def test_errors_inside_a_stream(event: JsonObject, expected: type[ProviderStatusError]) -> None:
    stream = client(replying(sse(*EVENTS[:9], event))).stream(GPT, ASK)
    with pytest.raises(expected):
        async for _ in stream:
            pass
    assert stream.message.text == "Looking "
    assert stream.message.stop_reason == "error"


async def test_a_response_that_fails_before_content_is_asked_again() -> None:
    replies = [sse(ended("failed", error={"code": "server_error", "message": "Busy"})), sse(*EVENTS)]

    class Twice(type(replying([]))):  # type: ignore[misc]  # the transport of the support module
        def __init__(self) -> None:
            pass

        async def handle_async_request(self, request: Any) -> Any:
            return await replying(replies.pop(0)).handle_async_request(request)

    stream = client(Twice(), retries=1).stream(GPT, ASK)
    assert [event.type async for event in stream if event.type == "retry"] == ["retry"]
    assert stream.message.tool_calls


async def test_every_truncation_is_noticed_and_keeps_what_came() -> None:
    whole = await ask(EVENTS)
    for cut in range(len(EVENTS)):
        for last in ([], ["[DONE]"]):
            stream = client(replying(sse(*EVENTS[:cut], *last))).stream(GPT, ASK)
            with pytest.raises(StreamTruncated, match="before it was complete"):
                async for _ in stream:
                    pass
            assert whole.text.startswith(stream.message.text)
            assert whole.thinking.startswith(stream.message.thinking)
            assert all(call in whole.tool_calls for call in stream.message.tool_calls)


def test_a_decoder_alone_notices_a_truncation() -> None:
    with pytest.raises(StreamTruncated):
        decode(GPT, sse(*EVENTS[:-1]))


@given(st.data())
def test_any_cut_gives_the_same_events(data: st.DataObject) -> None:
    whole = b"".join(sse(*EVENTS))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1), max_size=30)))
    chunks = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert decode(GPT, chunks) == decode(GPT, [whole])


@pytest.mark.parametrize("event", [{"type": "response.output_text.delta", "delta": 5}, {"type": "response.completed"}])
async def test_an_event_that_is_not_of_the_format_is_one_sentence(event: JsonObject) -> None:
    with pytest.raises(ProviderProtocolError, match="openai sent"):
        await ask([event, ended()])


def test_request() -> None:
    sent, warnings = body(REASONING, HI, options=ai.Options(max_tokens=100, thinking="low"))
    assert sent == {
        "model": "gpt-5",
        "input": [{"role": "user", "content": "hi"}],
        "instructions": "S",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "stream_options": {"include_obfuscation": False},
        "reasoning": {"effort": "low", "summary": "auto"},
        "max_output_tokens": 100,
        "tools": [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": CITY,
                "strict": False,
            }
            for tool in TOOLS
        ],
    }
    assert warnings == ()


def test_what_only_reasoning_models_and_only_the_vendor_take() -> None:
    assert "include" not in body(GPT, HI)[0]
    assert "include" in body(ai.get_model("openai", "gpt-5-2025-08-07"), HI)[0]
    assert "include" not in body(ai.get_model("openai", "gpt-7-chat-2027-01-01"), HI)[0]
    foreign = ai.get_model("openai", "gpt-5", base_url="http://h/v1", api="responses")
    assert not {"include", "stream_options"} & body(foreign, HI)[0].keys()
    assert body(LLAMA, HI, options=ai.Options(thinking="off", stop=["x"]))[0]["chat_template_kwargs"] == {
        "enable_thinking": False
    }


@pytest.mark.parametrize(
    ("model", "options", "sent", "warned"),
    [
        (REASONING, ai.Options(temperature=0.5, top_p=0.1), {}, ["temperature", "top_p"]),
        (GPT, ai.Options(temperature=0.0, top_p=0.1), {"temperature": 0.0, "top_p": 0.1}, []),
        (
            ai.get_model("openai", "gpt-5.4"),
            ai.Options(temperature=0.5, thinking="off"),
            {"temperature": 0.5, "reasoning": {"effort": "none"}},
            [],
        ),
        (REASONING, ai.Options(thinking="off"), {"reasoning": {"effort": "minimal", "summary": "auto"}}, ["'off'"]),
        (REASONING, ai.Options(thinking="max"), {"reasoning": {"effort": "high", "summary": "auto"}}, ["'max'"]),
        (GPT, ai.Options(thinking="high"), {}, ["does not think"]),
        (GPT, ai.Options(thinking="off"), {}, []),
        (GPT, ai.Options(stop=["x"]), {}, ["stop sequences"]),
        (LLAMA, ai.Options(stop=["x"]), {"stop": ["x"]}, []),
        (GPT, ai.Options(max_tokens=3), {"max_output_tokens": 16}, ["below 16"]),
        (LLAMA, ai.Options(max_tokens=3), {"max_output_tokens": 3}, []),
        (GPT, ai.Options(extra={"seed": 1}), {"seed": 1}, []),
        (GPT, ai.Options(tool_choice="required"), {"tool_choice": "required"}, []),
        (GPT, ai.Options(tool_choice="get_time"), {"tool_choice": {"type": "function", "name": "get_time"}}, []),
        (LLAMA, ai.Options(tool_choice="none"), {"tool_choice": "none"}, []),
    ],
)
def test_options(model: ai.Model, options: ai.Options, sent: JsonObject, warned: list[str]) -> None:
    plain, _ = body(model, HI)
    asked, warnings = body(model, HI, options=options)
    assert asked == plain | sent
    assert len(warnings) == len(warned)
    assert all(word in warning for word, warning in zip(warned, warnings, strict=True))


async def test_warnings_reach_the_reader() -> None:
    stream = client(replying(sse(*EVENTS))).stream(REASONING, ASK, ai.Options(temperature=1.0))
    assert [event.text async for event in stream if event.type == "warning"] == [
        "openai:gpt-5 does not accept temperature, so it was not sent."
    ]


def test_tool_choice() -> None:
    with pytest.raises(UnsupportedFeatureError, match="Did you mean get_time"):
        body(GPT, HI, options=ai.Options(tool_choice="get_tim"))
    sent, warnings = body(GPT, HI, options=ai.Options(tool_choice="required"), tools=False)
    assert "tool_choice" not in sent
    assert "no tools" in warnings[0]
    sent, _ = body(LLAMA, HI, options=ai.Options(tool_choice="get_time"))
    assert sent["tool_choice"] == "required"
    assert [tool["name"] for tool in sent["tools"]] == ["get_time"]


CLOSED = {
    "title": "Two words",
    "type": "object",
    "properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "b": {"$ref": "#/$defs/B"}},
    "required": ["a", "b"],
    "additionalProperties": False,
    "$defs": {"B": {"type": "array", "items": {"type": "string", "enum": ["x"]}}},
}


@pytest.mark.parametrize(
    ("change", "strict"),
    [
        ({}, True),
        ({"required": ["a"]}, False),
        ({"additionalProperties": True}, False),
        ({"patternProperties": {}}, False),
        ({"properties": {"a": {"type": "string", "format": "uri"}, "b": {}}}, False),
        ({"properties": {"a": {"type": "object", "properties": {}}, "b": {}}}, False),
        ({"properties": {"a": {"$ref": "#/$defs/B", "description": "d"}, "b": {}}}, False),
        ({"$defs": {"B": {"allOf": []}}}, False),
        ({"type": "array"}, False),
    ],
)
def test_structured_output(change: JsonObject, strict: bool) -> None:
    schema = CLOSED | change
    sent, _ = body(GPT, HI, options=ai.Options(output=schema))
    assert sent["text"] == {"format": {"type": "json_schema", "name": "Two_words", "schema": schema, "strict": strict}}


def test_images_and_files() -> None:
    user = ai.UserMessage(
        [ai.TextPart("look"), PNG, ai.ImagePart(url="https://h/x.png"), PDF, ai.FilePart(url="https://h/x.pdf")]
    )
    call = ai.AssistantMessage((ai.ToolCallPart("c", "get_time", {}),), provider="x", model="y")
    shown = ai.ToolResultMessage((ai.ToolResultPart("c", "get_time", "12", images=(PNG,)),))
    sent = body(GPT, user, call, shown)[0]["input"]
    image = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw==", "detail": "auto"}
    assert sent[0]["content"] == [
        {"type": "input_text", "text": "look"},
        image,
        {"type": "input_image", "image_url": "https://h/x.png", "detail": "auto"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjQ="},
        {"type": "input_file", "file_url": "https://h/x.pdf"},
    ]
    assert sent[2]["output"] == [{"type": "input_text", "text": "12"}, image]
    with pytest.raises(UnsupportedFeatureError, match=r"cannot read the file 'a\.pdf'"):
        body(LLAMA, ai.UserMessage([PDF]))


@pytest.mark.parametrize(
    ("name", "base_url", "api", "expected"),
    [
        ("openai", None, None, "responses"),
        ("openai", "https://api.openai.com/v1/", None, "responses"),
        ("openai", "https://h/v1", None, "chat"),
        ("openai", "https://h/v1", "responses", "responses"),
        ("openai", None, "chat", "chat"),
        ("llama_cpp", None, None, "chat"),
        ("llama_cpp", None, "responses", "responses"),
    ],
)
def test_which_format_is_spoken(name: str, base_url: str | None, api: str | None, expected: str) -> None:
    model = ai.get_model(name, "some-model", base_url=base_url, api=api)
    assert model.api == expected
    path = {"responses": "/v1/responses", "chat": "/v1/chat/completions"}[expected]
    assert dialect(model).request(model, ASK, ai.Options(), None).url.endswith(path)


OPTIONAL = {"id", "status", "detail"}


@pytest.mark.parametrize("row", [*recorded("stream", FIRST_PARTY), *recorded("json", FIRST_PARTY)])
async def test_our_items_have_the_fields_of_accepted_ones(row: dict[str, Any] | None) -> None:
    sent = request_of(row)
    user = ai.UserMessage([ai.TextPart("x"), PNG, PDF, ai.FilePart(url="https://h/x.pdf")])
    said = await ask(EVENTS, REASONING)
    mine, _ = body(REASONING, user, said, answers(said), options=ai.Options(output=CLOSED))
    contents = [set(content) - OPTIONAL for content in mine["input"][0]["content"]]
    fields = {item["type"]: set(item) - OPTIONAL for item in mine["input"][1:]}
    for item in sent["input"] if isinstance(sent["input"], list) else ():
        if item.get("type") in {"reasoning", "function_call", "function_call_output", "web_search_call"}:
            assert set(item) - OPTIONAL == fields[item["type"]]
        elif item.get("role") == "user" and isinstance(item["content"], list):
            assert all(set(content) - OPTIONAL in contents for content in item["content"])
    assert all(set(tool) == set(mine["tools"][0]) for tool in sent.get("tools") or () if tool["type"] == "function")
    if "text" in sent:
        assert set(sent["text"]["format"]) == set(mine["text"]["format"])
    if "reasoning.encrypted_content" in (sent.get("include") or ()):
        assert (mine["include"], mine["store"]) == (["reasoning.encrypted_content"], sent["store"])


CITIES = {"city": {"type": "string"}}
LLAMA_TOOLS = [  # the scripted model writes these arguments, which the server holds against the schemas
    ai.ToolSpec(
        "get_weather",
        "The weather.",
        {"type": "object", "properties": {**CITIES, "note": {"type": "string"}}, "required": ["city"]},
    ),
    ai.ToolSpec("get_time", "The time.", {"type": "object", "properties": CITIES, "required": ["city"]}),
]


async def test_tool_loop_with_thinking_on_a_real_server(llama: str) -> None:
    model = ai.get_model("llama_cpp", base_url=llama, api="responses")
    messages: list[ai.Message] = [ai.UserMessage("weather in Paris and time in Rome?")]
    async with ai.Client() as http:
        first = await http.complete(model, ai.Context("S", messages, LLAMA_TOOLS), ai.Options(max_tokens=200))
        assert first.stop_reason == "tool_use"
        assert "I will call two tools" in first.thinking
        assert [call.name for call in first.tool_calls] == ["get_weather", "get_time"]
        assert not str(first.tool_calls[0].args).isascii()
        assert first.usage is not None
        results = answers(first)
        messages += [first, results, ai.UserMessage("and?")]
        async with http.stream(model, ai.Context("S", messages, LLAMA_TOOLS)) as stream:
            deltas = [event.text async for event in stream if event.type == "text_delta"]
        assert stream.message.text == "".join(deltas)
        messages += [stream.message, ai.UserMessage("thanks")]
        assert (await http.complete(model, ai.Context("S", messages, LLAMA_TOOLS))).content
        # A history of another model's, and one that was interrupted, is taken as well.
        foreign = ai.AssistantMessage((ai.TextPart("Hm."),), "aborted", provider="x", model="y")
        messages = [ai.UserMessage("weather?"), foreign, ai.UserMessage("well?")]
        assert (await http.complete(model, ai.Context("S", messages, LLAMA_TOOLS))).content


async def test_a_real_server_calls_the_tool_that_was_chosen(llama: str) -> None:
    for api in ("responses", "chat"):
        model = ai.get_model("llama_cpp", base_url=llama, api=api)
        context = ai.Context("S", [ai.UserMessage("weather?")], LLAMA_TOOLS)
        message = await ai.complete(model, context, tool_choice="get_time", max_tokens=100)
        assert [call.name for call in message.tool_calls][:1] == ["get_time"]

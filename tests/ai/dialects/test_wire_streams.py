"""What a stream says, complete and cut short, through the client."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
import httpx
import pytest
from support.wire import (
    ASK,
    CHAT,
    CHAT_HELLO,
    CHAT_TOOLS,
    MESSAGES,
    MESSAGES_TOOLS,
    chat_chunk,
    client,
    decode,
    replying,
    sse,
    unsealed,
)

from planck_nb import Agent, ai
from planck_nb.ai.message_builder import parse_arguments
from planck_nb.ai.stream_events import StreamEvent
from planck_nb.base.errors import (
    ModelLoadingError,
    PlanckError,
    ProviderAddressError,
    ProviderProtocolError,
    ProviderUnavailableError,
    QuotaExceededError,
    RateLimitError,
    StreamTruncated,
)


async def ask(chunks: list[bytes], model: ai.Model = CHAT) -> ai.AssistantMessage:
    return await client(replying(chunks)).complete(model, ASK)


async def test_text_usage_and_cost() -> None:
    model = ai.get_model("openai", "gpt-4o", api="chat", api_key="k")
    message = await ask(CHAT_HELLO, model)
    assert message.text == "Hello"
    assert message.stop_reason == "stop"
    assert message.usage == ai.Usage(input_tokens=5, output_tokens=2)
    assert message.cost == pytest.approx((5 * 2.5 + 2 * 10) / 1e6)
    assert (message.provider, message.model) == ("openai", "gpt-4o")


def called(*calls: Mapping[str, object]) -> dict[str, object]:
    return chat_chunk({"tool_calls": list(calls)})


async def test_a_call_whose_id_comes_late_is_one_call() -> None:
    first = {"index": 0, "function": {"name": "f", "arguments": '{"a": '}}
    message = await ask(sse(called(first), called({"index": 0, "id": "x", "function": {"arguments": "1}"}}), "[DONE]"))
    assert [(call.name, call.args) for call in message.tool_calls] == [("f", {"a": 1})]


async def test_calls_without_index_and_id_are_told_apart_by_their_place() -> None:
    two = [{"index": None, "function": {"name": name, "arguments": "{}"}} for name in "fg"]
    message = await ask(sse(called(*two), "[DONE]"))
    assert [(call.name, call.args) for call in message.tool_calls] == [("f", {}), ("g", {})]


async def test_chat_parts_in_order() -> None:
    message = await ask(CHAT_TOOLS)
    assert message.content == (
        ai.ThinkingPart("Let me see.", {"field": "reasoning_content"}),
        ai.TextPart("Asking\u2028both"),
        ai.ToolCallPart("a", "get_weather", {"city": "Zürich"}),
        ai.ToolCallPart("b", "get_time", {}),
    )
    assert message.stop_reason == "tool_use"
    assert message.cost is None


async def test_messages_parts_in_order() -> None:
    message = await ask(MESSAGES_TOOLS, MESSAGES)
    assert unsealed(message) == (
        ai.ThinkingPart("Hm\u2028m.", {"type": "thinking", "signature": "c2ln"}),
        ai.ThinkingPart("", {"type": "redacted_thinking", "data": "eHl6"}),
        ai.TextPart("Asking \U0001f600."),
        ai.ToolCallPart("toolu_1", "get_time", {"a": 1}),
    )
    assert message.usage == ai.Usage(input_tokens=10, output_tokens=30, cache_read_tokens=3)


def block_events(index: int, block: dict[str, object], *deltas: dict[str, object]) -> list[object]:
    return [
        {"type": "content_block_start", "index": index, "content_block": block},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
    ]


async def test_interleaved_blocks_late_signatures_and_unknown_kinds() -> None:
    events = [
        *block_events(0, {"type": "thinking", "thinking": "a"}, {"type": "thinking_delta", "thinking": "b"}),
        *block_events(1, {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}),
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "sig"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"q":1}'}},
        {"type": "content_block_stop", "index": 1},
        *block_events(2, {"type": "compaction", "content": None}, {"type": "compaction_delta", "content": "short"}),
        {"type": "something_new"},
        *block_events(3, {"type": "text", "text": ""}, {"type": "citations_delta", "citation": {"c": 1}}),
        {"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta", "text": "hi"}},
        {"type": "message_stop"},
    ]
    message = await ask(sse(*events), MESSAGES)
    assert unsealed(message) == (
        ai.ThinkingPart("ab", {"type": "thinking", "signature": "sig"}),
        ai.TextPart("", {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": 1}}),
        ai.TextPart("", {"type": "compaction", "content": "short"}),
        ai.TextPart("hi", {"type": "text", "citations": [{"c": 1}]}),
    )


@pytest.mark.parametrize(("model", "chunks", "terminal"), [(CHAT, CHAT_TOOLS, 7), (MESSAGES, MESSAGES_TOOLS, 17)])
async def test_every_truncation_is_noticed_and_keeps_what_came(
    model: ai.Model, chunks: list[bytes], terminal: int
) -> None:
    whole = await ask(chunks, model)
    for cut in range(terminal + 1):
        stream = client(replying(chunks[:cut])).stream(model, ASK)
        with pytest.raises(StreamTruncated, match="before it was complete"):
            async for _ in stream:
                pass
        message = stream.message
        assert message.stop_reason == "error"
        assert message.error is not None
        assert whole.text.startswith(message.text)
        assert whole.thinking.startswith(message.thinking)
        assert all(call in whole.tool_calls for call in message.tool_calls)


@pytest.mark.parametrize(("model", "chunks"), [(CHAT, CHAT_TOOLS[:7]), (MESSAGES, MESSAGES_TOOLS[:-1])])
def test_a_decoder_alone_notices_a_truncation(model: ai.Model, chunks: list[bytes]) -> None:
    with pytest.raises(StreamTruncated):
        decode(model, chunks)


@pytest.mark.parametrize("model", [CHAT, MESSAGES])
async def test_a_stream_cut_inside_an_event_is_truncated(model: ai.Model) -> None:
    chunks = CHAT_TOOLS if model is CHAT else MESSAGES_TOOLS
    with pytest.raises(StreamTruncated):
        await ask([*chunks[:5], chunks[5][:-20]], model)


@pytest.mark.parametrize("last", [b"data: [DONE]\n\n", b"data: [DONE]\n", b"data: [DONE]", b""])
async def test_a_reply_is_complete_after_a_finish_reason_or_done(last: bytes) -> None:
    assert (await ask([*CHAT_HELLO[:-1], last])).text == "Hello"


async def test_a_reply_without_finish_reason_but_with_done_is_complete() -> None:
    assert (await ask([*CHAT_HELLO[:3], b"data: [DONE]\n\n"])).stop_reason == "stop"


@pytest.mark.parametrize(
    ("ids", "unique"),
    [(["x", "x", "x"], ("x", "x_2", "x_3")), (["", "", ""], ("call_1", "call_2", "call_3"))],
)
async def test_call_ids_become_unique_in_events_and_message(ids: list[str], unique: tuple[str, ...]) -> None:
    calls = [{"index": at, "id": name, "function": {"name": "f", "arguments": "{}"}} for at, name in enumerate(ids)]
    stream = client(replying(sse(chat_chunk({"tool_calls": calls}, "tool_calls"), "[DONE]"))).stream(CHAT, ASK)
    started = [event.id async for event in stream if event.type == "tool_call_start"]
    assert tuple(started) == unique
    assert tuple(call.id for call in stream.message.tool_calls) == unique


async def test_a_new_id_at_the_same_index_is_a_new_call() -> None:
    calls = [{"index": 0, "id": name, "function": {"name": name, "arguments": "{}"}} for name in ("a", "b")]
    message = await ask(sse(*(chat_chunk({"tool_calls": [call]}) for call in calls), "[DONE]"))
    assert [call.name for call in message.tool_calls] == ["a", "b"]


@pytest.mark.parametrize("text", ['{"a": ', "[1]", "nothing", '{"a": NaN}'])
async def test_arguments_that_are_not_an_object_are_kept_as_text(text: str) -> None:
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": text}}
    message = await ask(sse(chat_chunk({"tool_calls": [call]}, "tool_calls"), "[DONE]"))
    assert message.tool_calls == (ai.ToolCallPart("a", "f", {}, invalid=text),)


async def test_stop_reason_follows_the_parts() -> None:
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
    assert (await ask(sse(chat_chunk({"tool_calls": [call]}, "stop"), "[DONE]"))).stop_reason == "tool_use"
    assert (await ask(sse(chat_chunk({"content": "x"}, "tool_calls"), "[DONE]"))).stop_reason == "stop"
    assert (await ask(sse(chat_chunk({"content": "x"}, "length"), "[DONE]"))).stop_reason == "length"
    assert (await ask(sse(chat_chunk({"refusal": "No."}), chat_chunk({}, "stop"), "[DONE]"))).stop_reason == "refusal"


async def test_broken_characters_are_replaced() -> None:
    halves = b'data: {"choices": [{"delta": {"content": "a\\ud83d"}}]}\n\n'
    invalid = b'data: {"choices": [{"delta": {"content": "b\xff"}}]}\n\n'
    assert (await ask([halves, invalid, b"data: [DONE]\n\n"])).text == "a\ufffdb\ufffd"


@pytest.mark.parametrize("payload", ["not json", "[1]", '{"choices": [1]}', '{"choices": 5}'])
async def test_a_frame_that_is_not_of_the_format_is_one_sentence(payload: str) -> None:
    with pytest.raises(ProviderProtocolError, match="openai sent"):
        await ask(sse(payload))


async def test_events_before_an_error_are_delivered_first() -> None:
    chunk = b"".join([*CHAT_HELLO[:2], *sse({"error": {"message": "Slow down", "code": 429}})])
    stream = client(replying([chunk])).stream(CHAT, ASK)
    assert (await anext(stream)).type == "text_delta"
    with pytest.raises(RateLimitError, match="Slow down"):
        await anext(stream)
    assert stream.message.text == "Hel"
    assert stream.message.stop_reason == "error"
    assert stream.message.error is not None


@pytest.mark.parametrize(
    ("model", "error", "expected"),
    [
        (
            MESSAGES,
            {"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}},
            ProviderUnavailableError,
        ),
        (MESSAGES, {"type": "error", "error": {"type": "rate_limit_error", "message": "Busy"}}, RateLimitError),
        (MESSAGES, {"code": 500, "message": "Busy", "type": "server_error"}, ProviderUnavailableError),
        (MESSAGES, {"type": "error", "error": {"type": "billing_error", "message": "Busy"}}, QuotaExceededError),
        (CHAT, {"error": {"code": 500, "message": "Busy", "type": "server_error"}}, ProviderUnavailableError),
        (CHAT, {"error": {"code": "insufficient_quota", "message": "Busy"}}, QuotaExceededError),
        (CHAT, {"error": "Busy"}, ProviderUnavailableError),
        (CHAT, {"choices": [{"delta": {}, "finish_reason": "error"}], "error": {"message": "Busy"}}, PlanckError),
    ],
)
async def test_errors_inside_a_stream_have_the_class_of_their_type(
    model: ai.Model, error: object, expected: type[PlanckError]
) -> None:
    with pytest.raises(expected, match="Busy") as caught:
        await ask(sse(error), model)
    assert caught.value.provider == model.provider  # type: ignore[attr-defined]


class Failing(httpx.AsyncBaseTransport):
    """Answers with each of these in turn, then with a whole stream."""

    def __init__(self, *answers: tuple[int, dict[str, str], bytes], at_last: list[bytes] = CHAT_HELLO) -> None:
        self.answers = list(answers)
        self.at_last = at_last
        self.requests = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        if self.answers:
            status, headers, body = self.answers.pop(0)
            return httpx.Response(status, headers=headers, content=body)
        return httpx.Response(200, content=b"".join(self.at_last))


async def events_of(stream: AsyncIterator[StreamEvent]) -> list[StreamEvent]:
    return [event async for event in stream]


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 529])
async def test_transient_failures_are_retried(status: int) -> None:
    transport = Failing((status, {}, b"{}"), (status, {}, b"{}"))
    events = await events_of(client(transport, retries=2).stream(CHAT, ASK))
    assert [event.attempt for event in events if event.type == "retry"] == [1, 2]
    assert transport.requests == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_permanent_failures_are_not_retried(status: int) -> None:
    transport = Failing((status, {}, b"{}"))
    with pytest.raises(PlanckError):
        await client(transport, retries=2).complete(CHAT, ASK)
    assert transport.requests == 1


async def test_a_spent_quota_is_not_retried() -> None:
    body = json.dumps({"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}).encode()
    transport = Failing((429, {}, body))
    with pytest.raises(QuotaExceededError, match="add credit"):
        await client(transport, retries=2).complete(CHAT, ASK)
    assert transport.requests == 1


@pytest.mark.parametrize(("status", "word", "requests"), [(500, "false", 1), (400, "true", 2), (429, "?", 2)])
async def test_a_server_may_say_whether_to_ask_again(status: int, word: str, requests: int) -> None:
    transport = Failing((status, {"x-should-retry": word}, b"{}"))
    with contextlib.suppress(PlanckError):
        await client(transport, retries=2).complete(CHAT, ASK)
    assert transport.requests == requests


LOADING = b'{"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}'


async def test_a_model_that_loads_is_waited_for() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    transport = Failing(*[(503, {}, LOADING)] * 20)
    retries = ai.RetryPolicy(retries=2, sleep=sleep)
    asked = ai.Client(credentials={"OPENAI_API_KEY": "sk-open-1"}, transport=transport, retries=retries)
    events = await events_of(asked.stream(CHAT, ASK))
    assert [event.delay for event in events if event.type == "retry"] == slept == [1.5] * 20
    assert transport.requests == 21


@pytest.mark.parametrize(
    "body",
    [
        LOADING,
        # https://github.com/huggingface/transformers/issues/32665
        b'{"error": "Model meta-llama/Llama-2-13b-chat is currently loading", "estimated_time": 20.0}',
        b'{"detail": "model is loading"}',
    ],
)
async def test_it_is_said_that_a_model_loads(body: bytes) -> None:
    transport = Failing((503, {}, body), (503, {}, body))
    retries = ai.RetryPolicy(sleep=lambda _: asyncio.sleep(0))
    asked = ai.Client(credentials={"OPENAI_API_KEY": "sk-open-1"}, transport=transport, retries=retries)
    run = Agent(model=CHAT, client=asked).prompt("hi")
    assert (await run).text == "Hello"
    told = [event.reason for event in run.events.since(0) if event.type == "retry"]
    assert len(told) == 2
    assert told[0].startswith("openai is still loading some-model (503)")


async def test_a_model_that_loads_is_not_waited_for_forever() -> None:
    with pytest.raises(ModelLoadingError, match="openai is still loading some-model") as caught:
        await client(Failing((503, {}, LOADING)), retries=0).complete(CHAT, ASK)
    policy = ai.RetryPolicy(loading=15)
    assert [policy.delay(caught.value, attempt) for attempt in (1, 10, 11)] == [1.5, 1.5, None]
    assert ai.RetryPolicy(retries=0).delay(caught.value, 1) is None


@pytest.mark.parametrize(
    "error",
    [
        httpx.UnsupportedProtocol("ftp"),
        aiohttp.InvalidURL("http://["),
        aiohttp.ServerFingerprintMismatch(b"a", b"b", "h", 443),
    ],
    ids=["protocol", "url", "certificate"],
)
async def test_a_wrong_address_or_certificate_is_tried_only_once(error: Exception, tmp_path: Path) -> None:
    asked: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        raise error

    http = client(httpx.MockTransport(handle), retries=2)
    for mode in ("off", "record", "replay"):
        http.cassette = ai.Cassette(tmp_path / "tape.jsonl", mode, environment={})
        with pytest.raises(ProviderAddressError):
            await http.complete(CHAT, ASK)
    assert len(asked) == 2  # once each, and the recording not at all


@pytest.mark.parametrize(("header", "value"), [("retry-after", "0.002"), ("retry-after-ms", "2")])
async def test_retry_after_is_honoured(header: str, value: str) -> None:
    events = await events_of(client(Failing((429, {header: value}, b"{}")), retries=1).stream(CHAT, ASK))
    assert [event.delay for event in events if event.type == "retry"] == [0.002]


@pytest.mark.parametrize("value", ["121", "Fri, 01 Jan 2100 00:00:00 GMT"])
async def test_a_long_retry_after_is_reported_at_once(value: str) -> None:
    with pytest.raises(RateLimitError, match=r"wait \d+ seconds") as caught:
        await client(Failing((429, {"retry-after": value}, b"{}")), retries=2).complete(CHAT, ASK)
    assert caught.value.retry_after is not None
    assert caught.value.retry_after > 120


async def test_an_overload_inside_a_stream_is_retried_before_content() -> None:
    error = sse({"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}})
    transport = Failing((200, {}, MESSAGES_TOOLS[0] + error[0]), at_last=MESSAGES_TOOLS)
    events = await events_of(client(transport, retries=1).stream(MESSAGES, ASK))
    assert [event.type for event in events[:4]] == ["usage", "retry", "usage", "thinking_delta"]


async def test_what_a_failed_attempt_reported_is_not_the_usage_of_the_reply() -> None:
    error = sse({"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}})
    uncounted = sse({"type": "message_start", "message": {}}, {"type": "message_stop"})
    transport = Failing((200, {}, MESSAGES_TOOLS[0] + error[0]), at_last=uncounted)
    async with client(transport, retries=1).stream(MESSAGES, ASK) as stream:
        events = await events_of(stream)
    assert [event.type for event in events[:2]] == ["usage", "retry"]
    assert stream.message.usage is None


async def test_nothing_is_retried_after_content() -> None:
    error = sse({"error": {"message": "Busy", "code": 503}})
    transport = Failing((200, {}, CHAT_HELLO[1] + error[0]))
    with pytest.raises(ProviderUnavailableError):
        await client(transport, retries=2).complete(CHAT, ASK)
    assert transport.requests == 1


async def test_the_message_of_a_stream_that_is_not_read_to_its_end_is_aborted() -> None:
    async with client(replying(CHAT_HELLO)).stream(CHAT, ASK) as stream:
        async for event in stream:
            assert event.type == "text_delta"
            break
        assert stream.message.stop_reason == "aborted"
    assert stream.message.text == "Hel"
    assert await events_of(stream) == []


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ('{"a": "\ud83d\ude00"}', {"a": "\U0001f600"}),
        ('{"a": "\ud83d"}', {"a": "\ufffd"}),
        ('{"a": "\\ud83d"}', {"a": "\ufffd"}),
    ],
)
def test_arguments_with_half_a_character_break_no_stream(text: str, args: object) -> None:
    assert parse_arguments(text) == args

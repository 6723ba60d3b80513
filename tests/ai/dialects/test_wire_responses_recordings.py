"""Recorded Responses streams: what we assemble is what OpenAI's own SDK assembles."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from support.recordings import body_of, recorded
from support.referees import openai
from support.wire import ASK, client, decode, replying

from planck_nb import ai
from planck_nb.base.errors import AuthenticationError, ContextOverflowError, StreamTruncated

FIRST_PARTY, LLAMA = ("openai", "responses"), ("llama_cpp", "/v1/responses")


@dataclass(frozen=True)
class Interjection:
    """What a message says, in words that ours and the SDK's share."""

    text: str
    thinking: str
    calls: tuple[tuple[str, str, str], ...]
    others: tuple[str, ...]
    stop: str
    usage: tuple[int, int, int, int, int] | None


MODEL = ai.get_model("openai", "recorded", api="responses", base_url="http://127.0.0.1:9/v1")


def ours(message: ai.AssistantMessage) -> Interjection:
    usage = message.usage
    states = [part.provider_state or {} for part in message.content if part.type == "text" and not part.text]
    return Interjection(
        message.text,
        message.thinking,
        tuple((call.id, call.name, json.dumps(call.args, sort_keys=True)) for call in message.tool_calls),
        tuple(state["item"]["type"] for state in states if "content" not in state),
        message.stop_reason,
        (
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
            usage.thinking_tokens,
        )
        if usage
        else None,
    )


def theirs(response: Any) -> Interjection:
    calls, others, thoughts, refused = [], [], [], False
    for item in response.output:
        if item.type == "function_call":
            calls.append((item.call_id, item.name, json.dumps(json.loads(item.arguments or "{}"), sort_keys=True)))
        elif item.type == "reasoning":
            thoughts += [part.text for part in (*item.summary, *(item.content or ()))]
        elif item.type == "message":
            refused |= any(content.type == "refusal" for content in item.content)
        else:
            others.append(item.type)
    stop = "tool_use" if calls else "stop"
    if response.status == "incomplete":
        why = response.incomplete_details.reason if response.incomplete_details else None
        stop = "refusal" if why == "content_filter" else "length"
    usage = response.usage
    read = usage.input_tokens_details if usage else None
    written = getattr(usage, "output_tokens_details", None)
    counts = (
        (
            usage.input_tokens,
            usage.output_tokens,
            read.cached_tokens if read else 0,
            getattr(read, "cache_write_tokens", None) or 0,
            written.reasoning_tokens if written else 0,
        )
        if usage
        else None
    )
    text = response.output_text
    return Interjection(
        text, "\n\n".join(thoughts), tuple(calls), tuple(others), "refusal" if refused else stop, counts
    )


def sdk_says(body: bytes) -> Interjection:
    """The message from the SDK's plain stream: its helper fails on servers that number nothing."""
    transport = httpx2.MockTransport(
        lambda request: httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body)
    )
    with openai.OpenAI(api_key="k", http_client=httpx2.Client(transport=transport), max_retries=0) as sdk:
        for event in sdk.responses.create(model="m", input="x", stream=True):
            if event.type in {"response.completed", "response.incomplete"}:
                return theirs(event.response)
    raise AssertionError("no terminal event")


def sdk_helper_says(body: bytes) -> Interjection:
    """The message from the SDK's assembling helper."""
    transport = httpx2.MockTransport(
        lambda request: httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body)
    )
    with (
        openai.OpenAI(api_key="k", http_client=httpx2.Client(transport=transport), max_retries=0) as sdk,
        sdk.responses.stream(model="m", input="x") as stream,
    ):
        return theirs(stream.get_final_response())


@pytest.mark.slow
@pytest.mark.parametrize("row", recorded("stream", FIRST_PARTY, LLAMA))
async def test_responses_stream_equals_the_sdk(row: dict[str, Any] | None) -> None:
    body = body_of(row)
    assert row is not None
    said = ours(await client(replying([body])).complete(MODEL, ASK))
    assert said == sdk_says(body)
    if row["provider"] == "openai":
        assert said == sdk_helper_says(body)


@pytest.mark.slow
@pytest.mark.parametrize("row", recorded("json", FIRST_PARTY))
async def test_a_response_whose_items_were_not_streamed_equals_the_sdk(row: dict[str, Any] | None) -> None:
    body = body_of(row)
    response = json.loads(body)
    event = b"data: %s\n\n" % json.dumps({"type": f"response.{response['status']}", "response": response}).encode()
    assert ours(await client(replying([event])).complete(MODEL, ASK)) == sdk_says(event)


@pytest.mark.parametrize("row", recorded("stream", FIRST_PARTY, LLAMA))
async def test_every_truncation_of_a_recording_is_noticed(row: dict[str, Any] | None) -> None:
    frames = body_of(row).replace(b"\r\n", b"\n").split(b"\n\n")
    last = next(at for at, frame in enumerate(frames) if b"response.completed" in frame or b".incomplete" in frame)
    whole = (await client(replying([b"\n\n".join(frames)])).complete(MODEL, ASK)).text
    for cut in range(0, last + 1, max(1, last // 10)):
        stream = client(replying([b"".join(frame + b"\n\n" for frame in frames[:cut])])).stream(MODEL, ASK)
        with pytest.raises(StreamTruncated):
            async for _ in stream:
                pass
        assert whole.startswith(stream.message.text)


@pytest.mark.parametrize("row", recorded("stream", FIRST_PARTY, LLAMA))
def test_any_cut_of_a_recording_gives_the_same_events(row: dict[str, Any] | None) -> None:
    body = body_of(row)
    whole = decode(MODEL, [body])
    for size in (7, 61):
        assert decode(MODEL, [body[at : at + size] for at in range(0, len(body), size)]) == whole
    crlf = body.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    assert decode(MODEL, [crlf[at : at + 1000] for at in range(0, len(crlf), 1000)]) == whole


@pytest.mark.parametrize("row", recorded("error", FIRST_PARTY))
async def test_recorded_errors(row: dict[str, Any] | None) -> None:
    body = body_of(row)
    assert row is not None
    expected = AuthenticationError if row["status"] == 401 else ContextOverflowError
    with pytest.raises(expected) as caught:
        await client(replying([body], row["status"], "application/json")).complete(MODEL, ASK)
    assert json.loads(body)["error"]["message"][:30] in str(caught.value)

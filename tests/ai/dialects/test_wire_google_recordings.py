"""Recorded streams of Google: what we assemble is what google-genai assembles, and goes back as it came."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import httpx2
import pytest
from support.evidence import evidence
from support.referees import genai, genai_types
from support.wire import client, decode, replying

from planck_nb import ai
from planck_nb.ai.message_builder import MessageBuilder
from planck_nb.ai.providers import dialect
from planck_nb.ai.stream_events import PartEnd
from planck_nb.base.errors import (
    AuthenticationError,
    ContextOverflowError,
    ProviderStatusError,
    RateLimitError,
    StreamTruncated,
)

MODEL = ai.get_model("google", "gemini-3.5-flash", base_url="http://127.0.0.1:9/v1beta")


def rows(*kinds: str) -> list[Any]:
    folder = os.environ.get("PLANCK_NB_TESTDATA", "")
    index = pathlib.Path(folder, "streams", "index.json")
    if not folder or not index.exists():
        return [None]
    found = [row for row in json.loads(index.read_text()) if row["api"] == "generateContent" and row["kind"] in kinds]
    return [pytest.param(row, id=pathlib.Path(row["file"]).name) for row in found]


def path_of(row: dict[str, Any] | None) -> pathlib.Path:
    streams = evidence("streams", "streams")
    assert row is not None
    return pathlib.Path(streams, row["file"])


def stream_of(row: dict[str, Any] | None) -> bytes:
    """The recorded stream; an answer that was not streamed as a stream of one piece, which has the same fields."""
    path = path_of(row)
    body = path.read_bytes()
    return body if path.suffix == ".sse" else b"data: " + json.dumps(json.loads(body)).encode() + b"\n\n"


def pieces_of(body: bytes) -> list[dict[str, Any]]:
    return [json.loads(frame[6:]) for frame in body.replace(b"\r\n", b"\n").split(b"\n\n") if frame.strip()]


def referee(body: bytes) -> dict[str, Any]:
    """The message as google-genai has it after the last chunk."""
    transport = httpx2.MockTransport(
        lambda request: httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body)
    )
    with httpx2.Client(transport=transport) as http:
        sdk = genai.Client(api_key="k", http_options=genai_types.HttpOptions(httpx_client=http))
        chunks = list(sdk.models.generate_content_stream(model="m", contents="x"))
    parts = [part for chunk in chunks for c in chunk.candidates or () if c.content for part in c.content.parts or ()]
    calls = [
        (part.function_call.name, part.function_call.args or {}, part.function_call.id)
        for part in parts
        if part.function_call
    ]
    stops = [c.finish_reason for chunk in chunks for c in chunk.candidates or () if c.finish_reason]
    usage = chunks[-1].usage_metadata
    assert usage is not None
    thinking = usage.thoughts_token_count or 0
    stop = {"STOP": "tool_use" if calls else "stop", "MAX_TOKENS": "length"}.get(stops[-1].value, "refusal")
    return {
        "text": "".join(part.text or "" for part in parts if not part.thought),
        "thinking": "".join(part.text or "" for part in parts if part.thought),
        "calls": calls,
        "signatures": [part.thought_signature for part in parts if part.thought_signature],
        "stop": stop,
        "usage": ai.Usage(
            input_tokens=(usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0),
            output_tokens=(usage.candidates_token_count or 0) + thinking,
            cache_read_tokens=usage.cached_content_token_count or 0,
            thinking_tokens=thinking,
        ),
        "total": usage.total_token_count,
    }


def signatures(parts: list[dict[str, Any]]) -> list[bytes]:
    """As the SDK reads them: it accepts either alphabet of base64."""
    return [
        signature
        for part in parts
        if (signature := genai_types.Part.model_validate(part).thought_signature) and signature is not None
    ]


def echoed(message: ai.AssistantMessage) -> list[dict[str, Any]]:
    """The parts that are sent back to the same model."""
    context = ai.Context(messages=[ai.UserMessage("hi"), message])
    contents = dialect(MODEL).request(MODEL, context, ai.Options(), None).body["contents"]
    parts: list[dict[str, Any]] = contents[1]["parts"]
    return parts


@pytest.mark.parametrize("row", rows("stream", "json"))
async def test_google_stream_equals_the_sdk(row: dict[str, Any] | None) -> None:
    body = stream_of(row)
    said = referee(body)
    message = await client(replying([body])).complete(MODEL, ai.Context())
    assert message.text == said["text"]
    assert "".join(part.text for part in message.content if part.type == "thinking") == said["thinking"]
    assert [(call.name, call.args) for call in message.tool_calls] == [call[:2] for call in said["calls"]]
    for call, (_, _, given) in zip(message.tool_calls, said["calls"], strict=True):
        assert call.id == given if given else call.id
    assert message.stop_reason == said["stop"]
    assert message.usage is not None
    assert message.usage == said["usage"]
    assert message.usage.total_tokens == said["total"]
    assert signatures(echoed(message)) == said["signatures"]


@pytest.mark.parametrize("row", rows("stream", "json"))
async def test_google_parts_go_back_as_they_came(row: dict[str, Any] | None) -> None:
    body = stream_of(row)
    message = await client(replying([body])).complete(MODEL, ai.Context())
    came: list[dict[str, Any]] = []
    for piece in pieces_of(body):
        for part in piece["candidates"][0]["content"].get("parts", ()):
            plain = set(part) == {"text"}
            if plain and came and set(came[-1]) == {"text"}:
                came[-1]["text"] += part["text"]
            elif not plain or part["text"]:
                came.append(dict(part))
    first = next((part for part in came if "functionCall" in part), {})
    first.setdefault("thoughtSignature", "skip_thought_signature_validator")
    assert echoed(message) == came


@pytest.mark.parametrize("row", rows("stream"))
async def test_google_stream_cut_at_any_event_is_truncated(row: dict[str, Any] | None) -> None:
    pieces = pieces_of(stream_of(row))
    whole = await client(replying([stream_of(row)])).complete(MODEL, ai.Context())
    for count in range(len(pieces)):
        cut = b"".join(b"data: %s\n\n" % json.dumps(piece).encode() for piece in pieces[:count])
        stream = client(replying([cut])).stream(MODEL, ai.Context())
        with pytest.raises(StreamTruncated):
            async for _ in stream.batches():
                pass
        assert whole.text.startswith(stream.message.text)
        assert stream.message.stop_reason == "error"


@pytest.mark.parametrize("row", rows("stream"))
@pytest.mark.parametrize("size", [1, 7, 1021])
def test_google_stream_in_pieces_of_any_size(row: dict[str, Any] | None, size: int) -> None:
    body = stream_of(row)
    whole = decode(MODEL, [body])
    for variant in (body, body.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")):
        assert decode(MODEL, [variant[at : at + size] for at in range(0, len(variant), size)]) == whole


def test_every_google_part_ends_once() -> None:
    for row in rows("stream"):
        if row is None:
            path_of(None)
        events = decode(MODEL, [stream_of(row.values[0])])
        ends = [event.index for event in events if isinstance(event, PartEnd)]
        builder = MessageBuilder(MODEL)
        builder.feed(events)
        assert ends == list(range(len(ends)))
        assert len(builder.build().content) == len(ends)


ERRORS: dict[str, type[ProviderStatusError]] = {
    "auth_error": AuthenticationError,
    "TestGoogleAIErrorHandling": AuthenticationError,
    "vertexai_gemini-2_5-flash_handles_context": ContextOverflowError,
    "gemini_gemini-2_5-flash_handles_context": RateLimitError,
}


@pytest.mark.parametrize("row", rows("error"))
async def test_google_errors_map_to_their_class(row: dict[str, Any] | None) -> None:
    body = path_of(row).read_bytes()
    assert row is not None
    with pytest.raises(ProviderStatusError) as caught:
        await client(replying([body], row["status"], "application/json")).complete(MODEL, ai.Context())
    assert type(caught.value) is next(kind for name, kind in ERRORS.items() if name in row["file"])
    assert caught.value.status == row["status"]
    assert caught.value.retry_after == (48.0 if row["status"] == 429 else None)
    assert json.loads(body)["error"]["message"][:30] in str(caught.value)

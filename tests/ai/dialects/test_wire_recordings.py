"""Recorded streams of the real services: what we assemble is what the vendor's own SDK assembles."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from support.evidence import evidence
from support.referees import anthropic, openai
from support.wire import client, replying

from planck_nb import ai
from planck_nb.ai.providers import dialect
from planck_nb.base.errors import (
    AuthenticationError,
    BadRequestError,
    ContextOverflowError,
    NotFoundError,
    ProviderStatusError,
    ProviderUnavailableError,
    RateLimitError,
)

CHAT_APIS = {("openai", "chat"), ("llama_cpp", "/v1/chat/completions"), ("ollama", "openai-compat")}
MESSAGES_APIS = {("anthropic", "messages"), ("llama_cpp", "/v1/messages")}


@dataclass(frozen=True)
class Interjection:
    """What a message says, in words that ours and the SDKs' share."""

    text: str
    thinking: str
    calls: tuple[tuple[str, str], ...]
    stop: str
    usage: tuple[int, int, int] | None


def entries(kind: str, *apis: tuple[str, str]) -> list[dict[str, Any]]:
    folder = os.environ.get("PLANCK_NB_TESTDATA", "")
    index = pathlib.Path(folder, "streams", "index.json")
    if not folder or not index.exists():
        return []
    return [
        row for row in json.loads(index.read_text()) if row["kind"] == kind and (row["provider"], row["api"]) in apis
    ]


def cases(kind: str, *apis: tuple[str, str]) -> list[Any]:
    rows = entries(kind, *apis)
    return [pytest.param(row, id=row["file"]) for row in rows] or [None]


def body_of(row: dict[str, Any] | None) -> bytes:
    streams = evidence("streams", "streams")
    assert row is not None
    return pathlib.Path(streams, row["file"]).read_bytes()


def model_of(row: dict[str, Any]) -> ai.Model:
    api = "messages" if "messages" in row["api"] else "chat"
    provider = {"messages": "anthropic", "chat": "openai"}[api] if row["provider"] != "llama_cpp" else "llama_cpp"
    return ai.get_model(provider, "recorded", api=api, base_url="http://127.0.0.1:9/v1")


def ours(message: ai.AssistantMessage) -> Interjection:
    usage = message.usage
    return Interjection(
        message.text,
        "".join(part.text for part in message.content if part.type == "thinking"),
        tuple(
            (call.name, _canonical(call.args if call.invalid is None else call.invalid)) for call in message.tool_calls
        ),
        message.stop_reason,
        (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) if usage else None,
    )


def _canonical(args: object) -> str:
    if isinstance(args, str):
        try:
            args = json.loads(args or "{}")
        except ValueError:
            return str(args)
    return json.dumps(args, sort_keys=True)


def sdk_http(body: bytes) -> httpx2.Client:
    headers = {"content-type": "text/event-stream"}
    return httpx2.Client(
        transport=httpx2.MockTransport(lambda request: httpx2.Response(200, headers=headers, content=body))
    )


def anthropic_says(body: bytes) -> Interjection:
    with (
        anthropic.Anthropic(api_key="k", http_client=sdk_http(body), max_retries=0) as sdk,
        sdk.messages.stream(model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}]) as stream,
    ):
        message = stream.get_final_message()
    calls = tuple((block.name, _canonical(block.input)) for block in message.content if block.type == "tool_use")
    stops = {"max_tokens": "length", "refusal": "refusal", "model_context_window_exceeded": "length"}
    usage = message.usage
    read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    return Interjection(
        "".join(block.text for block in message.content if block.type == "text"),
        "".join(block.thinking for block in message.content if block.type == "thinking"),
        calls,
        stops.get(message.stop_reason or "", "tool_use" if calls else "stop"),
        (usage.input_tokens + read + written, usage.output_tokens, read),
    )


def openai_says(body: bytes) -> Interjection:
    with (
        openai.OpenAI(api_key="k", http_client=sdk_http(body), max_retries=0) as sdk,
        sdk.chat.completions.stream(model="m", messages=[{"role": "user", "content": "x"}]) as stream,
    ):
        try:
            completion = stream.get_final_completion()
        except openai.LengthFinishReasonError as error:
            completion = error.completion  # what it had assembled
    choice = completion.choices[0]
    extra = choice.message.model_extra or {}
    calls = tuple((call.function.name, _canonical(call.function.arguments)) for call in choice.message.tool_calls or ())
    stops = {"length": "length", "content_filter": "refusal"}
    usage = completion.usage
    details = usage.prompt_tokens_details if usage else None
    text = (choice.message.content or "") + (choice.message.refusal or "")
    thought = extra.get("reasoning_content") or extra.get("reasoning") or ""
    if text.startswith("<think>\n"):  # the SDK leaves thinking in the text where the server does
        thought, _, text = text.removeprefix("<think>\n").partition("</think>")
    return Interjection(
        text.lstrip("\n") if thought else text,
        thought,
        calls,
        "refusal" if choice.message.refusal else stops.get(choice.finish_reason, "tool_use" if calls else "stop"),
        (usage.prompt_tokens, usage.completion_tokens, (details.cached_tokens or 0) if details else 0)
        if usage
        else None,
    )


async def compare(row: dict[str, Any] | None, referee: Callable[[bytes], Interjection]) -> None:
    body = body_of(row)
    assert row is not None
    message = await client(replying([body])).complete(model_of(row), ai.Context())
    assert ours(message) == referee(body)


@pytest.mark.parametrize("row", cases("stream", *MESSAGES_APIS))
async def test_messages_stream_equals_the_sdk(row: dict[str, Any] | None) -> None:
    await compare(row, anthropic_says)


@pytest.mark.parametrize("row", cases("stream", *MESSAGES_APIS))
async def test_what_goes_back_is_what_the_sdk_would_send_back(row: dict[str, Any] | None) -> None:
    body = body_of(row)
    assert row is not None
    model, hi = model_of(row), ai.UserMessage("hi")
    message = await client(replying([body])).complete(model, ai.Context(messages=[hi]))
    with (
        anthropic.Anthropic(api_key="k", http_client=sdk_http(body), max_retries=0) as sdk,
        sdk.messages.stream(model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}]) as stream,
    ):
        blocks = [block.to_dict(exclude_none=True) for block in stream.get_final_message().content]
    # Neither empty text nor thinking without a signature is taken back.
    expected = [
        block
        for block in blocks
        if not (block["type"] == "text" and not str(block["text"]).strip())
        and not (block["type"] == "thinking" and not block.get("signature"))
    ]
    sent = dialect(model).request(model, ai.Context(messages=[hi, message]), ai.Options(), None).body["messages"]
    assert without_none([block for one in sent[1:2] for block in one["content"]]) == without_none(expected)


def without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_none(item) for name, item in value.items() if item is not None}
    return [without_none(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("row", cases("stream", *CHAT_APIS))
async def test_chat_stream_equals_the_sdk(row: dict[str, Any] | None) -> None:
    await compare(row, openai_says)


CLASSES: dict[int, type[ProviderStatusError]] = {
    400: BadRequestError,
    401: AuthenticationError,
    403: AuthenticationError,
    404: NotFoundError,
    429: RateLimitError,
    500: ProviderUnavailableError,
    503: ProviderUnavailableError,
}


@pytest.mark.parametrize("row", cases("error", *CHAT_APIS, *MESSAGES_APIS))
async def test_recorded_errors_map_to_their_class(row: dict[str, Any] | None) -> None:
    body = body_of(row)
    assert row is not None
    status = row["status"] or json.loads(body)["error"]["code"]
    with pytest.raises(ProviderStatusError) as caught:
        await client(replying([body], status, "application/json")).complete(model_of(row), ai.Context())
    overflow = b"too long" in body or (b"context" in body and b"exceed" in body)
    assert type(caught.value) is (ContextOverflowError if overflow else CLASSES[status])
    assert caught.value.status == status
    error = json.loads(body)["error"]
    assert (error if isinstance(error, str) else error["message"])[:30] in str(caught.value)

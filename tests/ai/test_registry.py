"""Providers that a notebook registers: with a known wire format, an own one, or an object that answers itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import httpx
import pytest
from support.wire import ASK, CHAT_HELLO, replying

from planck_nb import Agent, ai
from planck_nb.ai.dialects.openai_chat import DIALECT
from planck_nb.ai.registry import REGISTRY
from planck_nb.ai.retries.retry import RetryPolicy
from planck_nb.errors import (
    AuthenticationError,
    BadRequestError,
    ConfigError,
    ModelError,
    UnknownModelError,
    UnknownProviderError,
)

HOUSE = ai.Provider("house", "chat", base_url="http://127.0.0.1:9/v1", key_variables=("HOUSE_KEY", "OLD_HOUSE_KEY"))


class Echo:
    """A model object without a server."""

    async def stream(
        self, model: ai.Model, context: ai.Context, options: ai.Options
    ) -> AsyncIterator[list[ai.StreamEvent]]:
        (said,) = [message.text for message in context.messages if message.type == "user"]
        yield [ai.TextChunk(0, f"{model.id}: {said}"), ai.PartEnd(0), ai.Finish("stop")]


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    for name in ("house", "echo", "lazy"):
        REGISTRY.unregister(name)


async def test_a_provider_with_a_known_format() -> None:
    ai.register(HOUSE)
    model = ai.get_model("house:m")
    assert "house" in ai.list_providers()
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(CHAT_HELLO))

    client = ai.Client(credentials={"OLD_HOUSE_KEY": "k"}, transport=httpx.MockTransport(handle))
    assert (await client.complete(model, ASK)).text == "Hello"
    assert str(seen[0].url) == "http://127.0.0.1:9/v1/chat/completions"
    assert seen[0].headers["authorization"] == "Bearer k"


async def test_a_model_object_that_needs_no_server() -> None:
    ai.register(ai.Provider("echo", models=("loud", "quiet"), default_model="quiet"), Echo())
    assert str(ai.get_model("echo")) == "echo:quiet"
    assert [model.id for model in ai.list_models("echo")] == ["loud", "quiet"]
    with pytest.raises(UnknownModelError, match="Did you mean loud"):
        ai.get_model("echo:lout")
    async with Agent(model="echo:loud") as agent:
        assert (await agent.prompt("hi")).text == "loud: hi"


def test_a_dialect_that_is_loaded_when_it_is_needed() -> None:
    ai.register(ai.Provider("lazy", base_url="http://127.0.0.1:9"), "planck_nb.ai.dialects.openai_chat:DIALECT")
    from planck_nb.ai.providers import dialect

    assert dialect(ai.get_model("lazy:m")) is DIALECT
    ai.register(ai.Provider("lazy", base_url="http://127.0.0.1:9"), "no_such_module:X", replace=True)
    with pytest.raises(ConfigError, match="The wire format 'lazy' cannot be loaded from 'no_such_module:X'"):
        dialect(ai.get_model("lazy:m"))


@pytest.mark.parametrize(
    ("provider", "dialect", "sentence"),
    [
        (ai.Provider("openai", "chat"), None, "The provider 'openai' is built in and cannot be replaced"),
        (ai.Provider("own", "chat"), DIALECT, "The wire format 'chat' is built in and cannot be replaced"),
        (ai.Provider("My:Own", "chat"), None, "A provider cannot be called 'My:Own'; use lower-case letters"),
        (ai.Provider("own", "smoke"), None, "has the wire format 'smoke', which does not exist; give its dialect or"),
        (ai.Provider("own"), None, "has the wire format 'own', which does not exist"),
        (ai.Provider("own"), Echo, "is neither a Dialect"),
        (ai.Provider("own"), object(), "is neither a Dialect"),
        (ai.Provider("own", "chat", base_url="llm.example"), None, "The base_url of the provider 'own' is not an add"),
    ],
)
@pytest.mark.parametrize("replace", [False, True])
def test_what_cannot_be_registered(provider: ai.Provider, dialect: Any, sentence: str, replace: bool) -> None:
    with pytest.raises(ConfigError, match=sentence):
        ai.register(provider, dialect, replace=replace)
    assert "own" not in ai.list_providers()


def test_a_taken_name_needs_replace() -> None:
    ai.register(ai.Provider("house"), Echo())
    with pytest.raises(ConfigError, match="There is already a provider 'house'; choose another name or add replace"):
        ai.register(HOUSE)
    ai.register(HOUSE, replace=True)
    assert ai.get_model("house:m").api == "chat"


def test_an_unknown_provider_suggests_registered_ones() -> None:
    ai.register(HOUSE)
    with pytest.raises(UnknownProviderError, match="Did you mean house"):
        ai.get_model("hause:m")
    with pytest.raises(UnknownModelError, match="Name a model of house, as in house:NAME"):
        ai.get_model("house")


async def test_a_provider_without_an_address_needs_one() -> None:
    ai.register(ai.Provider("house", "chat"))
    with pytest.raises(ConfigError, match="house has no address of its own; give base_url"):
        await ai.Client(credentials={}).complete(ai.get_model("house:m"), ASK)


def guarded(accepted: str, seen: list[httpx.Request], failures: int = 0) -> httpx.MockTransport:
    """A server that knows one token, and that fails some times before it looks at it."""

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if len(seen) <= failures:
            return httpx.Response(503, json={"error": "busy"})
        if request.headers.get("authorization") != f"Bearer {accepted}":
            return httpx.Response(401, json={"error": f"no: {request.headers.get('authorization')}"})
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(CHAT_HELLO))

    return httpx.MockTransport(handle)


async def test_credentials_are_computed_for_each_attempt() -> None:
    calls: list[ai.OutgoingRequest] = []

    def auth(request: ai.OutgoingRequest) -> dict[str, str]:
        calls.append(request)
        return {"Authorization": "Bearer token-123", "X-Call": str(len(calls))}

    seen: list[httpx.Request] = []
    model = ai.get_model("openai", "m", base_url="http://127.0.0.1:9/v1", auth=auth)
    client = ai.Client(
        credentials={"OPENAI_API_KEY": "sk-not-this"},
        transport=guarded("token-123", seen, failures=2),
        retries=RetryPolicy(base=0.0),
    )
    assert (await client.complete(model, ASK)).text == "Hello"
    assert [request.headers["x-call"] for request in seen] == ["1", "2", "3"]
    assert all("sk-not-this" not in str(request.headers) for request in seen)
    assert (calls[0].method, calls[0].url) == ("POST", "http://127.0.0.1:9/v1/chat/completions")
    assert calls[0].body == seen[0].content
    assert calls[0].headers == {k: v for k, v in seen[0].headers.items() if k not in {"authorization", "x-call"}}
    assert "token-123" not in repr(model) + repr(calls[0])


async def test_a_rejected_token_is_replaced_once() -> None:
    tokens = {"value": "stale-token"}

    async def auth(request: ai.OutgoingRequest) -> Mapping[str, str]:
        if request.rejected:
            await asyncio.sleep(0)
            tokens["value"] = "fresh-token"
        return {"authorization": f"Bearer {tokens['value']}"}

    model = ai.get_model("openai", "m", base_url="http://127.0.0.1:9/v1", auth=auth)
    seen: list[httpx.Request] = []
    stream = ai.Client(transport=guarded("fresh-token", seen)).stream(model, ASK)
    retries = [event async for event in stream if event.type == "retry"]
    assert stream.message.text == "Hello"
    assert ["stale-token" in retry.reason for retry in retries] == [False]
    seen.clear()
    with pytest.raises(AuthenticationError, match=r"no: Bearer \[key\]"):
        await ai.Client(transport=guarded("another", seen)).complete(model, ASK)
    assert len(seen) == 2


@pytest.mark.parametrize("returned", [None, "Bearer x", {"a": 1}, {"a": "b\r\nc: d"}])
async def test_what_is_not_headers_is_refused(returned: Any) -> None:
    model = ai.get_model("openai", "m", base_url="http://127.0.0.1:9/v1", auth=lambda _: returned)
    with pytest.raises(ModelError, match="The auth function of openai:m returned no headers; return a dict"):
        await ai.Client(transport=replying(CHAT_HELLO)).complete(model, ASK)


async def test_an_auth_function_that_fails_is_one_sentence() -> None:
    def auth(_: ai.OutgoingRequest) -> dict[str, str]:
        raise RuntimeError("no session")

    model = ai.get_model("openai", "m", base_url="http://127.0.0.1:9/v1", auth=auth)
    with pytest.raises(ModelError, match=r"The auth function of openai:m failed \(RuntimeError: no session\); correct"):
        await ai.Client(transport=replying(CHAT_HELLO)).complete(model, ASK)


async def read(stream: ai.Stream, events: list[ai.StreamEvent]) -> None:
    async for event in stream:
        events.append(event)  # noqa: PERF401 - those before an error count


SHOWN = ai.Context("Be brief.", [ai.UserMessage("hi")], [ai.ToolSpec("add", "Adds.", {"type": "object"})])


@pytest.mark.parametrize(
    ("name", "key"), [("openai:gpt-5", "OPENAI_API_KEY"), ("anthropic:claude-sonnet-4-6", "ANTHROPIC_API_KEY")]
)
async def test_a_preview_is_what_is_sent_without_the_key(name: str, key: str) -> None:
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(400, json={"error": {"message": "no"}})

    model, options = ai.get_model(name), ai.Options(max_tokens=50, thinking="low", temperature=0.5)
    client = ai.Client(credentials={key: "sk-0123456789"}, transport=httpx.MockTransport(handle))
    preview = await client.preview(model, SHOWN, options)
    assert seen == []
    stream = client.stream(model, SHOWN, options)
    events: list[ai.StreamEvent] = []
    with pytest.raises(BadRequestError, match="refused"):
        await read(stream, events)
    (request,) = seen
    assert (preview.method, preview.url) == (request.method, str(request.url))
    assert preview.body == json.loads(request.content)
    assert list(preview.warnings) == [event.text for event in events if event.type == "warning"]
    sent = {name: value.replace("sk-0123456789", "[key]") for name, value in request.headers.items()}
    assert {**sent, **preview.headers} == sent
    assert set(sent) - set(preview.headers) == {"host", "content-length"}
    assert "[key]" in str(preview.headers)
    assert "sk-" not in str(preview)
    assert (await ai.Client(credentials={}).preview(model, SHOWN)).url == preview.url  # no key is needed


async def test_a_preview_of_a_model_without_a_server() -> None:
    preview = await ai.Client(credentials={}).preview(ai.get_model("demo"), SHOWN, ai.Options(max_tokens=5))
    assert (preview.url, preview.headers) == (None, {})
    assert preview.body["system"] == "Be brief."
    assert preview.body["options"] == {"max_tokens": 5}

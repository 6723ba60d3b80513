"""Addresses of servers: which are valid, what is shown and stored of them, and whether others can read what is sent."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.loopback import Exchange, serving
from support.wire import ASK, CHAT_HELLO, chat_chunk, replying, sse

from planck_nb import Config, Workspace, ai
from planck_nb.ai.server_address import is_loopback, server_address, shown_url
from planck_nb.base.errors import ConfigError, ProviderError

PASSWORD = "p@ss/w0rd-of-mine"
WITH_PASSWORD = "http://me:p%40ss%2Fw0rd-of-mine@"
FINE = sse(chat_chunk({"content": "fine"}), chat_chunk({}, "stop"))


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost",
        "http://localhost.:8080/v1",
        "http://LOCALHOST",
        "http://app.localhost:1",
        "http://127.0.0.1:8080/v1",
        "http://127.255.0.9",
        "http://[::1]:8080",
        "http://[::ffff:127.0.0.1]",
        "http://me:word@127.0.0.1",
    ],
)
def test_addresses_of_this_machine(url: str) -> None:
    assert is_loopback(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.evil.test",
        "http://127.0.0.1.evil.test",
        "http://127.0.0.1@evil.test",
        "http://127.0.0.1:80@evil.test",
        "http://localhost@evil.test",
        "http://localhost.evil.test",
        "http://notlocalhost",
        "http://evil.test/127.0.0.1",
        "http://evil.test#@127.0.0.1",
        "http://evil.test?@127.0.0.1",
        "http://evil.test\\@127.0.0.1",
        "http://127.1",
        "http://2130706433",
        "http://0x7f.0.0.1",
        "http://0.0.0.0",
        "http://10.0.0.1",
        "http://192.168.1.1",
        "http://[::]",
        "http://[::2]",
        "http://[::ffff:10.0.0.1]",
        "http://١٢٧.0.0.1",
        "http://ⓛocalhost.evil.test",
        "http://[::1",
        "http://",
        "",
    ],
)
def test_addresses_of_other_machines(url: str) -> None:
    assert not is_loopback(url)


BAD = [
    "",
    " ",
    "h",
    "localhost:8080",
    "//h/v1",
    "http:",
    "http://",
    "http:///v1",
    "http://:8080",
    "http://me@",
    "file:///etc/passwd",
    "ftp://h",
    "javascript:alert(1)",
    "http://h:0",
    "http://h:99999",
    "http://h:-1",
    "http://h:port",
    "http://a b",
    "http://h/a b",
    "http://h\r\nx: y",
    "http://h/\tv1",
    "http://h\x00",
    "http://h\\evil",
    "http://<h>",
    "http://[::1",
    "http://[nothing]",
    "http://h..x/",
    "http://-h-",
    "http://" + "h" * 300,
    "http://\u202eh",
    "http://me:secret-word@",
    "http://me:secret-word@h:99999",
    "http://me:secret-word@a b",
    "http://me:secret#word@h",
    "http://me:secret-word",
    "me:secret-word@h/v1",
    "http://h /?key=secret-word",
]


@pytest.mark.parametrize("url", BAD)
def test_an_invalid_address_is_one_sentence_without_a_password(url: str) -> None:
    with pytest.raises(ConfigError, match="is not the address of a server; write base_url as in") as caught:
        ai.get_model("openai", "m", base_url=url)
    sentence = str(caught.value)
    assert sentence.isprintable()
    assert len(sentence) < 250
    assert "secret" not in sentence
    assert "word" not in sentence


def test_addresses_of_many_kinds() -> None:
    for url in ("https://münchen.example/v1", "http://under_score:80/v1/", "http://[::1]:8080", " http://h/v1 "):
        assert server_address(url).url == url.strip().rstrip("/")
    assert shown_url("http://me:secret@h:1/v1?key=1#x") == "http://h:1/v1"


async def sent(model: ai.Model, options: ai.Options | None = None) -> httpx.Request:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(FINE))

    await ai.Client(credentials={}, transport=httpx.MockTransport(answer)).complete(model, ASK, options)
    return seen[0]


async def test_user_and_password_are_sent_and_not_shown(tmp_path: Path) -> None:
    model = ai.get_model("openai", "m", base_url=f"{WITH_PASSWORD}127.0.0.1:9/v1", api="chat")
    request = await sent(model)
    expected = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
    assert request.headers["authorization"] == f"Basic {expected}"
    assert str(request.url) == "http://127.0.0.1:9/v1/chat/completions"
    preview = await ai.Client(credentials={}).preview(model, ASK)
    for text in (repr(model), str(model), repr(preview), str(preview.headers), str(preview.url)):
        assert "w0rd" not in text
        assert expected not in text


async def test_a_query_is_sent_and_not_shown() -> None:
    model = ai.get_model("openai", "m", base_url="http://127.0.0.1:9/v1?key=hid-den-key-1&version=2", api="chat")
    assert str((await sent(model)).url) == "http://127.0.0.1:9/v1/chat/completions?key=hid-den-key-1&version=2"
    preview = await ai.Client(credentials={}).preview(model, ASK)
    for text in (repr(model), repr(preview), str(preview.url)):
        assert "hid-den" not in text
    google = ai.get_model("google", "m", base_url="http://127.0.0.1:9?key=hid-den-key-1")
    preview = await ai.Client(credentials={}).preview(google, ASK)
    assert "?alt=sse" in str(preview.url)


def files(folder: Path) -> list[str]:
    return [path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("base", [f"{WITH_PASSWORD}127.0.0.1:1/v1", "http://127.0.0.1:1/v1?key=hid-den-key-1"])
async def test_errors_sessions_and_cassettes_do_not_have_them(base: str, tmp_path: Path) -> None:
    async with Workspace(Config.load(environment={}, directory=tmp_path)) as workspace:
        workspace.cassette = ai.Cassette(tmp_path / "tape", "record")
        agent = workspace.add_agent("ann", model=ai.get_model("openai", "m", base_url=base, api="chat"))
        with pytest.raises(ProviderError) as caught:
            await agent.prompt("hi")
        await workspace.flush()
    stored = files(tmp_path)
    assert len(stored) > 1
    for text in (str(caught.value), *stored):
        assert "w0rd" not in text
        assert "hid-den" not in text


async def test_an_error_of_the_server_that_quotes_them() -> None:
    model = ai.get_model("openai", "m", base_url=f"{WITH_PASSWORD}127.0.0.1:9/v1?key=hid-den-key-1", api="chat")
    body = json.dumps({"error": f"no {PASSWORD} nor http://h/?key=hid-den-key-1"}).encode()
    client = ai.Client(credentials={}, transport=replying([body], status=401), retries=ai.RetryPolicy(retries=0))
    with pytest.raises(ProviderError) as caught:
        await client.complete(model, ASK)
    assert "w0rd" not in str(caught.value)
    assert "hid-den" not in str(caught.value)


async def test_discovery_sends_them() -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.answer("200 OK", '{"data": [{"id": "m"}]}')

    async with serving(answer) as server:
        base = server.url.replace("http://", WITH_PASSWORD) + "?key=hid-den-key-1"
        assert [model.id for model in await ai.discover("openai", base)] == ["m"]
        (exchange,) = server.exchanges
    assert exchange.path.endswith("/models?key=hid-den-key-1")
    assert exchange.headers["authorization"].startswith("Basic ")


async def warnings_of(client: ai.Client, model: ai.Model) -> list[str]:
    stream = client.stream(model, ASK)
    return [event.text async for event in stream if event.type == "warning"]


@pytest.mark.parametrize("base", ["http://10.0.0.5/v1", "http://127.evil.test/v1", "http://me:a-password@h.test/v1"])
async def test_a_key_over_plain_http_is_warned_about_once(base: str) -> None:
    key: dict[str, Any] = {} if "@" in base else {"api_key": "a-key-0123"}
    model = ai.get_model("openai", "m", base_url=base, api="chat", has_api_key=bool(key), **key)
    client = ai.Client(credentials={}, transport=replying(CHAT_HELLO))
    (warning,) = await warnings_of(client, model)
    assert "are sent without encryption" in warning
    assert "a-key" not in warning
    assert "a-password" not in warning
    assert not await warnings_of(client, model)


@pytest.mark.parametrize("base", ["https://10.0.0.5/v1", "http://127.0.0.1:9/v1", "http://app.localhost/v1"])
async def test_a_key_that_others_cannot_read_is_not(base: str) -> None:
    model = ai.get_model("openai", "m", base_url=base, api="chat", api_key="a-key-0123")
    assert not await warnings_of(ai.Client(credentials={}, transport=replying(CHAT_HELLO)), model)


async def test_without_a_key_there_is_no_warning() -> None:
    model = ai.get_model("openai", "m", base_url="http://10.0.0.5/v1", api="chat", has_api_key=False)
    assert not await warnings_of(ai.Client(credentials={}, transport=replying(CHAT_HELLO)), model)

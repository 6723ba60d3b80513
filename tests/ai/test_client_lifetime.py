"""Clients that nobody closed print nothing on stderr, and proxies are found as other programs find them."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from support.loopback import Exchange, serving
from support.wire import ASK, CHAT_HELLO

from planck_nb import ai
from planck_nb.ai.connections import _proxy_for
from planck_nb.base.errors import ConfigError

PROGRAM = """
import asyncio, gc, sys
from planck_nb import ai
url, how = sys.argv[1:]
model = ai.get_model("openai", "m", base_url=url + "/v1", api_key="k", api="chat")
ask = ai.Context(messages=[ai.UserMessage("hi")])

async def forgotten():
    assert (await ai.Client().complete(model, ask)).text == "Hello"

kept = ai.Client()

async def global_client():
    await kept.complete(model, ask)

async def default_client():
    await ai.complete(model, ask)

async def stopped():
    stream = kept.stream(model, ask)
    await stream.next_batch()

main = globals().get(how.removesuffix("_without_end"), forgotten)
if how.endswith("_without_end"):
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    loop.close()
else:
    asyncio.run(main())
"""

WAYS = ["forgotten", "global_client", "default_client", "stopped"]


@pytest.mark.slow
@pytest.mark.parametrize("how", [*WAYS, *(f"{way}_without_end" for way in WAYS[:3])])
async def test_a_client_that_nobody_closes_leaves_no_complaint(how: str) -> None:
    async def hello(exchange: Exchange) -> None:
        await exchange.head()
        for event in CHAT_HELLO:
            await exchange.send(event)
        await exchange.end()

    async with serving(hello) as server:
        command = [sys.executable, "-c", PROGRAM, server.url, how]
        process = await asyncio.create_subprocess_exec(*command, stderr=subprocess.PIPE)
        _, said = await process.communicate()
    assert (process.returncode, said.decode()) == (0, "")


@pytest.mark.parametrize(
    ("value", "proxy"),
    [
        ("proxy.corp:3128", "http://proxy.corp:3128"),
        ("10.0.0.1:8080", "http://10.0.0.1:8080"),
        ("user:pass@proxy.corp:3128", "http://user:pass@proxy.corp:3128"),
        (" http://proxy.corp:3128 ", "http://proxy.corp:3128"),
        ("https://proxy.corp", "https://proxy.corp"),
        ("", None),
    ],
)
def test_a_proxy_needs_no_scheme(value: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "no_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", value)
    assert _proxy_for("https://api.example.test/v1") == proxy
    assert _proxy_for("https://127.0.0.1:8080/v1") is None
    monkeypatch.delenv("HTTPS_PROXY")
    monkeypatch.setenv("ALL_PROXY", value)
    assert _proxy_for("https://api.example.test/v1") == proxy


@pytest.mark.parametrize("value", ["socks5://proxy:1080", "http://", "http://proxy:port", "proxy:99999999", "://x"])
async def test_a_proxy_that_cannot_be_used_is_one_sentence(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "all_proxy", "ALL_PROXY", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", value.replace("proxy", "me:secret1@proxy"))
    model = ai.get_model("openai", "m", base_url="https://api.example.test/v1", api_key="k")
    async with ai.Client() as client:
        with pytest.raises(ConfigError, match=r"HTTPS_PROXY is .* not the address of an HTTP proxy") as caught:
            await client.complete(model, ASK)
    assert "secret1" not in str(caught.value)


@pytest.mark.parametrize(
    ("provider", "variable", "path"),
    [
        ("openai", "OPENAI_API_KEY", "/v1/models"),
        ("llama_cpp", "LLAMA_CPP_API_KEY", "/v1/models"),
        ("ollama", "OLLAMA_API_KEY", "/api/tags"),
    ],
)
@pytest.mark.parametrize("given", [None, "sk-given-1"])
async def test_a_list_of_models_is_asked_for_with_the_key(
    provider: str, variable: str, path: str, given: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def guarded(exchange: Exchange) -> None:
        right = exchange.headers.get("authorization") == f"Bearer {given or 'sk-listed-1'}"
        if not right:
            await exchange.answer("401 Unauthorized", '{"error": "no key"}')
        elif exchange.path == path:
            await exchange.answer("200 OK", '{"data": [{"id": "m"}], "models": [{"name": "m"}]}')
        else:
            await exchange.answer("200 OK", "{}")

    monkeypatch.setenv(variable, "sk-listed-1")
    async with serving(guarded) as server:
        found = await ai.discover(provider, f"{server.url}/v1", api_key=given)
    assert [model.id for model in found] == ["m"]
    assert found[0].api_key == given, "the key of the environment is not a part of the model"

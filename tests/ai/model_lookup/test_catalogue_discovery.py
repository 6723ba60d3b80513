"""Servers are asked which models they have."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from support.loopback import Exchange, Handler, serving
from support.ports import free_port

from planck_nb import ai
from planck_nb.ai.model_lookup import discovery
from planck_nb.ai.registry import REGISTRY

SHOWN: dict[str, dict[str, Any]] = {
    "llama3.2": {
        "capabilities": ["completion", "tools"],
        "model_info": {"general.architecture": "llama", "llama.context_length": 131072},
    },
    "qwen3": {
        "capabilities": ["completion", "tools", "thinking", "vision"],
        "parameters": 'stop                           "<|im_end|>"\nnum_ctx                        16384',
        "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960},
    },
    "nomic-embed": {"capabilities": ["embedding"], "model_info": {}},
    "old": {},
}


async def ollama(exchange: Exchange) -> None:
    if exchange.path == "/api/tags":
        await exchange.answer("200 OK", json.dumps({"models": [{"name": name} for name in [*SHOWN, "broken"]]}))
    elif (name := exchange.body["model"]) in SHOWN:
        await exchange.answer("200 OK", json.dumps(SHOWN[name]))
    else:
        await exchange.answer("500 Internal Server Error", '{"error": "no"}')


async def test_ollama_reports_what_its_models_can_do() -> None:
    async with serving(ollama) as server:
        found = {model.id: model for model in await ai.discover("ollama", f"{server.url}/v1")}
    assert list(found) == ["llama3.2", "qwen3", "old", "broken"]
    llama, qwen = found["llama3.2"], found["qwen3"]
    assert (llama.context_window, llama.modalities, llama.thinking_levels) == (131072, ("text",), ())
    assert (qwen.context_window, qwen.modalities, qwen.thinking) == (16384, ("text", "image"), True)
    for name in ("old", "broken"):
        assert (found[name].context_window, found[name].modalities, found[name].thinking_levels) == (None, None, None)


@pytest.mark.parametrize(
    ("props", "window", "modalities"),
    [
        ({"default_generation_settings": {"n_ctx": 8192}, "modalities": {"vision": False}}, 8192, ("text",)),
        ({"default_generation_settings": {"n_ctx": 8192}, "modalities": {"vision": True}}, 8192, ("text", "image")),
        ({"default_generation_settings": {"n_ctx": 8192}}, 8192, None),
        ({}, 32768, None),
        (None, 32768, None),
    ],
)
async def test_llama_cpp_reports_the_context_it_runs_with(
    props: dict[str, Any] | None, window: int, modalities: tuple[str, ...] | None
) -> None:
    async def server_of_one(exchange: Exchange) -> None:
        if exchange.path == "/v1/models":
            await exchange.answer("200 OK", '{"data": [{"id": "m", "meta": {"n_ctx_train": 32768}}]}')
        else:
            assert exchange.path == "/props"
            await exchange.answer("404 Not Found" if props is None else "200 OK", json.dumps(props))

    async with serving(server_of_one) as server:
        (model,) = await ai.discover("llama_cpp", server.url)
    assert (model.context_window, model.modalities) == (window, modalities)


async def test_other_servers_are_asked_with_their_key() -> None:
    async def listing(exchange: Exchange) -> None:
        assert exchange.path == "/v1/models"
        if exchange.headers.get("authorization") == "Bearer k":
            await exchange.answer("200 OK", '{"data": [{"id": "a", "max_model_len": 4096}, {"id": "b"}]}')
        else:
            await exchange.answer("401 Unauthorized", '{"error": "no"}')

    async with serving(listing) as server:
        found = await ai.discover("openai", server.url, api_key="k")
        assert [(model.id, model.base_url, model.context_window) for model in found] == [
            ("a", server.url, 4096),
            ("b", server.url, None),
        ]
        assert await ai.discover("openai", server.url) == []


@pytest.mark.parametrize("provider", ["ollama", "llama_cpp", "openai"])
def test_a_server_that_is_not_there_has_no_models(provider: str) -> None:
    assert ai.list_models(provider, base_url=f"http://127.0.0.1:{free_port()}") == []


async def test_the_running_llama_cpp_server(llama: str) -> None:
    (model,) = await ai.discover("llama_cpp", llama)
    assert (model.context_window, model.modalities) == (8192, ("text",))


async def garbage(exchange: Exchange) -> None:
    exchange.writer.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")


async def half(exchange: Exchange) -> None:
    exchange.writer.write(b'HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n{"data": ')
    exchange.writer.close()


async def nested(exchange: Exchange) -> None:
    await exchange.answer("200 OK", "[" * 100_000)


@pytest.mark.parametrize("handler", [garbage, half, nested])
@pytest.mark.parametrize("provider", ["ollama", "llama_cpp"])
async def test_what_is_not_a_model_server_has_no_models(provider: str, handler: Handler) -> None:
    async with serving(handler) as server:
        assert await ai.discover(provider, server.url) == []


async def test_a_key_is_not_sent_to_another_server() -> None:
    async with serving(garbage) as other:

        async def elsewhere(exchange: Exchange) -> None:
            await exchange.answer("302 Found", "", location=f"{other.url}/v1/models")

        async with serving(elsewhere) as server:
            assert await ai.discover("openai", server.url, api_key="k") == []
            assert server.exchanges[0].headers["authorization"] == "Bearer k"
        assert other.connections == 0


async def test_a_slow_server_is_given_up_in_time() -> None:
    async def drips(exchange: Exchange) -> None:
        exchange.writer.write(b"HTTP/1.1 200 OK\r\nx-slow: ")
        while True:
            exchange.writer.write(b"x")
            await asyncio.sleep(0.1)

    async with serving(drips) as server:
        model = ai.get_model("llama_cpp", "default", base_url=server.url)
        assert await asyncio.to_thread(discovery.models_of, model, None, seconds=0.3) == []


@pytest.mark.parametrize(("pieces", "models"), [(10, ["a"]), (50, [])])
async def test_a_server_cannot_fill_the_memory(pieces: int, models: list[str]) -> None:
    async def long(exchange: Exchange) -> None:
        await exchange.head("200 OK", "application/json")
        for piece in (b'{"data": [{"id": "a"}]', *[b" " * 100_000] * pieces, b"}"):
            await exchange.send(piece)
        await exchange.end()

    async with serving(long) as server:
        assert [model.id for model in await ai.discover("llama_cpp", server.url)] == models


async def test_a_provider_of_another_package_is_asked_with_its_signature() -> None:
    async def listing(exchange: Exchange) -> None:
        assert exchange.path == "/models"
        signed = exchange.headers.get("x-signature") == f"GET {exchange.headers['host']}"
        await exchange.answer("200 OK" if signed else "401 Unauthorized", '{"data": [{"id": "a"}]}')

    def sign(request: ai.OutgoingRequest) -> dict[str, str]:
        return {"x-signature": f"{request.method} {request.headers['host']}"}

    async with serving(listing) as server:
        ai.register(ai.Provider("signed", "chat", base_url=server.url, auth=sign, discovered=True))
        try:
            assert [str(model) for model in await ai.discover("signed")] == ["signed:a"]
        finally:
            REGISTRY.unregister("signed")

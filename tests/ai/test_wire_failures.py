"""Requests that fail, on a real loopback server: each is one sentence, and nothing is left behind."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import httpx2
import pytest
from support.loopback import Exchange, Handler, serving
from support.ports import free_port
from support.wire import ASK, CHAT_HELLO, client, replying, sse

from planck_nb import ai
from planck_nb.ai import connections
from planck_nb.ai.connection_errors import FAILURES, failure
from planck_nb.base.errors import (
    AuthenticationError,
    ConfigError,
    MissingCredentialError,
    NotFoundError,
    ProviderConnectionError,
    ProviderError,
    ProviderProtocolError,
    ProviderTimeoutError,
    ProviderUnavailableError,
    RateLimitError,
    StreamTruncated,
)


def model_at(url: str, **settings: Any) -> ai.Model:
    return ai.get_model("openai", "some-model", base_url=f"{url}/v1", **settings)


async def hello(exchange: Exchange) -> None:
    await exchange.head()
    for event in CHAT_HELLO:
        await exchange.send(event)
    await exchange.end()


def says(status: str, body: str, kind: str = "application/json", **headers: str) -> Handler:
    async def handle(exchange: Exchange) -> None:
        await exchange.answer(status, body, kind, **headers)

    return handle


def then(end: Callable[[Exchange], Any]) -> Handler:
    async def handle(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.send(CHAT_HELLO[1])
        result = end(exchange)
        if result is not None:
            await result

    return handle


def error(message: str) -> str:
    return f'{{"error": {{"message": "{message}"}}}}'


@pytest.mark.parametrize(
    ("handler", "expected", "sentence"),
    [
        (says("401 Unauthorized", error("Bad key sk-open-1")), AuthenticationError, r"\[key\].*check OPENAI_API_KEY"),
        (says("404 Not Found", error("no such model")), NotFoundError, '"no such model"; check the model'),
        (says("429 Too Many", error("slow down"), retry_after="300"), RateLimitError, "wait 300 seconds"),
        (
            says("500 Oops", error("xx " * 333), x_request_id="r1"),
            ProviderUnavailableError,
            "(xx ){98}xx….; try again later",
        ),
        (says("502 Bad", "<html><title>Bad &amp; gone</title>", "text/html"), ProviderUnavailableError, "Bad & gone"),
        (says("301 Moved", "", "text/plain", location="http://x"), ProviderError, "check base_url"),
        (says("200 OK", "<html>login</html>", "text/html"), ProviderProtocolError, "an HTML page instead of a stream"),
        (says("200 OK", "{}"), ProviderProtocolError, "one JSON document instead of a stream"),
        (then(Exchange.end), StreamTruncated, "before it was complete"),
        (then(Exchange.reset), ProviderConnectionError, "broke; try again"),
        (then(Exchange.closed), ProviderTimeoutError, "sent nothing for too long"),
        (Exchange.closed, ProviderTimeoutError, "sent nothing for too long"),
    ],
    ids=["401", "404", "429", "500", "502", "301", "html", "json", "cut", "reset", "stall", "silent"],
)
async def test_each_way_of_failing_is_one_sentence(
    handler: Handler, expected: type[ProviderError], sentence: str
) -> None:
    async with serving(handler, hello) as server, client() as http:
        with pytest.raises(expected, match=sentence) as caught:
            await http.complete(model_at(server.url), ASK)
        assert "sk-open" not in str(caught.value)
        assert (caught.value.provider, caught.value.model) == ("openai", "some-model")
        assert caught.value.request_id == ("r1" if "xx xx" in str(caught.value) else None)
        assert (await http.complete(model_at(server.url), ASK)).text == "Hello"


async def test_a_broken_stream_keeps_what_came() -> None:
    async with serving(then(Exchange.reset)) as server, client() as http:
        stream = http.stream(model_at(server.url), ASK)
        with pytest.raises(ProviderConnectionError):
            async for _ in stream:
                pass
        assert stream.message.text == "Hel"
        assert stream.message.stop_reason == "error"


async def test_bytes_that_are_not_http() -> None:
    async def handle(exchange: Exchange) -> None:
        exchange.writer.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")

    async with serving(handle) as server, client() as http:
        with pytest.raises(ProviderProtocolError, match="is not valid HTTP"):
            await http.complete(model_at(server.url), ASK)


@pytest.mark.parametrize(
    ("base_url", "sentence"),
    [
        (f"http://127.0.0.1:{free_port()}", r"No server answers at http://127.0.0.1:\d+ \(openai\); start it or set"),
        ("http://no-such-host.invalid", r"No server answers at http://no-such-host.invalid \(openai\)"),
    ],
    ids=["refused", "unknown host"],
)
async def test_addresses_without_a_server(base_url: str, sentence: str) -> None:
    async with client() as http:
        with pytest.raises(ProviderConnectionError, match=sentence):
            await http.complete(ai.get_model("openai", "m", base_url=base_url), ASK)


async def test_certificates_that_are_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "no.pem"))
    async with client(retries=2) as http:
        stream = http.stream(model_at("https://127.0.0.1:9"), ASK)
        with pytest.raises(ConfigError, match=r"SSL_CERT_FILE=.*no\.pem: No such file.*correct SSL_CERT_FILE"):
            assert [event async for event in stream] == []


@pytest.mark.slow
async def test_any_byte_keeps_a_stream_alive() -> None:
    async def handle(exchange: Exchange) -> None:
        await exchange.head()
        for _ in range(15):
            await asyncio.sleep(0.1)  # a slow server; together longer than the idle limit
            await exchange.send(b": still here\n\n")
        for event in CHAT_HELLO:
            await exchange.send(event)
        await exchange.end()

    async with serving(handle) as server, ai.Client(credentials={}, timeouts=ai.Timeouts(idle=1.0)) as http:
        assert (await http.complete(model_at(server.url), ASK)).text == "Hello"


async def test_cancelling_closes_the_connection_at_once() -> None:
    closed = asyncio.Event()
    waiting = asyncio.Event()

    async def handle(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.send(CHAT_HELLO[1])
        await exchange.closed()
        closed.set()

    async with serving(handle) as server, ai.Client(credentials={}) as http:
        stream = http.stream(model_at(server.url), ASK)

        async def read() -> None:
            async for _ in stream:
                waiting.set()

        task = asyncio.create_task(read())
        await waiting.wait()
        task.cancel()
        await asyncio.wait_for(closed.wait(), 20)  # typically under a millisecond; the idle limit is five minutes
        with pytest.raises(asyncio.CancelledError):
            await task
        assert stream.message.text == "Hel"
        assert stream.message.stop_reason == "aborted"


async def test_leaving_the_block_closes_the_connection() -> None:
    closed = asyncio.Event()

    async def close(exchange: Exchange) -> None:
        await exchange.closed()
        closed.set()

    async with serving(then(close)) as server, client() as http:
        async with http.stream(model_at(server.url), ASK) as stream:
            assert (await anext(stream)).type == "text_delta"
        await asyncio.wait_for(closed.wait(), 20)


async def test_a_connection_is_used_again() -> None:
    async with serving(hello) as server, client() as http:
        for _ in range(3):
            await http.complete(model_at(server.url), ASK)
        assert server.connections == 1


async def test_a_connection_is_used_again_when_the_answer_ends_late() -> None:
    async def late(exchange: Exchange) -> None:
        await exchange.head()
        for event in CHAT_HELLO:
            await exchange.send(event)
        await asyncio.sleep(0.02)  # a server that is slow to end its answer
        await exchange.end()

    async with serving(late) as server, client() as http:
        for _ in range(2):
            await http.complete(model_at(server.url), ASK)
        assert server.connections == 1


@pytest.mark.parametrize("padding", [0, 295])
async def test_a_key_that_a_server_repeats_is_not_shown(padding: int) -> None:
    words = f"{'x' * padding} sk-open-1"
    chunk = sse({"error": {"message": words, "code": 500}})
    for answering in (replying(chunk), replying([error(words).encode()], 500, "application/json")):
        with pytest.raises(ProviderUnavailableError) as caught:
            await client(answering).complete(model_at("http://127.0.0.1:9"), ASK)
        assert "sk-" not in str(caught.value)


@pytest.mark.slow
async def test_many_streams_at_once() -> None:
    everybody = asyncio.Barrier(150)

    async def together(exchange: Exchange) -> None:
        await everybody.wait()
        await hello(exchange)

    async with serving(together) as server, ai.Client(credentials={}) as http:
        messages = await asyncio.gather(*(http.complete(model_at(server.url), ASK) for _ in range(150)))
        assert {message.text for message in messages} == {"Hello"}


def exceptions_of(module: Any) -> set[type[BaseException]]:
    found = {value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Exception)}
    return {each for each in found if not issubclass(each, Warning)}


NOT_OF_A_REQUEST = {aiohttp.EofStream, aiohttp.WSMessageTypeError, aiohttp.WebSocketError, httpx2.SSEError}


def test_every_exception_of_the_http_libraries_is_mapped() -> None:
    known = exceptions_of(httpx) | exceptions_of(httpx2) | exceptions_of(aiohttp)
    model = ai.get_model("llama_cpp", "m")
    for each in known - NOT_OF_A_REQUEST | FAILURES.keys():
        silent: type[BaseException] = type(each.__name__, (each,), {"__str__": lambda _: "words"})
        assert isinstance(failure(silent.__new__(silent), model), ProviderError)
    assert failure(ZeroDivisionError(), model) is None


def test_what_an_exception_was_raised_from_decides() -> None:
    model = ai.get_model("llama_cpp", "m")
    coarse = httpx.ConnectTimeout("x")
    assert (
        str(failure(coarse, model))
        == "No server answers at http://127.0.0.1:8080 (llama_cpp); start it or set base_url."
    )
    coarse.__cause__ = aiohttp.ServerDisconnectedError()
    assert "broke" in str(failure(coarse, model))


async def test_a_missing_key_names_its_variable() -> None:
    http = ai.Client(credentials={})
    for model, variable in [
        (ai.get_model("anthropic", "claude-sonnet-4-6"), "ANTHROPIC_API_KEY"),
        (ai.get_model("openai", "m", base_url="https://x.test", key_variable="NVIDIA_API_KEY"), "NVIDIA_API_KEY"),
    ]:
        with pytest.raises(MissingCredentialError, match=f"{variable} is not set") as caught:
            await http.complete(model, ASK)
        assert caught.value.variable == variable


async def test_keys_go_where_they_belong() -> None:
    async with serving(hello) as server:
        http = ai.Client(credentials={"OPENAI_API_KEY": "env", "NVIDIA_API_KEY": "nv"})
        for settings in ({}, {"api_key": "own"}, {"key_variable": "NVIDIA_API_KEY"}, {"has_api_key": False}):
            await http.complete(model_at(server.url, **settings), ASK)
        sent = [exchange.headers.get("authorization") for exchange in server.exchanges]
        assert sent == ["Bearer env", "Bearer own", "Bearer nv", None]
        await http.aclose()


async def test_proxies_are_honoured_except_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(hello) as proxy, serving(hello) as server, client() as http:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        await http.complete(model_at(server.url), ASK)
        assert proxy.exchanges == []
        await http.complete(ai.get_model("openai", "m", base_url="http://vendor.test/v1"), ASK)
        assert [exchange.path for exchange in proxy.exchanges] == ["http://vendor.test/v1/chat/completions"]
        monkeypatch.setenv("HTTP_PROXY", proxy.url.replace("://", "://ann:secret@"))
        await http.complete(ai.get_model("openai", "m", base_url="http://vendor.test/v1"), ASK)
        assert proxy.exchanges[-1].headers["proxy-authorization"] == httpx.BasicAuth("ann", "secret")._auth_header
        monkeypatch.setenv("NO_PROXY", "vendor.test")
        assert connections._proxy_for("http://vendor.test/v1") is None


QUIET = """
import asyncio, sys
from planck_nb import ai
from planck_nb.ai.shortcuts import default_client

model = ai.get_model("openai", "m", base_url=sys.argv[1])

async def main():
    assert default_client() is default_client()
    return (await ai.complete(model, ai.Context(messages=[ai.UserMessage("hi")]))).text

assert asyncio.run(main()) == "Hello"
assert asyncio.run(main()) == "Hello"
kept = asyncio.new_event_loop()
assert kept.run_until_complete(main()) == "Hello"
closed = asyncio.new_event_loop()
assert closed.run_until_complete(main()) == "Hello"
closed.run_until_complete(closed.shutdown_asyncgens())
closed.close()

async def dropped():
    await ai.Client().complete(model, ai.Context(messages=[ai.UserMessage("hi")]))
    await asyncio.sleep(0)

asyncio.run(dropped())
"""


@pytest.mark.process
async def test_there_are_no_complaints_about_unclosed_connections() -> None:
    async with serving(hello) as server:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "error", "-X", "dev", "-c", QUIET, server.url),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        _, stderr = await process.communicate()
    lines = [line for line in stderr.decode().splitlines() if "nclosed" in line]
    noise = [line for line in lines if "event loop" not in line and "family=1," not in line]  # the kept loop's own
    assert (process.returncode, noise) == (0, []), stderr.decode()

"""Transports that a caller hands in: those of httpx and of httpx2 alike, and objects that belong to neither."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import httpx
import httpx2
import pytest
from support.loopback import Exchange, serving
from support.wire import ASK, CHAT, CHAT_HELLO

from planck_nb import Agent, ai
from planck_nb.base.threads import run_in_thread
from planck_nb.errors import ProviderConnectionError, ProviderError, ProviderTimeoutError

LIBRARIES = [httpx, httpx2]
KEYS = {"OPENAI_API_KEY": "sk-open-1"}


def client(transport: Any, **more: Any) -> ai.Client:
    return ai.Client(credentials=KEYS, transport=transport, retries=ai.RetryPolicy(retries=1, base=0.001), **more)


def mock(library: Any, *answers: Exception | list[bytes], seen: list[Any] | None = None) -> Any:
    """A mock of a library that gives these answers in turn, the last one for ever."""
    left = list(answers)

    def handle(request: Any) -> Any:
        assert isinstance(request, library.Request)
        if seen is not None:
            seen.append(request)
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return library.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(answer))

    return library.MockTransport(handle)


async def hello(exchange: Exchange) -> None:
    await exchange.head()
    for chunk in CHAT_HELLO:
        await exchange.send(chunk)
    await exchange.end()


@pytest.mark.parametrize("library", LIBRARIES)
async def test_a_mock_answers(library: ModuleType) -> None:
    seen: list[Any] = []
    async with client(mock(library, CHAT_HELLO, seen=seen)) as asked:
        assert (await asked.complete(CHAT, ASK)).text == "Hello"
    (request,) = seen
    assert request.headers["authorization"] == "Bearer sk-open-1"
    assert json.loads(request.content)["model"] == "some-model"


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("name", "expected"), [("ConnectError", ProviderConnectionError), ("ReadTimeout", ProviderTimeoutError)]
)
async def test_its_errors_are_ours(library: Any, name: str, expected: type[ProviderError]) -> None:
    with pytest.raises(expected):
        await Agent(model=CHAT, client=client(mock(library, getattr(library, name)("sk-open-1")))).prompt("go")


@pytest.mark.parametrize("library", LIBRARIES)
async def test_an_outage_is_retried(library: Any) -> None:
    async with client(mock(library, library.ReadError("reset"), CHAT_HELLO)) as asked:
        assert (await asked.complete(CHAT, ASK)).text == "Hello"


@pytest.mark.parametrize("library", LIBRARIES)
async def test_its_connections_to_a_server(library: Any) -> None:
    async with serving(hello) as server:
        model = ai.get_model("openai", "some-model", base_url=f"{server.url}/v1")
        async with client(library.AsyncHTTPTransport()) as asked:
            assert (await asked.complete(model, ASK)).text == "Hello"


@pytest.mark.parametrize("library", LIBRARIES)
async def test_a_body_that_is_compressed(library: Any) -> None:
    import gzip

    def handle(_request: Any) -> Any:
        headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
        return library.Response(200, headers=headers, content=gzip.compress(b"".join(CHAT_HELLO)))

    async with client(library.MockTransport(handle)) as asked:
        assert (await asked.complete(CHAT, ASK)).text == "Hello"


@pytest.mark.parametrize("library", LIBRARIES)
async def test_a_cassette_records_and_replays_it(library: Any, tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    async with client(mock(library, CHAT_HELLO), cassette=ai.Cassette(path, "record")) as asked:
        assert (await asked.complete(CHAT, ASK)).text == "Hello"
    nothing = mock(library, library.ConnectError("nobody"))
    async with client(nothing, cassette=ai.Cassette(path, "replay")) as asked:
        assert (await asked.complete(CHAT, ASK)).text == "Hello"


@pytest.mark.parametrize("library", LIBRARIES)
async def test_requests_over_it_are_signed(library: Any) -> None:
    seen: list[Any] = []
    signed: list[ai.OutgoingRequest] = []

    def sign(request: ai.OutgoingRequest) -> dict[str, str]:
        signed.append(request)
        return {"Authorization": f"signature-{len(signed)}"}

    model = ai.get_model("openai", "some-model", base_url="https://llm.example:8443/v1", auth=sign)
    async with client(mock(library, library.ReadError("reset"), CHAT_HELLO, seen=seen)) as asked:
        await asked.complete(model, ASK)
    assert [request.headers["authorization"] for request in seen] == ["signature-1", "signature-2"]
    assert [request.headers["host"] for request in signed] == ["llm.example:8443"] * 2
    assert signed[0].headers["content-length"] == str(len(signed[0].body))


async def test_an_object_of_neither_library() -> None:
    class Body:
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for chunk in CHAT_HELLO:
                yield chunk

    class Transport:
        async def handle_async_request(self, request: Any) -> Any:
            assert request.method == "POST"
            assert str(request.url) == "http://127.0.0.1:9/v1/chat/completions"

            async def aclose() -> None:
                pass

            headers = {"content-type": "text/event-stream"}
            return SimpleNamespace(status_code=200, headers=headers, stream=Body(), aclose=aclose)

    async with client(Transport()) as asked:
        assert (await asked.complete(CHAT, ASK)).text == "Hello"


@pytest.mark.process
async def test_neither_library_is_loaded_or_hooked_without_need() -> None:
    script = (
        "import asyncio, sys\nfrom planck_nb import ai\nimport planck_nb.ai.preload\n"
        "path, finders = list(sys.meta_path), list(sys.path_hooks)\n"
        "async def main():\n"
        "    list(planck_nb.ai.preload.preload())\n"
        "    model = ai.get_model('openai', 'm', base_url=sys.argv[1], api='chat')\n"
        "    tape = ai.Cassette(sys.argv[2], 'record')\n"
        "    async with ai.Client(credentials={}, cassette=tape) as client:\n"
        "        print((await client.complete(model, ai.Context(messages=[ai.UserMessage('hi')]))).text)\n"
        "asyncio.run(main())\n"
        "print(sorted({'httpx', 'httpx2'} & set(sys.modules)), path == sys.meta_path, finders == sys.path_hooks)\n"
    )
    root = Path(ai.__file__).parents[2]
    async with serving(hello) as server:
        done = await run_in_thread(
            lambda: subprocess.run(
                [sys.executable, "-c", script, f"{server.url}/v1", "/dev/null"],
                env={"PYTHONPATH": str(root)},
                capture_output=True,
                text=True,
                check=False,
            )
        )
    assert (done.stdout, done.stderr) == ("Hello\n[] True True\n", "")

"""What the connections themselves do: compression, cookies, transports of callers beside them."""

from __future__ import annotations

import asyncio
import gzip
import os
import socket
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import aiohttp
import httpx
import httpx_aiohttp
import pytest
from support.loopback import Exchange, serving
from support.ports import free_port
from support.sidecar_links import until
from support.wire import ASK, CHAT_HELLO, client

from planck_nb import ai
from planck_nb.ai.cassettes.cassette import Cassette
from planck_nb.ai.retries.retry import RetryPolicy
from planck_nb.base.errors import ProviderConnectionError, ProviderProtocolError, RateLimitError


def model_at(url: str) -> ai.Model:
    return ai.get_model("openai", "m", base_url=url, has_api_key=False)


async def compressed(exchange: Exchange) -> None:
    """Answer with one compressed stream, of which each event can be read when it comes."""
    await exchange.head(content_encoding="gzip")
    packer = zlib.compressobj(wbits=31)
    for event in CHAT_HELLO:
        await exchange.send(packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH))
    await exchange.send(packer.flush())
    await exchange.end()


async def hello(exchange: Exchange) -> None:
    await exchange.head(set_cookie="account=1; Path=/")
    await exchange.send(b"".join(CHAT_HELLO))
    await exchange.end()


async def test_a_compressed_answer_is_read_event_by_event() -> None:
    async with serving(compressed) as server, client() as http:
        batches = [batch async for batch in http.stream(model_at(server.url), ASK).batches()]
        texts = [event.text for batch in batches for event in batch if event.type == "text_delta"]
        assert texts == ["Hel", "lo"]
        assert (await http.complete(model_at(server.url), ASK)).text == "Hello"
        assert server.connections == 1


async def test_a_compressed_answer_is_recorded_readable(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    async with serving(compressed) as server, ai.Client(cassette=Cassette(path, mode="record")) as http:
        assert (await http.complete(model_at(server.url), ASK)).text == "Hello"
    assert '"Hel' in path.read_text().replace("\\", "")
    async with ai.Client(cassette=Cassette(path, mode="replay")) as http:
        assert (await http.complete(model_at(server.url), ASK)).text == "Hello"


async def test_what_cannot_be_decompressed_is_reported() -> None:
    async def damaged(exchange: Exchange) -> None:
        await exchange.head(content_encoding="gzip")
        packed = bytearray(gzip.compress(b"".join(CHAT_HELLO)))
        packed[10:20] = b"0123456789"
        await exchange.send(bytes(packed))
        await exchange.end()

    async with serving(damaged) as server, ai.Client(retries=RetryPolicy(0)) as http:
        with pytest.raises(ProviderProtocolError, match=r"is not valid HTTP: .*gzip"):
            await http.complete(model_at(server.url), ASK)


async def test_no_cookie_of_a_server_is_sent_back() -> None:
    async with serving(hello) as server, client() as http:
        for _ in range(2):
            await http.complete(model_at(server.url), ASK)
        assert server.connections == 1
        assert ["cookie" in exchange.headers for exchange in server.exchanges] == [False, False]


async def test_a_transport_of_the_caller_is_used_and_its_errors_are_understood() -> None:
    async with aiohttp.ClientSession() as session:
        transport = httpx_aiohttp.AiohttpTransport(client=session)
        async with serving(hello) as server, ai.Client(transport=transport, retries=RetryPolicy(0)) as http:
            assert (await http.complete(model_at(server.url), ASK)).text == "Hello"
            with pytest.raises(ProviderConnectionError, match="No server answers at"):
                await http.complete(model_at(f"http://127.0.0.1:{free_port()}"), ASK)


@pytest.mark.parametrize("own", [False, True], ids=["network", "transport"])
async def test_headers_are_found_however_a_server_writes_their_names(*, own: bool) -> None:
    """Google's errors copy the headers, and the limits of rates are found by a pattern."""
    body = '{"error": {"code": 429, "message": "Slow down", "status": "RESOURCE_EXHAUSTED"}}'

    async def refuse(exchange: Exchange) -> None:
        await exchange.answer("429 Too Many", body, **{"Retry-After": "7"})

    async def refuse_until(exchange: Exchange) -> None:
        limits = {"X-RateLimit-Remaining-Requests": "0", "X-RateLimit-Reset-Requests": "9s"}
        await exchange.answer("429 Too Many", body, **limits)

    for handler, seconds in ((refuse, 7), (refuse_until, 9)):
        transport = httpx.AsyncHTTPTransport() if own else None
        async with serving(handler) as server, ai.Client(transport=transport, retries=RetryPolicy(0)) as http:
            model = ai.get_model("google", "gemini-2.5-flash", base_url=server.url, has_api_key=False)
            with pytest.raises(RateLimitError) as caught:
                await http.complete(model, ASK)
            assert caught.value.retry_after == seconds


@pytest.mark.skipif(sys.platform != "linux", reason="counts connections in /proc")
async def test_so_many_connections_are_opened_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1) as listener:  # accepts nothing
        port = listener.getsockname()[1]
        waiting = f" 0100007F:{port:04X} 02 "  # SYN sent

        def opening() -> int:
            return Path("/proc/self/net/tcp").read_text().count(waiting)

        credentials = {"OPENAI_API_KEY": "sk-open-1"}
        async with ai.Client(credentials=credentials, timeouts=ai.Timeouts(connect=100)) as http:
            requests = [
                asyncio.create_task(http.complete(model_at(f"http://127.0.0.1:{port}"), ASK)) for _ in range(600)
            ]
            await until(lambda: opening() > 200)
            assert not any(request.done() for request in requests)
            assert opening() <= 256
            for request in requests:
                request.cancel()
            await asyncio.gather(*requests, return_exceptions=True)


@pytest.fixture
def files() -> Iterator[Callable[[], None]]:
    """A function that opens files until there can be no more."""
    resource = pytest.importorskip("resource")
    _, most = before = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened: list[int] = []

    def open_all() -> None:
        opened.append(os.dup(0))
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(opened) + 50, most))
        with suppress(OSError):
            while True:
                opened.append(os.dup(0))

    yield open_all
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
    for file in opened:
        os.close(file)


async def test_a_process_without_another_file_says_so(files: Callable[[], None]) -> None:
    async with serving(hello) as server, client() as http:
        files()
        with pytest.raises(ProviderConnectionError, match="this process has too many open files; raise `ulimit -n`"):
            await http.complete(model_at(server.url), ASK)

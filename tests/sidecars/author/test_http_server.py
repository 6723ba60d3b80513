"""A sidecar over Streamable HTTP: token, hosts, sizes and many calls at once."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import re
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.http_servers import app_server
from support.sidecar_server import Mode, importing_from, server_environment, text_of, write_sidecar

from planck_nb.base.errors import ConfigError
from planck_nb.sidecars.author.listening_address import ListeningAddress, checked_token
from planck_nb.sidecars.conventions import TOKEN_VARIABLE

pytestmark = pytest.mark.process

TOKEN = "a-token-of-the-tests"

BODY = """
import asyncio

@sidecar.tool
async def echo(text: str) -> str:
    return text

@sidecar.tool
async def pause() -> str:
    await asyncio.sleep(0.2)
    return "paused"

@sidecar.tool
async def size(text: str) -> int:
    return len(text)
"""


@asynccontextmanager
async def listening(folder: pathlib.Path, *arguments: str, token: str | None = TOKEN) -> AsyncIterator[str]:
    """Serve the sidecar in `folder` and give its URL."""
    write_sidecar(folder, BODY)
    environment = server_environment(**({TOKEN_VARIABLE: token} if token is not None else {}))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "planck_nb.sidecars",
        "my_sidecar:sidecar",
        *(arguments or ["--http", "127.0.0.1:0"]),
        cwd=folder,
        env=environment,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        line = (await process.stderr.readline()).decode()
        found = re.search(r"http://\S+", line)
        assert found, line
        yield found.group()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.stderr.read()
        await process.wait()


@asynccontextmanager
async def listening_here(folder: pathlib.Path, address: str = "127.0.0.1:0", *names: str) -> AsyncIterator[str]:
    """Serve the sidecar in this process, as if it listened at another address, and give its URL."""
    from planck_nb.sidecars.author.http import PATH, sidecar_app
    from planck_nb.sidecars.author.live_offer import LiveOffer

    write_sidecar(folder, BODY)
    with importing_from(folder):
        app = sidecar_app(LiveOffer("my_sidecar:sidecar"), ListeningAddress.parse(address, names), TOKEN)
        async with app_server(app) as url:
            yield url + PATH


@asynccontextmanager
async def connected(url: str, mode: Mode = "auto", token: str | None = TOKEN) -> AsyncIterator[Any]:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    limits = httpx2.Limits(max_connections=None)
    async with (
        httpx2.AsyncClient(headers=headers, limits=limits, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


async def test_calls_with_the_token(tmp_path: pathlib.Path) -> None:
    async with listening(tmp_path, "--http", "127.0.0.1:0", "--allow-host", "box.example") as url:
        assert await status(url, Host="box.example:80", Authorization=f"Bearer {TOKEN}") < 401
        counts: list[tuple[Mode, int]] = [("legacy", 20), ("auto", 150)]
        for mode, count in counts:
            async with connected(url, mode) as client:
                assert text_of(await client.call_tool("echo", {"text": "hi"})) == "hi"
                results = await asyncio.gather(*(client.call_tool("pause", {}) for _ in range(count)))
                assert {text_of(result) for result in results} == {"paused"}
                assert text_of(await client.call_tool("size", {"text": "é" * 5_000_000})) == "5000000"


async def status(url: str, **headers: str) -> int:
    """The status of a request with these headers."""
    import httpx2

    given = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with httpx2.AsyncClient() as http:
        return int((await http.post(url, json=body, headers=given | headers)).status_code)


async def test_requests_that_are_refused(tmp_path: pathlib.Path) -> None:
    async with listening_here(tmp_path) as url:
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        for wrong in ("", "Bearer", "Bearer wrong-token-of-tests", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x"):
            assert await status(url, Authorization=wrong) == 401, wrong
        assert await status(url) == 401
        assert await status(url, **bearer) < 401
        assert await status(url, Authorization=f"bearer {TOKEN}") < 401  # schemes have no case
        assert await status(url, Host="evil.example", **bearer) == 421
        assert await status(url, Host="localhost.evil.example:80", **bearer) == 421
        assert await status(url, Origin="http://evil.example", **bearer) == 403
        assert await status(url.replace("127.0.0.1", "localhost"), **bearer) < 401
        assert await status(url.replace("/mcp", "/other"), **bearer) == 404


async def test_a_loopback_address_needs_no_token(tmp_path: pathlib.Path) -> None:
    async with listening(tmp_path, token=None) as url, connected(url, token=None) as client:
        assert text_of(await client.call_tool("echo", {"text": "hi"})) == "hi"


def other_address() -> str | None:
    """An address of this computer that is not loopback; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        return str(probe.getsockname()[0])


async def test_another_address_needs_the_token_and_accepts_its_host(tmp_path: pathlib.Path) -> None:
    address = other_address()
    if address is None or address.startswith("127."):
        pytest.skip("This computer has no address but loopback.")
    async with listening(tmp_path, "--http", f"{address}:0") as url, connected(url) as client:
        assert text_of(await client.call_tool("echo", {"text": "hi"})) == "hi"
        assert await status(url) == 401
        assert await status(url, Host="localhost:1", Authorization=f"Bearer {TOKEN}") == 421


async def test_every_address_with_a_host_name(tmp_path: pathlib.Path) -> None:
    async with listening_here(tmp_path, "0.0.0.0:0", "box.example") as url:
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert await status(url, Host="box.example:80", **bearer) < 401
        assert await status(url, **bearer) == 421


@pytest.mark.parametrize(
    ("address", "token", "words"),
    [
        ("192.0.2.1:0", None, "Other computers can reach 192.0.2.1"),
        ("0.0.0.0:0", TOKEN, "--allow-host NAME"),
        ("[::]:0", TOKEN, "--allow-host NAME"),
        ("127.0.0.1:0", "", "must have 16 characters or more"),
        ("127.0.0.1:0", "short", "must have 16 characters or more"),
        ("127.0.0.1", TOKEN, "write HOST:PORT"),
        ("127.0.0.1:99999", TOKEN, "write HOST:PORT"),
        (":80", TOKEN, "write HOST:PORT"),
    ],
)
def test_what_is_not_safe_is_refused(address: str, token: str | None, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        checked_token(token, ListeningAddress.parse(address))


@pytest.mark.parametrize(
    ("arguments", "token", "words"),
    [
        (["--http", "192.0.2.1:0"], None, "Other computers can reach 192.0.2.1"),
        (["--http", "192.0.2.1:0"], TOKEN, "cannot listen at 192.0.2.1:0"),
    ],
)
async def test_the_command_refuses_what_is_not_safe(
    tmp_path: pathlib.Path, arguments: list[str], token: str | None, words: str
) -> None:
    write_sidecar(tmp_path, BODY)
    environment = server_environment(**({TOKEN_VARIABLE: token} if token is not None else {}))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "planck_nb.sidecars", "my_sidecar:sidecar", *arguments,
        cwd=tmp_path, env=environment, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, errors = await process.communicate()
    assert process.returncode == 2
    assert words in errors.decode()
    assert "Traceback" not in errors.decode()


@pytest.mark.parametrize("token", ["x" * 15, "with a space in it", "with-é-in-the-token", "with\nline-breaks-in"])
def test_tokens_that_cannot_be_used(token: str) -> None:
    with pytest.raises(ConfigError, match="16 characters or more"):
        checked_token(token, ListeningAddress("127.0.0.1", 0))


@pytest.mark.parametrize(
    ("text", "host", "loopback"),
    [("127.0.0.1:1", "127.0.0.1", True), ("[::1]:1", "::1", True), ("localhost:1", "localhost", True),
     ("127.8.8.8:1", "127.8.8.8", True), ("box:1", "box", False), ("192.0.2.1:1", "192.0.2.1", False)],
)  # fmt: skip
def test_addresses(text: str, host: str, loopback: bool) -> None:
    address = ListeningAddress.parse(text)
    assert (address.host, address.is_loopback) == (host, loopback)
    assert f"[{host}]" in address.hosts() or host in address.hosts()
    assert ("localhost" in address.hosts()) == loopback

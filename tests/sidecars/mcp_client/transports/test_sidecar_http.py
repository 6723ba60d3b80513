"""Sidecars over Streamable HTTP, and servers made with the SDK, whose protocol is the newest one."""

from __future__ import annotations

import asyncio
import gzip
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from support.loopback import Exchange, serving
from support.ports import free_port
from support.sidecar_links import FAST, SERVERS, json_of, running, until, until_file

from planck_nb.base.errors import SidecarError, SidecarLostError, SidecarTimeoutError
from planck_nb.sidecars.mcp_client.link.link import SidecarLink
from planck_nb.sidecars.mcp_client.link.questions import Question, QuestionAnswer
from planck_nb.sidecars.mcp_client.link.settings import LinkCallbacks
from planck_nb.sidecars.mcp_client.sidecar_spec import SidecarSpec

pytestmark = pytest.mark.process

SERVER = str(SERVERS / "sdk_sidecar.py")
TOKEN = "a-token-of-the-tests-1"


class Server:
    """A server in a process of its own, which can be started again at the same port."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        environment = {**os.environ, "STATE": str(self.state), "TOKEN": TOKEN}
        file = self.state / "port"
        self.process = await asyncio.create_subprocess_exec(sys.executable, SERVER, str(file), env=environment)
        await until_file(file)

    async def stop(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
        if self.process is not None:
            await self.process.wait()

    def spec(self, **more: str) -> SidecarSpec:
        port = (self.state / "port").read_text()
        return SidecarSpec("web", url=f"http://127.0.0.1:{port}/mcp", **{"token": TOKEN, **more})  # type: ignore[arg-type]


@asynccontextmanager
async def server(state: Path) -> AsyncIterator[Server]:
    made = Server(state)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def test_a_sidecar_over_http(tmp_path: Path) -> None:
    async with server(tmp_path) as web, running(web.spec()) as (link, _):
        status = link.status()
        assert (status.protocol, status.transport, status.process) == ("2026-07-28", "http", None)
        assert (await link.call("echo", {"text": "hi"})).text == "hi"
        assert await json_of(link, "numbers") == {"n": 1}

        rested = await asyncio.gather(*(link.call("pause", {"seconds": 0.2}) for _ in range(150)))
        assert {result.text for result in rested} == {"rested"}

        call = asyncio.create_task(link.call("never", {"mark": "first"}))
        await until_file(tmp_path / "first-begun")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await until_file(tmp_path / "first") == "cancelled"
        with pytest.raises(SidecarTimeoutError):
            await link.call("never", {"mark": "second", "timeout_ms": 100})
        assert await until_file(tmp_path / "second") == "cancelled"

        assert "characters left out" in (await link.call("big", {"size": 5 * 2**20})).text
        assert (await link.call("echo", {"text": "x" * (9 * 2**19)})).text  # the limits of the SDK are 4 and 1 MB
        with pytest.raises(SidecarError, match="10 MB"):
            await link.call("big", {"size": 11 * 2**20})
        reported: list[str] = []
        output = await link.call("big_after_progress", {"size": 5 * 2**20}, progress=reported.append)
        assert "characters left out" in output.text
        assert reported == ["half\n"]
        with pytest.raises(SidecarError, match="10 MB"):
            await link.call("big_after_progress", {"size": 11 * 2**20}, progress=reported.append)
        assert (await link.call("echo", {"text": "hi"})).text == "hi"
        assert link.status().restarts == 0

        await link.call("grow", {})
        await until(lambda: any(tool.name == "grown" for tool in link.definitions()))
        assert (await link.call("grown", {})).text == "new"


KEY = "k3yOfTheAddress0451"
ADDRESSES = {
    "query": "http://127.0.0.1:{port}/mcp?vendorApiKey={key}",
    "short name": "http://127.0.0.1:{port}/mcp?k={key}&x=1",
    "encoded": "http://127.0.0.1:{port}/mcp?a=%20&k={key}%21",
    "fragment": "http://127.0.0.1:{port}/mcp#{key}",
}
"""Addresses of vendors that want a key in them."""


@pytest.mark.parametrize("answer", ["none", "500", "404", "nonsense"])
@pytest.mark.parametrize("address", ADDRESSES)
async def test_a_key_in_an_address_is_not_shown(address: str, answer: str) -> None:
    statuses = {"500": "500 Internal Server Error", "404": "404 Not Found", "nonsense": "200 OK"}

    async def reply(exchange: Exchange) -> None:
        await exchange.answer(statuses[answer], f"no {exchange.path}")

    async with serving(reply) as web:
        port = free_port() if answer == "none" else int(web.url.rpartition(":")[2])
        spec = SidecarSpec("web", url=ADDRESSES[address].format(port=port, key=KEY))
        link = SidecarLink(spec, timing=FAST)
        with pytest.raises(SidecarError) as raised:
            await link.start()
        await link.stop()
    shown = "\n".join([str(raised.value), link.status().reason, *link.logs(None), repr(link.spec)])
    assert "0451" not in shown
    assert answer == "nonsense" or f"http://127.0.0.1:{port}/mcp" in shown


async def test_a_compressed_answer_is_not_unpacked() -> None:
    body = gzip.compress(b" " * 5_000_000)
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}"

    async def reply(exchange: Exchange) -> None:
        exchange.writer.write(head.encode() + b"\r\n\r\n" + body)

    async with serving(reply) as web:
        link = SidecarLink(SidecarSpec("web", url=f"{web.url}/mcp"), timing=FAST)
        with pytest.raises(SidecarError, match="compressed message"):
            await link.start()
        await link.stop()
    assert web.exchanges[0].headers["accept-encoding"] == "identity"


async def test_a_crash_over_http_is_no_cancellation(tmp_path: Path) -> None:
    async with server(tmp_path) as web, running(web.spec(), timing=replace(FAST, attempts=1_000)) as (link, events):
        ended: list[float] = []

        async def call(tool: str, **args: object) -> None:
            try:
                await link.call(tool, args)
            finally:
                ended.append(time.perf_counter())
                task = asyncio.current_task()
                assert task is not None
                assert not task.cancelling()

        calls = [asyncio.create_task(call("never", mark=str(number))) for number in range(20)]
        for number in range(20):
            await until_file(tmp_path / f"{number}-begun")
        results = await asyncio.gather(*calls, asyncio.create_task(call("die")), return_exceptions=True)
        print(f"21 calls ended within {(max(ended) - min(ended)) * 1e3:.1f} ms of each other")
        assert max(ended) - min(ended) < 10
        assert [type(result) for result in results] == [SidecarLostError] * 21
        await events.until("disconnected")
        again = asyncio.create_task(link.call("echo", {"text": "again"}))  # waits until the server is back
        await web.stop()
        await web.start()
        assert (await again).text == "again"


async def test_an_address_that_is_not_the_sidecars_or_without_its_token_is_one_sentence(tmp_path: Path) -> None:
    async with server(tmp_path) as web:
        for spec in (web.spec(token=""), web.spec(token="wrong", token_variable="MY_TOKEN")):
            link = SidecarLink(spec, timing=FAST)
            with pytest.raises(
                SidecarError, match=r"rejected the credentials \(HTTP 401\); give it the right token"
            ) as caught:
                await link.start()
            assert "wrong" not in str(caught.value)
        assert str(caught.value).endswith("give it the right token in MY_TOKEN.")

        spec = web.spec()
        link = SidecarLink(replace(spec, url=spec.url.replace("/mcp", "/other")), timing=FAST)
        with pytest.raises(SidecarError, match="answered with HTTP 404; check its address"):
            await link.start()
        link = SidecarLink(replace(spec, headers={"Host": "other.example"}), timing=FAST)  # as after DNS rebinding
        with pytest.raises(SidecarError, match=r"does not accept this host name \(HTTP 421\)"):
            await link.start()


async def test_a_server_of_the_sdk_over_stdio(tmp_path: Path) -> None:
    spec = SidecarSpec("pipes", command=sys.executable, args=(SERVER,), env={"STATE": str(tmp_path)})
    async with running(spec) as (link, events):
        assert link.status().protocol == "2026-07-28"
        assert (await link.call("echo", {"text": "hi"})).text == "hi"
        call = asyncio.create_task(link.call("never", {"mark": "first"}))
        await until_file(tmp_path / "first-begun")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await until_file(tmp_path / "first") == "cancelled"
        await link.call("grow", {})
        await events.until("tools_changed")
        assert (await link.call("grown", {})).text == "new"


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("tool", ["book", "book_carefully"])
async def test_a_server_of_the_sdk_that_asks_as_before_is_answered(tmp_path: Path, transport: str, tool: str) -> None:
    asked: list[str] = []

    async def ask(question: Question) -> QuestionAnswer:
        asked.append(question.message)
        return QuestionAnswer("accept", {"sure": True})

    async with AsyncExitStack() as stack:
        if transport == "http":
            spec = (await stack.enter_async_context(server(tmp_path))).spec()
        else:
            spec = SidecarSpec("web", command=sys.executable, args=(SERVER,), env={"STATE": str(tmp_path)})
        link, events = await stack.enter_async_context(running(spec, callbacks=LinkCallbacks(ask=ask)))
        assert link.status().protocol == "2026-07-28"
        other = asyncio.create_task(link.call("never", {"mark": "other", "timeout_ms": 3_600_000}))
        await until_file(tmp_path / "other-begun")
        booked = asyncio.create_task(link.call(tool, {"day": "Monday"}))
        await until_file(tmp_path / "asked")
        other.cancel()  # until then it was not lost
        assert (await booked).text == "accept Monday"
        assert other.cancelled() or not other.done()
        assert (await link.call("book", {"day": "Friday"})).text == "accept Friday"
        assert link.status().protocol == "2025-11-25"
        assert [(event.kind, event.text) for event in events.all if event.kind != "starting"] == [
            ("connected", ""),
            ("connected", "It asks questions in the protocol 2025-11-25."),
        ]
    assert asked == ["On Monday?", "On Friday?"]
    assert (tmp_path / "asked").read_text() == "MondayMondayFriday"

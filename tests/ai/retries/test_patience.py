"""How long a failed request is sent again: by time, with the time that a server names, and never in vain."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from aiohttp import ClientConnectorCertificateError
from aiohttp.client_reqrep import ConnectionKey
from support.loopback import Exchange, serving
from support.ports import free_port
from support.virtual_time import policy, virtually
from support.wire import ASK, CHAT, CHAT_HELLO

from planck_nb import ai
from planck_nb.base.errors import (
    PlanckError,
    ProviderConnectionError,
    ProviderStatusError,
    ProviderUnavailableError,
    QuotaExceededError,
    RateLimitError,
)

KEYS = {"OPENAI_API_KEY": "sk-open-1"}
AFTER_TOOLS = ai.Context(
    messages=[
        ai.UserMessage("hi"),
        ai.AssistantMessage((ai.ToolCallPart("a", "look", {}),)),
        ai.ToolResultMessage((ai.ToolResultPart("a", "look", "seen"),)),
    ]
)
OVERLOADED = b'{"error": {"type": "overloaded_error", "message": "Overloaded"}}'


MAX_REQUESTS = 99
"""More than any of these tests needs. A request that is repeated without a pause would take no virtual time."""


class Outage(httpx.AsyncBaseTransport):
    """A server that fails until a moment of the running loop's time, and then answers."""

    def __init__(self, until: float, fail: Callable[[httpx.Request], httpx.Response]) -> None:
        self.until = until
        self.times: list[float] = []
        self._fail = fail

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        now = asyncio.get_running_loop().time()
        self.times.append(now)
        if len(self.times) > MAX_REQUESTS:
            pytest.fail("the server is flooded")
        if now < self.until:
            return self._fail(request)
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(CHAT_HELLO))


def overloaded(_request: httpx.Request) -> httpx.Response:
    return httpx.Response(529, content=OVERLOADED)


def unreachable(_request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("no route to host")


def answering(status: int, body: bytes = b"{}", **headers: str) -> Callable[[httpx.Request], httpx.Response]:
    return lambda _request: httpx.Response(
        status, content=body, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


def ask(
    server: Outage, context: ai.Context = ASK, cassette: ai.Cassette | None = None, **settings: Any
) -> tuple[str | PlanckError, list[ai.StreamRetry], float]:
    """The text or the error, the retries that were told, and how many seconds it took."""

    async def main() -> tuple[str | PlanckError, list[ai.StreamRetry], float]:
        client = ai.Client(credentials=KEYS, transport=server, retries=policy(**settings), cassette=cassette)
        told: list[ai.StreamRetry] = []
        stream = client.stream(CHAT, context)
        try:
            async for event in stream:
                if event.type == "retry":
                    told.append(event)  # noqa: PERF401 - those before an error count
        except PlanckError as error:
            return error, told, asyncio.get_running_loop().time()
        return stream.message.text, told, asyncio.get_running_loop().time()

    return virtually(main)


@pytest.mark.parametrize("fail", [overloaded, unreachable, answering(425), answering(429), answering(408)])
@pytest.mark.parametrize(
    ("context", "outage", "answered"),
    [(ASK, 5.0, True), (ASK, 9.9, True), (ASK, 10.1, False), (AFTER_TOOLS, 30.0, True), (AFTER_TOOLS, 61.0, False)],
)
def test_a_request_is_sent_again_for_ten_seconds_and_within_a_turn_for_a_minute(
    fail: Callable[[httpx.Request], httpx.Response], context: ai.Context, outage: float, answered: bool
) -> None:
    server = Outage(outage, fail)
    result, told, took = ask(server, context)
    assert (result == "Hello") == answered
    patience = 10.0 if context is ASK else 60.0
    assert took >= outage if answered else took == pytest.approx(patience)
    assert len(told) == len(server.times) - 1, "each retry is told"
    assert [retry.attempt for retry in told] == list(range(1, len(server.times)))
    waits = [after - before for before, after in zip(server.times, server.times[1:], strict=False)]
    assert waits == pytest.approx([retry.delay for retry in told])
    assert max(waits) <= 8.0
    assert len(server.times) < 16, "it does not flood the server"


def test_an_answer_that_breaks_off_after_a_long_silence_is_requested_again() -> None:
    class Silent(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for piece in (b": thinking\n\n",) * 2:
                yield piece
                await asyncio.sleep(45)
            raise httpx.ReadError("connection reset")

    def thinking(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Silent())

    result, told, took = ask(Outage(1.0, thinking), AFTER_TOOLS)
    assert result == "Hello"
    assert len(told) == 1
    assert 90 < took < 100


@pytest.mark.parametrize(("fail", "requests"), [(unreachable, 3), (overloaded, 4)])
def test_time_spent_connecting_counts_and_time_until_an_error_is_answered_does_not(
    fail: Callable[[httpx.Request], httpx.Response], requests: int
) -> None:
    class Slow(Outage):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            await asyncio.sleep(4)
            return await super().handle_async_request(request)

    server = Slow(999, fail)
    _, told, took = ask(server)
    assert len(server.times) == len(told) + 1 == requests
    assert 4 * (requests - 1) < took < 4 * requests + 4


@pytest.mark.parametrize(("drawn", "delays"), [(0.0, [0.5, 1, 2, 4, 8, 8]), (1.0, [0.375, 0.75, 1.5, 3, 6, 6])])
def test_delays_double_up_to_eight_seconds_and_chance_takes_a_quarter_off(drawn: float, delays: list[float]) -> None:
    class Drawn(random.Random):
        def random(self) -> float:
            return drawn

    _, told, _ = ask(Outage(999, overloaded), AFTER_TOOLS, random=Drawn())
    assert [retry.delay for retry in told][: len(delays)] == delays


@pytest.mark.parametrize(("asked", "answered"), [("120", True), ("121", False)])
def test_with_a_number_of_retries_two_minutes_are_waited_at_most(asked: str, *, answered: bool) -> None:
    result, told, took = ask(Outage(60, answering(429, retry_after=asked)), retries=1)
    assert (result == "Hello", len(told), took) == (answered, answered, 120 if answered else 0)


def test_delays_are_not_the_same_for_all() -> None:
    server, other = Outage(99, overloaded), Outage(99, overloaded)
    ask(server, random=random.Random(1))
    ask(other, random=random.Random(2))
    assert all(a != b for a, b in zip(server.times[1:-1], other.times[1:-1], strict=False))


@pytest.mark.parametrize(
    ("fail", "kind"),
    [
        (answering(400), ProviderStatusError),
        (answering(401), ProviderStatusError),
        (answering(403), ProviderStatusError),
        (answering(404), ProviderStatusError),
        (answering(413), ProviderStatusError),
        (answering(422), ProviderStatusError),
        (answering(402, b'{"error": {"message": "Insufficient Balance"}}'), QuotaExceededError),
        (answering(429, b'{"error": {"code": "insufficient_quota"}}', retry_after="1"), QuotaExceededError),
        (answering(503, x_should_retry="false"), ProviderUnavailableError),
    ],
)
def test_a_permanent_failure_fails_at_once(
    fail: Callable[[httpx.Request], httpx.Response], kind: type[PlanckError]
) -> None:
    server = Outage(99, fail)
    result, told, took = ask(server, AFTER_TOOLS)
    assert isinstance(result, kind)
    assert (told, took, len(server.times)) == ([], 0.0, 1)


def test_a_bad_certificate_fails_at_once() -> None:
    def fail(_request: httpx.Request) -> httpx.Response:
        key = cast("ConnectionKey", SimpleNamespace(host="127.0.0.1", port=9, is_ssl=True))
        raise ClientConnectorCertificateError(key, ssl.SSLCertVerificationError("expired"))

    result, told, _ = ask(Outage(99, fail))
    assert "check the certificate" in str(result)
    assert told == []


@pytest.mark.parametrize(("asked", "context"), [("4", ASK), ("45", AFTER_TOOLS)])
def test_the_time_that_the_server_names_is_waited_for(asked: str, context: ai.Context) -> None:
    server = Outage(float(asked), answering(429, retry_after=asked))
    assert ask(server, context)[0] == "Hello"
    assert server.times == [0.0, float(asked)]


@pytest.mark.parametrize(
    ("asked", "context", "said"),
    [("11", ASK, "11 seconds"), ("61", AFTER_TOOLS, "61 seconds"), ("3600", AFTER_TOOLS, "3600 seconds (60 minutes)")],
)
@pytest.mark.parametrize("status", [429, 503, 529])
def test_a_delay_that_is_too_long_is_reported_at_once(asked: str, context: ai.Context, said: str, status: int) -> None:
    result, told, took = ask(Outage(9999, answering(status, retry_after=asked)), context)
    assert isinstance(result, RateLimitError | ProviderUnavailableError)
    assert said in str(result)
    assert (told, took) == ([], 0.0)


@pytest.mark.parametrize("context", [ASK, AFTER_TOOLS])
@pytest.mark.parametrize("status", [429, 503, 529])
@pytest.mark.parametrize(
    "header", [{"retry_after": "0"}, {"retry_after": "Thu, 01 Jan 1970 00:00:00 GMT"}, {"retry_after_ms": "1"}], ids=str
)
def test_a_server_that_names_no_real_time_is_not_flooded(
    header: dict[str, Any], status: int, context: ai.Context
) -> None:
    server = Outage(999, answering(status, **header))
    ask(server, context)
    assert server.times[1] < 0.1, "it is believed once"
    assert len(server.times) < 16


def test_an_exhausted_limit_names_the_time_of_its_reset() -> None:
    headers: dict[str, Any] = {"x_ratelimit_remaining_requests": "0", "x_ratelimit_reset_requests": "6s"}
    server = Outage(6, answering(429, **headers))
    assert ask(server)[0] == "Hello"
    assert server.times == [0.0, 6.0]


def test_a_number_of_retries_means_that_number_however_long_it_takes() -> None:
    server = Outage(999, overloaded)
    result, told, took = ask(server, retries=7, base=4.0, cap=40.0)
    assert isinstance(result, ProviderUnavailableError)
    assert len(told) == 7
    assert took > 60
    assert ask(Outage(999, overloaded), retries=0)[1:] == ([], 0.0)
    long_ago = Outage(100, answering(429, retry_after="100"))
    assert ask(long_ago, retries=1)[0] == "Hello"


def test_both_times_can_be_set() -> None:
    assert ask(Outage(99, overloaded), first_seconds=3.0)[2] == pytest.approx(3.0)
    assert ask(Outage(999, overloaded), AFTER_TOOLS, seconds=200.0)[2] == pytest.approx(200.0)
    assert ask(Outage(999, overloaded), AFTER_TOOLS, seconds=0.0)[1] == []


def test_a_replay_does_not_wait_and_makes_the_attempts_that_were_recorded(tmp_path: Path) -> None:
    recordings: list[tuple[str, float, dict[str, Any]]] = [
        ("ok", 30.0, {"retries": 9}),
        ("failed", 999.0, {"retries": 2}),
    ]
    for name, until, settings in recordings:
        server = Outage(until, overloaded)
        ask(server, cassette=ai.Cassette(tmp_path / name, "record", environment={}), **settings)
        recorded = len(server.times)
        for again in (dict[str, Any](), settings):
            silent = Outage(0, overloaded)
            result, told, took = ask(silent, cassette=ai.Cassette(tmp_path / name, "replay", environment={}), **again)
            assert result == "Hello" if name == "ok" else isinstance(result, ProviderUnavailableError)
            assert (len(told), took, silent.times) == (recorded - 1, 0.0, [])


async def test_a_server_that_was_not_started_is_one_sentence_at_once() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    for model in (
        ai.get_model("ollama", "some-model", base_url=f"http://127.0.0.1:{free_port()}"),
        ai.get_model("llama_cpp", "default", base_url=f"http://localhost:{free_port()}/v1"),
        ai.get_model("openai", "some-model", base_url="http://no-such-host.invalid/v1"),
    ):
        async with ai.Client(credentials=KEYS, retries=ai.RetryPolicy(sleep=sleep)) as client:
            with pytest.raises(ProviderConnectionError, match="No server answers at"):
                await client.complete(model, AFTER_TOOLS)
        assert slept == [], "it is not asked again"


async def test_a_server_that_answered_before_is_waited_for() -> None:
    async def hello(exchange: Exchange) -> None:
        await exchange.head()
        for event in CHAT_HELLO:
            await exchange.send(event)
        await exchange.end()

    async with ai.Client(credentials=KEYS, retries=ai.RetryPolicy(base=0.05, cap=0.05)) as client:
        async with serving(hello) as server:
            model = ai.get_model("openai", "some-model", base_url=f"{server.url}/v1")
            assert (await client.complete(model, ASK)).text == "Hello"
        told = []
        async with client.stream(model, ASK) as stream:
            async for event in stream:
                if event.type == "retry":
                    told.append(event)
                    if len(told) == 2:
                        break
    assert [retry.attempt for retry in told] == [1, 2]
    assert "No server answers" in told[1].reason

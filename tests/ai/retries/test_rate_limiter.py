"""Many agents at a server that accepts so many requests a second: all are answered, in order, at its rate."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from support.virtual_time import policy, virtually
from support.wire import ASK, CHAT, CHAT_HELLO

from planck_nb import ai
from planck_nb.ai.retries.known_servers import KnownServers, known_servers
from planck_nb.ai.retries.rate_limit_headers import exhausted_until, request_limits
from planck_nb.ai.retries.rate_limiter import RateLimiter
from planck_nb.base.errors import RateLimitError

KEYS = {"OPENAI_API_KEY": "sk-open-1"}


class TokenBucket:
    """Accepts a burst, and then so many a second."""

    def __init__(self, rate: float, size: float) -> None:
        self.rate, self.size, self.tokens, self.at = rate, size, size, 0.0

    def accepts(self, now: float) -> bool:
        self.tokens = min(self.size, self.tokens + (now - self.at) * self.rate)
        self.at = now
        if self.tokens < 1 - 1e-9:
            return False
        self.tokens -= 1
        return True


class FixedWindow:
    """Accepts so many in each second, and counts those that it refuses, too."""

    def __init__(self, most: int) -> None:
        self.most, self.window, self.count = most, -1, 0

    def accepts(self, now: float) -> bool:
        if int(now) != self.window:
            self.window, self.count = int(now), 0
        self.count += 1
        return self.count <= self.most


class SlidingWindow:
    """Accepts so many in any second."""

    def __init__(self, most: int) -> None:
        self.most, self.times = most, list[float]()

    def accepts(self, now: float) -> bool:
        self.times = [time for time in self.times if time > now - 1]
        if len(self.times) >= self.most:
            return False
        self.times.append(now)
        return True


class Unlimited:
    def accepts(self, now: float) -> bool:
        return now >= 0


Limit = TokenBucket | FixedWindow | SlidingWindow | Unlimited


class Limited(httpx.AsyncBaseTransport):
    """A server with a limit."""

    def __init__(self, limit: Limit, **headers: str) -> None:
        self.limit = limit
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.accepted: list[float] = []
        self.refused = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        now = asyncio.get_running_loop().time()
        await request.aread()
        await asyncio.sleep(0.02)
        if not self.limit.accepts(now):
            self.refused += 1
            return httpx.Response(429, headers=self.headers, content=b"{}")
        self.accepted.append(now)
        await asyncio.sleep(0.2)
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(CHAT_HELLO))


def storm(server: Limited, agents: int, prompts: int, *, clients: int = 1) -> tuple[list[float], float]:
    """When each agent had its last answer, and when all had."""

    async def main() -> tuple[list[float], float]:
        shared = [ai.Client(credentials=KEYS, transport=server, retries=policy()) for _ in range(clients)]
        loop = asyncio.get_running_loop()

        async def agent(number: int) -> float:
            for _ in range(prompts):
                assert (await shared[number % clients].complete(CHAT, ASK)).text == "Hello"
            return loop.time()

        ends = await asyncio.gather(*map(agent, range(agents)))
        return ends, loop.time()

    return virtually(main)


@pytest.mark.parametrize("headers", [{}, {"retry_after": "1"}], ids=["plain", "retry-after"])
@pytest.mark.parametrize(
    "limit",
    [lambda: TokenBucket(10, 10), lambda: FixedWindow(10), lambda: SlidingWindow(10)],
    ids=["bucket", "fixed", "sliding"],
)
@pytest.mark.parametrize(("agents", "prompts", "clients"), [(50, 1, 1), (50, 1, 50), (20, 10, 4), (200, 1, 1)])
def test_fifty_agents_at_ten_requests_a_second_are_all_answered_at_that_rate(
    limit: Callable[[], Limit], headers: dict[str, str], agents: int, prompts: int, clients: int
) -> None:
    server = Limited(limit(), **headers)
    _, took = storm(server, agents, prompts, clients=clients)
    total = agents * prompts
    assert len(server.accepted) == total
    assert took < total / 10 * 1.35 + 2.5
    assert server.refused < agents + total / 5, "after the first burst few are refused"


def test_no_agent_starves() -> None:
    server = Limited(TokenBucket(10, 10))
    ends, took = storm(server, 30, 8)
    assert min(ends) > took * 0.7, "all advance together"


def test_nothing_waits_as_long_as_nothing_is_refused() -> None:
    server = Limited(Unlimited())
    _, took = storm(server, 300, 3)
    assert took == pytest.approx(3 * 0.22)


def test_the_limit_is_found_again_after_it_was_raised() -> None:
    limit = TokenBucket(5, 5)
    server = Limited(limit)

    async def main() -> float:
        client = ai.Client(credentials=KEYS, transport=server, retries=policy())
        await asyncio.gather(*(client.complete(CHAT, ASK) for _ in range(30)))
        await asyncio.sleep(300)
        limit.rate = limit.size = limit.tokens = 1000
        began = asyncio.get_running_loop().time()
        await asyncio.gather(*(client.complete(CHAT, ASK) for _ in range(100)))
        return asyncio.get_running_loop().time() - began

    assert virtually(main) < 1


def test_a_request_that_is_alone_waits_for_nobody() -> None:
    server = Limited(FixedWindow(0))

    async def main() -> None:
        client = ai.Client(credentials=KEYS, transport=server, retries=policy())
        stream = client.stream(CHAT, ASK)
        waits: list[float] = []

        async def read() -> None:
            async for event in stream:
                assert event.type == "retry"
                waits.append(event.delay)

        with pytest.raises(RateLimitError):
            await read()
        assert asyncio.get_running_loop().time() == pytest.approx(sum(waits) + 0.02 * (len(waits) + 1))

    virtually(main)


def test_a_long_wait_in_the_queue_is_shown_and_does_not_use_up_patience() -> None:
    server = Limited(TokenBucket(2, 2))

    async def main() -> list[ai.StreamRetry]:
        client = ai.Client(credentials=KEYS, transport=server, retries=policy())
        told: list[ai.StreamRetry] = []

        async def agent() -> None:
            async with client.stream(CHAT, ASK) as stream:
                told.extend([event async for event in stream if event.type == "retry"])
                assert stream.message.text == "Hello"

        await asyncio.gather(*(agent() for _ in range(60)))
        return told

    waiting = [event for event in virtually(main) if "limits the rate" in event.reason]
    assert max(event.delay for event in waiting) > 10


def test_cancelled_requests_do_not_hold_up_the_others() -> None:
    server = Limited(TokenBucket(10, 10))

    async def main() -> float:
        client = ai.Client(credentials=KEYS, transport=server, retries=policy())
        tasks = [asyncio.create_task(client.complete(CHAT, ASK)) for _ in range(100)]
        await asyncio.sleep(1.5)
        for task in tasks[:80]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert all(task.result().text == "Hello" for task in tasks[80:])
        return asyncio.get_running_loop().time()

    assert virtually(main) < 5


def test_a_request_whose_event_loop_is_blocked_does_not_hold_up_the_others() -> None:
    async def main() -> tuple[float, int]:
        clock = asyncio.get_running_loop().time
        limiter = RateLimiter(clock)
        stuck, other = limiter.ticket(), limiter.ticket()
        limiter.refused(limiter.sent(), None)
        sleeping = asyncio.Event()

        async def blocked(_seconds: float) -> None:
            sleeping.set()
            await asyncio.Event().wait()

        waits: list[float] = []

        async def sleep(seconds: float) -> None:
            waits.append(seconds)
            await asyncio.sleep(seconds)

        await limiter.wait(limiter.ticket(), asyncio.sleep)  # the next ones have to wait
        holding = asyncio.create_task(limiter.wait(stuck, blocked))
        await sleeping.wait()
        start = clock()
        await limiter.wait(other, sleep)
        holding.cancel()
        return clock() - start, len(waits)

    took, tries = virtually(main)
    assert took < 5
    assert tries < 100


@pytest.mark.slow
def test_threads_and_loops_share_one_limiter() -> None:
    limiter = RateLimiter(time.monotonic)
    tickets = [limiter.ticket() for _ in range(60)]
    for _ in range(30):
        limiter.sent()
    limiter.refused(limiter.sent(), None)  # 30 were accepted: 30 a second from now on
    served: list[int] = []

    def work(own: list[int]) -> None:
        async def wait(ticket: int) -> None:
            await limiter.wait(ticket, asyncio.sleep)
            served.append(ticket)
            limiter.sent()

        async def main() -> None:
            await asyncio.gather(*map(wait, own))

        asyncio.run(main())

    began = time.monotonic()
    threads = [threading.Thread(target=work, args=(tickets[start::3],)) for start in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(served) == tickets
    assert time.monotonic() - began > 1.2
    assert sum(abs(place - ticket) for place, ticket in enumerate(served)) / 60 < 6, "in the order of their tickets"


def test_models_and_keys_have_limits_of_their_own_and_few_are_remembered() -> None:
    servers = KnownServers()
    url = "https://api.example.test/v1/chat"
    one = servers.limiter(url, CHAT, "a", time.monotonic)
    assert servers.limiter("https://api.example.test/v1/other", CHAT, "a", time.monotonic) is one
    assert servers.limiter(url, CHAT, "b", time.monotonic) is not one
    assert servers.limiter("https://other.example.test/v1", CHAT, "a", time.monotonic) is not one
    for number in range(2000):
        servers.limiter(f"https://h{number}.test/", CHAT, None, time.monotonic)
        servers.reached(f"https://h{number}.test/")
    assert servers.limiter(url, CHAT, "a", time.monotonic) is not one
    assert not servers.was_reached("https://h1.test/")
    assert servers.was_reached("https://h1999.test/x")
    assert servers.limiter("https://h1999.test/", CHAT, None, time.monotonic) in servers._limiters.values()


def test_a_model_is_sent_no_images_after_its_server_refused_them() -> None:
    servers = KnownServers()
    assert servers.accepting(CHAT) is CHAT
    servers.refused_images(CHAT)
    other = ai.get_model("openai", "other", base_url=CHAT.base_url)
    assert servers.accepting(other) is other
    assert servers.accepting(CHAT).modalities == ("text", "pdf")
    seeing = replace(CHAT, modalities=("text", "image"))
    assert servers.accepting(seeing).modalities == ("text",)


def test_what_is_known_is_known_of_the_network_or_of_a_transport() -> None:
    one, other = Limited(Unlimited()), Limited(Unlimited())
    assert known_servers(None) is known_servers(None) is not known_servers(one)
    assert known_servers(one) is known_servers(one) is not known_servers(other)
    assert isinstance(known_servers(5), KnownServers), "it has no weak references"


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_forgets_servers_whose_locks_may_be_held() -> None:
    transport = Limited(Unlimited())
    network, behind = known_servers(None), known_servers(transport)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = int(known_servers(None) is network or known_servers(transport) is behind)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, 360.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "120ms"}, 0.12),
        ({"x-ratelimit-remaining-tokens": "17", "x-ratelimit-reset-tokens": "1h"}, None),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "30"}, 30.0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "{seconds}"}, 50.0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "{milliseconds}"}, 50.0),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "7"}, 7.0),
        ({"anthropic-ratelimit-input-tokens-remaining": "0", "anthropic-ratelimit-input-tokens-reset": "{date}"}, 50.0),
        (
            {
                "anthropic-ratelimit-requests-remaining": "9",
                "anthropic-ratelimit-requests-reset": "{date}",
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "x",
            },
            None,
        ),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "nan"}, None),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1e999"}, None),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "-5"}, None),
        ({"x-ratelimit-remaining": "many", "x-ratelimit-reset": "5"}, None),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": ""}, None),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1m5x"}, None),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1d2h3m4s5ms"}, 93784.005),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "{naive}"}, 50.0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "2001-01-01"}, 0.0),
        ({"x-ratelimit-remaining": "0"}, None),
        ({}, None),
    ],
)
def test_headers_about_limits(headers: dict[str, str], wait: float | None) -> None:
    then = datetime.now(UTC) + timedelta(seconds=50)
    times = {"seconds": f"{then.timestamp():.0f}", "milliseconds": f"{then.timestamp() * 1000:.0f}"}
    written = {
        name: value.format(date=then.isoformat(), naive=then.replace(tzinfo=None).isoformat(), **times)
        for name, value in headers.items()
    }
    assert exhausted_until(written) == (None if wait is None else pytest.approx(wait, abs=2))


def test_room_that_the_headers_show_is_used() -> None:
    headers = {"x-ratelimit-remaining-requests": "100", "x-ratelimit-reset-requests": "2s"}
    assert list(request_limits(headers)) == [(100.0, 2.0)]
    assert list(request_limits({**headers, "x-ratelimit-remaining-requests": "inf"})) == []
    assert list(request_limits({name: headers[name] for name in list(headers)[:1]})) == []
    assert list(request_limits({f"{name[:-8]}tokens": value for name, value in headers.items()})) == []
    now = 0.0
    limiter = RateLimiter(lambda: now)
    limiter.refused(limiter.sent(), None)
    assert limiter.rate == 1.0
    now = 0.5
    limiter.accepted(limiter.sent(), headers)
    assert limiter.rate == 50.0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def refused_after(times: list[float], clock: Clock) -> RateLimiter:
    """A limiter of requests at these times, of which the last was refused at once."""
    limiter = RateLimiter(clock)
    for clock.now in times:
        limiter.sent()
    limiter.refused(times[-1], None)
    return limiter


def test_the_rate_is_learned_grows_is_lowered_and_forgotten() -> None:
    clock = Clock()
    limiter = refused_after([0.0, 0.2, 0.4, 0.6, 1.1], clock)
    assert limiter.rate == 3, "as many as in the second before, without the one that was refused"
    clock.now += 10
    assert limiter.rate == pytest.approx(3 * (1.25**10 + 1 / 27)), "it grows by a quarter a second at first"
    limiter.refused(limiter.sent(), None)
    lowered = 0.9 * 3 * (1.25**10 + 1 / 27)
    assert limiter.rate == pytest.approx(lowered)
    clock.now += 15
    grown = lowered * (1.02**15 + 1 / 8)
    assert limiter.rate == pytest.approx(grown), "and then slowly"
    limiter.refused(limiter.sent(), 7.0)
    assert limiter.rate == pytest.approx(grown / 2), "a second refusal in a row halves it"
    clock.now += 1
    assert limiter.expected_wait(limiter.ticket()) == 6.0, "all wait as long as the server says"
    rates = []
    for seconds in (6 + 120, 0.01):
        clock.now += seconds
        rates.append(limiter.rate)
    assert [rate is None for rate in rates] == [False, True]
    assert not limiter.is_pacing


def test_the_rate_is_never_lower_than_one_request_in_five_seconds() -> None:
    clock = Clock()
    limiter = refused_after([0.0], clock)
    assert limiter.rate == 1
    for _ in range(9):
        clock.now += 0.01
        limiter.refused(limiter.sent(), None)
    assert limiter.rate == 0.2


def test_an_accepted_request_raises_the_rate_to_what_the_server_offers() -> None:
    clock = Clock()
    limiter = refused_after([0.0], clock)
    clock.now = 1.0
    before = limiter.rate
    limiter.accepted(limiter.sent(), {})
    assert limiter.rate == before
    headers = {"x-ratelimit-remaining-requests": "60", "x-ratelimit-reset-requests": "10"}
    limiter.accepted(-1.0, headers)
    assert limiter.rate == before, "it was sent before the limit was known"
    limiter.accepted(limiter.sent(), headers)
    assert limiter.rate == 6
    unlimited = RateLimiter(clock)
    unlimited.accepted(unlimited.sent(), headers)
    assert unlimited.rate is None


async def test_requests_wait_in_order_and_those_that_are_stuck_delay_no_other() -> None:
    clock = Clock()
    limiter = refused_after([0.0, 0.1, 0.2, 0.3, 0.4], clock)
    first, second, third = (limiter.ticket() for _ in range(3))
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.now += seconds

    await limiter.wait(first, sleep)
    assert slept == [], "nothing was sent since"
    assert limiter.rate == 4
    await limiter.wait(second, sleep)
    assert sum(slept) == pytest.approx(0.25), "four a second"
    limiter._claim(second)
    assert limiter.expected_wait(third) > limiter.expected_wait(second), "one is ahead"
    waits = limiter.expected_wait(third) - limiter.expected_wait(second)
    assert waits == pytest.approx(1 / (limiter.rate or 0))
    clock.now += 1.5
    assert limiter.expected_wait(third) <= 0, "the event loop of the other is blocked"
    for ticket in (first, second):
        limiter.release(ticket)
    assert limiter.expected_wait(third) == 0, "it is alone"


class Steps:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_requests_are_spread_once_a_server_has_refused() -> None:
    clock = Steps()
    limiter = RateLimiter(clock)
    first, second = limiter.ticket(), limiter.ticket()
    assert (limiter.rate, limiter.is_pacing) == (None, False)
    assert limiter.expected_wait(second) == 0
    sent = [limiter.sent(), limiter.sent()]
    for each in sent:
        limiter.refused(each, None)
    assert limiter.rate == pytest.approx(1)
    assert limiter._claim(first) == 0
    assert limiter.expected_wait(second) == pytest.approx(1 + 1)
    limiter.release(first)
    assert limiter.expected_wait(second) == 0  # nobody else is left


def test_a_refusal_after_an_accepted_request_slows_down_a_little() -> None:
    clock = Steps()
    limiter = RateLimiter(clock)
    limiter.ticket()
    limiter.refused(limiter.sent(), None)
    for in_row, factor in ((0, 0.9), (1, 0.5)):
        clock.now += 2
        sent = limiter.sent()
        if not in_row:
            limiter.accepted(sent, {})
        clock.now += 2
        rate = limiter.rate
        limiter.refused(limiter.sent(), None)
        assert rate is not None
        assert limiter.rate == pytest.approx(max(rate * factor, 0.2), rel=0.01)

"""Attempts of single requests: their delays, their waits for others, and their end."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from support.wire import ASK, CHAT

from planck_nb.ai.cassettes.cassette import Cassette, CassetteRequest
from planck_nb.ai.message_builder import MessageBuilder
from planck_nb.ai.request import Options
from planck_nb.ai.retries.known_servers import KnownServers
from planck_nb.ai.retries.request_attempts import RequestAttempts
from planck_nb.ai.retries.retry import RetryPolicy, Timeouts, is_passing
from planck_nb.base.errors import (
    ModelLoadingError,
    ProviderConnectionError,
    ProviderError,
    ProviderStatusError,
    ProviderTimeoutError,
    QuotaExceededError,
    RateLimitError,
)

URL = "https://one.example/v1/chat"


class Clock:
    """A clock that runs while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


class Place:
    """Servers, and requests to one of them."""

    def __init__(self, **settings: float | None) -> None:
        self.clock, self.servers = Clock(), KnownServers()
        self.policy = replace(
            RetryPolicy(clock=self.clock, sleep=self.clock.sleep, random=random.Random(1)),
            **settings,  # type: ignore[arg-type]
        )

    def attempts(self, *, replayed: bool = False, cassette: Cassette | None = None) -> RequestAttempts:
        found = CassetteRequest(CHAT, ASK, Options(), MessageBuilder(CHAT), replayed=replayed)
        attempts = RequestAttempts(self.policy, self.servers, found, URL, cassette)
        attempts.begin(continues=False)
        return attempts


def send(attempts: RequestAttempts) -> None:
    asyncio.run(attempts.wait())


def limited(retry_after: float | None = None) -> RateLimitError:
    return RateLimitError("slow down", status=429, retry_after=retry_after)


def test_waiting_times_that_are_documented() -> None:
    assert (Timeouts().connect, Timeouts().first_byte, Timeouts().idle) == (10, 600, 300)
    policy = RetryPolicy()
    assert (policy.base, policy.cap, policy.patience, policy.loading) == (0.5, 8, 120, 60)
    assert (policy.seconds, policy.first_seconds, policy.retries) == (60, 10, None)


@pytest.mark.parametrize("status", [400, 401, 408, 409, 425, 429, 404, 499, 500, 503, 529])
def test_a_status_that_may_pass(status: int) -> None:
    passes = status in {408, 409, 425, 429} or status >= 500
    assert is_passing(ProviderStatusError("x", status=status)) is passes
    assert is_passing(ProviderStatusError("x", status=status, should_retry=True))
    assert not is_passing(ProviderStatusError("x", status=status, should_retry=False))


def test_failures_without_a_status() -> None:
    assert is_passing(ProviderConnectionError("x"))
    assert not is_passing(ProviderTimeoutError("x"))
    assert not is_passing(QuotaExceededError("x", status=429))
    assert not is_passing(ProviderError("x"))


def test_delays_double_up_to_the_cap() -> None:
    policy = RetryPolicy(random=random.Random(1))
    error = ProviderConnectionError("x")
    delays = [policy.delay(error, attempt, left=1000) or 0 for attempt in range(1, 9)]
    for delay, most in zip(delays, [0.5, 1, 2, 4, 8, 8, 8, 8], strict=True):
        assert 0.75 * most <= delay <= most
    assert policy.delay(error, 1, left=0.1) == 0.1
    assert policy.delay(error, 1, left=0) is None


@pytest.mark.parametrize("continues", [False, True])
def test_a_request_is_sent_again_for_as_long_as_its_turn_is_worth(*, continues: bool) -> None:
    place = Place()
    attempts = place.attempts()
    attempts.begin(continues=continues)
    place.servers.reached(URL)
    began, failed = place.clock.now, 0
    while True:
        send(attempts)
        assert attempts.number == failed + 1
        delay = attempts.next_delay(ProviderStatusError("x", status=500))
        failed += 1
        if delay is None:
            break
        place.clock.now += delay
    assert place.clock.now - began == pytest.approx(60 if continues else 10)


def test_an_attempt_that_does_not_reach_its_server_uses_up_time() -> None:
    for answered, expected in ((False, None), (True, 0.5)):
        place = Place()
        place.servers.reached(URL)
        attempts = place.attempts()
        send(attempts)
        if answered:
            attempts.answered(200, {})
        place.clock.now += 30
        delay = attempts.next_delay(ProviderConnectionError("x"))
        assert delay is None if expected is None else delay == pytest.approx(expected, rel=0.3)


def test_a_server_that_never_answered_and_is_absent_is_not_asked_again() -> None:
    place = Place()
    error = ProviderConnectionError("x")
    error.is_absent = True
    attempts = place.attempts()
    send(attempts)
    assert attempts.next_delay(error) is None
    assert attempts.number == 1
    attempts.answered(500, {})
    assert attempts.next_delay(error) is not None
    assert attempts.number == 2
    other = Place().attempts()
    send(other)
    assert other.next_delay(ProviderConnectionError("x")) is not None


def test_requests_wait_for_those_before_them_at_a_server_that_refused() -> None:
    place = Place()
    first, second, third = (place.attempts() for _ in range(3))
    for each in (first, second, third):
        assert each.expected_wait() is None
        send(each)
    for each in (first, second, third):
        each.answered(429, {})
        assert each.next_delay(limited()) is not None
    waits = [each.expected_wait() for each in (first, second, third)]
    shown = [wait for wait in waits if wait is not None]
    assert [wait.attempt for wait in shown] == [1] * len(shown)
    assert all("others were made before" in wait.reason for wait in shown)
    began = place.clock.now
    for each in (first, second, third):
        send(each)
        each.answered(200, {})
    assert place.clock.now - began >= 1  # one a second
    fourth = place.attempts()
    assert fourth.expected_wait() is None


def test_a_wait_for_others_names_the_attempt_that_failed() -> None:
    place = Place()
    first, second = place.attempts(), place.attempts()
    for each in (first, second):
        send(each)
        assert each.next_delay(limited(5)) == 5
    wait = second.expected_wait()
    assert wait is not None
    assert wait.attempt == 1


@pytest.mark.parametrize(("asked", "settings", "delay"), [(900.0, {}, 900.0), (None, {"seconds": 0.0}, 0.0)])
def test_a_recorded_attempt_is_made_although_the_policy_would_give_up(
    asked: float | None, settings: dict[str, float | None], delay: float
) -> None:
    recorded: Any = SimpleNamespace(has_answer=lambda _: True)
    attempts = Place(**settings).attempts(replayed=True, cassette=recorded)
    send(attempts)
    assert attempts.next_delay(limited(asked)) == delay


@pytest.mark.parametrize("error", [QuotaExceededError("x", status=429), ProviderStatusError("x", status=500)])
def test_other_refusals_slow_nobody_down(error: ProviderError) -> None:
    place = Place()
    attempts = place.attempts()
    send(attempts)
    attempts.next_delay(error)
    assert not place.servers.limiter(URL, CHAT, None, place.clock).is_pacing
    attempts.next_delay(limited())
    assert place.servers.limiter(URL, CHAT, None, place.clock).is_pacing


def test_time_that_is_spent_waiting_for_others_is_not_a_failure() -> None:
    place = Place()
    place.servers.reached(URL)
    first, second = place.attempts(), place.attempts()
    send(first)
    send(second)
    first.next_delay(limited())
    second.next_delay(limited())
    before = second._end
    assert before is not None
    send(first)
    began = place.clock.now
    send(second)
    assert second._end == pytest.approx(before + place.clock.now - began)


@pytest.mark.parametrize("replayed", [False, True])
def test_a_recorded_answer_teaches_nothing_about_its_server(*, replayed: bool) -> None:
    place = Place()
    attempts = place.attempts(replayed=replayed)
    send(attempts)
    attempts.answered(200, {})
    assert place.servers.was_reached(URL) is not replayed
    attempts.next_delay(limited())
    assert place.servers.limiter(URL, CHAT, None, place.clock).is_pacing is not replayed
    # Without another recorded answer, a replayed failure is the last.
    assert (place.attempts(replayed=replayed).next_delay(limited(3)) is None) is replayed


def test_a_fixed_number_of_retries_counts_attempts() -> None:
    place = Place(retries=2)
    attempts = place.attempts()
    delays = []
    for _ in range(3):
        send(attempts)
        place.clock.now += 100
        delays.append(attempts.next_delay(ProviderStatusError("x", status=500)) is None)
    assert delays == [False, False, True]
    attempts.begin(continues=True)
    assert attempts.number == 1


def test_a_model_that_loads_is_waited_for() -> None:
    policy = RetryPolicy(loading=3)
    error = ModelLoadingError("x", status=503)
    assert [policy.delay(error, attempt, left=0) for attempt in (1, 2, 3)] == [1.5, 1.5, None]


@pytest.mark.parametrize(
    ("wanted", "attempt", "left", "expected"),
    [
        (3.0, 1, 10.0, 3.0),
        (3.0, 2, 10.0, 3.0),
        (0.1, 1, 10.0, 0.1),
        (121.0, 1, 1000.0, None),
        (120.0, 1, 1000.0, 120.0),
        (11.0, 1, 10.0, None),
    ],
)
def test_a_server_says_how_long_to_wait(wanted: float, attempt: int, left: float, expected: float | None) -> None:
    assert RetryPolicy().delay(limited(wanted), attempt, left=left) == expected


def test_a_short_wait_counts_only_once() -> None:
    delay = RetryPolicy(random=random.Random(1)).delay(limited(0.1), 2, left=10.0)
    assert delay is not None
    assert delay > 0.5

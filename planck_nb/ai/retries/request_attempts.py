"""The attempts to send one request: when each may be made, and whether there is another after a failure."""

from __future__ import annotations

from collections.abc import Mapping

from planck_nb.ai.cassettes.cassette import Cassette, CassetteRequest
from planck_nb.ai.retries.known_servers import KnownServers
from planck_nb.ai.retries.retry import RetryPolicy, is_passing
from planck_nb.ai.stream_events import StreamRetry
from planck_nb.base.errors import (
    ProviderConnectionError,
    ProviderError,
    ProviderStatusError,
    QuotaExceededError,
    RateLimitError,
)

_TOO_MANY_REQUESTS = 429
_SHOWN = 1.0
"""Seconds that a request has to wait for others before that is shown."""


class RequestAttempts:
    """The attempts to send one request, in the order and at the rate that its server allows.

    Args:
        policy: Decides whether the request is sent again.
        servers: Remembers which servers were reached, and paces the requests to them.
        request_info: The request, as the cassette knows it.
        url: The URL of the request.
        cassette: A request whose answer it has does not wait for others.
    """

    def __init__(
        self,
        policy: RetryPolicy,
        servers: KnownServers,
        request_info: CassetteRequest,
        url: str,
        cassette: Cassette | None,
    ) -> None:
        self.number = 1
        """The number of the current attempt."""
        self._policy = policy
        self._limiter = servers.limiter(url, request_info.model, request_info.key, policy.clock)
        self._servers = servers
        self._request_info = request_info
        self._cassette = cassette
        self._url = url
        self._ticket: int | None = None
        self._seconds = 0.0
        self._end: float | None = None
        self._sent = 0.0
        self._answered = False

    def begin(self, *, continues: bool) -> None:
        """Begin the request, or one for the rest of its message. `continues` says whether it continues a turn."""
        self.close()
        self.number = 1
        self._ticket = self._limiter.ticket()
        self._seconds = self._policy.seconds if continues else self._policy.first_seconds
        self._end = None

    def close(self) -> None:
        """Give up the place in the order of requests: no attempt follows."""
        if self._ticket is not None:
            self._limiter.release(self._ticket)

    def expected_wait(self) -> StreamRetry | None:
        """The wait for the requests that were made before this one, None if there is none or it is short."""
        if (ticket := self._paced_ticket()) is None or (seconds := self._limiter.expected_wait(ticket)) < _SHOWN:
            return None
        model = self._request_info.model
        reason = f"{model.provider} limits the rate of requests to {model.id}, and others were made before."
        return StreamRetry(self.number - 1, seconds, reason)

    async def wait(self) -> None:
        """Wait for the requests that were made before this one, and begin the attempt."""
        if (ticket := self._paced_ticket()) is not None:
            began = self._policy.clock()
            await self._limiter.wait(ticket, self._policy.sleep)
            if self._end is not None:  # the time that it waits for others does not count as its own failure
                self._end += self._policy.clock() - began
        self._sent = self._limiter.sent()
        self._answered = False

    def _paced_ticket(self) -> int | None:
        """The place in the order of requests, None if this one need not wait."""
        return self._ticket if self._limiter.is_pacing and not self._has_recorded_answer() else None

    def answered(self, status: int, headers: Mapping[str, str]) -> None:
        """Note that the server has begun to answer."""
        self._answered = True
        if self._request_info.replayed:
            return
        self._servers.reached(self._url)
        if status != _TOO_MANY_REQUESTS:
            self._limiter.accepted(self._sent, headers)
            self.close()

    def next_delay(self, error: ProviderError) -> float | None:
        """The seconds to wait before the next attempt, None if the error is to be reported."""
        if _is_rate_limit(error) and not self._request_info.replayed:
            self._limiter.refused(self._sent, _retry_after(error))
        if self._request_info.replayed and self._policy.retries is None:
            delay = self._recorded_delay(error)
        elif (
            isinstance(error, ProviderConnectionError) and error.is_absent and not self._servers.was_reached(self._url)
        ):
            delay = None  # not started, or a wrong address; for a server that was reached before, it is an outage
        else:
            delay = self._policy.delay(error, self.number, left=self._seconds_left(error))
        if delay is not None:
            self.number += 1
        return delay

    def _seconds_left(self, error: ProviderError) -> float:
        now = self._policy.clock()
        if self._end is None:
            # An answer may have taken long before it broke off. Failing to reach the server has used up time already.
            began = self._sent if isinstance(error, ProviderConnectionError) and not self._answered else now
            self._end = began + self._seconds
        return self._end - now

    def _recorded_delay(self, error: ProviderError) -> float | None:
        """The delay before an attempt that was recorded, whatever the retry policy of the program that recorded it."""
        if not is_passing(error) or not self._has_recorded_answer():
            return None
        return self._policy.delay(error, self.number) or _retry_after(error) or 0.0

    def has_further_answer(self) -> bool:
        """Tell if the answer was recorded and a further one follows it."""
        return self._request_info.replayed and self._has_recorded_answer()

    def _has_recorded_answer(self) -> bool:
        return self._cassette is not None and self._cassette.has_answer(self._request_info)


def _is_rate_limit(error: ProviderError) -> bool:
    """Whether the request was refused because there were too many; for a spent quota, no request waits."""
    return isinstance(error, RateLimitError) and not isinstance(error, QuotaExceededError)


def _retry_after(error: ProviderError) -> float | None:
    return error.retry_after if isinstance(error, ProviderStatusError) else None

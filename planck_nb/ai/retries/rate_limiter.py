"""Paces the requests of all agents of the process to a server that has refused some of them as too many."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping

from planck_nb.ai.retries.rate_limit_headers import request_limits

_WINDOW = 1.0
"""Seconds over which accepted requests are counted to learn a rate."""

_MIN_RATE = 0.2
"""Requests per second that are sent no matter how many are refused."""

_FIRST = 1.0
"""The lowest rate that one refusal leads to."""

_BACK_OFF = 0.9
"""What is left of the rate when a paced request is refused."""

_GROWTH = 0.02
"""By how much the rate grows in each second without a refusal, as a fraction of it."""

_PROBING = 0.25
"""The same, until the learned rate has been too high for the first time."""

_DOUBLING = 30.0
"""Seconds after which the rate has doubled in any case, and grows fast, because the limit has probably changed."""

_FORGET = 120.0
"""Seconds without a refusal after which nothing is paced any more."""

_CATCH_UP = 0.1
"""Seconds by which a request may be late without delaying those after it."""

_MAX_SLEEP = 0.5
"""The longest sleep in seconds of a waiting request, because the rate may rise while it sleeps."""

_MIN_SLEEP = 0.005
"""The shortest one: behind stuck requests, the growing rate would make the sleeps ever shorter."""

_STUCK_AFTER = 3 * _MAX_SLEEP
"""Seconds after which a request that has not tried again, because its event loop is blocked, delays no other."""

_REMEMBERED = 512


class RateLimiter:
    """Learns how many requests a server accepts, from its headers and from the requests that it refuses with 429.

    Until the first refusal nothing waits. After it, requests are sent in the order in which they were made, at the rate
    that the server has accepted. The rate grows slowly until the next refusal, and is forgotten two minutes after the
    last one. It may be used from several threads and event loops at once.

    Args:
        clock: Returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._tickets = itertools.count()
        self._active: set[int] = set()
        self._waiting: dict[int, float] = {}  # when each last tried
        self._sent: deque[float] = deque(maxlen=_REMEMBERED)
        self._rate: float | None = None
        self._learned = 0.0
        self._good = 0.0
        self._next = 0.0
        self._blocked = 0.0
        self._refused_in_row = 0
        self._is_probing = False

    @property
    def is_pacing(self) -> bool:
        """Whether requests may have to wait."""
        return self._rate is not None

    @property
    def rate(self) -> float | None:
        """The requests per second that are currently sent, None without a limit."""
        with self._lock:
            return self._rate_at(self._clock())

    def ticket(self) -> int:
        """The place of a new request in the order; it keeps it if the request has to be sent again."""
        with self._lock:
            ticket = next(self._tickets)
            self._active.add(ticket)
        return ticket

    def release(self, ticket: int) -> None:
        """Forget a request that was accepted or given up."""
        with self._lock:
            self._active.discard(ticket)

    def expected_wait(self, ticket: int) -> float:
        """How many seconds the request will have to wait, as far as can be known."""
        with self._lock:
            return self._wait(ticket, self._clock())

    async def wait(self, ticket: int, sleep: Callable[[float], Awaitable[object]]) -> None:
        """Wait until the request may be sent. A caller that is cancelled leaves the queue."""
        try:
            while (seconds := self._claim(ticket)) > 0:
                await sleep(max(_MIN_SLEEP, min(seconds, _MAX_SLEEP)))
        finally:
            with self._lock:
                self._waiting.pop(ticket, None)

    def sent(self) -> float:
        """Count a request that is being sent; returns the time, to report its outcome with."""
        now = self._clock()
        with self._lock:
            self._sent.append(now)
        return now

    def accepted(self, sent: float, headers: Mapping[str, str]) -> None:
        """Learn from a request that the server did not refuse."""
        if self._rate is None:
            return
        offered = max((remaining / reset for remaining, reset in request_limits(headers) if reset > 0), default=0.0)
        with self._lock:
            rate = self._rate_at(now := self._clock())
            if rate is None or sent < self._learned:
                return
            self._refused_in_row = 0
            # Return quickly to the rate that was accepted before the server refused everything for a while.
            faster = max(offered, min(rate * 1.5, self._good / 2))
            if faster > rate:
                self._rate, self._learned = faster, now

    def refused(self, sent: float, wait: float | None) -> None:
        """Learn from a request that the server refused with 429.

        Args:
            sent: What `sent` returned.
            wait: The seconds that the server asks to wait, None if it does not.
        """
        with self._lock:
            now = self._clock()
            if sent in self._sent:
                self._sent.remove(sent)
            rate = self._rate_at(now)
            window = _WINDOW if rate is None else max(_WINDOW, 2 / rate)
            measured = sum(sent - window < time <= sent for time in self._sent) / window
            if rate is None:
                self._rate, self._next, self._is_probing = max(_FIRST, measured), now, True
                self._good = 0.0
            elif sent <= self._learned and self._is_probing:  # one of those that were sent before anything was known
                self._rate = min(rate, max(_FIRST, measured))
            elif self._refused_in_row == 0:
                self._good = self._rate = rate * _BACK_OFF
                self._is_probing = False
            else:
                self._rate = min(rate, max(measured, rate / 2))
            self._rate = max(_MIN_RATE, self._rate)
            if rate is None or sent > self._learned:
                self._refused_in_row += rate is not None
                self._learned = now
            if wait is not None and self._refused_in_row > 1:  # it refuses everything, so no other request needs to try
                self._blocked = max(self._blocked, now + wait)

    def _rate_at(self, now: float) -> float | None:
        if self._rate is None:
            return None
        quiet = now - max(self._learned, self._blocked)
        if quiet > _FORGET:
            self._rate = None
            self._sent.clear()
            return None
        quiet = max(0.0, quiet)
        slow: float = (1 + (_PROBING if self._is_probing else _GROWTH)) ** quiet
        return self._rate * (slow + (quiet / _DOUBLING) ** 3)

    def _wait(self, ticket: int, now: float) -> float:
        rate = self._rate_at(now)
        if rate is None:
            return 0.0
        blocked = max(0.0, self._blocked - now)
        if len(self._active) <= 1:  # the only request has no other to wait for
            return blocked
        ahead = sum(other < ticket and now - tried < _STUCK_AFTER for other, tried in self._waiting.items())
        return max(blocked, self._next - now) + ahead / rate

    def _claim(self, ticket: int) -> float:
        """The seconds to wait before the next try, 0 if the request may be sent now."""
        with self._lock:
            now = self._clock()
            self._waiting[ticket] = now
            wait = self._wait(ticket, now)
            if wait <= 0 and (rate := self._rate_at(now)) is not None:
                self._next = max(self._next, now - _CATCH_UP) + 1 / rate
            return wait

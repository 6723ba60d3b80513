"""How long to wait for a server, and when to send a request again."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from planck_nb.base.errors import (
    ModelLoadingError,
    ProviderAddressError,
    ProviderConnectionError,
    ProviderError,
    ProviderStatusError,
    ProviderTimeoutError,
    QuotaExceededError,
)

_PASSING = frozenset({408, 409, 425, 429})
_LOADING_STEP = 1.5
"""Seconds between two requests to a server that is loading its model."""
_MAX_DOUBLINGS = 30

RETRY_SECONDS = 60.0
"""Seconds for retries later in a turn."""

FIRST_RETRY_SECONDS = 10.0
"""Seconds for retries when a turn begins."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long to wait for a server, in seconds.

    Args:
        connect: For a connection.
        first_byte: For the first byte of an answer.
        idle: Between any two bytes after it.
    """

    connect: float = 10.0
    first_byte: float = 600.0
    idle: float = 300.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a request that produced no content is retried.

    By default time decides. A request that continues a turn, whose work would otherwise be lost, is sent again for up
    to a minute; the first request of a turn, for which a person is waiting, for 10 seconds.

    Args:
        retries: The most attempts after the first, however long they take; None if `seconds` and `first_seconds`
            decide, 0 for none.
        base: Seconds before the second attempt; doubled for each one after it, and shortened by up to a quarter at
            random, so that many agents do not return at the same moment. A Retry-After that is shorter counts only
            once, because a server that still fails then would be asked without a pause.
        cap: The most seconds between two attempts.
        patience: The longest Retry-After, in seconds, that is waited for; a longer one is reported at once, and so is
            one for which no time is left.
        loading: Seconds to wait for a server that is loading its model.
        random: The source of randomness; a seeded one makes delays reproducible.
        seconds: For how many seconds a request that continues a turn is retried.
        first_seconds: For how many seconds the first request of a turn is retried.
        clock: Returns the time in seconds.
        sleep: An async function that waits for some seconds.
    """

    retries: int | None = None
    base: float = 0.5
    cap: float = 8.0
    patience: float = 120.0
    loading: float = 60.0
    random: random.Random = field(default_factory=random.Random, repr=False, compare=False)
    seconds: float = RETRY_SECONDS
    first_seconds: float = FIRST_RETRY_SECONDS
    clock: Callable[[], float] = field(default=time.monotonic, repr=False, compare=False)
    sleep: Callable[[float], Awaitable[object]] = field(default=asyncio.sleep, repr=False, compare=False)

    def delay(self, error: ProviderError, attempt: int, *, left: float | None = None) -> float | None:
        """Decide whether and when to send a request again.

        Args:
            error: The failure.
            attempt: The number of the attempt that failed, from 1.
            left: For how many seconds the request may still be retried if `retries` is None; None for `seconds`.

        Returns:
            Seconds to wait, or None if the failure is to be reported.
        """
        if self.retries == 0 or not is_passing(error):
            return None
        loads = isinstance(error, ModelLoadingError)
        left = self.seconds if left is None else left
        if loads:
            ended, left = attempt > self.loading / _LOADING_STEP, self.patience
        elif self.retries is not None:
            ended, left = attempt > self.retries, self.patience
        else:
            ended = left <= 0
        if ended:
            return None
        wanted = error.retry_after if isinstance(error, ProviderStatusError) else None
        if wanted is not None and (wanted >= self.base or attempt == 1):
            return wanted if wanted <= min(self.patience, left) else None
        if loads:
            return _LOADING_STEP
        spread = 1 - 0.25 * self.random.random()
        # The exponent is bounded because a float is.
        delay = min(self.cap, self.base * 2 ** min(attempt - 1, _MAX_DOUBLINGS)) * spread
        return float(delay if self.retries is not None else min(delay, left))


def is_passing(error: ProviderError) -> bool:
    """Whether the same request may succeed later. A timeout is not retried: it has used up its time."""
    if isinstance(error, QuotaExceededError | ProviderTimeoutError | ProviderAddressError):
        return False
    if isinstance(error, ProviderStatusError):
        passes = error.status in _PASSING or error.status >= 500  # noqa: PLR2004
        return passes if error.should_retry is None else error.should_retry
    return isinstance(error, ProviderConnectionError)

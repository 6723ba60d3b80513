"""How long to wait for a server, and when to send a request again."""

from __future__ import annotations

import random
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

_PASSING = frozenset({408, 409, 429})
_LOADING_STEP = 1.5
"""Seconds between two requests to a server that is loading its model."""


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
    """When a request is sent again that has produced no content.

    Args:
        retries: The most attempts after the first.
        base: Seconds before the second attempt; doubled for each one after it, and shortened by up to a quarter at
            random, so that many agents do not return at the same moment.
        cap: The most seconds between two attempts.
        patience: The longest Retry-After, in seconds, that is waited for; a longer one is reported at once.
        loading: Seconds to wait for a server that is loading its model.
        random: The source of randomness; a seeded one makes delays reproducible.
    """

    retries: int = 2
    base: float = 0.5
    cap: float = 8.0
    patience: float = 120.0
    loading: float = 60.0
    random: random.Random = field(default_factory=random.Random, repr=False, compare=False)

    def delay(self, error: ProviderError, attempt: int) -> float | None:
        """Decide whether and when to send a request again.

        Args:
            error: The failure.
            attempt: The number of the attempt that failed, from 1.

        Returns:
            Seconds to wait, or None if the failure is to be reported.
        """
        loads = isinstance(error, ModelLoadingError) and self.retries > 0
        if attempt > (self.loading / _LOADING_STEP if loads else self.retries) or not is_passing(error):
            return None
        wanted = error.retry_after if isinstance(error, ProviderStatusError) else None
        if wanted is not None:
            return wanted if wanted <= self.patience else None
        if loads:
            return _LOADING_STEP
        spread = 1 - 0.25 * self.random.random()
        return float(min(self.cap, self.base * 2 ** (attempt - 1)) * spread)


def is_passing(error: ProviderError) -> bool:
    """Whether the same request may succeed later. A timeout is not retried: it has used up its time."""
    if isinstance(error, QuotaExceededError | ProviderTimeoutError | ProviderAddressError):
        return False
    if isinstance(error, ProviderStatusError):
        passes = error.status in _PASSING or error.status >= 500  # noqa: PLR2004
        return passes if error.should_retry is None else error.should_retry
    return isinstance(error, ProviderConnectionError)

"""What a turn, and a whole session, may take before it is stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TypeAlias

from planck_nb.ai.messages import AssistantMessage
from planck_nb.ai.models import Model
from planck_nb.base.errors import ConfigError

CHARACTERS_PER_TOKEN = 4
"""How the tokens of a reply are guessed while it is written; its usage replaces the guess."""

CHECKED_CHARACTERS = 400
"""How much a model writes between two looks at its limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds; None means that there is none. Raises `ConfigError` for what is no number from 0 on.

    For one turn: `rounds` of model replies, `tokens` read and written, `cost` in US dollars, `seconds`. For all agents
    of a session together: `session_tokens` and `session_cost`.
    """

    rounds: int | None = 50
    tokens: int | None = 2_000_000
    cost: float | None = 5.0
    seconds: float | None = 3_600.0
    session_tokens: int | None = 20_000_000
    session_cost: float | None = 50.0

    def __post_init__(self) -> None:
        for name, bound in self.as_dict().items():
            if bound is not None and not (isinstance(bound, (int, float)) and bound >= 0):
                raise ConfigError(f"The limit `{name}` is a number from 0 on, or None for no limit, not {bound!r}.")

    def as_dict(self) -> dict[str, float | None]:
        """The bounds by name."""
        return asdict(self)


@dataclass(slots=True)
class SessionSpend:
    """What the agents of a session have spent: tokens, and US dollars as far as prices are known."""

    tokens: int = 0
    cost: float = 0.0

    def spend(self, tokens: int, cost: float | None) -> None:
        """Add to what was spent."""
        self.tokens += tokens
        self.cost += cost or 0.0


LimitHit: TypeAlias = tuple[str, str]
"""The name of a limit, and the sentence that says it is reached."""


class TurnBudget:
    """Counts one turn against its limits.

    Between replies it uses reported usage. While a reply streams, `count_streamed` adds an estimate, so that a turn
    ends soon after a limit is reached instead of with the next reply.
    """

    def __init__(
        self, limits: Limits, session_spend: SessionSpend, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits = limits
        self._session_spend = session_spend
        self._clock = clock
        self._started = clock()
        self._tokens = 0
        self._cost = 0.0
        self._written = self._unchecked = 0
        self._cut: LimitHit | None = None
        self.rounds = 0
        """Replies so far."""

    def count_streamed(self, characters: int, model: Model) -> bool:
        """Take in that the model wrote so much more; whether a limit is reached, looked at now and then."""
        self._unchecked += characters
        if self._unchecked < CHECKED_CHARACTERS:
            return False
        self._written += self._unchecked
        self._unchecked = 0
        self._cut = self.limit_hit(model)
        return self._cut is not None

    @property
    def seconds_left(self) -> float | None:
        """How long the turn may go on, None where there is no limit; 0 or less when it is over."""
        seconds = self._limits.seconds
        return None if seconds is None else seconds - (self._clock() - self._started)

    def count_reply(self, reply: AssistantMessage, model: Model) -> None:
        """Take in a reply, complete or cut; without usage its tokens are guessed."""
        self.rounds += 1
        if reply.usage is not None:
            self._spend(reply.usage.total_tokens, reply.cost or 0.0)
        else:
            guess = (self._written + self._unchecked) // CHARACTERS_PER_TOKEN
            self._spend(guess, _output_cost(model, guess))
        self._written = self._unchecked = 0

    def limit_hit(self, model: Model) -> LimitHit | None:
        """The limit that is reached, None while all hold; one that cut a reply short counts whatever that took."""
        if self._cut is not None:
            return self._cut
        limits, session_spend = self._limits, self._session_spend
        guess = self._written // CHARACTERS_PER_TOKEN
        cost = _output_cost(model, guess)
        taken = (
            ("rounds", limits.rounds, self.rounds, "rounds"),
            ("tokens", limits.tokens, self._tokens + guess, "tokens"),
            ("cost", limits.cost, self._cost + cost, "US dollars"),
            ("seconds", limits.seconds, self._clock() - self._started, "seconds"),
            ("session_tokens", limits.session_tokens, session_spend.tokens + guess, "tokens"),
            ("session_cost", limits.session_cost, session_spend.cost + cost, "US dollars"),
        )
        for name, bound, value, unit in taken:
            if bound is not None and value >= bound:
                return name, _sentence(name, bound, unit)
        return None

    def _spend(self, tokens: int, cost: float) -> None:
        self._tokens += tokens
        self._cost += cost
        self._session_spend.spend(tokens, cost)


def _output_cost(model: Model, tokens: int) -> float:
    return 0.0 if model.pricing is None else tokens * model.pricing.output / 1_000_000


def _sentence(name: str, bound: float, unit: str) -> str:
    if name.startswith("session_"):
        return f"The session has used up its {bound:,g} {unit}; raise `{name}` in its limits to go on."
    return f"The turn has used up its {bound:,g} {unit}; prompt again to go on, or raise `{name}` in the limits."

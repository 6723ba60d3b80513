"""How much a turn, and a whole session, may use before it is stopped."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

from planck_nb.ai.messages import ToolCallPart, ToolResultPart, Usage
from planck_nb.ai.models import Model
from planck_nb.base.errors import ConfigError
from planck_nb.base.json_types import JsonObject

CHARACTERS_PER_TOKEN = 4
"""Used to estimate the tokens of a reply while it streams; its usage replaces the estimate."""

CHECKED_CHARACTERS = 400
"""How many characters are streamed between two checks of the limits."""


_NOTHING = Usage()

_IN_ORDER = json.JSONEncoder(sort_keys=True, default=repr)
"""Writes arguments so that their order does not matter; `json.dumps` would make such an encoder for each call."""

_REPHRASE = "rephrase the prompts of these agents, or raise `repeated_calls` in the limits."

REPETITIONS = 5
"""The turn ends at this many times `repeated_calls` identical calls; at each multiple before, the model is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a turn and of a session; None means no limit.

    Args:
        rounds: Replies of the model in one turn.
        tokens: Tokens that one turn reads and writes.
        cost: US dollars that one turn costs.
        seconds: How long one turn takes.
        session_tokens: Tokens that all agents of the session read and write together.
        session_cost: US dollars that all agents of the session cost together.
        repeated_calls: Tool calls in one turn with the same name, arguments and result. After this many, and again
            after each multiple, the model is told that it repeats itself; after five times as many, the turn ends. A
            run ends after this many calls in one turn for answers that cannot come, because agents wait for each other.
            At least 2.

    Raises:
        ConfigError: If a limit is negative or not a number, or `repeated_calls` is less than 2.

    Example:
        >>> Limits(rounds=5).rounds
        5
        >>> Limits(cost=None).as_dict()["cost"] is None
        True
    """

    rounds: int | None = 50
    tokens: int | None = 2_000_000
    cost: float | None = 5.0
    seconds: float | None = 3_600.0
    session_tokens: int | None = 20_000_000
    session_cost: float | None = 50.0
    repeated_calls: int | None = 10

    def __post_init__(self) -> None:
        for name, bound in self.as_dict().items():
            if bound is not None and not (isinstance(bound, (int, float)) and bound >= 0):
                raise ConfigError(f"The limit `{name}` must be 0 or more, or None for no limit, not {bound!r}.")
        if self.repeated_calls is not None and self.repeated_calls < 2:  # noqa: PLR2004 - a repetition is two
            raise ConfigError(f"The limit `repeated_calls` must be 2 or more, or None, not {self.repeated_calls!r}.")

    def as_dict(self) -> dict[str, float | None]:
        """Return the limits by name.

        Returns:
            A new dictionary with every limit, in the units of the fields; None for no limit.
        """
        return asdict(self)

    def apart_from(self, usual: Limits) -> dict[str, float | None]:
        """Return the limits with other values than the usual ones.

        Args:
            usual: The usual limits.

        Returns:
            The others by name, in the units of the fields.

        Example:
            >>> Limits(rounds=5).apart_from(Limits())
            {'rounds': 5}
        """
        bounds = usual.as_dict()
        return {name: bound for name, bound in self.as_dict().items() if bound != bounds[name]}


def restored_limits(stored: JsonObject, usual: Limits, *, trusted: bool) -> Limits:
    """Return limits as they are stored in a session.

    Args:
        stored: Limits by name. The others, and those without a usable value, are the usual ones.
        usual: Limits of new agents.
        trusted: Whether the user wrote the stored ones. Somebody else's can only lower the usual limits.

    Returns:
        The limits.

    Example:
        >>> restored_limits({"cost": 0.1}, Limits(), trusted=False).cost
        0.1
        >>> restored_limits({"cost": 100}, Limits(), trusted=False).cost
        5.0
    """
    bounds = usual.as_dict()
    for name, bound in bounds.items():
        value = stored.get(name, bound)
        try:
            _limits({name: value})
        except ConfigError:
            continue
        bounds[name] = value if trusted else min(value, bound, key=_as_number)
    return _limits(bounds)


def _limits(bounds: dict[str, Any]) -> Limits:
    return Limits(**bounds)


def _as_number(bound: float | None) -> float:
    return math.inf if bound is None else bound


@dataclass(slots=True)
class SessionSpend:
    """What the agents of a session have spent together.

    Args:
        tokens: Tokens read and written.
        cost: US dollars, as far as prices are known.
    """

    tokens: int = 0
    cost: float = 0.0

    def spend(self, tokens: int, cost: float | None) -> None:
        """Add tokens and US dollars.

        Args:
            tokens: Tokens read and written.
            cost: US dollars, None if the price is unknown.
        """
        self.tokens += tokens
        self.cost += cost or 0.0


ReachedLimit: TypeAlias = tuple[str, str]
"""The name of a limit that is reached, and a sentence that says so."""


class RunSpend:
    """What the turns of several agents that work on one prompt have used together.

    The limits of tokens, cost and seconds hold for all of them together; the other limits for each turn and session.

    Args:
        limits: The limits.
        clock: Returns seconds.
        outer: The spend of a larger run that this one is a part of, None if there is none.
    """

    def __init__(
        self, limits: Limits, clock: Callable[[], float] = time.monotonic, outer: RunSpend | None = None
    ) -> None:
        self._outer = outer
        self._limits = limits
        self._clock = clock
        self._started = clock()
        self._tokens = 0
        self._cost = 0.0
        self._ended: ReachedLimit | None = None
        self._tasks: Counter[object] = Counter()

    def end(self, reached: ReachedLimit) -> None:
        """End the run with this limit."""
        self._ended = self._ended or reached

    def count_task(self, delegator: str, worker: str, texts: tuple[str, str]) -> int:
        """Count a task with its response.

        Args:
            delegator: The delegator's name.
            worker: The worker's name.
            texts: The task and the response.

        Returns:
            The number of equal tasks if the model should be told, else 0.
        """
        bound = self._limits.repeated_calls
        if bound is None:
            return 0
        key = delegator, worker, texts
        self._tasks[key] += 1
        count = self._tasks[key]
        if count >= bound * REPETITIONS:
            sentence = f"{delegator} gave {worker} the same task {count} times and got the same response"
            self.end(("repeated_calls", f"{sentence}, so the run was ended; {_REPHRASE}"))
        return count if count % bound == 0 else 0

    @property
    def seconds_left(self) -> float | None:
        """How long the turns may go on, None without a limit; 0 or less once the time is up."""
        seconds = self._limits.seconds
        left = None if seconds is None else seconds - (self._clock() - self._started)
        outer = None if self._outer is None else self._outer.seconds_left
        return min((each for each in (left, outer) if each is not None), default=None)

    def spend(self, tokens: int, cost: float) -> None:
        """Add tokens and US dollars."""
        self._tokens += tokens
        self._cost += cost
        if self._outer is not None:
            self._outer.spend(tokens, cost)

    def reached_limit(self, tokens: int = 0, cost: float = 0.0) -> ReachedLimit | None:
        """The limit that is reached with what one turn uses at the moment, None if there is none."""
        if self._ended is not None:
            return self._ended
        limits = self._limits
        used = (
            ("tokens", limits.tokens, self._tokens + tokens, "tokens"),
            ("cost", limits.cost, self._cost + cost, "US dollars"),
            ("seconds", limits.seconds, self._clock() - self._started, "seconds"),
        )
        for name, bound, value, unit in used:
            if bound is not None and value >= bound:
                return name, (
                    f"The run of the team has used up its {_number(bound)} {unit}; prompt again to go on, or raise "
                    f"`{name}` in the limits."
                )
        return None if self._outer is None else self._outer.reached_limit(tokens, cost)

    def crossed_by(self, tokens: int, cost: float) -> ReachedLimit | None:
        """The limit that a request would cross with its input alone, None if there is none."""
        limits = self._limits
        for name, bound, used, more in (
            ("tokens", limits.tokens, self._tokens, tokens),
            ("cost", limits.cost, self._cost, cost),
        ):
            if bound is not None and used + more > bound:
                return name, _refusal(name, used, more, bound, "The run of the team")
        return None if self._outer is None else self._outer.crossed_by(tokens, cost)


def estimated_so_far(known: Usage, characters: int) -> Usage:
    """What a reply that is being streamed has taken so far.

    Args:
        known: What its provider has reported, or an estimate of its request.
        characters: How many characters the model has written.
    """
    return replace(known, output_tokens=max(known.output_tokens, characters // CHARACTERS_PER_TOKEN))


class TurnBudget:
    """Counts one turn against its limits.

    Between replies it uses reported usage. While a reply streams, `count_streamed` adds an estimate, so that a turn
    ends soon after a limit is reached instead of with the next reply.
    """

    def __init__(
        self,
        limits: Limits,
        session_spend: SessionSpend,
        clock: Callable[[], float] = time.monotonic,
        run_spend: RunSpend | None = None,
    ) -> None:
        self._limits = limits
        self._session_spend = session_spend
        self._run_spend = run_spend
        self._clock = clock
        self._started = clock()
        self._tokens = 0
        self._cost = 0.0
        self._written = self._unchecked = 0
        self._request: Usage | None = None
        self._reported: Usage | None = None
        self._reached_in_reply: ReachedLimit | None = None
        self._calls: Counter[tuple[str, str, object]] = Counter()
        self._repeated: tuple[int, str] = 0, ""
        """How often the most frequent call was made with the same result, and the name of its tool."""
        self._hopeless_calls = 0
        self._ended: ReachedLimit | None = None
        self.rounds = 0
        """Replies so far."""

    def start_request(self, estimated: Usage) -> None:
        """Note that a request is sent. Its estimated tokens count until its usage is reported."""
        self._request = estimated
        self._written = self._unchecked = 0  # of a reply that broke off, which is counted by now
        self._reported = None

    def crossed_by(self, estimated: Usage, model: Model) -> ReachedLimit | None:
        """The limit that a request would cross with its input alone, None if there is none.

        The limits of a session hold for every request, those of a turn from its second one on.
        """
        limits, session_spend = self._limits, self._session_spend
        tokens, cost = estimated.input_tokens, model.cost(estimated) or 0.0
        would_use = (
            ("session_tokens", limits.session_tokens, session_spend.tokens, tokens),
            ("session_cost", limits.session_cost, session_spend.cost, cost),
            ("tokens", limits.tokens, self._tokens, tokens),
            ("cost", limits.cost, self._cost, cost),
        )
        for name, bound, used, more in would_use if self.rounds else would_use[:2]:
            if bound is not None and used + more > bound:
                return name, _refusal(name, used, more, bound)
        return self._run_spend.crossed_by(tokens, cost) if self._run_spend is not None and self.rounds else None

    def count_streamed(self, characters: int, model: Model, usage: Usage | None = None) -> bool:
        """Count streamed characters of the reply. Returns whether a limit is reached; not every call checks that.

        `usage` is what its provider has reported so far.
        """
        first = usage is not None and self._reported is None and not (self._written or self._unchecked or characters)
        self._reported = usage
        self._unchecked += characters
        if self._unchecked < CHECKED_CHARACTERS and not first:
            return False
        self._written += self._unchecked
        self._unchecked = 0
        self._reached_in_reply = self.reached_limit(model)
        return self._reached_in_reply is not None

    @property
    def seconds_left(self) -> float | None:
        """How long the turn may go on, None without a limit; 0 or less once the time is up."""
        seconds = self._limits.seconds
        left = None if seconds is None else seconds - (self._clock() - self._started)
        if self._run_spend is None or (together := self._run_spend.seconds_left) is None:
            return left
        return together if left is None else min(left, together)

    def end_reply(self) -> None:
        """Count a round, and forget the streamed estimate: `spend` counts the reply."""
        self.rounds += 1
        self._written = self._unchecked = 0
        self._request = self._reported = None

    def count_call(self, call: ToolCallPart, result: ToolResultPart) -> int:
        """Count a tool call. Returns the number of identical ones if the model should be told about it, else 0."""
        bound = self._limits.repeated_calls
        if bound is None:
            return 0
        args = _IN_ORDER.encode(call.args) if call.invalid is None else call.invalid
        key = call.name, args, (result.text, result.images)
        self._calls[key] += 1
        count = self._calls[key]
        self._repeated = max(self._repeated, (count, call.name))
        return count if count % bound == 0 else 0

    def count_hopeless_call(self, agent: str, tool: str, reason: str) -> None:
        """Count a call without a possible answer; too many end the run.

        Args:
            agent: The agent's name.
            tool: The tool's name.
            reason: Why there is no answer, for example "lead waits for ann".
        """
        self._hopeless_calls += 1
        bound = self._limits.repeated_calls
        if bound is None or self._hopeless_calls < bound:
            return
        sentence = f"{agent} called {tool} {self._hopeless_calls} times for an answer that cannot come ({reason})"
        self._ended = "repeated_calls", f"{sentence}, so the run was ended; {_REPHRASE}"
        if self._run_spend is not None:
            self._run_spend.end(self._ended)

    def reached_limit(self, model: Model, tokens: int = 0, cost: float = 0.0) -> ReachedLimit | None:
        """The limit that is reached, None if there is none.

        A limit that ended a reply stays reached, even if the reply turns out to have fewer tokens than estimated.

        Args:
            model: The model that writes the reply that is being streamed.
            tokens: What a request beside that reply, such as one for a summary, has taken so far.
            cost: Its US dollars so far.
        """
        if (known := self._reached_in_reply or self._ended) is not None:
            return known
        limits, session_spend = self._limits, self._session_spend
        running = self._running_reply()
        estimate, cost = tokens + running.total_tokens, cost + (model.cost(running) or 0.0)
        used = (
            ("rounds", limits.rounds, self.rounds, "rounds"),
            ("tokens", limits.tokens, self._tokens + estimate, "tokens"),
            ("cost", limits.cost, self._cost + cost, "US dollars"),
            ("seconds", limits.seconds, self._clock() - self._started, "seconds"),
            ("session_tokens", limits.session_tokens, session_spend.tokens + estimate, "tokens"),
            ("session_cost", limits.session_cost, session_spend.cost + cost, "US dollars"),
        )
        for name, bound, value, unit in used:
            if bound is not None and value >= bound:
                return name, _sentence(name, bound, unit)
        repeated, tool = self._repeated
        if limits.repeated_calls is not None and repeated >= limits.repeated_calls * REPETITIONS:
            return "repeated_calls", (
                f"The model called {tool} {repeated} times with the same arguments and the same result; rephrase "
                "the prompt, or raise `repeated_calls` in the limits."
            )
        return None if self._run_spend is None else self._run_spend.reached_limit(estimate, cost)

    def spend(self, tokens: int, cost: float) -> None:
        """Count tokens and US dollars."""
        self._tokens += tokens
        self._cost += cost
        self._session_spend.spend(tokens, cost)
        if self._run_spend is not None:
            self._run_spend.spend(tokens, cost)

    def _running_reply(self) -> Usage:
        """What the reply that is being streamed has taken so far: as reported, and estimated for the rest."""
        known = self._reported or (self._request if self._written else None)
        if known is None and not self._written:
            return _NOTHING
        if known is None:
            return Usage(output_tokens=self._written // CHARACTERS_PER_TOKEN)
        return estimated_so_far(known, self._written)


def _number(value: float) -> str:
    """A count or an amount, never in scientific notation."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6f}".rstrip("0").rstrip(".")


def _refusal(name: str, used: float, more: float, bound: float, whose: str = "The turn") -> str:
    which, how = ("The session", "in its limits") if name.startswith("session_") else (whose, "in the limits")
    if name.endswith("cost"):
        left, needs = f"${bound - used:,.4f} of its {_number(bound)} US dollars", f"cost about ${more:,.4f}"
    else:
        left, needs = f"{_number(bound - used)} of its {_number(bound)} tokens", f"read about {_number(more)}"
    return (
        f"{which} has only {left} left, and the next request would {needs}, so it was not sent; "
        f"raise `{name}` {how} to go on."
    )


def _sentence(name: str, bound: float, unit: str) -> str:
    if name.startswith("session_"):
        return f"The session has used up its {_number(bound)} {unit}; raise `{name}` in its limits to go on."
    return f"The turn has used up its {_number(bound)} {unit}; prompt again to go on, or raise `{name}` in the limits."

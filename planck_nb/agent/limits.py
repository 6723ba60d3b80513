"""How much a turn, and a whole session, may use before it is stopped."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from planck_nb.ai.messages import AssistantMessage, ToolCallPart, ToolResultPart, Usage
from planck_nb.ai.models import Model
from planck_nb.ai.providers import may_cost, rules_of
from planck_nb.base.errors import ConfigError
from planck_nb.base.json_types import JsonObject

CHARACTERS_PER_TOKEN = 4
"""Used to estimate the tokens of a reply while it streams; its usage replaces the estimate."""

CHECKED_CHARACTERS = 400
"""How many characters are streamed between two checks of the limits."""


_NOTHING = Usage()

_IN_ORDER = json.JSONEncoder(sort_keys=True, default=repr)
"""Writes arguments so that their order does not matter; `json.dumps` would make such an encoder for each call."""

USUAL_COST = 5.0
"""US dollars for one turn, unless somebody sets another limit."""

USUAL_TOTAL = 50.0
"""US dollars for a session, unless somebody sets another limit."""

WHOLE_LIMITS = frozenset({"rounds", "tokens", "session_tokens", "repeated_calls"})
"""Limits in whole numbers."""
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
        unknown_price: US dollars per million tokens, read or written, for models without a known price; 0 for free
            ones. With None they count as free, which is said once, and are refused under a `cost` or `session_cost`
            other than the usual one.
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
    cost: float | None = USUAL_COST
    seconds: float | None = 3_600.0
    session_tokens: int | None = 20_000_000
    session_cost: float | None = USUAL_TOTAL
    repeated_calls: int | None = 10
    unknown_price: float | None = None

    def __post_init__(self) -> None:
        for name, bound in self.as_dict().items():
            if bound is not None and not (isinstance(bound, (int, float)) and bound >= 0):
                raise ConfigError(f"The limit `{name}` must be 0 or more, or None for no limit, not {bound!r}.")
        if self.repeated_calls is not None and self.repeated_calls < 2:  # noqa: PLR2004 - a repetition is two
            raise ConfigError(f"The limit `repeated_calls` must be 2 or more, or None, not {self.repeated_calls!r}.")

    def price(self, usage: Usage, model: Model) -> float:
        """Compute a request's price for the limits.

        Args:
            usage: Its tokens.
            model: Its model.

        Returns:
            US dollars, from `unknown_price` if the price is not known.

        Example:
            >>> from planck_nb import ai
            >>> Limits(unknown_price=2.0).price(ai.Usage(500_000, 500_000), ai.get_model("groq:any-model"))
            2.0
        """
        cost = model.cost(usage)
        return self.unknown_cost(usage.total_tokens) if cost is None else cost

    def unknown_cost(self, tokens: int) -> float:
        """Compute the price of tokens from `unknown_price`.

        Args:
            tokens: Tokens read and written.

        Returns:
            US dollars.
        """
        return tokens * (self.unknown_price or 0.0) / 1_000_000

    def without_price(self, model: Model, no_price: Container[str]) -> ReachedLimit | None:
        """Return the cost limit which refuses a model without a price.

        Args:
            model: The model to ask.
            no_price: Models whose replies had neither a known price nor a reported one.

        Returns:
            The limit; None if the price is known or reported, or nobody set a cost limit by hand.
        """
        if self.cost not in (None, USUAL_COST):
            name, bound = "cost", self.cost
        elif self.session_cost not in (None, USUAL_TOTAL):
            name, bound = "session_cost", self.session_cost
        else:
            return None
        if self.unknown_price is not None or model.pricing is not None or not may_cost(model):
            return None
        if rules_of(model).cost is not None and str(model) not in no_price:
            return None
        return name, (
            f"The price of {model} is not known, so its limit of {_number(bound)} US dollars cannot hold; say "
            "what it costs with `unknown_price` in the limits, in US dollars per million tokens (0 if it is "
            f"free), or set `{name}` to None and `tokens` to a number."
        )

    def as_dict(self) -> dict[str, float | None]:
        """Return the limits by name.

        Returns:
            A new dictionary with every limit, in the units of the fields; None for no limit.
        """
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

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
        if name == "unknown_price" and not trusted:
            continue  # a low price would raise all limits of cost
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
    no_price: set[str] = field(default_factory=set[str])
    """Models whose price turned out to be unknown."""
    no_tokens: set[str] = field(default_factory=set[str])
    """Models whose replies came without token counts."""

    def spend(self, tokens: int, cost: float) -> None:
        """Add tokens and US dollars.

        Args:
            tokens: Tokens read and written.
            cost: US dollars.
        """
        self.tokens += tokens
        self.cost += cost


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

    def crossed_by(self, estimated: Usage, model: Model) -> ReachedLimit | None:
        """The limit that a request would cross with its input alone, None if there is none."""
        limits = self._limits
        tokens, cost = estimated.input_tokens, limits.price(estimated, model)
        for name, bound, used, more in (
            ("tokens", limits.tokens, self._tokens, tokens),
            ("cost", limits.cost, self._cost, cost),
        ):
            if bound is not None and used + more > bound:
                return name, _refusal(name, used, more, bound, "The run of the team")
        return None if self._outer is None else self._outer.crossed_by(estimated, model)

    def without_price(self, model: Model, no_price: Container[str]) -> ReachedLimit | None:
        """The cost limit which refuses a model without a price."""
        limit = self._limits.without_price(model, no_price)
        return limit if limit is not None or self._outer is None else self._outer.without_price(model, no_price)


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
        if (refusal := self._without_price(model)) is not None:
            return refusal
        tokens, cost = estimated.input_tokens, limits.price(estimated, model)
        would_use = (
            ("session_tokens", limits.session_tokens, session_spend.tokens, tokens),
            ("session_cost", limits.session_cost, session_spend.cost, cost),
            ("tokens", limits.tokens, self._tokens, tokens),
            ("cost", limits.cost, self._cost, cost),
        )
        for name, bound, used, more in would_use if self.rounds else would_use[:2]:
            if bound is not None and used + more > bound:
                return name, _refusal(name, used, more, bound)
        return self._run_spend.crossed_by(estimated, model) if self._run_spend is not None and self.rounds else None

    def _without_price(self, model: Model) -> ReachedLimit | None:
        """The cost limit which refuses a model without a price."""
        no_price = self._session_spend.no_price
        limit = self._limits.without_price(model, no_price)
        if limit is not None or self._run_spend is None:
            return limit
        return self._run_spend.without_price(model, no_price)

    def gaps(self, model: Model, reply: AssistantMessage) -> Iterator[str]:
        """A sentence, once per model, about a missing price or count."""
        limits, spend = self._limits, self._session_spend
        name = str(model)
        bounds = (limits.tokens, limits.cost, limits.session_tokens, limits.session_cost)
        if reply.estimated and name not in spend.no_tokens and any(bound is not None for bound in bounds):
            spend.no_tokens.add(name)
            yield f"{model} did not say how many tokens it read and wrote, so the limits count an estimate."
        bound = limits.session_cost if limits.cost is None else limits.cost
        if reply.cost is not None or bound is None or limits.unknown_price is not None or not may_cost(model):
            return
        if name not in spend.no_price:
            spend.no_price.add(name)
            yield (
                f"The price of {model} is not known, so the limit of {_number(bound)} US dollars does not hold for it; "
                "limit its `tokens`, or say what it costs with `unknown_price` in the limits."
            )

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

    def reached_limit(self, model: Model, tokens: int = 0, cost: float | None = 0.0) -> ReachedLimit | None:
        """The limit that is reached, None if there is none.

        A limit that ended a reply stays reached, even if the reply turns out to have fewer tokens than estimated.

        Args:
            model: The model that writes the reply that is being streamed.
            tokens: What a request beside that reply, such as one for a summary, has taken so far.
            cost: Its US dollars so far, None if the price is unknown.
        """
        if (known := self._reached_in_reply or self._ended) is not None:
            return known
        if cost is None:
            cost = self._limits.unknown_cost(tokens)
        limits, session_spend = self._limits, self._session_spend
        running = self._running_reply()
        estimate, cost = tokens + running.total_tokens, cost + limits.price(running, model)
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

    def spend(self, tokens: int, cost: float | None) -> None:
        """Count tokens and US dollars; those of `Limits.unknown_price` if `cost` is None."""
        if cost is None:
            cost = self._limits.unknown_cost(tokens)
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

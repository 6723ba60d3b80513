"""Reads the token counts that servers report, for all dialects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from planck_nb.ai.messages import Usage
from planck_nb.ai.models import Model
from planck_nb.ai.numbers import dollars, token_count
from planck_nb.ai.providers import rules_of
from planck_nb.ai.stream_events import StreamEvent, StreamWarning, UsageUpdate
from planck_nb.base.json_types import JsonObject

_QUOTED = 40


class TokenCounts:
    """The token counts of one reply. Counts that cannot be right become unknown, with one warning for the reply."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._warned = False

    def update(
        self,
        *,
        read: Iterable[object],
        written: Iterable[object],
        cache_read: object = None,
        cache_write: object = None,
        thinking: object = None,
        total: object = None,
        cost: object = None,
    ) -> list[StreamEvent]:
        """The update for reported counts, and a warning about the first one that cannot be right.

        Args:
            read: Counts that add up to the input tokens. None stands for a missing count and counts as 0.
            written: Counts that add up to the output tokens.
            cache_read: The part of the input that came from the cache.
            cache_write: The part of the input that was written to it.
            thinking: The part of the output that was spent on thinking.
            total: All tokens together. Any surplus is output which the other counts left out, such as the thinking in
                xAI's replies: https://github.com/vercel/ai/pull/12425
            cost: The answer's price in US dollars, as its server reports it.
        """
        wrong: list[object] = []
        inputs, outputs = _sum(read, wrong), _sum(written, wrong)
        cached, cached_now = _count(cache_read, wrong) or 0, _count(cache_write, wrong) or 0
        thought = _count(thinking, wrong) or 0
        usage = None
        if inputs is not None and outputs is not None:
            if cached + cached_now > inputs:
                wrong.append(cached + cached_now)
                cached = cached_now = 0
            outputs = max(outputs if thought <= outputs else outputs + thought, (_count(total, wrong) or 0) - inputs)
            usage = Usage(inputs, outputs, cached, cached_now, thought)
        price = dollars(cost)
        return [*self._warnings(wrong, usage), UsageUpdate(usage or Usage(), is_known=usage is not None, cost=price)]

    def price(self, usage: JsonObject) -> float | None:
        """The US dollars in a server's usage, None without a price."""
        if (cost := rules_of(self._model).cost) is None:
            return None
        price = usage.get(cost.field)
        return price * cost.dollars if isinstance(price, int | float) and not isinstance(price, bool) else None

    def unreadable(self, found: object) -> list[StreamEvent]:
        """The update for a value that is not an object with counts."""
        return [*self._warnings([found], None), UsageUpdate(Usage(), is_known=False)]

    def _warnings(self, wrong: list[object], usage: Usage | None) -> Iterable[StreamEvent]:
        if not wrong or self._warned:
            return
        self._warned = True
        unknown = "the usage of this answer is unknown" if usage is None else "a part of its usage is unknown"
        yield StreamWarning(
            f"{self._model} reported a token count that cannot be right ({_shown(wrong[0])}), so {unknown}; check its "
            "server."
        )


def as_object(value: Any) -> JsonObject:  # noqa: ANN401 - any JSON value
    """The value if it is an object, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def _count(value: object, wrong: list[object]) -> int | None:
    if value is None:
        return 0
    if (count := token_count(value)) is None:
        wrong.append(value)
    return count


def _sum(values: Iterable[object], wrong: list[object]) -> int | None:
    """The sum of counts, None if one of them cannot be right."""
    total = 0
    for value in values:
        if (count := _count(value, wrong)) is None:
            return None
        total += count
    return total


def _shown(value: object) -> str:
    """The beginning of a value; of a long number only how long it is, because writing it takes quadratic time."""
    if isinstance(value, int) and value.bit_length() > 128:  # noqa: PLR2004 - more than anything counts
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= _QUOTED else text[:_QUOTED] + "…"

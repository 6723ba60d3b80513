"""Checks the numbers that servers and files contain: an implausible one is unknown, and is never counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_TOKENS = 1_000_000_000
"""More tokens than any model reads or writes in one request."""

MAX_TOKENS_TOGETHER = 1_000_000_000_000_000
"""More tokens than the replies of a session add up to."""

MAX_DOLLARS = 1_000_000_000.0
"""More US dollars than anything costs here."""

MAX_WAIT = 31 * 24 * 3600.0
"""Seconds; no server asks to wait longer than a month."""

_FIELDS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "thinking_tokens")


def whole_number(value: object, *, maximum: int) -> int | None:
    """The number if it is an integer from 0 to `maximum`, even if written as `12.0`; None for anything else."""
    if type(value) is int:  # as nearly always
        return value if 0 <= value <= maximum else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= maximum else None


def token_count(value: object) -> int | None:
    """The number of tokens; None for what cannot be one."""
    return whole_number(value, maximum=MAX_TOKENS)


def context_length(value: object) -> int | None:
    """The length of a context window in tokens; None for 0 and for what cannot be one."""
    return token_count(value) or None


def dollars(value: object) -> float | None:
    """The amount in US dollars; None for what cannot be one."""
    return _real(value, maximum=MAX_DOLLARS)


def seconds(value: object) -> float | None:
    """The seconds to wait; None for what cannot be that."""
    return _real(value, maximum=MAX_WAIT)


def http_status(value: object) -> int | None:
    """The HTTP status of an error, 400 to 599, also as text; None for anything else."""
    if isinstance(value, str) and len(value) == 3 and value.isdecimal():  # noqa: PLR2004 - digits of a status
        value = int(value)
    status = whole_number(value, maximum=599)
    return status if status is not None and status >= 400 else None  # noqa: PLR2004


def are_counts(*values: int) -> bool:
    """Whether the values are plausible token counts, and exactly of type int."""
    return set(map(type, values)) == {int} and min(values) >= 0 and max(values) <= MAX_TOKENS


def usage_counts(data: object, *, maximum: int = MAX_TOKENS) -> dict[str, int] | None:
    """The fields of a `Usage` in JSON data; None if input or output are not counts up to `maximum`.

    Details that cannot be right, such as more cached tokens than there were, are 0.
    """
    if not isinstance(data, Mapping):
        return None
    counts = {name: whole_number(data.get(name, 0), maximum=maximum) for name in _FIELDS}
    if counts["input_tokens"] is None or counts["output_tokens"] is None:
        return None
    known = {name: count or 0 for name, count in counts.items()}
    if known["cache_read_tokens"] + known["cache_write_tokens"] > known["input_tokens"]:
        known["cache_read_tokens"] = known["cache_write_tokens"] = 0
    return known


def with_plausible_numbers(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """A stored message without usage, cost and ids that cannot be right: somebody else may have written it."""
    kind = data.get("type")
    if kind == "summary" and (kept := data.get("kept")):
        ids = [each for each in kept if whole_number(each, maximum=2**63 - 1) is not None] if _is_list(kept) else []
        return data if ids == kept else {**data, "kept": ids}
    if kind != "assistant":
        return data
    usage, cost = data.get("usage"), data.get("cost")
    if usage is not None and (counts := usage_counts(usage)) != usage:
        data = {**data, "usage": counts}
        cost = None if counts is None else cost
    if dollars(cost) != data.get("cost"):
        data = {**data, "cost": dollars(cost)}
    return data


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def _real(value: object, *, maximum: float) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= maximum else None

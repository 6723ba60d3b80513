"""The headers in which servers say how many requests they accept, and when to come back."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from planck_nb.ai.numbers import MAX_WAIT

_LIMIT = re.compile(
    r"(?:x-|anthropic-)?ratelimit-(?:(?P<of1>[a-z-]+)-)?(?P<what>remaining|reset)(?:-(?P<of2>[a-z-]+))?"
)
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_MILLISECONDS_SINCE = 1.5e12
"""A number above this, which stands for the year 2017, is a time in milliseconds since 1970."""
_SECONDS_SINCE = 1.5e9
"""A number above this is a time in seconds since 1970; as a duration it would be decades."""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that the server asks to wait, at most `MAX_WAIT`; None if it does not, or the value is not a time."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return _bounded(milliseconds / 1000)
    value = headers.get("retry-after", "").strip()
    return _waiting_time(value) if value else None


def exhausted_until(headers: Mapping[str, str]) -> float | None:
    """The seconds until a limit that is used up is reset, the longest of several; None if none is used up."""
    waits = [reset for remaining, reset in _limits(headers).values() if remaining == 0 and reset is not None]
    return max(waits, default=None)


def request_limits(headers: Mapping[str, str]) -> Iterator[tuple[float, float]]:
    """For each limit of the number of requests: how many are left, and in how many seconds it is reset."""
    for of, (remaining, reset) in _limits(headers).items():
        if of in {"", "requests"} and remaining is not None and reset is not None:
            yield remaining, reset


def _limits(headers: Mapping[str, str]) -> dict[str, tuple[float | None, float | None]]:
    found: dict[str, tuple[float | None, float | None]] = {}
    for name, value in headers.items():
        if "ratelimit-" not in name or (header := _LIMIT.fullmatch(name)) is None:
            continue
        of = header["of1"] or header["of2"] or ""
        remaining, reset = found.get(of, (None, None))
        if header["what"] == "remaining":
            remaining = _count(value)
        else:
            reset = _reset(value)
        found[of] = remaining, reset
    return found


def _count(value: str) -> float | None:
    number = _number(value)
    return None if number == math.inf else number


def _number(value: str) -> float | None:
    """The number in a header, None if there is none or it is negative."""
    try:
        number = float(value)
    except ValueError:
        return None
    return number if number >= 0 else None


def _reset(value: str) -> float | None:
    """The seconds until a reset."""
    value = value.strip()
    return None if _number(value) == math.inf else _waiting_time(value)


def _waiting_time(value: str) -> float | None:
    """The seconds until a time, which servers write as a date, as a duration such as 6m0s, or as a number."""
    if (number := _number(value)) is not None:
        now = datetime.now(UTC).timestamp()
        if number > _MILLISECONDS_SINCE:
            return _bounded(number / 1000 - now)
        return _bounded(number - now if number > _SECONDS_SINCE else number)
    parts = _PART.findall(value)
    if parts and "".join(number + unit for number, unit in parts) == value:
        return _bounded(sum(float(number) * _SECONDS[unit] for number, unit in parts))
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            return _until(read(value))
        except (ValueError, TypeError, OverflowError):
            continue
    return None


def _until(date: datetime) -> float | None:
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return _bounded((date - datetime.now(UTC)).total_seconds())


def _bounded(value: float) -> float | None:
    return None if math.isnan(value) else min(max(value, 0.0), MAX_WAIT)

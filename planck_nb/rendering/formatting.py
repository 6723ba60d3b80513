"""Text and numbers for both the live and the saved view."""

from __future__ import annotations

import json
from collections.abc import Mapping

from planck_nb.agent.approval.shown_call import value_text
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import encodable, head_and_tail
from planck_nb.base.visible import visible

SHOWN_CHARACTERS = 20_000
"""Largest number of characters for a tool result, or a call's arguments."""

TEXT_CHARACTERS = 500_000
"""Longest text from a reply in an output; `answer.text` has everything."""

_SHOWN_LINES = 2_000
_SHOWN_ARGUMENTS = 50
_KEY_CHARACTERS = 200
_SHORT = 40
_KEY_NAMES = ("path", "file_path", "file", "command", "cmd", "code", "query", "sql", "url", "pattern", "name")


def bounded(text: str, characters: int = SHOWN_CHARACTERS) -> str:
    """Return a long text's beginning and end, without unencodable characters."""
    return encodable(head_and_tail(text, characters=characters, lines=_SHOWN_LINES))


def bounded_text(text: str) -> str:
    """Return a reply's text, without the middle of a very long one."""
    return encodable(head_and_tail(text, characters=TEXT_CHARACTERS))


def key_argument(args: Mapping[str, object]) -> str:
    """Return a tool call's distinguishing argument, such as a path or command.

    Args:
        args: The call's arguments by name.

    Returns:
        One line; all arguments if their names are unusual and they are short. May be empty.
    """
    scalars = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in args.items()
        if isinstance(value, str | int | float)
    }
    key_values = [scalars[name] for name in _KEY_NAMES if name in scalars]
    lines = [
        line
        for value in key_values or scalars.values()
        if (line := next(filter(None, map(str.strip, value.splitlines())), ""))
    ]
    short = not key_values and all(len(line) <= _SHORT for line in lines)
    return visible(", ".join(lines if short else lines[:1])[:_KEY_CHARACTERS], lookalikes=True)


def shown_arguments(args: JsonObject) -> list[tuple[str, str]]:
    """Return each argument's name and text, bounded.

    Strings are unchanged, other values are JSON.
    """
    names = list(args)[:_SHOWN_ARGUMENTS]
    share = SHOWN_CHARACTERS // max(len(names), 1)
    pairs = [(_visible(name, _KEY_CHARACTERS), _visible(value_text(args[name]), share)) for name in names]
    if len(args) > len(names):
        pairs.append(("…", f"{len(args) - len(names):,} more arguments"))
    return pairs


def _visible(text: str, characters: int) -> str:
    return visible(head_and_tail(text, characters=characters, lines=_SHOWN_LINES))


def count(number: int) -> str:
    """Return a count in at most five characters: 640, 18.4k, 1.2M."""
    for unit, suffix in ((1_000_000, "M"), (1_000, "k")):
        if number >= unit - unit // 20_000:  # 999,950 would round to 1000.0k
            return f"{number / unit:.1f}{suffix}"
    return str(number)


def dollars(cost: float) -> str:
    """Return a cost in US dollars: $0.063, $1.20.

    A small cost is never shown as zero.
    """
    if cost == 0:
        return "$0"
    if cost < 0.001:  # noqa: PLR2004 - the last figure shown
        return "<$0.001"
    return f"${cost:.3f}" if cost < 1 else f"${cost:.2f}"


def elapsed(seconds: float) -> str:
    """Return a duration: whole seconds below a minute, otherwise minutes and seconds."""
    whole = max(0, int(seconds))
    return f"{whole} s" if whole < 60 else f"{whole // 60}:{whole % 60:02}"  # noqa: PLR2004 - seconds of a minute

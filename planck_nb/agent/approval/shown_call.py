"""A call as the person who decides about it sees it, with nothing hidden: its texts, and how long they may be."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from planck_nb.agent.effect import Effect
from planck_nb.base.json_types import JsonObject
from planck_nb.base.visible import visible

MAX_CHARACTERS = 200_000
MAX_LINES = 20_000
"""The longest call that a person is asked about: nobody can approve what cannot be shown as a whole."""

_MAX_SPELLING_LENGTH = len("⟨U+10FFFF⟩")

_ONE_LINE = frozenset("path file_path file cwd folder directory source target url host name command cmd".split())
"""Arguments in which no word should mix Latin letters with those of other alphabets."""


class CallSize(NamedTuple):
    """The size of a call with its hidden characters spelled out; those of a call that is far too long are not."""

    characters: int
    lines: int

    @property
    def can_be_shown(self) -> bool:
        """Whether the call can be shown as a whole."""
        return self.characters <= MAX_CHARACTERS and self.lines <= MAX_LINES


def call_size(args: JsonObject, effects: Sequence[Effect]) -> CallSize:
    """Measure the arguments of a call, and those of its effects that are not arguments."""
    values = list(map(value_text, args.values()))
    given = set(values)  # the target of a command usually is an argument
    others = [effect.target for effect in effects if effect.target not in given]
    texts = [*args, *values, *others]
    characters = sum(map(len, texts))
    if MAX_CHARACTERS / _MAX_SPELLING_LENGTH < characters <= MAX_CHARACTERS:  # else spelling out changes nothing
        shown = [argument_text(name, value, effects) for name, value in args.items()]
        characters = sum(map(len, shown)) + sum(len(visible(text, lookalikes=True)) for text in (*args, *others))
    return CallSize(characters, 1 + sum(text.count("\n") for text in texts))


def argument_text(name: str, value: object, effects: Iterable[Effect]) -> str:
    """Return an argument as text: a string as it is, other values as JSON, with hidden characters spelled out.

    Characters that look like others are spelled out, too, unless the argument is the content of a file.
    """
    kinds = {effect.kind for effect in effects}
    return visible(value_text(value), lookalikes=name in _ONE_LINE or not kinds or bool(kinds & {"execute", "network"}))


def value_text(value: object) -> str:
    """Return a value as text: a string as it is, other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)

"""What a verb is, and what it answers with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from planck_nb.base.errors import UsageError
from planck_nb.jupyter.controller import Controller, Namespace
from planck_nb.jupyter.options import Option, parse_words

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Notebook:
    """The notebook that a verb was written in: the `names` it defined, and `put`, which gives one a new value."""

    names: Namespace
    put: Callable[[str, object], None]


Answering: TypeAlias = Callable[[Controller, str, Notebook], Awaitable[object]]
"""What a verb does with what follows it. The answer shows itself: text, or a table."""


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb: how it is written, what it is for, what it does, and the options that it has of its own.

    In `usage` the words `agent`, `session`, `verb`, `view`, `provider` and `provider:model` stand for names, which
    completion offers there.
    """

    usage: str
    help: str
    answer: Answering
    options: tuple[Option, ...] = ()


class Text(str):
    """A line or a few for a person, shown as they are."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def takes_nothing(verb: str, argument: str) -> None:
    """Raise `UsageError` where something follows a verb that stands alone."""
    if parse_words(argument, of=f"%planck {verb}").words:
        raise UsageError(f"`%planck {verb}` takes nothing more.")


def table(rows: Sequence[Mapping[str, object]], columns: list[str]) -> pd.DataFrame:
    """The rows as a table with these columns."""
    import pandas as pd  # noqa: PLC0415 - half a second, paid with the first table

    return pd.DataFrame(rows, columns=columns)

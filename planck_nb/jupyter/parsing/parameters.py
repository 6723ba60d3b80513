"""How parameters and options of `%planck` are declared. Parsing, help and completion all follow from this."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from keyword import iskeyword
from pathlib import Path
from typing import Any, TypeAlias

from planck_nb.base.errors import UsageError
from planck_nb.jupyter.notebook import Notebook

_LARGEST = 2**63 - 1

QUOTES = "'\""
"""The quotation marks that hold the words of one value together."""

Suggestions: TypeAlias = Mapping[str, str]
"""What can be written, each with a description for completion, which may be empty."""


class Extent(Enum):
    """How much of what was written belongs to a parameter. All but the first are for the last parameter only."""

    WORD = "one word, or several in quotes"
    NAME = "one name, in quotes or without"
    WORDS = "all words, each of which may be in quotes"
    TEXT = "all the text, unchanged"


def _no_suggestions(_notebook: Notebook) -> Suggestions:
    return {}


@dataclass(frozen=True, slots=True)
class Kind:
    """What can be written for a parameter, or for the value of an option.

    Args:
        placeholder: The word that stands for it in help, in capitals.
        convert: Makes a value from the text; its `ValueError` or `UsageError` says that the text cannot be used.
        resolve: Looks the converted value up in the notebook; its `PlanckError` says that there is none.
        suggest: Returns what completion offers.
        extent: How much of the line belongs to it.
        quotes: The quotation marks that hold words together.
    """

    placeholder: str
    convert: Callable[[str], Any] = str
    resolve: Callable[[Notebook, Any], Any] | None = None
    suggest: Callable[[Notebook], Suggestions] = _no_suggestions
    extent: Extent = Extent.WORD
    quotes: str = QUOTES


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a verb, which is written by its position.

    Args:
        name: The name of the function's argument that receives the value: None if it is optional and was not written,
            a tuple if it is of several words.
        kind: What can be written for it.
        help: A line of help.
        optional: Whether it can be left out.
    """

    name: str
    kind: Kind
    help: str
    optional: bool = False

    @property
    def usage(self) -> str:
        """How it is shown in the verb's usage line."""
        more = " …" if self.kind.extent is Extent.WORDS else ""
        return f"[{self.kind.placeholder}{more}]" if self.optional else f"{self.kind.placeholder}{more}"


@dataclass(frozen=True, slots=True)
class Option:
    """An option, which is written as `--name VALUE`, `--name=VALUE`, or `--name` alone if it is a switch.

    Args:
        name: The name without dashes. The function's argument has underscores for dashes, and one more at the end of a
            Python keyword. It receives None if the option was not written; a switch is True or False.
        short: One letter for `-x`, or None.
        kind: What can be written as its value; None for a switch.
        help: A line of help.
    """

    name: str
    short: str | None
    kind: Kind | None
    help: str

    @property
    def argument(self) -> str:
        """The name of the function's argument."""
        name = self.name.replace("-", "_")
        return f"{name}_" if iskeyword(name) else name

    @property
    def usage(self) -> str:
        """The option with its short form and its value."""
        spelled = f"-{self.short}, --{self.name}" if self.short else f"--{self.name}"
        return f"{spelled} {self.kind.placeholder}" if self.kind else spelled


def flags(options: Iterable[Option]) -> dict[str, Option]:
    """The options by what is typed for them."""
    found: dict[str, Option] = {}
    for option in options:
        found[f"--{option.name}"] = option
        if option.short:
            found[f"-{option.short}"] = option
    return found


def choice(*words: str, **described: str) -> Kind:
    """A kind for one of these words.

    Args:
        words: The words.
        described: More words, each with a description for completion.

    Returns:
        The kind; its placeholder is the words with bars between them.
    """
    known = dict.fromkeys(words, "") | described

    def convert(text: str) -> str:
        if text not in known:
            raise ValueError(text)
        return text

    return Kind("|".join(known), convert, suggest=lambda _notebook: known)


def positive_integer(text: str) -> int:
    """Convert a whole number from 1. Raises `ValueError`, and `UsageError` for one that databases cannot have."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    if number > _LARGEST:
        raise UsageError(f"{text} is too large; the largest number is {_LARGEST:,}.")
    return number


def _path(text: str) -> Path:
    if not text:
        raise ValueError(text)
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise UsageError(f"There is no home folder for {text}; write the whole path.") from None


WORD = Kind("NAME")
TEXT = Kind("TEXT", extent=Extent.TEXT)
WORDS = Kind("WORD", extent=Extent.WORDS)
INTEGER = Kind("N", positive_integer)
FILE = Kind("FILE", _path)

DEBUG = Option("debug", None, None, "show the whole traceback of an error")
HELP = Option("help", None, None, "show this help")
OF_EVERY_VERB = (DEBUG, HELP)
"""Options that no verb needs to declare."""

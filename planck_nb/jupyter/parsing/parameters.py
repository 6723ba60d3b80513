"""Declarations for parameters and options in `%planck`.

Parsing, help and completion all follow from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from keyword import iskeyword
from pathlib import Path
from typing import Any, TypeAlias

from planck_nb.base.errors import UsageError
from planck_nb.jupyter.file_names import looks_like_file
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.similar_words import nearest

_LARGEST = 2**63 - 1

QUOTES = "'\""
"""Quotation marks around a value with several words."""

Suggestions: TypeAlias = Mapping[str, str]
"""Possible words, each with a description for completion, perhaps empty."""


class Extent(Enum):
    """The part of the line which belongs to a parameter.

    All but the first value are for the last parameter only.
    """

    WORD = "one word, or several in quotes"
    NAME = "one name, in quotes or without"
    WORDS = "all words, each of which may be in quotes"
    TEXT = "all the text, unchanged"


def _no_suggestions(_notebook: Notebook) -> Suggestions:
    return {}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of parameter or option value.

    Args:
        placeholder: Its word in help, in capitals.
        convert: Makes a value from the text; its `ValueError` or `UsageError` means an unusable text.
        resolve: Looks the converted value up in the notebook; its `PlanckError` means an unknown value.
        suggest: Returns the suggestions for completion.
        extent: The part of the line which belongs to it.
        quotes: Quotation marks which hold words together.
        fits: Recognises texts which are probably meant as a value, mistyped ones too. Without it, any text which
            `convert` accepts may be one.
    """

    placeholder: str
    convert: Callable[[str], Any] = str
    resolve: Callable[[Notebook, Any], Any] | None = None
    suggest: Callable[[Notebook], Suggestions] = _no_suggestions
    extent: Extent = Extent.WORD
    quotes: str = QUOTES
    fits: Callable[[Notebook, str], bool] | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A verb's positional parameter.

    Args:
        name: Name of the function's argument for the value: None if it is optional and missing, a tuple if it has
            several words.
        kind: Its kind.
        help: A line of help.
        optional: Whether it can be left out.
    """

    name: str
    kind: Kind
    help: str
    optional: bool = False

    @property
    def usage(self) -> str:
        """Return its part of the verb's usage line."""
        more = " …" if self.kind.extent is Extent.WORDS else ""
        return f"[{self.kind.placeholder}{more}]" if self.optional else f"{self.kind.placeholder}{more}"


@dataclass(frozen=True, slots=True)
class Option:
    """An option: `--name VALUE`, `--name=VALUE`, or the switch `--name`.

    Args:
        name: The name without dashes. The function's argument has underscores for dashes, and one more after a Python
            keyword. It receives None for a missing option; a switch is True or False.
        short: One letter for `-x`, or None.
        kind: The value's kind; None for a switch.
        help: A line of help.
        synonyms: Single words of a line which mean it, for the message about them.
    """

    name: str
    short: str | None
    kind: Kind | None
    help: str
    synonyms: tuple[str, ...] = ()

    @property
    def argument(self) -> str:
        """Return the function argument's name."""
        name = self.name.replace("-", "_")
        return f"{name}_" if iskeyword(name) else name

    @property
    def usage(self) -> str:
        """Return the option with its short form and its value."""
        names = f"-{self.short}, --{self.name}" if self.short else f"--{self.name}"
        return f"{names} {self.kind.placeholder}" if self.kind else names


def flags(options: Iterable[Option]) -> dict[str, Option]:
    """Return the options by flag."""
    result: dict[str, Option] = {}
    for option in options:
        result[f"--{option.name}"] = option
        if option.short:
            result[f"-{option.short}"] = option
    return result


def choice(*words: str, **described: str) -> Kind:
    """Return a kind for one of these words.

    Args:
        words: The words.
        described: More words, each with a description for completion.

    Returns:
        The kind; its placeholder has the words with bars between them.
    """
    words_with_help = dict.fromkeys(words, "") | described

    def convert(text: str) -> str:
        if text not in words_with_help:
            raise ValueError(text)
        return text

    return Kind(
        "|".join(words_with_help),
        convert,
        suggest=lambda _notebook: words_with_help,
        fits=lambda _notebook, text: bool(nearest(text, words_with_help)),
    )


def positive_integer(text: str) -> int:
    """Convert a whole number from 1.

    Raises `ValueError`, and `UsageError` for a number beyond databases' limits.
    """
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
FILE = Kind("FILE", _path, fits=lambda _notebook, text: looks_like_file(text) or Path(text).exists())

DEBUG = Option("debug", None, None, "show the whole traceback of an error")
HELP = Option("help", None, None, "show this help")
OF_EVERY_VERB = (DEBUG, HELP)
"""Options for every verb."""

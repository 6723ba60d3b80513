"""What a verb is: a function and the declaration of its parameters."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.arguments import ArgumentSpec, Recogniser, read_arguments
from planck_nb.jupyter.parsing.parameters import OF_EVERY_VERB, Option, Parameter
from planck_nb.rendering.plain_output import for_terminal

if TYPE_CHECKING:
    import pandas as pd

VerbFunction: TypeAlias = Callable[..., Awaitable[object]]
"""What a verb does: an async function of the notebook, with a keyword argument for each parameter and option.

What it returns is the value of `%planck VERB` and shows itself: a `Text`, a table, or None.
"""

_USAGE_WIDTH = 28
_HELP_WIDTH = 110


class Text(str):
    """One or several lines for a person, shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return for_terminal(str(self))


@dataclass(frozen=True)
class Verb:
    """One verb of `%planck`, made by `verb`.

    Args:
        name: What is typed after `%planck`.
        subject: The heading under which help lists it.
        summary: A line of help.
        function: What it does.
        parameters: Its parameters in their order.
        options: Its options.
        example: What an example has after `%planck`.
        cell: Whether it can also be written as `%%planck`.
        synonyms: Other words for its name.
        shortcuts: Words for its name with arguments, each with these arguments.
        shows: Whether it only shows something where no arguments follow.
        fits: Recognises its arguments, instead of their kinds.
    """

    name: str
    subject: str
    summary: str
    function: VerbFunction
    parameters: tuple[Parameter, ...] = ()
    options: tuple[Option, ...] = ()
    example: str = ""
    cell: bool = False
    synonyms: tuple[str, ...] = ()
    shortcuts: Mapping[str, str] = field(default_factory=dict)
    shows: bool = False
    fits: Recogniser | None = None

    @cached_property
    def declared(self) -> ArgumentSpec:
        """What parsing needs to know."""
        return ArgumentSpec(f"%planck {self.name}", self.parameters, self.options, self.fits)

    @property
    def help(self) -> str:
        """The page of `%planck help VERB`."""
        lines = [self.declared.usage, f"    {self.summary}", ""]
        lines += columns([(parameter.kind.placeholder, parameter.help) for parameter in self.parameters])
        lines += columns([(option.usage, option.help) for option in (*self.options, *OF_EVERY_VERB)])
        words = [*self.synonyms, *(f"{word} for `{self.name} {args}`" for word, args in self.shortcuts.items())]
        if words:
            lines += ["", *textwrap.wrap(f"You can also write {', '.join(words)}.", _HELP_WIDTH)]
        if self.cell:
            lines += ["", f"With %%planck {self.name}, it continues on the lines below."]
        if self.example:
            lines += ["", f"Example: %planck {self.example}"]
        return "\n".join(lines)

    async def run(self, notebook: Notebook, line: str = "", cell: str | None = None) -> object:
        """Do what was written.

        Args:
            notebook: The notebook in which it was written.
            line: What follows the verb on its line.
            cell: The lines below it, if it was written as `%%planck`.

        Returns:
            What the verb's function returns, or its help for `--help`.

        Raises:
            PlanckError: What was written cannot be used, or the verb failed.
        """
        values = read_arguments(self.declared, line, cell, notebook)
        del values["debug"]
        if values.pop("help"):
            return Text(self.help)
        return await self.function(notebook, **values)


def verb(
    name: str,
    subject: str,
    summary: str,
    *declared: Parameter | Option,
    example: str = "",
    cell: bool = False,
    synonyms: Sequence[str] = (),
    shortcuts: Mapping[str, str] = MappingProxyType({}),
    shows: bool = False,
    fits: Recogniser | None = None,
) -> Callable[[VerbFunction], Verb]:
    """Make an async function a verb of `%planck`. Parsing, help, completion and `--debug` follow from the declaration.

    Args:
        name: What is typed after `%planck`.
        subject: The heading under which help lists it.
        summary: A line of help.
        declared: The parameters in their order, and the options. Only the last parameter can be a text, several words,
            or a name without quotes.
        example: What an example has after `%planck`.
        cell: Whether it can also be written as `%%planck`; the lines below continue the text, its last parameter.
        synonyms: Other words which people type for its name. Only a verb whose effect can be taken back has some.
        shortcuts: Words which stand for its name with arguments, each with these arguments.
        shows: Whether it only shows something where no arguments follow, so that `show NAME` and `list NAME` mean it.
        fits: Recognises its arguments. By default the kind of each parameter recognises its own. A line whose words
            are not recognised is a prompt.

    Returns:
        A decorator that makes a `Verb` of a function. The function receives the `Notebook` and an argument for each
        parameter and option, by name.

    Raises:
        TypeError: The function's arguments are not the declared ones.
    """
    parameters = tuple(item for item in declared if isinstance(item, Parameter))
    options = tuple(item for item in declared if isinstance(item, Option))

    def make(function: VerbFunction) -> Verb:
        expected = {*(parameter.name for parameter in parameters), *(option.argument for option in options)}
        actual = set(list(inspect.signature(function).parameters)[1:])
        if actual != expected:
            raise TypeError(f"the verb {name} declares {sorted(expected)}, but its function has {sorted(actual)}")
        return Verb(
            name,
            subject,
            summary,
            function,
            parameters,
            options,
            example,
            cell,
            tuple(synonyms),
            shortcuts,
            shows,
            fits,
        )

    return make


def columns(rows: Iterable[tuple[str, str]], width: int = _USAGE_WIDTH) -> list[str]:
    """Lines of two columns, for help."""
    return [f"  {left:<{width}}  {right}" for left, right in rows]


def table(
    rows: Sequence[Mapping[str, Any]], columns: list[str], *, empty: str = "", whole: bool = False
) -> pd.DataFrame:
    """Make a table of rows.

    Args:
        rows: The rows; each has a value for every column.
        columns: The names of the columns in order, which an empty table has as well.
        empty: What is shown of an empty table.
        whole: Whether long texts are shown whole.

    Returns:
        The table, which a notebook shows.
    """
    from planck_nb.jupyter.display.readable_table import ReadableTable  # noqa: PLC0415 - half a second, paid with the first table

    return ReadableTable(rows, columns, empty=empty, whole=whole)


def readable(frame: pd.DataFrame, *, empty: str = "") -> pd.DataFrame:
    """Return a table that is shown without NaN and fractions of a second, or as `empty`; its values are the same."""
    from planck_nb.jupyter.display.readable_table import ReadableTable  # noqa: PLC0415 - as above

    return ReadableTable(frame, empty=empty)

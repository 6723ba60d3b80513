"""Turns what was typed into arguments, by the declaration of a verb or of the options."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from io import StringIO
from types import MappingProxyType
from typing import Any

from planck_nb.base.errors import UsageError, did_you_mean
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.parameters import OF_EVERY_VERB, QUOTES, Extent, Kind, Option, Parameter, flags


@dataclass(frozen=True, slots=True)
class Parsed:
    """Values of options by the option's name, and the rest of the line as it was written."""

    options: dict[str, Any]
    rest: str
    ended: bool = False
    """Whether `--` ended the options."""


@dataclass(frozen=True, slots=True)
class ArgumentSpec:
    """What a verb declares of its arguments. `command` is how it is called, as `%planck export`."""

    command: str
    parameters: tuple[Parameter, ...]
    options: tuple[Option, ...]

    @property
    def usage(self) -> str:
        """The command with its parameters, as help shows it."""
        return " ".join([self.command, *(parameter.usage for parameter in self.parameters)])

    @property
    def text_parameter(self) -> Parameter | None:
        """The last parameter if it is a text."""
        last = self.parameters[-1] if self.parameters else None
        return last if last and last.kind.extent is Extent.TEXT else None


def parse_options(
    line: str,
    known: Sequence[Option],
    *,
    of: str,
    lenient: bool = False,
    before: Mapping[str, Any] = MappingProxyType({}),
) -> Parsed:
    """Read the options at the beginning of a line; `--` ends them.

    Args:
        line: The line.
        known: The options that can be written there.
        of: What has the options, for messages.
        lenient: Leave an unknown option as text instead of raising.
        before: The options that were read before, in front of a word of the same line.

    Returns:
        All options, and the rest of the line.

    Raises:
        UsageError: An option is unknown or has two values, or its value is missing or cannot be used.
    """
    by_flag = flags(known)
    options: dict[str, Any] = {**before}
    rest = line.strip()
    while rest.startswith("-") and not rest[1:2].isdigit() and rest[:2] != "- ":
        if lenient and rest.split(None, 1)[0].partition("=")[0] not in {*by_flag, "--"}:
            break
        word, rest = next_word(rest)
        if word == "--":
            return Parsed(options, rest, ended=True)
        flag, equals, value = word.partition("=")
        option = by_flag.get(flag)
        if option is None:
            hint = did_you_mean(flag, (flag for flag in by_flag if flag.startswith("--")))
            raise UsageError(f"{of} has no option {flag}. {hint}")
        if option.kind is None:
            if equals:
                raise UsageError(f"{flag} takes no value.")
            options[option.name] = True
            continue
        if not equals:
            value, rest = next_word(rest)
        new = _converted(option.kind, flag, value, option.help)
        if isinstance(new, tuple):
            options[option.name] = (*options.get(option.name, ()), *new)
        elif options.setdefault(option.name, new) != new:
            raise UsageError(f"--{option.name} is written twice, with different values; write it once.")
    return Parsed(options, rest)


def _converted(kind: Kind, flag: str, written: str, described: str) -> Any:  # noqa: ANN401
    """The value that was written for an option. Raises `UsageError`."""
    if not written:
        raise UsageError(f"{flag} needs a value: {flag} {kind.placeholder}.")
    try:
        return kind.convert(written)
    except ValueError:
        raise UsageError(f"{flag} cannot be {written!r}: {described}.") from None


def read_arguments(declared: ArgumentSpec, line: str, cell: str | None, notebook: Notebook) -> dict[str, Any]:
    """Read what follows a verb.

    Options can stand between words, but not inside or after a text, which is kept as it was written.

    Args:
        declared: What the verb declares.
        line: What follows the verb on its line.
        cell: The lines below it, if it was written as `%%planck`; they continue the verb's text.
        notebook: Where names are looked up.

    Returns:
        A value for each parameter and option, by the name of the function's argument; also `debug` and `help`.

    Raises:
        PlanckError: Something is missing, is too much, or cannot be used.
    """
    known = [*declared.options, *OF_EVERY_VERB]
    text_parameter = declared.text_parameter
    positional = [parameter for parameter in declared.parameters if parameter is not text_parameter]
    words, text, options = _split(declared, positional, known, line, notebook)
    values: dict[str, Any] = {option.argument: options.get(option.name, _absent(option)) for option in known}
    if values["help"]:
        return values
    for parameter, written in _assign(declared, positional, words):
        values[parameter.name] = _value(declared, parameter, written, notebook)
    if text_parameter is not None:
        text = f"{text}\n{cell or ''}".strip()
        if not text and not text_parameter.optional:
            raise _missing(declared, text_parameter)
        values[text_parameter.name] = _value(declared, text_parameter, text or None, notebook)
    return values


def next_word(text: str, *, quotes: str = QUOTES, escape: str = "\\") -> tuple[str, str]:
    """The first word, quotes resolved, and what follows it. Raises `UsageError` for a quote that is not closed."""
    stream = StringIO(text)
    lexer = shlex.shlex(stream, posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    lexer.quotes = quotes
    lexer.escape = escape
    try:
        word = lexer.get_token() or ""
    except ValueError:
        raise UsageError(f"A quotation mark is not closed in {text!r}.") from None
    return word, text[stream.tell() :].lstrip()


def _split(
    declared: ArgumentSpec, positional: Sequence[Parameter], known: Sequence[Option], line: str, notebook: Notebook
) -> tuple[list[str], str, dict[str, Any]]:
    """The words of the line in order, the text that follows them if the verb has one, and the options."""
    has_text = declared.text_parameter is not None
    lenient = has_text and not declared.options
    options: dict[str, Any] = {}
    words: list[str] = []
    rest, ended = line.strip(), False
    while rest:
        if not ended:
            parsed = parse_options(rest, known, of=declared.command, lenient=lenient, before=options)
            options, rest, ended = parsed.options, parsed.rest, parsed.ended
        if has_text and len(words) == len(positional):
            _refuse_late_options(declared, rest)
            return words, rest, options
        if rest:
            kind = positional[min(len(words), len(positional) - 1)].kind if positional else Kind("")
            word, rest = _next_value(kind, rest, notebook)
            words.append(word)
    return words, "", options


def _next_value(kind: Kind, text: str, notebook: Notebook) -> tuple[str, str]:
    """The first word of the text, or the name of several words that it begins with; and what follows."""
    # A backslash is a character like others, as paths have it.
    if kind.extent is Extent.NAME:
        names = kind.suggest(notebook)
        if found := max((name for name in names if f"{text} ".startswith(f"{name} ")), key=len, default=""):
            return found, text[len(found) :].lstrip()
        several = [(name, rest) for name, rest in _joined_words(text) if name in names]
        if several:
            return several[-1]
    return next_word(text, quotes=kind.quotes, escape="")


def _joined_words(text: str) -> Iterator[tuple[str, str]]:
    """The first word, the first two, and so on, each time with what follows; until a quote is not closed."""
    words: list[str] = []
    while text:
        try:
            word, text = next_word(text, escape="")
        except UsageError:
            return
        words.append(word)
        yield " ".join(words), text


def _assign(
    declared: ArgumentSpec, positional: Sequence[Parameter], words: list[str]
) -> Iterator[tuple[Parameter, Any]]:
    """Each parameter with what was written for it, or None. Raises `UsageError` for too few words or too many."""
    before = len(positional) - 1
    extent = positional[-1].kind.extent if positional else Extent.WORD
    given: list[Any] = list(words)
    if extent is Extent.WORDS and len(words) > before:
        given[before:] = [tuple(words[before:])]
    elif extent is Extent.NAME and len(words) > before:
        given[before:] = [" ".join(words[before:])]
    if len(given) > len(positional):
        raise _refused(declared, " ".join(given[len(positional) :]))
    spare = len(given) - sum(not parameter.optional for parameter in positional)
    values = iter(given)
    for parameter in positional:
        if parameter.optional and spare <= 0:
            yield parameter, None
            continue
        spare -= parameter.optional
        value = next(values, None)
        if not value:
            raise _missing(declared, parameter)
        yield parameter, value


def _value(declared: ArgumentSpec, parameter: Parameter, written: Any, notebook: Notebook) -> Any:  # noqa: ANN401
    """What the verb gets for this parameter."""
    kind = parameter.kind
    if kind.extent is Extent.WORDS:
        return tuple(kind.convert(word) for word in written or ())
    if written is None:
        return None
    try:
        value = kind.convert(written)
    except ValueError:
        near = get_close_matches(written, kind.suggest(notebook), n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise UsageError(f"{_refused(declared, written)}{hint}") from None
    return kind.resolve(notebook, value) if kind.resolve else value


def _missing(declared: ArgumentSpec, parameter: Parameter) -> UsageError:
    return UsageError(f"`{declared.command}` needs {parameter.kind.placeholder}; write `{declared.usage}`.")


def _refused(declared: ArgumentSpec, written: str) -> UsageError:
    return UsageError(f"`{declared.command}` does not accept {written!r}; write `{declared.usage}`.")


def _refuse_late_options(declared: ArgumentSpec, text: str) -> None:
    """Raise `UsageError` for an option of the verb inside its text, where it would have no effect."""
    late = {flag for flag in flags(declared.options) if flag.startswith("--")}
    placeholder = declared.parameters[-1].kind.placeholder
    for word in text.split():
        flag = word.partition("=")[0]
        if flag in late:
            raise UsageError(f"Write {flag} before {placeholder}, which is kept as it was written.")


def _absent(option: Option) -> bool | None:
    return False if option.kind is None else None


def count_positional(words: Sequence[str], by_flag: Mapping[str, Option]) -> int:
    """How many of the words are neither options nor their values."""
    valued = {flag for flag, option in by_flag.items() if option.kind}
    return sum(word[0] != "-" and before not in valued for before, word in zip(("", *words), words, strict=False))

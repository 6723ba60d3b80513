"""Arguments from typed text, by a verb's or the options' declaration."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from io import StringIO
from types import MappingProxyType
from typing import Any, TypeAlias

from planck_nb.base.errors import UsageError, did_you_mean
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.parameters import OF_EVERY_VERB, QUOTES, Extent, Kind, Option, Parameter, flags

Recogniser: TypeAlias = Callable[[Notebook, Sequence[str]], bool]
"""Test for a verb's arguments; a text counts as one word."""

_OPTION = re.compile(r"(?:^|\s)--?[A-Za-z]")


@dataclass(frozen=True, slots=True)
class Parsed:
    """Option values by the option's name, and the rest of the line."""

    options: dict[str, Any]
    rest: str
    ended: bool = False
    """True if `--` ended the options."""


@dataclass(frozen=True, slots=True)
class ArgumentSpec:
    """A verb's declared arguments.

    `command` is its call, such as `%planck export`.
    """

    command: str
    parameters: tuple[Parameter, ...]
    options: tuple[Option, ...]
    fits: Recogniser | None = None
    """Test for all words together; by default each kind has its own."""

    @property
    def usage(self) -> str:
        """Return the command with its parameters, for help."""
        return " ".join([self.command, *(parameter.usage for parameter in self.parameters)])

    @property
    def text_parameter(self) -> Parameter | None:
        """Return the last parameter if it is a text."""
        last = self.parameters[-1] if self.parameters else None
        return last if last and last.kind.extent is Extent.TEXT else None


def parse_options(
    line: str,
    available: Sequence[Option],
    *,
    of: str,
    lenient: bool = False,
    before: Mapping[str, Any] = MappingProxyType({}),
) -> Parsed:
    """Read the options at the beginning of a line; `--` ends them.

    Args:
        line: The line.
        available: The possible options.
        of: The options' owner, for messages.
        lenient: Leave an unknown option as text instead of raising.
        before: Earlier options, in front of a word in the same line.

    Returns:
        All options, and the rest of the line.

    Raises:
        UsageError: An option is unknown or has two values, or its value is missing or unusable.
    """
    by_flag = flags(available)
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


def _converted(kind: Kind, flag: str, text: str, explanation: str) -> Any:  # noqa: ANN401
    """Return an option's value, or raise `UsageError`."""
    if not text:
        raise UsageError(f"{flag} needs a value: {flag} {kind.placeholder}.")
    try:
        return kind.convert(text)
    except ValueError:
        raise UsageError(f"{flag} cannot be {text!r}: {explanation}.") from None


def read_arguments(spec: ArgumentSpec, line: str, cell: str | None, notebook: Notebook) -> dict[str, Any]:
    """Read the text after a verb.

    Options can stand between words, but not inside or after a text, which stays as it is.

    Args:
        spec: The verb's declaration.
        line: The text after the verb on its line.
        cell: The lines below it, in `%%planck`; they continue the verb's text.
        notebook: The place to look names up.

    Returns:
        A value for each parameter and option, by the name of the function's argument; also `debug` and `help`.

    Raises:
        PlanckError: The line has missing, additional or unusable parts.
    """
    available = [*spec.options, *OF_EVERY_VERB]
    text_parameter = spec.text_parameter
    positional = [parameter for parameter in spec.parameters if parameter is not text_parameter]
    words, text, options = _split(spec, positional, available, line, notebook)
    values: dict[str, Any] = {option.argument: options.get(option.name, _absent(option)) for option in available}
    if values["help"]:
        return values
    for parameter, argument in _assign(spec, positional, words):
        values[parameter.name] = _value(spec, parameter, argument, notebook)
    if text_parameter is not None:
        text = f"{text}\n{cell or ''}".strip()
        if not text and not text_parameter.optional:
            raise _missing(spec, text_parameter)
        values[text_parameter.name] = _value(spec, text_parameter, text or None, notebook)
    return values


def could_follow(spec: ArgumentSpec, line: str, notebook: Notebook, *, strict: bool = False) -> bool:
    """Return whether a text parses as a verb's arguments.

    Other lines are prompts. A mistyped value counts, because the verb's error explains it. So does an option directly
    after the name.

    Args:
        spec: The verb's declaration.
        line: The text after the verb on its line.
        notebook: The place to look names up.
        strict: Require a recognised value, rather than free text.
    """
    available = [*spec.options, *OF_EVERY_VERB]
    try:
        read = parse_options(line, available, of=spec.command)
    except UsageError:  # which the verb's own error explains
        return not strict or line.split(maxsplit=1)[0].partition("=")[0] in flags(spec.options)
    if read.options:
        return True
    if not read.rest:
        return not strict
    return _could_be_words(spec, read.rest, available, notebook, strict=strict)


def _could_be_words(
    spec: ArgumentSpec, line: str, available: Sequence[Option], notebook: Notebook, *, strict: bool
) -> bool:
    """Return whether a text without options before it parses as arguments."""
    option = _OPTION.search(line)
    positional = [parameter for parameter in spec.parameters if parameter is not spec.text_parameter]
    try:
        words, text, options = _split(spec, positional, available, line, notebook)
        values = [] if options else list(_assign(spec, positional, words))
    except UsageError:  # perhaps an option, or an open quotation mark
        if option is None:
            return any(parameter.kind.quotes == line[0] for parameter in positional)
        return could_follow(spec, line[: option.start()], notebook, strict=True)
    if options:
        return True
    if spec.fits is not None:
        return spec.fits(notebook, [*words, text] if text else words)
    if spec.text_parameter is not None and text:
        values.append((spec.text_parameter, text))
    pairs = [(parameter.kind, word) for parameter, value in values for word in _words_of(value)]
    is_recognised = any(kind.fits is not None for kind, _ in pairs)
    return all(_may_be(kind, word, notebook) for kind, word in pairs) and (is_recognised or not strict)


def _words_of(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - a word, several, or None
    return value if isinstance(value, tuple) else () if value is None else (value,)


def _may_be(kind: Kind, text: str, notebook: Notebook) -> bool:
    """Return whether a text is probably meant as this kind's value."""
    if kind.fits is not None:
        return kind.fits(notebook, text)
    try:
        kind.convert(text)
    except (ValueError, UsageError):
        return False
    return True


def next_word(text: str, *, quotes: str = QUOTES, escape: str = "\\") -> tuple[str, str]:
    """Return the first word, quotes resolved, and the rest.

    Raises `UsageError` for an unclosed quote.
    """
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
    spec: ArgumentSpec, positional: Sequence[Parameter], available: Sequence[Option], line: str, notebook: Notebook
) -> tuple[list[str], str, dict[str, Any]]:
    """Return the line's words, the text after them, and the options.

    Only verbs with a text parameter have a text.
    """
    has_text = spec.text_parameter is not None
    lenient = has_text and not spec.options
    options: dict[str, Any] = {}
    words: list[str] = []
    rest, is_ended = line.strip(), False
    while rest:
        if not is_ended:
            reading = parse_options(rest, available, of=spec.command, lenient=lenient, before=options)
            options, rest, is_ended = reading.options, reading.rest, reading.ended
        if has_text and len(words) == len(positional):
            _refuse_late_options(spec, rest)
            return words, rest, options
        if rest:
            kind = positional[min(len(words), len(positional) - 1)].kind if positional else Kind("")
            word, rest = _next_value(kind, rest, notebook)
            words.append(word)
    return words, "", options


def _next_value(kind: Kind, text: str, notebook: Notebook) -> tuple[str, str]:
    """Return the first word or longer name, and the rest.

    The name is a prefix of the text.
    """
    # A backslash is an ordinary character, as in paths.
    if kind.extent is Extent.NAME:
        names = kind.suggest(notebook)
        if longest := max((name for name in names if f"{text} ".startswith(f"{name} ")), key=len, default=""):
            return longest, text[len(longest) :].lstrip()
        candidates = [(name, rest) for name, rest in _joined_words(text) if name in names]
        if candidates:
            return candidates[-1]
    return next_word(text, quotes=kind.quotes, escape="")


def _joined_words(text: str) -> Iterator[tuple[str, str]]:
    """Yield growing numbers of first words, each with the rest.

    An unclosed quote ends this.
    """
    words: list[str] = []
    while text:
        try:
            word, text = next_word(text, escape="")
        except UsageError:
            return
        words.append(word)
        yield " ".join(words), text


def _assign(spec: ArgumentSpec, positional: Sequence[Parameter], words: list[str]) -> Iterator[tuple[Parameter, Any]]:
    """Yield each parameter with its words or None.

    Raises `UsageError` for missing and additional words.
    """
    before = len(positional) - 1
    extent = positional[-1].kind.extent if positional else Extent.WORD
    arguments: list[Any] = list(words)
    if extent is Extent.WORDS and len(words) > before:
        arguments[before:] = [tuple(words[before:])]
    elif extent is Extent.NAME and len(words) > before:
        arguments[before:] = [" ".join(words[before:])]
    if len(arguments) > len(positional):
        raise _refused(spec, " ".join(arguments[len(positional) :]))
    spare = len(arguments) - sum(not parameter.optional for parameter in positional)
    values = iter(arguments)
    for parameter in positional:
        if parameter.optional and spare <= 0:
            yield parameter, None
            continue
        spare -= parameter.optional
        value = next(values, None)
        if not value:
            raise _missing(spec, parameter)
        yield parameter, value


def _value(spec: ArgumentSpec, parameter: Parameter, argument: Any, notebook: Notebook) -> Any:  # noqa: ANN401
    """Return the verb's value for this parameter."""
    kind = parameter.kind
    if kind.extent is Extent.WORDS:
        return tuple(kind.convert(word) for word in argument or ())
    if argument is None:
        return None
    try:
        value = kind.convert(argument)
    except ValueError:
        near = get_close_matches(argument, kind.suggest(notebook), n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise UsageError(f"{_refused(spec, argument)}{hint}") from None
    return kind.resolve(notebook, value) if kind.resolve else value


def _missing(spec: ArgumentSpec, parameter: Parameter) -> UsageError:
    return UsageError(f"`{spec.command}` needs {parameter.kind.placeholder}; write `{spec.usage}`.")


def _refused(spec: ArgumentSpec, argument: str) -> UsageError:
    return UsageError(f"`{spec.command}` does not accept {argument!r}; write `{spec.usage}`.")


def _refuse_late_options(spec: ArgumentSpec, text: str) -> None:
    """Raise `UsageError` for a verb's option inside its text.

    It would have no effect there.
    """
    late = {flag for flag in flags(spec.options) if flag.startswith("--")}
    placeholder = spec.parameters[-1].kind.placeholder
    for word in text.split():
        flag = word.partition("=")[0]
        if flag in late:
            raise UsageError(f"Write {flag} before {placeholder}, which is kept as it was written.")


def _absent(option: Option) -> bool | None:
    return False if option.kind is None else None


def count_positional(words: Sequence[str], by_flag: Mapping[str, Option]) -> int:
    """Count the words besides options and their values."""
    flags_with_value = {flag for flag, option in by_flag.items() if option.kind}
    return sum(
        word[0] != "-" and before not in flags_with_value for before, word in zip(("", *words), words, strict=False)
    )

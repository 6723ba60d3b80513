"""The options of `%%planck`, one table for parsing and for help, and how a verb reads its own."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

from planck_nb.agent.approval import Action, Rule
from planck_nb.base.errors import UsageError, did_you_mean


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `value` names its value in help; options without one are switches. `read` makes the value."""

    name: str
    short: str | None
    value: str | None
    help: str
    read: Callable[[str], Any] = str


def names(text: str) -> tuple[str, ...]:
    """Reads names with commas between them."""
    return tuple(name.strip().removeprefix("@") for name in text.split(",") if name.strip())


def rules(action: Action) -> Callable[[str], tuple[Rule, ...]]:
    """Makes what reads approval rules that stand behind one another, separated by commas."""
    return lambda text: tuple(Rule.parse(action, name) for name in names(text))


def count(text: str) -> int:
    """Reads a whole number from 1."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _degree(text: str) -> float:
    number = float(text)
    if not 0 <= number <= _HOTTEST:
        raise ValueError(text)
    return number


def one_of(session_settings: Iterable[str]) -> Callable[[str], str]:
    """Makes what reads one of these words."""
    known = tuple(session_settings)

    def read(text: str) -> str:
        if text not in known:
            raise ValueError(text)
        return text

    return read


_HOTTEST = 2
LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh", "max")

DEBUG = Option("debug", None, None, "show the whole traceback of an error")

OPTIONS = (
    Option("model", "m", "PROVIDER:MODEL", "the model of the agent, from now on"),
    Option("base-url", None, "URL", "where the model's server is, if not at its usual address"),
    Option("tools", "t", "F,G", "functions of the notebook, and tools such as read or bash, from now on", names),
    Option("allow", None, "RULES", "calls that need no approval in this session: bash, write:src/**", rules("allow")),
    Option("deny", None, "RULES", "calls that are never run in this session", rules("deny")),
    Option("system", "s", "TEXT", "the agent's system prompt, from now on"),
    Option("agent", "a", "NAME", "the agent to talk to; one that does not exist is made"),
    Option("new", None, None, "start with an empty conversation"),
    Option("max-tokens", None, "N", "how long a reply may be, in tokens: 1 or more", count),
    Option("temperature", None, "X", "how random the reply is: 0 to 2", _degree),
    Option("thinking", None, "LEVEL", f"how much the model thinks: {', '.join(LEVELS)}", one_of(LEVELS)),
    Option("background", "b", None, "return at once; the answer appears under this cell when it is there"),
    Option("quiet", "q", None, "no live view, only the finished answer"),
    DEBUG,
)


def flags(options: Iterable[Option]) -> dict[str, Option]:
    """The options by what is typed for them."""
    found: dict[str, Option] = {}
    for option in options:
        found[f"--{option.name}"] = option
        if option.short:
            found[f"-{option.short}"] = option
    return found


@dataclass(frozen=True, slots=True)
class Parsed:
    """Options by name, and what followed them."""

    options: dict[str, Any]
    rest: str


def parse(line: str, known: Sequence[Option] = OPTIONS, *, of: str = "%%planck") -> Parsed:
    """Read the options at the beginning of `line`; the rest is left as it was written.

    `--` ends the options, and `--debug` is always one of them. `of` says in messages what has the options. Raises
    `UsageError` for an unknown option or a value that cannot be used.
    """
    by_flag = flags([*known, DEBUG])
    options: dict[str, Any] = {}
    rest = line.strip()
    while rest.startswith("-"):
        word, rest = _next_word(rest)
        if word == "--":
            break
        flag, equals, inline = word.partition("=")
        option = by_flag.get(flag)
        if option is None:
            raise UsageError(f"{of} has no option {flag}. {did_you_mean(flag, filter(_is_long, by_flag))}")
        if option.value is None:
            if equals:
                raise UsageError(f"{flag} takes no value.")
            options[option.name] = True
            continue
        if not equals:
            inline, rest = _next_word(rest)
        if not inline:
            raise UsageError(f"{flag} needs a value: {flag} {option.value}.")
        try:
            value = option.read(inline)
            before = options.get(option.name)
            options[option.name] = (*before, *value) if isinstance(before, tuple) else value
        except ValueError:
            raise UsageError(f"{flag} cannot be {inline!r}: {option.help}.") from None
    return Parsed(options, rest)


def _is_long(flag: str) -> bool:
    return flag.startswith("--")


@dataclass(frozen=True, slots=True)
class Words:
    """Options by name, and the words among which they stood, quotes resolved."""

    options: dict[str, Any]
    words: tuple[str, ...]


def parse_words(line: str, known: Sequence[Option] = (), *, of: str, quotes: str = "'\"") -> Words:
    """Read words and options in any order. `quotes` are the marks that hold several words together.

    A backslash is a character like others, as paths have it. Raises what `parse` raises.
    """
    options: dict[str, Any] = {}
    words: list[str] = []
    rest = line.strip()
    while rest:
        parsed = parse(rest, known, of=of)
        options |= parsed.options
        if parsed.rest:
            word, rest = _next_word(parsed.rest, quotes=quotes, escape="")
            words.append(word)
        else:
            rest = ""
    return Words(options, tuple(words))


def parse_header(line: str) -> dict[str, Any]:
    """Read the first line of `%%planck [agent] [options]`, options before or after the name.

    Raises `UsageError` for anything that is neither.
    """
    name, parsed = parse_name(line)
    if parsed.rest:
        raise UsageError(
            f"The first line of %%planck takes an agent's name and options, not {parsed.rest!r}; "
            "write the prompt on the lines below."
        )
    return {**parsed.options, "agent": name} if name else parsed.options


def parse_name(line: str) -> tuple[str, Parsed]:
    """Read a name, empty if there is none, with options before or after it; what is left over is the rest."""
    before = parse(line)
    name, rest = _next_word(before.rest)
    after = parse(rest)
    return name, Parsed({**before.options, **after.options}, after.rest)


def _next_word(text: str, *, quotes: str = "'\"", escape: str = "\\") -> tuple[str, str]:
    """The first word, quotes resolved, and what follows it."""
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

"""Prompt options, and how lines after `%planck` and `%%planck` are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from planck_nb.agent.approval import Action, Rule
from planck_nb.ai.models import LEVELS
from planck_nb.base.errors import UsageError
from planck_nb.jupyter.parsing.arguments import next_word, parse_options
from planck_nb.jupyter.parsing.kinds import (
    COMPACTOR,
    FUNCTIONS,
    IMAGE,
    MODEL,
    MODELS,
    OUTPUT,
    RECIPIENT,
    SERVER_OPTIONS,
    TEAM,
    VARIABLES,
    names,
)
from planck_nb.jupyter.parsing.parameters import DEBUG, INTEGER, Kind, Option, choice, flags
from planck_nb.jupyter.similar_words import nearest

_LAST_WORDS = 20
"""Final words in a prompt which are searched for options."""
_MAX_TEMPERATURE = 2
_QUOTED = re.compile(r"""\A(["'])(.*)\1\Z""", re.DOTALL)
_LEVEL = replace(choice(*LEVELS), placeholder="LEVEL")


def rules(action: Action) -> Callable[[str], tuple[Rule, ...]]:
    """Return a reader for approval rules with commas between them.

    Each rule can be in quotes.
    """
    return lambda text: tuple(Rule.parse(action, _QUOTED.sub(r"\2", name)) for name in names(text))


def _temperature(text: str) -> float:
    number = float(text)
    if not 0 <= number <= _MAX_TEMPERATURE:
        raise ValueError(text)
    return number


class ExplicitName(str):
    """An agent name after `--agent`, which is never a misspelling."""

    __slots__ = ()


def _rules(action: Action) -> Kind:
    return Kind("RULES", rules(action))


OPTIONS = (
    Option("model", "m", MODEL, "the model of the agent, from now on"),
    *SERVER_OPTIONS,
    Option("models", None, MODELS, "models to ask side by side, each by a new agent like the prompted one"),
    Option("repeat", "r", INTEGER, "how many answers to get side by side from each model"),
    Option("tools", "t", FUNCTIONS, "functions of the notebook, and tools such as read or web_search, from now on"),
    Option(
        "compactor", None, COMPACTOR, "a function or a package's compactor that shortens the conversation; `default`"
    ),
    Option(
        "with",
        None,
        VARIABLES,
        "variables for the agent, secret ones too; kernel tools show only these, after `*` all",
    ),
    Option("image", "i", IMAGE, "an image to send with the prompt: a PNG, JPEG, GIF or WebP file; can be repeated"),
    Option("output", None, OUTPUT, "a structured answer: a pydantic model, dataclass or TypedDict of the notebook"),
    Option("expand", None, None, "replace {name} and $name in the prompt by the values of variables"),
    Option("allow", None, _rules("allow"), "calls that need no approval in this session: bash, write:src/**"),
    Option("deny", None, _rules("deny"), "calls that are never run in this session"),
    Option("system", "s", Kind("TEXT"), "the agent's system prompt, from now on"),
    Option(
        "agent",
        "a",
        replace(RECIPIENT, convert=ExplicitName),
        "the agent to prompt, created if it does not exist; or a running team",
    ),
    Option("team", None, TEAM, "the team to prompt, by its alias or path; it is started if it does not run"),
    Option(
        "new", None, None, "start with an empty conversation", synonyms=("clear", "reset", "restart", "forget", "fresh")
    ),
    Option("max-tokens", None, INTEGER, "how long a reply may be, in tokens: 1 or more"),
    Option("temperature", None, Kind("X", _temperature), "how random the reply is: 0 to 2"),
    Option("thinking", None, _LEVEL, f"how much the model thinks: {', '.join(LEVELS)}"),
    Option("background", "b", None, "return at once; the answer appears under this cell when it is complete"),
    Option("quiet", "q", None, "no live view, only the finished answer"),
    DEBUG,
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A typed prompt: its text and its options by name.

    The options may contain `agent`.
    """

    options: dict[str, Any]
    text: str


def read_line(line: str, agents: Collection[str] = ()) -> Prompt:
    """Read `%planck [AGENT] [OPTIONS] PROMPT`.

    The first word is an agent name if options follow it, or if it names one of the existing `agents` and more text
    follows it; otherwise it belongs to the prompt. `--` before the prompt ends names and options.

    Args:
        line: The text after `%planck`.
        agents: Names of existing agents and teams.

    Returns:
        The options and the unchanged prompt.

    Raises:
        UsageError: An option is unknown, or its value is missing or unusable.
    """
    _refuse_misspelt_option(line, "%planck")
    before = parse_options(line, OPTIONS, of="%planck")
    if before.ended or not {"agent", "team"}.isdisjoint(before.options):
        return Prompt(before.options, before.rest)
    try:
        name, rest = next_word(before.rest)
    except UsageError:  # an apostrophe in the prompt
        return Prompt(before.options, before.rest)
    if name and rest and not line.lstrip().startswith("--"):
        _refuse_misspelt_option(rest, f"%planck {name}")
    if not name or not rest or not (name in agents or _begins_with_option(rest)):
        return Prompt(before.options, before.rest)
    after = parse_options(rest, OPTIONS, of="%planck", before=before.options)
    if not after.rest and name not in agents:
        raise UsageError(
            f"There is no prompt: {name} counts as an agent's name, because options follow it. Options stand before "
            f"the prompt, as in `%planck {rest} {name}`."
        )
    _require_one_name(name, after.options)
    return Prompt({**after.options, "agent": name}, after.rest)


def late_options(prompt: str) -> str:
    """Return a sentence about options at a line's end, if any.

    Args:
        prompt: The prompt, which is sent as it is.
    """
    if prompt.endswith(("?", "!", ".")):  # a sentence about options
        return ""
    words = prompt.split()[-_LAST_WORDS:]
    all_flags = {flag for flag in flags(OPTIONS) if flag.startswith("--")}
    for at, word in enumerate(words):
        if word.partition("=")[0] in all_flags and _are_options(tail := " ".join(words[at:])):
            return f"{tail} at the end is sent as text; options stand before the prompt."
    return ""


def _are_options(text: str) -> bool:
    try:
        return not parse_options(text, OPTIONS, of="%planck").rest
    except UsageError:
        return False


def read_header(line: str) -> dict[str, Any]:
    """Read a cell's first line, `%%planck [AGENT] [OPTIONS]`.

    Options may be before or after the name.

    Args:
        line: The text after `%%planck`.

    Returns:
        The options by name, with `agent` for a named agent.

    Raises:
        UsageError: The line has other text, or an unusable option.
    """
    _refuse_misspelt_option(line, "%%planck")
    before = parse_options(line, OPTIONS, of="%%planck")
    name, rest = next_word(before.rest)
    after = parse_options(rest, OPTIONS, of="%%planck", before=before.options)
    if after.rest:
        raise UsageError(
            f"The first line of %%planck accepts an agent's name and options, not {after.rest!r}; "
            "write the prompt on the lines below."
        )
    if not name:
        return after.options
    _require_one_name(name, after.options)
    return {**after.options, "agent": name}


def read_prompt_arguments(line: str, prompt: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Read the text after `%planck SIDECAR:PROMPT`.

    It has prompt options, then the prompt's arguments as `key=value`.

    Args:
        line: The text after the prompt's name.
        prompt: The name, for errors.

    Returns:
        The options, and the arguments.

    Raises:
        UsageError: The line has other text, or an unusable option.
    """
    read = parse_options(line, OPTIONS, of=f"%planck {prompt}")
    options, rest = read.options, read.rest
    arguments: dict[str, str] = {}
    while rest:
        if not read.ended and rest.startswith("-") and _begins_with_option(rest):
            more = parse_options(rest, OPTIONS, of=f"%planck {prompt}", before=options)
            options, rest = more.options, more.rest
            continue
        word, rest = next_word(rest)
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(
                f"The prompt {prompt} needs arguments like NAME=VALUE, not {word!r}; quote values with blanks."
            )
        if arguments.setdefault(name, value) != value:
            raise UsageError(f"The argument {name} of the prompt {prompt} is written twice; write it once.")
    return options, arguments


def _require_one_name(name: str, options: Mapping[str, Any]) -> None:
    """Raise `UsageError` if an option names another agent."""
    other = options.get("agent", name)
    if other != name:
        raise UsageError(f"A prompt is sent to one agent; write either {name} or --agent {other}.")


def _refuse_misspelt_option(text: str, before: str) -> None:
    """Raise `UsageError` if the first word is nearly an option."""
    word, _, rest = text.lstrip().partition(" ")
    flag, equals, value = word.partition("=")
    if flag not in flags(OPTIONS) and (suggestion := _meant_option(flag)):
        line = f"{before} {suggestion}{equals}{value} {rest}".strip()
        raise UsageError(
            f"{before.split(maxsplit=1)[0]} has no option {flag}. Did you mean {suggestion}, as in `{line}`?"
        )


def _begins_with_option(text: str) -> bool:
    return text.split(None, 1)[0].partition("=")[0] in flags(OPTIONS)


def _meant_option(word: str) -> str:
    """Find the probable option after any dash; may be empty."""
    match = re.match(r"(?:--?|[\u2010-\u2015\u2212]+)([A-Za-z][\w-]*)", word)
    names = [option.name for option in OPTIONS]
    name = "" if match is None else nearest(match[1].lower().replace("_", "-"), names)
    return name and f"--{name}"

"""What Tab offers in `%planck` and `%%planck`: verbs, options, and the names that can stand there.

What a verb takes is read from its usage line and what an option takes from its value, so both complete by themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from planck_nb.ai import list_models, list_providers
from planck_nb.base.errors import PlanckError
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.namespace import data_frames, is_function
from planck_nb.jupyter.options import DEBUG, LEVELS, OPTIONS, Option, flags
from planck_nb.jupyter.verbs import VERBS
from planck_nb.sessions import VIEWS
from planck_nb.workspace.default_model import LOCAL

Known: TypeAlias = Mapping[str, Callable[[], Iterable[str]]]
"""The names of each kind, asked for when they are needed."""

Matcher: TypeAlias = Callable[[CompletionContext], SimpleMatcherResult]

VERBS_OF_CELLS = ("sql",)
"""Verbs that can be written as `%%planck verb`."""

_LINE = re.compile(r"\s*(?:[^%=]+=\s*)?%planck[ \t]+(?P<said>.*)")
_HEADER = re.compile(r"\s*%%planck(?:[ \t]+|$)(?P<said>.*)", re.MULTILINE)
_KIND = re.compile(r"[\w:]+")


def matcher(controller: Controller, notebook: Callable[[], Mapping[str, object]]) -> Matcher:
    """A matcher for IPython's completer. `notebook` gives the names that the notebook defined."""
    workspace = controller.workspace
    known: Known = {
        "verb": lambda: VERBS,
        "agent": lambda: workspace.agents,
        "session": lambda: dict.fromkeys(session.name for session in reversed(workspace.sessions())),
        "provider": list_providers,
        "provider:model": lambda: _models(controller),
        "level": lambda: LEVELS,
        "view": lambda: [*VIEWS, *data_frames(notebook())],
        "tools": lambda: [name for name, value in notebook().items() if name[0] != "_" and is_function(value)],
        "notebook": lambda: [name for name in notebook() if name[0] != "_"],
    }

    def match(context: CompletionContext) -> SimpleMatcherResult:
        word, found = "", list[str]()
        with suppress(OSError, PlanckError):  # a store that cannot be read must not end all completion
            word, found = suggest(context.full_text, context.cursor_line, context.text_until_cursor, known)
        completions = [SimpleCompletion(text=text, type="magic") for text in found]
        return SimpleMatcherResult(completions=completions, matched_fragment=word, suppress=bool(found))

    made: Matcher = context_matcher(identifier="planck")(match)
    return made


def suggest(cell: str, row: int, line: str, known: Known) -> tuple[str, list[str]]:
    """The word that ends `line`, which is the cell's line `row` up to the cursor, and what it may become."""
    header = _HEADER.match(cell)
    word = re.split(r"\s", line)[-1]
    if header and row > cell[: header.start("said")].count("\n"):
        names = known["view"]() if header["said"].startswith("sql") else _mentions(word, known)
    elif found := (_HEADER if header else _LINE).match(line):
        words = found["said"].removesuffix(word).split()
        names = _mentions(word, known) or _after(words, word, known, header=header is not None)
    else:
        return word, []
    return word, [name for name in names if name.startswith(word)]


def _mentions(word: str, known: Known) -> list[str]:
    return [f"@{name}" for name in known["notebook"]()] if word.startswith("@") else []


def _after(words: Sequence[str], word: str, known: Known, *, header: bool) -> Iterable[str]:
    """What can follow these words of a line, if it begins like `word`."""
    verb = VERBS.get(words[0]) if words and (words[0] in VERBS_OF_CELLS or not header) else None
    options = flags([*verb.options, DEBUG] if verb else OPTIONS)
    flag, equals, _ = word.partition("=")
    if equals:
        return [f"{flag}={value}" for value in _values(options.get(flag), known)]
    if words and (waiting := options.get(words[-1])) and waiting.value:
        return _values(waiting, known)
    if word.startswith("-"):
        return [flag for flag in options if flag.startswith("--")]
    if verb:
        kinds = _KIND.findall(verb.usage.partition(" ")[2].lower())
        return [name for kind in kinds if kind in known for name in known[kind]()]
    if header and not _has_name(words, options):
        return [*known["agent"](), *VERBS_OF_CELLS]
    return [] if words else VERBS


def _has_name(words: Sequence[str], options: Mapping[str, Option]) -> bool:
    """Whether one of the words is neither an option nor the value of one."""
    valued = {flag for flag, option in options.items() if option.value}
    return any(word[0] != "-" and before not in valued for before, word in zip(("", *words), words, strict=False))


def _values(option: Option | None, known: Known) -> Iterable[str]:
    if option is None or option.value is None:
        return ()
    for kind in (option.value.lower(), option.name):
        if kind in known:
            return known[kind]()
    return option.value.split("|") if "|" in option.value else ()


def _models(controller: Controller) -> list[str]:
    """The models that can be named without asking a server."""
    listed = (model for provider in list_providers() if provider not in LOCAL for model in list_models(provider))
    return list(dict.fromkeys(str(model) for model in (*controller.workspace.config.models, *listed)))

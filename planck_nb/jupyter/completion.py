"""What Tab offers in `%planck` and `%%planck`: verbs, options, and the values of both, as they are declared."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from IPython.core import completer as ipython
from IPython.core.interactiveshell import InteractiveShell

from planck_nb.base.errors import PlanckError
from planck_nb.jupyter.lab.protocol import Names, Verbs, VerbWords
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.arguments import count_positional
from planck_nb.jupyter.parsing.kinds import RECIPIENT
from planck_nb.jupyter.parsing.options import OPTIONS
from planck_nb.jupyter.parsing.parameters import OF_EVERY_VERB, Extent, Option, Suggestions, flags
from planck_nb.jupyter.values import kind_of
from planck_nb.jupyter.verbs import VERBS, Verb
from planck_nb.jupyter.verbs.verb_registry import VIEWING

Matcher: TypeAlias = Callable[..., Any]

_MAX_FILES = 100
_MAX_VARIABLES = 1_000
"""A page's share, for a busy kernel."""

_LINE = re.compile(r"\s*(?:[^%=]+=\s*)?%planck[ \t]+(?P<written>.*)")
_HEADER = re.compile(r"\s*%%planck(?:[ \t]+|$)(?P<written>.*)", re.MULTILINE)


def matcher(shell: InteractiveShell, notebook: Callable[[], Notebook]) -> Matcher:
    """Return a matcher for the shell's completer. `notebook` returns the notebook as it is now."""

    def found(cell: str, row: int, line: str) -> tuple[str, dict[str, str]]:
        with suppress(OSError, PlanckError):  # a store that cannot be read must not end all completion
            return suggest(cell, row, line, notebook())
        return "", {}

    if not hasattr(ipython, "context_matcher"):
        return _legacy_matcher(shell, found)

    def match(context: Any) -> Any:  # noqa: ANN401 - types that older versions of IPython do not have
        word, suggestions = found(context.full_text, context.cursor_line, context.text_until_cursor)
        # IPython has no place for a description; frontends show the type beside the text.
        completions = [
            ipython.SimpleCompletion(text=text, type=described or "magic") for text, described in suggestions.items()
        ]
        return ipython.SimpleMatcherResult(completions=completions, matched_fragment=word, suppress=bool(suggestions))

    made: Matcher = ipython.context_matcher(identifier="planck")(match)
    return made


def verbs() -> Verbs:
    """Return the verbs and options for pages with a busy kernel."""
    return Verbs({name: _words(verb) for name, verb in VERBS.items()}, _helps(OPTIONS))


def _words(verb: Verb) -> VerbWords:
    takes_agent = bool(verb.parameters) and verb.parameters[0].kind.placeholder == RECIPIENT.placeholder
    options = _helps([*verb.options, *OF_EVERY_VERB])
    return VerbWords(verb.summary, is_cell=verb.cell, takes_agent=takes_agent, options=options)


def names(notebook: Notebook) -> Names:
    """Return the names for pages with a busy kernel.

    Args:
        notebook: The notebook.
    """
    return Names(dict(RECIPIENT.suggest(notebook)), _variables(list(notebook.names)[-_MAX_VARIABLES:], notebook))


def _legacy_matcher(shell: InteractiveShell, find: Callable[[str, int, str], tuple[str, dict[str, str]]]) -> Matcher:
    """A matcher for IPython before 8.6, whose matchers know only the line, and return words without descriptions."""

    def planck(text: str) -> list[str]:
        line = shell.Completer.text_until_cursor
        word, suggestions = find(line, 0, line)
        before = len(word) - len(text)  # what IPython takes for a word may be the end of ours, as after a colon
        if before < 0 or not word.endswith(text):
            return []
        return [suggestion[before:] for suggestion in suggestions]

    return planck


def suggest(cell: str, row: int, line: str, notebook: Notebook) -> tuple[str, dict[str, str]]:
    """Find the completions of a word in a cell.

    Args:
        cell: The whole cell.
        row: The number of the line with the cursor, from 0.
        line: That line up to the cursor.
        notebook: Where names are looked up.

    Returns:
        The word that ends at the cursor, and what it may become, each with a description, which may be empty.
    """
    header = _HEADER.match(cell)
    word = re.split(r"\s", line)[-1]
    if header and row > cell[: header.start("written")].count("\n"):
        verb = _verb(header["written"].split()[:1], header=True)
        found = _positional(verb, 0, notebook) if verb else _mentions(word, notebook)
    elif written := (_HEADER if header else _LINE).match(line):
        words = written["written"].removesuffix(word).split()
        found = _mentions(word, notebook) or _after(words, word, notebook, header=header is not None)
    else:
        return word, {}
    return word, {_quoted(text): described for text, described in found.items() if text.startswith(word.lstrip("\"'"))}


def _quoted(text: str) -> str:
    return f'"{text}"' if " " in text and '"' not in text else text


def _verb(words: Sequence[str], *, header: bool) -> Verb | None:
    found = VERBS.named(words[0]) if words else None
    return found[0] if found and (found[0].cell or not header) else None


def _mentions(word: str, notebook: Notebook) -> Suggestions:
    if not word.startswith("@"):
        return {}
    listed = notebook.workspace.sidecars.offers.listed
    resources = {
        f"@{sidecar}:{resource.uri}": resource.name
        for sidecar, offers in listed.items()
        for resource in offers.resources
        if ":" in word or not resource.is_template
    }
    return {**_files(word, notebook), **_variables(notebook.names, notebook), **resources}


def _variables(names: Iterable[str], notebook: Notebook) -> dict[str, str]:
    return {f"@{name}": kind_of(notebook.names[name]) for name in names if name[0] != "_"}


def _files(word: str, notebook: Notebook) -> Suggestions:
    """Return files and folders for `@`; hidden ones only after a dot."""
    folder, slash, prefix = word[1:].rpartition("/")
    path = notebook.workspace.config.root / Path(f"{folder}{slash}").expanduser()
    try:
        entries = sorted(entry for entry in path.iterdir() if entry.name.startswith(prefix))
    except OSError:
        return {}
    entries = [entry for entry in entries if prefix[:1] == "." or entry.name[0] != "."]
    return {
        f"@{folder}{slash}{entry.name}{'/' if entry.is_dir() else ''}": "folder" if entry.is_dir() else "file"
        for entry in entries[:_MAX_FILES]
    }


def _after(words: Sequence[str], word: str, notebook: Notebook, *, header: bool) -> Suggestions:
    """Return what follows these words in a line and begins like `word`."""
    verb = _verb(words, header=header)
    options = flags([*verb.options, *OF_EVERY_VERB] if verb else OPTIONS)
    flag, equals, _ = word.partition("=")
    if equals:
        values = _values(options.get(flag), notebook, word)
        return {f"{flag}={value}": described for value, described in values.items()}
    if words and (waiting := options.get(words[-1])) and waiting.kind:
        return _values(waiting, notebook, word)
    if len(words) == 1 and words[0] in VIEWING:
        return {verb.name: verb.summary for verb in VERBS.values() if verb.shows}
    if word.startswith("-"):
        return _helps(options.values())
    if verb:
        return _positional(verb, count_positional(words[1:], options), notebook)
    return {} if count_positional(words, options) else _first(words, word, notebook, header=header)


def _helps(options: Iterable[Option]) -> dict[str, str]:
    return {f"--{option.name}": option.help for option in options}


def _first(words: Sequence[str], word: str, notebook: Notebook, *, header: bool) -> Suggestions:
    """Return suggestions for the first word besides options."""
    agents = RECIPIENT.suggest(notebook)
    verbs = {each.name: each.summary for each in VERBS.values() if each.cell or not header}
    if header:
        return {**agents, **verbs}
    if not words and word:  # a list without a beginning has each verb once
        synonyms = {name: verb for name, verb in VERBS.synonyms.items() if not verb.startswith(word)}
        verbs |= {name: f"the same as {verb}" for name, verb in synonyms.items()}
    prompts = {
        f"{sidecar}:{prompt.name}": prompt.description
        for sidecar, offers in notebook.workspace.sidecars.offers.listed.items()
        for prompt in offers.prompts
    }
    return agents if words else {**verbs, **agents, **verbs, **prompts}  # the verb wins


def _positional(verb: Verb, place: int, notebook: Notebook) -> Suggestions:
    """What can be written for the verb's parameter at this place. The last one can be of several words."""
    parameters = verb.parameters
    if place < len(parameters):
        return parameters[place].kind.suggest(notebook)
    several = parameters and parameters[-1].kind.extent is not Extent.WORD
    return parameters[-1].kind.suggest(notebook) if several else {}


def _values(option: Option | None, notebook: Notebook, word: str) -> Suggestions:
    """Return an option's values, after names with commas."""
    suggestions = option.kind.suggest(notebook) if option and option.kind else {}
    before, comma, _ = word.rpartition("=")[2].rpartition(",")
    return {f"{before}{comma}{name}": text for name, text in suggestions.items()} if comma else suggestions

"""What `%planck` and `%%planck` mean: a verb with its arguments, or a prompt with its options."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import pairwise

from planck_nb.ai.model_lookup.catalogue import by_name, full_names, list_providers
from planck_nb.base.errors import UsageError, did_you_mean
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.misspellings import meant_agent, meant_verb, similar_name
from planck_nb.jupyter.parsing.options import (
    OPTIONS,
    ExplicitName,
    Prompt,
    read_header,
    read_line,
    read_prompt_arguments,
)
from planck_nb.jupyter.parsing.parameters import DEBUG, OF_EVERY_VERB, flags
from planck_nb.jupyter.similar_words import is_near
from planck_nb.jupyter.typed_keys import require_no_key
from planck_nb.jupyter.verbs import VERBS, Verb

_PROMPT_OF_SIDECAR = re.compile(r"[A-Za-z_][\w.-]*:[A-Za-z_][\w.-]*")
_ARGUMENT = re.compile(r"[A-Za-z_][\w-]*=(?!=).*", re.DOTALL)
_EMPTY = {'""', "''"}


@dataclass(frozen=True, slots=True)
class VerbLine:
    """A verb, what follows it on its line, and the lines below it, None if there are none."""

    verb: Verb
    argument: str
    cell: str | None


def interpret(line: str, cell: str | None, notebook: Notebook) -> VerbLine | Prompt:
    """Read a `%planck` line or a `%%planck` cell.

    Args:
        line: What follows `%planck` or `%%planck` on its line.
        cell: The lines below `%%planck`; None for `%planck`.
        notebook: Where the names of agents are looked up.

    Returns:
        The verb or the prompt.

    Raises:
        UsageError: An option cannot be used, or a verb or the name of an agent is probably misspelt.
    """
    known = notebook.controller.recipients
    word, _, argument = line.strip().partition(" ")
    verb = VERBS.get(word)
    if verb is not None and verb.names_only and not _is_one_name(argument, known):
        verb = None
    if not _insists(line, {*known, *VERBS}):
        require_no_key(line if cell is None or (verb is not None and verb.cell) else f"{line}\n{cell}")
    if verb is not None and (cell is None or verb.cell):
        return VerbLine(verb, argument.strip(), cell)
    if cell is not None:
        _refuse_verb_with_arguments(line.strip(), notebook)
        prompt = Prompt(read_header(line), cell)
        _refuse_name(prompt, "%%planck", notebook)
        return prompt
    if line.strip() in {"", "--", "--help"}:
        return VerbLine(VERBS["help"], "", None)
    _refuse_option_of_verb(line.strip())
    _refuse_misspelt(line.strip(), notebook)
    _refuse_unknown_sidecar(line.strip(), notebook)
    _refuse_unknown_member(line.strip(), notebook)
    if line.strip() in known:
        name = line.strip()
        raise UsageError(
            f"There is no prompt: write it after the name {name}, or send the name by `%planck -- {name}`."
        )
    prompt = read_line(line, known)
    _refuse_name(prompt, "%planck", notebook)
    return replace(prompt, text="") if prompt.text.strip() in _EMPTY else prompt


def _insists(line: str, names: Collection[str]) -> bool:
    """Return whether `--` follows only a name and options."""
    words = line.split()
    if "--" not in words:
        return False
    before = words[: words.index("--")]
    options = before[1:] if before and before[0] in names else before
    # Each option has one value at most.
    return all(word.startswith("-") or previous.startswith("-") for previous, word in pairwise(["", *options]))


def _is_one_name(argument: str, names: Collection[str]) -> bool:
    """Whether this is one word, or a name of several, so that a verb for names is meant."""
    words = [word for word in argument.split() if word[0] != "-"]
    return len(words) <= 1 or argument.strip().strip("\"'") in names


def _refuse_misspelt(line: str, notebook: Notebook) -> None:
    """Raise `UsageError` for a line that is probably a misspelt verb or agent: as a prompt it would cost money."""
    known = notebook.controller.recipients
    word = line.partition(" ")[0]
    if word in known or word in VERBS or word in flags(OPTIONS):
        return
    meant = meant_verb(line, VERBS, notebook)
    if not meant and word == line:
        meant = next(iter(get_close_matches(word, VERBS, n=1, cutoff=0.75)), "")
    if meant := meant or meant_agent(line, known):
        kind = "agent" if meant.partition(" ")[0] in known else "verb"
        raise UsageError(
            f"%planck has no {kind} {word}. Did you mean `%planck {meant}`? As a prompt, write `%planck -- {line}`."
        )


def _refuse_option_of_verb(line: str) -> None:
    """Raise `UsageError` for an option of every verb in front of a verb, where it would begin a prompt."""
    option, _, rest = line.partition(" ")
    word, _, argument = rest.strip().partition(" ")
    verb = VERBS.get(word)
    if option in flags(OF_EVERY_VERB) and verb is not None and not verb.names_only:
        meant = f"{word} {option} {argument}".strip()
        prompt = f"{DEBUG.usage} -- {rest.strip()}" if option == DEBUG.usage else f"-- {line}"
        raise UsageError(
            f"Write {option} after the verb, as in `%planck {meant}`. As a prompt, write `%planck {prompt}`."
        )


def _refuse_unknown_sidecar(line: str, notebook: Notebook) -> None:
    """Raise `UsageError` for `NAME:PROMPT key=value …`, which no sentence looks like, if no sidecar has the name."""
    word, _, rest = line.partition(" ")
    if word in notebook.controller.recipients or not _PROMPT_OF_SIDECAR.fullmatch(word):
        return
    try:
        _, arguments = read_prompt_arguments(rest, word)
    except UsageError:
        return
    name, known = word.partition(":")[0], notebook.workspace.sidecars.known_names()
    if not all(map(_ARGUMENT.fullmatch, map("=".join, arguments.items()))):
        return
    if arguments or (not rest and any(is_near(name, other) for other in known)):
        hint = did_you_mean(name, known) or "`%planck sidecar add FILE` adds one."
        raise UsageError(f"There is no sidecar {name}. {hint} As a prompt, write `%planck -- {line}`.")


def _refuse_unknown_member(line: str, notebook: Notebook) -> None:
    """Raise `UsageError` if the first word is `TEAM/NAME` of a running team that has no such member."""
    word = line.partition(" ")[0]
    name, slash, member = word.partition("/")
    team = notebook.workspace.teams.get(name) if slash else None
    if team is not None and member and word not in notebook.controller.recipients:
        hint = did_you_mean(member, [agent.name for agent in team.agents])
        raise UsageError(f"The team {name} has no member {member}. {hint} As a prompt, write `%planck -- {line}`.")


def _refuse_verb_with_arguments(line: str, notebook: Notebook) -> None:
    """Raise `UsageError` for a misspelt verb that has arguments, above a text that would not be read."""
    if " " in line and line[0] != "-" and (meant := meant_verb(line, VERBS, notebook)):
        sign = "%%planck" if VERBS[meant.partition(" ")[0]].cell else "%planck"
        raise UsageError(f"%planck has no verb {line.partition(' ')[0]}. Did you mean `{sign} {meant}`?")


def _refuse_name(prompt: Prompt, command: str, notebook: Notebook) -> None:
    """Refuse a model's or a probably misspelt name for a new agent, except after `--agent`."""
    name, known = prompt.options.get("agent"), notebook.controller.recipients
    if name is None or isinstance(name, ExplicitName) or name in known:
        return
    makes = f"`{command} --agent {name}` makes an agent of that name."
    if model := _model_named(name, notebook):
        raise UsageError(f"{name} is a model; write `{command} --model {model}`. {makes}")
    if "/" in name:
        return
    meant = similar_name(name, known, VERBS)
    if meant == name:
        raise UsageError(f"{name} is a verb that has no text on the lines below; write `%planck {name}`. {makes}")
    if meant:
        sign = command if meant in known or VERBS[meant].cell else "%planck"
        raise UsageError(f"There is no agent {name}. Did you mean `{sign} {meant}`? {makes}")


def _model_named(name: str, notebook: Notebook) -> str:
    """Return a model's full name, empty for another word.

    Under a model's name, another model's answer would mislead.
    """
    provider, colon, _ = name.partition(":")
    if name in by_name(notebook.workspace.config.models) or (colon and provider in list_providers()):
        return name
    return next(iter(full_names(name)), "")

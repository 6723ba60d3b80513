"""Reads `%planck` and `%%planck`: a verb, or a prompt with options.

A line which is probably neither is refused with a sentence, before it costs money; `-- ` before it insists.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path

from planck_nb.agent.approval import KINDS
from planck_nb.ai.model_lookup.catalogue import list_providers
from planck_nb.base.errors import UsageError, did_you_mean
from planck_nb.jupyter.file_names import looks_like_file
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.arguments import could_follow
from planck_nb.jupyter.parsing.kinds import FUNCTIONS, is_tool, model_named
from planck_nb.jupyter.parsing.options import (
    OPTIONS,
    ExplicitName,
    Prompt,
    read_header,
    read_line,
    read_prompt_arguments,
)
from planck_nb.jupyter.parsing.parameters import DEBUG, OF_EVERY_VERB, flags
from planck_nb.jupyter.similar_words import is_near, is_numbered, nearest
from planck_nb.jupyter.typed_keys import require_no_key
from planck_nb.jupyter.verbs import VERBS, Verb
from planck_nb.jupyter.verbs.verb_registry import VIEWING

_PROMPT_OF_SIDECAR = re.compile(r"[A-Za-z_][\w.-]*:[A-Za-z_][\w.-]*")
_ARGUMENT = re.compile(r"[A-Za-z_][\w-]*=(?!=).*", re.DOTALL)
_SLASH = re.compile(r"/[A-Za-z][\w/.-]*")
_EMPTY = {'""', "''"}
_HELP = {"", "--", "--help", "-h", "?"}
_MIN_AGENT_NAME_LENGTH = 5
_MIN_VERB_LENGTH = 4
_CLOSE = 0.75
"""Similarity between a single word and the verb in its message."""


@dataclass(frozen=True, slots=True)
class VerbLine:
    """A verb with its arguments, and the original text.

    `cell` is None without lines below.
    """

    verb: Verb
    argument: str
    cell: str | None
    line: str = ""


def interpret(line: str, cell: str | None, notebook: Notebook) -> VerbLine | Prompt:
    """Read a `%planck` line or a `%%planck` cell.

    Args:
        line: The text after `%planck` or `%%planck` on its line.
        cell: The lines below `%%planck`; None for `%planck`.
        notebook: The place to look names up.

    Returns:
        The verb or the prompt.

    Raises:
        UsageError: The line is probably neither, or an option cannot be used.
    """
    known, text = notebook.controller.recipients, line.strip()
    verb = _verb(text, cell, notebook)
    if not _insists(line, {*known, *VERBS}):
        require_no_key(line if cell is None or (verb is not None and verb.cell is not None) else f"{line}\n{cell}")
    if verb is not None:
        return verb
    if cell is not None:
        _refuse_verb_with_arguments(text, notebook)
        prompt = Prompt(read_header(line), cell)
        _refuse_name(prompt, "%%planck", notebook)
        _refuse_unknown_rules(prompt, notebook)
        return prompt
    _refuse_sign(text)
    _refuse_missing_tools(text, notebook)
    _refuse_option_of_verb(text, notebook)
    _refuse_unknown_sidecar(text, notebook)
    _refuse_single_word(text, notebook)
    _refuse_misspelt(text, notebook)
    _refuse_model(text, notebook)
    _refuse_unknown_member(text, notebook)
    prompt = read_line(line, known)
    _refuse_name(prompt, "%planck", notebook)
    _refuse_unknown_rules(prompt, notebook)
    return replace(prompt, text="") if prompt.text.strip() in _EMPTY else prompt


def _verb(text: str, cell: str | None, notebook: Notebook) -> VerbLine | None:
    """Find a text's verb; None for another text."""
    if cell is not None:
        found = next(VERBS.readings(text), None)
        return VerbLine(found[0], found[2], cell, text) if found and found[0].cell else None
    if text in _HELP:
        return VerbLine(VERBS["help"], "", None, text)
    if text == "--version":
        return VerbLine(VERBS["version"], "", None, text)
    for verb, inserted, typed in VERBS.readings(text):
        whole = f"{inserted} {typed}".strip()
        if could_follow(verb.declared, typed if inserted.startswith("-") else whole, notebook):
            return VerbLine(verb, whole, None, text)
    return None


def _insists(line: str, names: Collection[str]) -> bool:
    """Return whether `--` follows only a name and options."""
    words = line.split()
    if "--" not in words:
        return False
    before = words[: words.index("--")]
    options = before[1:] if before and before[0] in names else before
    # Each option has one value at most.
    return all(word.startswith("-") or previous.startswith("-") for previous, word in pairwise(["", *options]))


def _is_file(word: str, notebook: Notebook) -> bool:
    """Return whether a word is a file's path, or looks like one."""
    path = notebook.workspace.config.root / word
    return looks_like_file(word) or path.is_file() or ("/" in word and path.exists())


def _as_prompt(line: str) -> str:
    return f"As a prompt, write `%planck -- {line}`."


def _refuse_sign(line: str) -> None:
    """Raise `UsageError` for a shell's or another assistant's command."""
    word, _, rest = line.partition(" ")
    path = word.rstrip(".,:;?!")
    if line[:1] in {"!", "?"}:
        meaning = "a command of the shell" if line[0] == "!" else "IPython's help"
        raise UsageError(
            f"`{word}` begins {meaning}, which is a line of its own without %planck; `%planck help` explains %planck. "
            f"{_as_prompt(line)}"
        )
    if not _SLASH.fullmatch(path) or Path(path).exists():
        return
    name = path[1:]
    if found := VERBS.named(name):
        meant = f"{found[0].name} {found[1]} {rest}"
        raise UsageError(f"Verbs have no slash: write `%planck {' '.join(meant.split())}`. {_as_prompt(line)}")
    hint = _option_hint(name) or "`%planck help` lists the verbs, which have no slash."
    raise UsageError(f"%planck has no {word}, and there is no such file. {hint} {_as_prompt(line)}")


def _refuse_missing_tools(line: str, notebook: Notebook) -> None:
    """Raise `UsageError` for `--tools` without a value, listing its values."""
    flag = line.rsplit(maxsplit=1)[-1] if line else ""
    option = flags(OPTIONS).get(flag)
    if option is not None and option.name == "tools" and "--" not in line.split():
        raise UsageError(f"{flag} needs names with commas between them: {', '.join(FUNCTIONS.suggest(notebook))}.")


def _refuse_single_word(line: str, notebook: Notebook) -> None:
    """Raise `UsageError` for one ASCII word, except an answer or question."""
    known = notebook.controller.recipients
    if line in known:
        raise UsageError(
            f"There is no prompt: write it after the name {line}, or send the name by `%planck -- {line}`."
        )
    word = line.rstrip("?!.")
    if not line or not line.isascii() or len(line.split()) > 1 or line in _EMPTY or line[0] == "-":
        return
    if notebook.controller.is_asked:
        return
    hint = _hint_for(word, notebook)
    if not hint and line.endswith("?"):
        return
    hint = hint or "One word is not sent; `%planck help` lists what can be done."
    raise UsageError(f"{hint} {_as_prompt(line)}")


def _hint_for(word: str, notebook: Notebook) -> str:
    """Return a sentence about a single word's probable meaning; may be empty."""
    hint = ""
    if word[:1] == "@" and word[1:].isidentifier():
        hint = f"Write what to do with {word}."
    elif word.isidentifier() and word in notebook.names:
        hint = f"{word} is a variable; write @{word} in a prompt to show it."
    elif model := _model_or_provider(word, notebook):
        hint = _model_hint(model)
    elif _is_file(word, notebook):
        hint = f"{word} is a file; write what to do with it, as in `%planck summarise @{word}`."
    elif option := _option_hint(word.lower()):
        hint = f"%planck has no verb {word}. {option}"
    elif verb := _verb_like(word.lower().replace("_", "-")):
        hint = f"%planck has no verb {word}. Did you mean `%planck {verb}`?"
    elif agent := nearest(word, notebook.controller.recipients):
        hint = f"There is no agent {word}. Did you mean {agent}?"
    return hint


def _verb_like(word: str) -> str:
    """Return the probable verb, perhaps with arguments; may be empty."""
    verbs = [*VERBS, *VERBS.synonyms]
    long_verbs = [verb for verb in verbs if len(verb) >= _MIN_VERB_LENGTH]
    meant = nearest(word, verbs) or next(iter(get_close_matches(word, long_verbs, n=1, cutoff=_CLOSE)), "")
    found = VERBS.named(meant)
    return f"{found[0].name} {found[1]}".strip() if found else ""


def _model_or_provider(word: str, notebook: Notebook) -> str:
    """Return a model's full name, or a provider; may be empty."""
    return model_named(word, notebook) or (word if word in list_providers() else "")


def _model_hint(model: str) -> str:
    if model in list_providers():
        return f"{model} is a provider; `%planck models {model}` lists its models."
    return f"{model} is a model; `%planck model {model}` lets it answer, or `--model {model}` before a prompt."


def _option_hint(word: str) -> str:
    """Return a sentence about the probable option; may be empty."""
    option = next((option for option in OPTIONS if word in {option.name, *option.synonyms}), None)
    if option is None or (option.name == word and VERBS.named(word)):
        return ""
    value = f" {option.kind.placeholder}" if option.kind else ""
    return f"Write `%planck --{option.name}{value} PROMPT`: {option.help}."


def _refuse_misspelt(line: str, notebook: Notebook) -> None:
    """Raise `UsageError` for a probably misspelt verb or agent."""
    known = notebook.controller.recipients
    word, _, rest = line.partition(" ")
    if word in known or word in flags(OPTIONS) or line[0] == "-":
        return
    if meant := _meant_verb(line, notebook):
        raise UsageError(f"%planck has no verb {word}. Did you mean `%planck {meant}`? {_as_prompt(line)}")
    if rest and len(word) >= _MIN_AGENT_NAME_LENGTH:
        ends = [name for name in known if (name[:1], name[-1:]) == (word[0], word[-1])]  # "critics say …" is a prompt
        agent = nearest(word, (name for name in ends if not is_numbered(word, name)))
        if agent:
            raise UsageError(f"There is no agent {word}. Did you mean `%planck {agent} {rest}`? {_as_prompt(line)}")


def _meant_verb(line: str, notebook: Notebook) -> str:
    """Return the line with the probable verb; empty for a prompt."""
    word, _, rest = line.partition(" ")
    lower = word.lower()
    if not rest.strip() or not word.isascii() or not word.replace("-", "").replace("_", "").isalpha():
        return ""
    second, _, more = rest.strip().partition(" ")
    if lower not in VIEWING and nearest(lower, VIEWING) and (found := VERBS.named(second)) and found[0].shows:
        meaning = f"{found[0].name} {found[1]} {more}".split()
        return " ".join(meaning) if could_follow(found[0].declared, more, notebook) else ""
    meanings = {**{name: name for name in VERBS}, **VERBS.synonyms}
    near = [name for name in meanings if name != word and _is_misspelling(lower, name)]
    for name in sorted(near, key=lambda name: sorted(name) != sorted(lower)):
        verb, _, inserted = meanings[name].partition(" ")
        arguments = rest if inserted.startswith("-") else f"{inserted} {rest}"
        if could_follow(VERBS[verb].declared, arguments, notebook, strict=True):
            return f"{meanings[name]} {rest.strip()}"
    return ""


def _is_misspelling(word: str, name: str) -> bool:
    """Return whether a word is a misspelt verb, rather than its inflection."""
    is_inflected = word.startswith(name) and len(word) > len(name) + 1
    same_letters = word[0] == name[0] or sorted(word) == sorted(name)
    return is_near(word, name) and same_letters and not is_inflected


def _refuse_model(line: str, notebook: Notebook) -> None:
    """Raise `UsageError` for `PROVIDER:MODEL …`, as other assistants accept it."""
    word, _, rest = line.partition(" ")
    if ":" in word[:-1] and word not in notebook.controller.recipients and model_named(word, notebook):
        raise UsageError(f"{word} is a model; write `%planck --model {word} {rest}`. {_as_prompt(line)}")


def _refuse_option_of_verb(line: str, notebook: Notebook) -> None:
    """Raise `UsageError` for an option before a verb, as in a prompt."""
    option, _, rest = line.partition(" ")
    if option not in flags(OF_EVERY_VERB) or not rest.strip():
        return
    verb = _verb(rest.strip(), None, notebook)
    if verb is not None:
        word, _, argument = rest.strip().partition(" ")
        meant = f"{word} {option} {argument}".strip()
        prompt = f"{DEBUG.usage} -- {rest.strip()}" if option == DEBUG.usage else f"-- {line}"
        raise UsageError(
            f"Write {option} after the verb, as in `%planck {meant}`. As a prompt, write `%planck {prompt}`."
        )


def _refuse_unknown_sidecar(line: str, notebook: Notebook) -> None:
    """Raise `UsageError` for `NAME:PROMPT key=value …` without such a sidecar."""
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
        raise UsageError(f"There is no sidecar {name}. {hint} {_as_prompt(line)}")


def _refuse_unknown_member(line: str, notebook: Notebook) -> None:
    """Raise `UsageError` for `TEAM/NAME` without such a member."""
    word = line.partition(" ")[0]
    name, slash, member = word.partition("/")
    team = notebook.workspace.teams.get(name) if slash else None
    if team is not None and member and word not in notebook.controller.recipients:
        hint = did_you_mean(member, [agent.name for agent in team.agents])
        raise UsageError(f"The team {name} has no member {member}. {hint} {_as_prompt(line)}")


def _refuse_verb_with_arguments(line: str, notebook: Notebook) -> None:
    """Raise `UsageError` for a misspelt verb with arguments above a text."""
    if " " in line and line[0] != "-" and (meant := _meant_verb(line, notebook)):
        sign = "%%planck" if VERBS[meant.partition(" ")[0]].cell else "%planck"
        raise UsageError(f"%planck has no verb {line.partition(' ')[0]}. Did you mean `{sign} {meant}`?")


def _refuse_unknown_rules(prompt: Prompt, notebook: Notebook) -> None:
    """Raise `UsageError` for `--allow` without a tool's name, such as `all`."""
    for rule in prompt.options.get("allow", ()):
        if rule.kind is None and rule.tool.isidentifier() and not is_tool(notebook, rule.tool):
            notebook.workspace.toolbox.require_trusted(rule.tool)
            if not notebook.workspace.sidecars.known_names():  # whose tools are known after their start
                hint = did_you_mean(rule.tool, [*KINDS, *FUNCTIONS.suggest(notebook)])
                raise UsageError(f"--allow {rule.tool} names no tool. {hint}")


def _refuse_name(prompt: Prompt, command: str, notebook: Notebook) -> None:
    """Refuse a probably unintended name for a new agent, except after `--agent`."""
    name, known = prompt.options.get("agent"), notebook.controller.recipients
    if name is None or isinstance(name, ExplicitName) or name in known:
        return
    makes = f"`{command} --agent {name}` makes an agent of that name."
    if model := _model_or_provider(name, notebook):
        meant = f"{model}:MODEL" if model == name and model in list_providers() else model
        kind = "provider" if meant != model else "model"
        raise UsageError(f"{name} is a {kind}; write `{command} --model {meant}`. {makes}")
    if _is_file(name, notebook):
        raise UsageError(f"{name} is a file; write @{name} in the prompt. {makes}")
    if "/" in name:
        return
    if found := VERBS.named(name):
        verb = f"{found[0].name} {found[1]}".strip()
        raise UsageError(f"{name} is a verb that has no text on the lines below; write `%planck {verb}`. {makes}")
    lower = name.lower()
    agent = nearest(lower, (each.lower() for each in known if not is_numbered(name, each)))
    meant = next((each for each in known if agent and each.lower() == agent), "")
    meant = meant or next((verb for verb in VERBS if is_near(lower, verb) and sorted(lower) == sorted(verb)), "")
    if meant:
        sign = command if meant in known or VERBS[meant].cell else "%planck"
        raise UsageError(f"There is no agent {name}. Did you mean `{sign} {meant}`? {makes}")

"""Probable intentions behind misspelt verbs, agents and options.

A misspelt line is refused with the line which was probably meant, because as a prompt it would cost money and answer
nothing. A prompt must not be refused because its first word resembles a verb. So a word counts as misspelt only if it
is not an English word, and if the rest could be the verb's arguments; `%planck -- …` is always a prompt.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.parameters import Extent, Option, Parameter
from planck_nb.jupyter.similar_words import SHORT_NAME_LENGTH, distance, is_near, is_numbered

_MIN_AGENT_NAME_LENGTH = 5
_MAX_WORDS = 3

# Proper words which resemble verbs: English words, and some in other languages.
_WORDS = frozenset(
    """
    about abhor aborts agent agents' all approved approver approves ask asks ban beam bending benches blanches book born
    branch branched branching breaches brunches bunches cassettes chances change changed changer charges chow compacted
    compactor compacts company confide confine confit continua continued continues continuing continuo contact cork
    cools dang defy deleted deletes den dene dens dent deplete dewy each ending envy expert experts export's exported
    exporter exports extort fending folk fools for force ford fore fork's forked forks form fort gents heal heap held
    hell hello helm helped helper helps hep how hulp impact impart imported imports impost improve kelp kills lending
    lifeline mending mission missions modal modals mode modelo modelos modell modelle moder modem modes motel muse
    pension pensions passions pending police polity pools pork presume queued queues ranches ream remind reminds remote
    removal removed remover removes report research resumed resumen resumes rewinds rust crust thrust sage seam seams
    sear section sections seer sending session shaw sheer shills shod shoe shoo shop shot show's showed shown shows
    showy sidecars skill skilled skull skulls slow snow spending spills starch steal steam steed steel steep steers
    steuer stills stool stools stow sue swear swills tea teal team's teams tear teem tema tending tensions term tideline
    timeless timelines toils toll tolls tool tool's tools tram trusted trusts trusty truest truss tryst truth und under
    undid undone undos undue unto used user users uses usages vending versions whelp work works yelp yodel york answers
    answered modeled modeling modelled modelling searches searched searching
    """.split()
)


class VerbLike(Protocol):
    """The needed part of a verb."""

    @property
    def name(self) -> str:
        """Return its typed name."""
        ...

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Return its parameters in order."""
        ...


def meant_verb(line: str, verbs: Mapping[str, VerbLike], notebook: Notebook) -> str:
    """Find the probable verb for a line whose first word is unknown.

    Args:
        line: The text after `%planck`.
        verbs: All verbs by name.
        notebook: The place to look names up.

    Returns:
        The line with the verb, empty if it is a prompt.
    """
    word, _, rest = line.strip().partition(" ")
    lower, rest = word.lower().replace("_", "-"), rest.strip()
    if word in verbs or lower in _WORDS or not word.replace("-", "").replace("_", "").isalpha():
        return ""
    near = (name for name in verbs if is_near(lower, name))
    for name in sorted(near, key=lambda name: (distance(lower, name), sorted(lower) != sorted(name))):
        parameters = verbs[name].parameters
        if lower == name:
            fits = not rest or _are_known(parameters, rest, notebook)
        else:
            fits = word == lower and _could_follow(parameters, rest, notebook)
        if fits:
            return f"{name} {rest}".strip()
    return ""


def meant_agent(line: str, agents: Iterable[str]) -> str:
    """Find the probable agent in a line whose first word is unknown.

    Words which differ from the name at their beginning or end are proper words, as in "critics say that …".

    Args:
        line: The text after `%planck`.
        agents: Names of existing agents and teams.

    Returns:
        The line with the agent's name, empty if it is a prompt.
    """
    word, _, rest = line.strip().partition(" ")
    if not rest or len(word) < _MIN_AGENT_NAME_LENGTH or word in _WORDS:
        return ""
    for name in agents:
        same_ends = word[0] == name[:1] and word[-1] == name[-1:]
        if word != name and same_ends and distance(word, name) == 1 and not is_numbered(word, name):
            return f"{name} {rest.strip()}"
    return ""


def similar_name(name: str, agents: Iterable[str], verbs: Collection[str]) -> str:
    """Find the name which a new agent's name probably misspells.

    Args:
        name: The new name.
        agents: Names of existing agents and teams.
        verbs: The verbs' names.

    Returns:
        The name of an agent or a verb, empty for an independent name.
    """
    for agent in agents:
        if len(agent) > SHORT_NAME_LENGTH and is_near(name.lower(), agent.lower()) and not is_numbered(name, agent):
            return agent
    if name in verbs:
        return name
    lower = name.lower()
    return "" if lower in _WORDS else next((verb for verb in verbs if is_near(lower, verb)), "")


def meant_option(word: str, options: Iterable[Option]) -> str:
    """Find the probable option for a word after any dash, if any."""
    match = re.match(r"(?:--?|[\u2010-\u2015\u2212]+)([A-Za-z][\w-]*)", word)
    if match is None:
        return ""
    option_name = match[1].lower().replace("_", "-")
    if len(option_name) <= 1:
        return ""
    return next((f"--{option.name}" for option in options if is_near(option_name, option.name)), "")


def _could_follow(parameters: tuple[Parameter, ...], rest: str, notebook: Notebook) -> bool:
    """Return whether the text could be arguments for these parameters."""
    last = parameters[-1] if parameters else None
    if last is not None and last.kind.extent is Extent.TEXT and len(parameters) == 1:
        return True
    words = [word for word in rest.split() if word[0] != "-"]
    if not words or rest.startswith("--") or _are_known(parameters, rest, notebook):
        return True
    if last is None or rest[-1] in "?!.":
        return False
    if "|" in parameters[0].kind.placeholder:
        return any(is_near(words[0].lower(), choice) for choice in parameters[0].kind.suggest(notebook))
    takes_many = last.kind.extent in (Extent.WORDS, Extent.TEXT)
    return len(words) <= max(len(parameters), _MAX_WORDS if takes_many else 0)


def _are_known(parameters: tuple[Parameter, ...], rest: str, notebook: Notebook) -> bool:
    """Return whether completion offers the text for a parameter."""
    names = {rest.strip("\"'"), rest.split(maxsplit=1)[0]} if len(parameters) > 1 else {rest.strip("\"'")}
    return any(not names.isdisjoint(parameter.kind.suggest(notebook)) for parameter in parameters)

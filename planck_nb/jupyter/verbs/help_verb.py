"""`%planck help`: the verbs by subject, and a page on each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from planck_nb.base.errors import UsageError, did_you_mean
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.options import OPTIONS
from planck_nb.jupyter.parameters import Kind, Parameter
from planck_nb.jupyter.verbs.declaration import Text, Verb, columns, verb

PROMPT = "prompt"
"""The page about prompts, which are no verb."""

_FORMS = (
    ("%planck PROMPT", "prompt the agent"),
    ("%planck AGENT --option … PROMPT", "prompt another agent, with options"),
    ("%%planck [AGENT] [OPTIONS]", "the same, with the prompt on the lines below"),
    ("x = %planck PROMPT", "keep the answer"),
)
_HELP = (
    ("%planck help VERB", "explain a verb, as `%planck VERB --help` does"),
    (f"%planck help {PROMPT}", "explain names of agents, and the options of a prompt"),
)
_NAMES = """\
AGENT names an agent with a conversation of its own; it is created if it does not exist. On one line the first word is a
name if options follow it, or if an agent of that name exists and more text follows; otherwise it belongs to the prompt.
The name of a verb always stands for the verb. `%planck -- PROMPT` sends a prompt that begins like a verb, a name or an
option. Names with spaces are written in quotes. In a prompt, @name hands over a function of the notebook as a tool, or
shows a value."""


def help_verb(verbs: Mapping[str, Verb]) -> Verb:
    """Make the verb that explains `verbs`, as they are when it is used."""

    def suggest(_notebook: Notebook) -> dict[str, str]:
        return {each.name: each.summary for each in verbs.values()} | {PROMPT: "how to write prompts"}

    @verb(
        "help",
        "Help",
        "list the verbs, or explain one",
        Parameter(
            "about", Kind("VERB", suggest=suggest), f"the verb, or `{PROMPT}`: how to write prompts", optional=True
        ),
        example="help export",
    )
    async def explain(_notebook: Notebook, about: str | None) -> Text:
        if about is None:
            return Text(overview(verbs.values()))
        if about == PROMPT:
            return Text(prompts())
        if about not in verbs:
            raise UsageError(f"%planck has no verb {about}. {did_you_mean(about, verbs)}")
        return Text(verbs[about].help)

    return explain


def overview(verbs: Iterable[Verb]) -> str:
    """The page that lists the verbs by their subjects."""
    subjects: dict[str, list[tuple[str, str]]] = {}
    for each in verbs:
        subjects.setdefault(each.subject, []).append((each.name, each.summary))
    width = max(len(form) for form, _ in _FORMS)
    blocks = [columns((*_FORMS, *_HELP), width)]
    blocks += [[f"{subject}:", *columns(listed, width)] for subject, listed in subjects.items()]
    return "\n\n".join("\n".join(block) for block in blocks)


def prompts() -> str:
    """The page about agents' names and options in front of a prompt."""
    options = [(each.usage, each.help) for each in OPTIONS]
    return "\n".join([*columns(_FORMS, max(len(form) for form, _ in _FORMS)), "", _NAMES, "", *columns(options)])

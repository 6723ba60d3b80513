"""`%planck help`: every verb and every option on one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planck_nb.base.errors import UsageError, did_you_mean
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.options import OPTIONS, Option
from planck_nb.jupyter.verbs.verb import Notebook, Text, Verb

HELP = "help [verb]"

SAYING = (
    ("%planck PROMPT", "say something to the agent"),
    ("%%planck [agent] [options]", "the same, with the prompt on the lines below"),
    ("x = %planck PROMPT", "keep the answer; @name in a prompt hands over a function or shows a value"),
    (f"%planck {HELP}", "this page, or a verb with its options"),
)


def manual(verbs: Mapping[str, Verb], subjects: Mapping[str, Mapping[str, Verb]]) -> Verb:
    """The verb that explains `verbs`, as they are when it is asked, and lists those of each subject."""

    async def answer(_controller: Controller, argument: str, _notebook: Notebook) -> Text:
        if not argument:
            return Text(_everything(subjects))
        verb = verbs.get(argument)
        if verb is None:
            raise UsageError(f"%planck has no verb {argument}. {did_you_mean(argument, verbs)}")
        return Text("\n".join([f"%planck {verb.usage}", f"    {verb.help}", *map(_line, verb.options)]))

    return Verb(HELP, "what %planck can do, or a verb with its options", answer)


def _everything(subjects: Mapping[str, Mapping[str, Verb]]) -> str:
    sections = {
        heading: [(f"%planck {verb.usage}", verb.help) for verb in verbs.values()]
        for heading, verbs in subjects.items()
    }
    width = max(len(usage) for lines in (SAYING, *sections.values()) for usage, _ in lines)
    blocks = [_columns(SAYING, width)]
    blocks += [f"{heading}:\n{_columns(lines, width)}" for heading, lines in sections.items()]
    blocks += ["\n".join(["Options, before the prompt:", *map(_line, OPTIONS)])]
    return "\n\n".join(blocks)


def _columns(lines: Sequence[tuple[str, str]], width: int) -> str:
    return "\n".join(f"  {usage:<{width}}  {said}" for usage, said in lines)


def _line(option: Option) -> str:
    flags = f"-{option.short}, --{option.name}" if option.short else f"--{option.name}"
    return f"  {f'{flags} {option.value or str()}':<28} {option.help}"

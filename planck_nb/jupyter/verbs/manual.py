"""`%planck help`: every verb and every option on one page."""

from __future__ import annotations

from collections.abc import Mapping

from planck_nb.base.errors import UsageError, did_you_mean
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.options import OPTIONS, Option
from planck_nb.jupyter.verbs.table import Notebook, Text, Verb


def manual(verbs: Mapping[str, Verb]) -> Verb:
    """The verb that explains `verbs`, as they are when it is asked."""

    async def answer(_controller: Controller, argument: str, _notebook: Notebook) -> Text:
        if not argument:
            return Text(_everything(verbs))
        verb = verbs.get(argument)
        if verb is None:
            raise UsageError(f"%planck has no verb {argument}. {did_you_mean(argument, verbs)}")
        return Text("\n".join([f"%planck {verb.usage}", f"    {verb.help}", *map(_line, verb.options)]))

    return Verb("help [verb]", "what %planck can do, or a verb with its options", answer)


def _everything(verbs: Mapping[str, Verb]) -> str:
    lines = [
        "%planck PROMPT               say something to the agent",
        "%%planck [agent] [options]   the same, with the prompt on the lines below",
        "x = %planck PROMPT           keep the answer; @name in a prompt hands over a function or shows a value",
        "",
        *(f"%planck {verb.usage:<24} {verb.help}" for verb in verbs.values()),
        "",
        "Options, before the prompt:",
        *map(_line, OPTIONS),
    ]
    return "\n".join(lines)


def _line(option: Option) -> str:
    flags = f"-{option.short}, --{option.name}" if option.short else f"--{option.name}"
    return f"  {f'{flags} {option.value or str()}':<28} {option.help}"

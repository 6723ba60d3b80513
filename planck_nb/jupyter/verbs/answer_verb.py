"""`%planck answer`: shows an answer again."""

from __future__ import annotations

from planck_nb.base.errors import UsageError, did_you_mean
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.kinds import AGENT_NAME
from planck_nb.jupyter.parsing.parameters import Parameter
from planck_nb.jupyter.transcript.answer import Answer
from planck_nb.jupyter.verbs.declaration import verb
from planck_nb.workspace.agent_names import named_agents

_DIGITS = 9
"""No notebook has answers whose numbers are longer."""


@verb(
    "answer",
    "History",
    "show an answer again, for example one whose cell lost its output",
    Parameter("which", AGENT_NAME, "how many answers back, 1 for the newest; or the name of an agent", optional=True),
    example="answer 2",
)
async def answer(notebook: Notebook, which: str | None) -> Answer:
    """Return the stored answer, which shows itself."""
    agents = named_agents(notebook.workspace)
    answers = notebook.controller.answers
    if which in agents:
        return answers.find(agents.values(), agent=agents[which])
    number = which or "1"
    if not number.removeprefix("-").isdecimal():
        known = did_you_mean(number, list(agents))
        raise UsageError(f"There is no agent {number}; write a number or the name of an agent. {known}".rstrip())
    return answers.find(agents.values(), number=int(number[:_DIGITS]))

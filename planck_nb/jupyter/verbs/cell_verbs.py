"""Verbs about an executed cell: mend, explain, improve and test it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

from planck_nb.ai.messages import TextPart
from planck_nb.base.errors import UsageError
from planck_nb.base.markdown import fenced
from planck_nb.base.named_secrets import without_named_values
from planck_nb.base.secrets import around_secret, redact
from planck_nb.base.text import head_and_tail
from planck_nb.base.threads import run_in_thread
from planck_nb.jupyter.controller import DEFAULT_AGENT, StartedRun
from planck_nb.jupyter.kernel_tools.executed_cells import ExecutedCell, ExecutedCells
from planck_nb.jupyter.kernel_tools.kernel_tool_names import GROUP
from planck_nb.jupyter.kernel_tools.readable_names import is_private, reader_id
from planck_nb.jupyter.kernel_tools.tool_definitions import remember_secret_variables
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.kinds import AGENT_NAME
from planck_nb.jupyter.parsing.parameters import INTEGER, Extent, Kind, Option, Parameter
from planck_nb.jupyter.values import describe_value
from planck_nb.jupyter.values.inline import HIDDEN
from planck_nb.jupyter.values.type_checks import is_a
from planck_nb.jupyter.verbs.declaration import Verb, verb
from planck_nb.workspace.agent_names import named_agents

SUBJECT = "Cells"

SOURCE_CHARACTERS = 12_000
VARIABLES = 12
"""Most variables in a request."""

VARIABLE_CHARACTERS = 1_500
"""Longest description for one variable."""

_WORDS = Parameter("words", Kind("WORDS", extent=Extent.TEXT), "what you want, in your own words", optional=True)
_CELL = Option("cell", "c", INTEGER, "another cell, by its number: 3 for In [3]")
_AGENT = Option("agent", "a", AGENT_NAME, "another agent than the default one")

REQUESTS: Mapping[str, str] = {
    "fix": "Find out why this cell fails, and correct it.",
    "explain": "Explain this cell to a colleague: its purpose, and its steps. If it fails, explain why.",
    "improve": "Improve this cell without other results: simpler and clearer, and faster where it matters.",
    "test": "Write a cell which tests this cell's code with plain assertions, for usual and for extreme values.",
}
_ANSWER = (
    "If the answer is code, give one complete cell in a ```python block, which can be run as it is; then say in at "
    "most three sentences what is different and why."
)


def _cell_verb(name: str, summary: str, example: str) -> Verb:
    @verb(name, SUBJECT, summary, _WORDS, _CELL, _AGENT, example=example, cell=True)
    async def ask(notebook: Notebook, words: str | None, cell: int | None, agent: str | None) -> StartedRun:
        """Ask an agent with kernel tools about the cell, and show it."""
        return await _ask(notebook, name, words or "", cell, agent)

    return ask


fix = _cell_verb("fix", "correct the cell that failed last; words say what is wrong", "fix the dates are in UTC")
explain = _cell_verb("explain", "explain the cell that ran last, or its error", "explain the second line")
improve = _cell_verb("improve", "make the cell that ran last simpler, clearer or faster", "improve use polars")
test = _cell_verb("test", "write a test for the cell that ran last", "test with an empty table")


async def _ask(notebook: Notebook, name: str, words: str, number: int | None, agent: str | None) -> StartedRun:
    controller, cells = notebook.controller, notebook.controller.cells
    if cells is None:
        raise UsageError(f"`%planck {name}` needs a notebook's kernel.")
    cell = _chosen_cell(cells, name, words, number)
    options: dict[str, Any] = {"tools": (GROUP,)}
    if agent is not None or controller.default in notebook.workspace.teams:  # a team has its members' tools
        options["agent"] = agent or DEFAULT_AGENT
    request = f"{name} {words}".strip() if words else REQUESTS[name]
    if cell is None:
        return await controller.start(request, options, notebook.names)
    return await ask_about(notebook, request, cell, options)


async def ask_about(
    notebook: Notebook, request: str, cell: ExecutedCell, options: Mapping[str, Any], *, output: str = ""
) -> StartedRun:
    """Ask an agent about a cell with its error and variables.

    Args:
        notebook: The notebook.
        request: What the agent is to do.
        cell: The cell.
        options: The options of the prompt.
        output: The cell's outputs as text, for a cell whose error is not known.

    Returns:
        The run; its answer has a cell for the notebook.
    """
    controller, cells = notebook.controller, notebook.controller.cells
    if cells is None:
        raise UsageError("Cells are known in a notebook's kernel only.")
    names = [name for name in cells.names_in(cell) if _is_readable(notebook, name, str(options.get("agent", "")))]
    variables = {name: notebook.names[name] for name in names[:VARIABLES]}
    remember_secret_variables(notebook.names)
    context = await run_in_thread(lambda: _described(cells, cell, variables, output))
    response = await controller.start(request, options, notebook.names, parts=[TextPart(context)])
    listing = ", ".join([cell.label, *(["its error"] if cell.error is not None else []), *variables])
    notice = "\n".join(filter(None, (f"Sent with it: {listing}.", response.notice)))
    return replace(response, notice=notice, offers_cell=True)


def _chosen_cell(cells: ExecutedCells, name: str, words: str, number: int | None) -> ExecutedCell | None:
    """Return the cell to ask about, None for words alone.

    Raises:
        UsageError: The cell does not exist, or there is neither a cell nor a request.
    """
    if number is not None:
        cell = cells.numbered(number)
        if cell is None:
            raise UsageError(f"There is no executed cell In [{number}]; its number is at the left of the cell.")
        return cell
    cell = (cells.failed or (cells.newest if words else None)) if name == "fix" else cells.newest
    if cell is not None or words:
        return cell
    if name == "fix":
        raise UsageError("No cell has failed; say what to change, as in `%planck fix the axis labels`.")
    raise UsageError(f"No cell was executed before this one; run one, then `%planck {name}`.")


def _is_readable(notebook: Notebook, name: str, agent_name: str) -> bool:
    """Return whether a request describes the variable.

    A module says little, and some variables are hidden from the agent.
    """
    controller = notebook.controller
    if name not in notebook.names or is_private(name) or is_a(notebook.names[name], ModuleType):
        return False
    agent = named_agents(notebook.workspace).get(agent_name) if agent_name else controller.default_agent
    return agent is None or controller.readable.may_read(reader_id(agent), name)


def _described(cells: ExecutedCells, cell: ExecutedCell, variables: Mapping[str, object], output: str) -> str:
    """Return the cell, its error and its variables without secrets."""
    source = head_and_tail(cell.source.strip("\n"), characters=SOURCE_CHARACTERS, around=around_secret)
    parts = ["", f"The notebook's cell {cell.label}{'' if cell.error is None else ', which failed'}:"]
    parts.append(fenced(without_named_values(source, HIDDEN), "python"))
    if cell.error is not None:
        parts += ["Its error:", fenced(without_named_values(cells.traceback_of(cell.error), HIDDEN))]
    elif output:
        parts += ["Its output:", fenced(head_and_tail(output, characters=SOURCE_CHARACTERS, around=around_secret))]
    if variables:
        parts.append("Its variables, as they are now:")
    for name, value in variables.items():
        if code := head_and_tail(cells.function_source(value), characters=VARIABLE_CHARACTERS, around=around_secret):
            parts.append(fenced(without_named_values(code, HIDDEN), "python"))
        else:
            parts.append(fenced(f"{name}: {describe_value(value, characters=VARIABLE_CHARACTERS)}"))
    text = redact("\n\n".join([*parts, _ANSWER]), formats=True)
    return f"{text} Keep {HIDDEN} where it stands for a secret." if HIDDEN in text else text

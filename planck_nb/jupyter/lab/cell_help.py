"""Help with one cell: an agent is asked in the background, and its answer is a proposal for the cell."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias
from uuid import uuid4

from planck_nb.base.async_tasks import spawn
from planck_nb.base.errors import PlanckError
from planck_nb.base.text import counted, one_line
from planck_nb.jupyter.kernel_tools.executed_cells import ExecutedCell
from planck_nb.jupyter.lab.change_book import ChangeBook
from planck_nb.jupyter.lab.notebook_tools import CellRuns
from planck_nb.jupyter.lab.pages import Pages
from planck_nb.jupyter.lab.protocol import CellChange, ChangeSet, HelpAction, HelpStatus, HelpWanted, PageCell
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.transcript.answer import last_code
from planck_nb.jupyter.verbs.cell_verbs import REQUESTS, ask_about

AGENT = "helper"
"""The agent that is asked: one of its own, without tools, so that nothing waits for an approval that nobody sees."""

_State: TypeAlias = Literal["working", "done", "failed", ""]

_DOCUMENT = "Add docstrings and the comments that a reader needs to this cell, and change nothing else."
_FIX_AGAIN = "The corrected cell fails, too. Find out why, and correct it."


class CellHelp:
    """Helps with cells, each by one task at a time.

    Args:
        notebook: Returns the notebook.
        pages: The pages that show it.
        book: The proposed changes.
        runs: The cells that run.
        attempts: How many corrections of a cell are proposed at most, each after the one before has failed.
    """

    def __init__(
        self, notebook: Callable[[], Notebook], pages: Pages, book: ChangeBook, runs: CellRuns, *, attempts: int
    ) -> None:
        self._notebook = notebook
        self._pages = pages
        self._book = book
        self._runs = runs
        self._attempts = attempts
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, wanted: HelpWanted) -> None:
        """Begin to help, unless that is under way.

        Args:
            wanted: What a person wants.
        """
        task = self._tasks.get(wanted.cell)
        if task is None or task.done():
            self._tasks[wanted.cell] = spawn(self._help(wanted), name="planck cell help")

    def stop(self, cell: str) -> None:
        """Help no more with a cell.

        Args:
            cell: The cell's id.
        """
        if (task := self._tasks.pop(cell, None)) is not None:
            task.cancel()
            self._say(cell, "", "")

    async def _help(self, wanted: HelpWanted) -> None:
        try:
            if wanted.action == "fix":
                await self._fix(wanted)
            else:
                await self._propose_once(wanted)
        except PlanckError as error:
            self._say(wanted.cell, str(error), "failed")

    async def _propose_once(self, wanted: HelpWanted) -> None:
        cell = await self._cell(wanted.cell)
        request = _request(wanted.action, wanted.words)
        code, why = await self._ask(request, cell, wanted.cell)
        if code is None:
            self._say(wanted.cell, why, "failed")
            return
        if wanted.action == "test":
            change = CellChange(uuid4().hex[:8], "insert", uuid4().hex[:8], source=code, after=cell.id, why=why)
        else:
            change = CellChange(uuid4().hex[:8], "change", cell.id, before=cell.source, source=code, why=why)
        self._add(change, run=False)
        self._say(wanted.cell, "", "")

    async def _fix(self, wanted: HelpWanted) -> None:
        """Propose a correction; while it is accepted and fails, propose another one."""
        request = _request("fix", wanted.words)
        for attempt in range(1, self._attempts + 1):
            cell = await self._cell(wanted.cell)
            code, why = await self._ask(request, cell, wanted.cell, attempt)
            if code is None or code == cell.source:
                self._say(wanted.cell, why or "The agent proposes no change.", "failed")
                return
            end = self._runs.end_of(cell.id)
            title = "" if attempt == 1 else f"Still fails; proposal {attempt} of {self._attempts}:"
            change = CellChange(uuid4().hex[:8], "change", cell.id, before=cell.source, source=code, why=why)
            set_id = self._add(change, run=True, title=title)
            self._say(wanted.cell, "", "")
            [decided] = await self._book.wait(set_id, {change.id}, None)
            if decided.state not in ("accepted", "edited"):
                end.cancel()
                return
            self._say(cell.id, f"Runs again, after proposal {attempt} of {self._attempts}", "working")
            error = (await end).error
            if error is None:
                changes = counted(attempt, "change")
                self._say(cell.id, f"Runs now, after {changes}", "done")
                return
            request = f"{_FIX_AGAIN} {wanted.words}".strip()
        self._say(wanted.cell, f"Still fails after {counted(self._attempts, 'proposal')}.", "failed")

    async def _cell(self, name: str) -> PageCell:
        found = await self._pages.cells()
        for cell in () if found is None else found.cells:
            if cell.id == name:
                return cell
        raise PlanckError("The cell is not in the notebook any more.")

    async def _ask(self, request: str, cell: PageCell, shown_at: str, attempt: int = 1) -> tuple[str | None, str]:
        """Ask the agent about a cell. Returns the code in its answer, None without any, and the rest in a sentence."""
        notebook = self._notebook()
        number = "" if attempt == 1 else f", proposal {attempt} of {self._attempts}"
        self._say(shown_at, f"{AGENT} works on this cell{number}", "working")
        known = notebook.controller.cells
        failed = None if known is None else known.failed
        error = failed.error if failed is not None and failed.cell_id == cell.id else None
        executed = ExecutedCell(cell.count or 0, cell.source, error, cell.id)
        default = notebook.controller.prompted
        started = await ask_about(notebook, request, executed, {"agent": AGENT}, output=cell.output)
        notebook.controller.prompted = default
        try:
            answer = await started.run
        except asyncio.CancelledError:
            started.run.abort()
            raise
        code = last_code(answer.text)
        words = answer.text.replace(code, "") if code else answer.text
        prose = " ".join(line for line in words.splitlines() if line.strip() and not line.lstrip().startswith("```"))
        return code or None, one_line(prose, 300)

    def _add(self, change: CellChange, *, run: bool, title: str = "") -> str:
        agent = self._notebook().workspace.agents[AGENT]
        path = self._pages.path()
        changes = ChangeSet(uuid4().hex[:12], AGENT, agent.id, path, time.time(), (change,), run=run, title=title)
        self._book.put(changes)
        return changes.id

    def _say(self, cell: str, text: str, state: _State) -> None:
        self._pages.tell(HelpStatus(cell, text, state))


def _request(action: HelpAction, words: str) -> str:
    requests: Mapping[str, str] = {**REQUESTS, "document": _DOCUMENT}
    return f"{requests[action]} {words}".strip()

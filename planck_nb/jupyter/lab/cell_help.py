"""Help with a cell: an agent's answer becomes a proposal."""

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
from planck_nb.jupyter.lab.protocol import CellChange, ChangeSet, HelpStatus, HelpWanted, PageCell
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.transcript.answer import last_code
from planck_nb.jupyter.verbs.cell_verbs import REQUESTS, ask_about

AGENT = "helper"
"""A separate agent without tools.

In the background, a person might not see its requests for approval.
"""

_State: TypeAlias = Literal["working", "done", "failed", ""]

_DOCUMENT = "Add docstrings and the comments that a reader needs to this cell, and change nothing else."
_FIX_AGAIN = "The corrected cell fails, too. Find out why, and correct it."


class CellHelp:
    """Help with cells, in one task for each.

    Args:
        notebook: Returns the notebook.
        pages: Its pages.
        book: The proposed changes.
        runs: Its running cells.
        attempts: Most corrections for a cell, each after a failed one.
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

    def start(self, request: HelpWanted) -> None:
        """Begin to help; while an agent is at work, show its progress.

        Args:
            request: The person's request.
        """
        task = self._tasks.get(request.cell)
        if task is None or task.done():
            self._tasks[request.cell] = spawn(self._help(request), name="planck cell help")
        else:
            self._pages.tell_again(request.cell)

    def stop(self, cell: str) -> None:
        """End the help with a cell.

        Args:
            cell: The cell's id.
        """
        if (task := self._tasks.pop(cell, None)) is not None:
            task.cancel()
            self._say(cell, "", "")

    def end(self) -> None:
        """End all help."""
        for cell in list(self._tasks):
            self.stop(cell)

    async def _help(self, request: HelpWanted) -> None:
        try:
            if request.action == "fix":
                await self._fix(request)
            else:
                await self._propose_once(request)
        except PlanckError as error:
            self._say(request.cell, str(error), "failed")
        except BaseException:
            if self._tasks.get(request.cell) is asyncio.current_task():  # nobody has stopped it
                self._say(request.cell, "The help was interrupted; ask for it again.", "failed")
            raise

    async def _propose_once(self, request: HelpWanted) -> None:
        cell = await self._cell(request.cell)
        code, reason = await self._ask(_text_of(request), cell)
        if code is None:
            self._say(request.cell, reason, "failed")
            return
        if request.action == "test":
            change = CellChange(uuid4().hex[:8], "insert", uuid4().hex[:8], source=code, after=cell.id, why=reason)
        else:
            change = CellChange(uuid4().hex[:8], "change", cell.id, before=cell.source, source=code, why=reason)
        self._add(change, run=False)
        self._say(request.cell, "", "")

    async def _fix(self, request: HelpWanted) -> None:
        """Propose corrections until one succeeds."""
        text = _text_of(request)
        for attempt in range(1, self._attempts + 1):
            cell = await self._cell(request.cell)
            code, reason = await self._ask(text, cell, attempt)
            if code is None or code == cell.source:
                self._say(request.cell, reason or "The agent proposes no change.", "failed")
                return
            title = "" if attempt == 1 else f"Still fails; proposal {attempt} of {self._attempts}:"
            change = CellChange(uuid4().hex[:8], "change", cell.id, before=cell.source, source=code, why=reason)
            set_id = self._add(change, run=True, title=title)
            self._say(request.cell, "", "")
            with self._runs.end_of(cell.id) as end:
                [result] = await self._book.wait(set_id, {change.id}, None)
                if result.state not in ("accepted", "edited"):
                    return
                self._say(cell.id, f"Runs again, after proposal {attempt} of {self._attempts}", "working")
                run_end = await end
            if run_end.source is None:
                self._say(cell.id, "The changed cell was not run, so the help ended; run it yourself.", "failed")
                return
            if run_end.source.strip() != (result.source or "").strip():
                self._say(cell.id, "The cell ran with another text than the accepted one, so the help ended.", "failed")
                return
            if run_end.error is None:
                changes = counted(attempt, "change")
                self._say(cell.id, f"Runs now, after {changes}", "done")
                return
            if (await self._cell(cell.id)).source != result.source:
                self._say(cell.id, "You edited the cell, so the help ended.", "failed")
                return
            text = f"{_FIX_AGAIN} {request.words}".strip()
        self._say(request.cell, f"Still fails after {counted(self._attempts, 'proposal')}.", "failed")

    async def _cell(self, name: str) -> PageCell:
        notebook = await self._pages.cells(outputs_of=name)
        for cell in () if notebook is None else notebook.cells:
            if cell.id == name:
                return cell
        raise PlanckError("The cell is not in the notebook any more.")

    async def _ask(self, request: str, cell: PageCell, attempt: int = 1) -> tuple[str | None, str]:
        """Ask the agent; return the code in its answer, and the rest."""
        notebook = self._notebook()
        number = "" if attempt == 1 else f", proposal {attempt} of {self._attempts}"
        self._say(cell.id, f"{AGENT} works on this cell{number}", "working")
        cells = notebook.controller.cells
        failure = None if cells is None else cells.failed
        error = failure.error if failure is not None and failure.cell_id == cell.id else None
        subject = ExecutedCell(cell.count or 0, cell.source, error, cell.id)
        default = notebook.controller.prompted
        response = await ask_about(notebook, request, subject, {"agent": AGENT}, output=cell.output)
        notebook.controller.prompted = default
        try:
            answer = await response.run
        except asyncio.CancelledError:
            response.run.abort()
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


def _text_of(request: HelpWanted) -> str:
    requests: Mapping[str, str] = {**REQUESTS, "document": _DOCUMENT}
    return f"{requests[request.action]} {request.words}".strip()

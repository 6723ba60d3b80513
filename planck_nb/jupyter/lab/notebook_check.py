"""Verification: a notebook runs from the top in a scratch kernel."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from planck_nb.ai.cassettes.conversations import ANSWERS_VARIABLE
from planck_nb.base.async_tasks import cancel_and_wait, spawn
from planck_nb.base.errors import CassetteMissError
from planck_nb.base.text import counted, one_line
from planck_nb.base.threads import run_in_thread
from planck_nb.base.visible import visible
from planck_nb.config.trust import FolderTrust
from planck_nb.jupyter.lab.cell_names import CellNames, cell_names, stale_cells
from planck_nb.jupyter.lab.cell_outputs import Output, comparable, error_of, excerpts
from planck_nb.jupyter.lab.change_book import ChangeBook
from planck_nb.jupyter.lab.folder_copy import copy_folder, measure
from planck_nb.jupyter.lab.pages import Page
from planck_nb.jupyter.lab.protocol import (
    CellText,
    ChangedCells,
    CheckedCell,
    CheckOffer,
    CheckProgress,
    CheckResult,
    CheckStarted,
    CheckWanted,
    StaleCells,
)
from planck_nb.tools.process import child_environment
from planck_nb.workspace.stored_answers import answer_lines
from planck_nb.workspace.workspace import Workspace

if TYPE_CHECKING:
    from planck_nb.jupyter.lab.scratch_kernel import ScratchFolder, ScratchKernel

LOST_SECONDS = 15.0
"""A silent page's time until its check ends."""

_RUNNING = "A check is running; stop it first, or wait for its end."
_OTHER_SIZE = "The folder's size has changed since you were asked; press Verify again."
_TAKEN_BACK = "The changes are not in the notebook any more."
_NO_INPUT = frozenset({"StdinNotImplementedError"})


class NotebookChecks:
    """A notebook's checks, one at a time.

    Args:
        workspace: The workspace.
        book: The proposed changes.
    """

    def __init__(self, workspace: Workspace, book: ChangeBook) -> None:
        self._workspace = workspace
        self._book = book
        self._set = ""
        self._task: asyncio.Task[None] | None = None
        self._seen = asyncio.Event()

    def receive(self, page: Page, message: CheckWanted | CheckStarted | ChangedCells) -> None:
        """Act on a page's message.

        Args:
            page: The page.
            message: Its message.
        """
        match message:
            case CheckWanted():
                spawn(self._offer(page, message.set), name="planck check offer")
            case CheckStarted():
                if problem := self._problem(message.set):
                    page.send(CheckResult(message.set, "ended", problem))
                    return
                self._set = message.set
                self._task = spawn(self._check(page, message), name="planck check")
            case ChangedCells():
                spawn(_tell_stale(page, message), name="planck stale cells")

    def see(self, set_id: str) -> None:
        """Note that the page follows a check.

        Args:
            set_id: The set.
        """
        if set_id == self._set:
            self._seen.set()

    def stop(self, set_id: str) -> None:
        """End a check, if it is about this set.

        Args:
            set_id: The set.
        """
        if set_id == self._set:
            self.end()

    def end(self) -> None:
        """End the check, if one is running."""
        if self._task is not None:
            self._task.cancel()

    def _problem(self, set_id: str) -> str:
        if self._task is not None and not self._task.done():
            return _RUNNING
        return "" if self._book.is_applied(set_id) else _TAKEN_BACK

    async def _offer(self, page: Page, set_id: str) -> None:
        if problem := self._problem(set_id):
            page.send(CheckOffer(set_id, problem=problem))
            return
        folder, sessions = self._folders()
        size = await run_in_thread(partial(measure, folder, sessions))
        python = visible(sys.executable)
        page.send(CheckOffer(set_id, visible(str(folder)), size.files, size.size, size.is_copied, python))

    def _folders(self) -> tuple[Path, Path]:
        """Return the notebook's folder, and that of the sessions."""
        config = self._workspace.config
        return config.root, config.sessions_dir

    async def _check(self, page: Page, order: CheckStarted) -> None:
        check = _Check(page, order)
        watching = spawn(self._watch(check), name="planck check page")
        try:
            result = await check.run(self._workspace, *self._folders())
        except asyncio.CancelledError:
            page.send(check.ended("Stopped."))
            raise
        except Exception as error:  # noqa: BLE001 - the page waits for an end, whatever went wrong
            result = check.ended(one_line(visible(str(error)), 500) or type(error).__name__)
        finally:
            await cancel_and_wait(watching)
        page.send(result)

    async def _watch(self, check: _Check) -> None:
        """End a check whose page is gone; the page answers each report."""
        while True:
            self._seen.clear()
            check.report()
            try:
                await asyncio.wait_for(self._seen.wait(), LOST_SECONDS)
            except TimeoutError:
                self.end()
                return
            await asyncio.sleep(1.0)


class _Check:
    """One run through the notebook."""

    def __init__(self, page: Page, order: CheckStarted) -> None:
        self._page = page
        self._order = order
        self._number = 0
        self._began = time.monotonic()

    def report(self) -> None:
        """Tell the page how far it is."""
        seconds = int(time.monotonic() - self._began)
        self._page.send(CheckProgress(self._order.set, self._number, self._order.total, seconds))

    def ended(self, text: str, cell: str = "") -> CheckResult:
        """Return the result for an early end.

        Args:
            text: The sentence.
            cell: The cell's id, if it is about one.
        """
        return CheckResult(self._order.set, "ended", text, cell)

    async def run(self, workspace: Workspace, folder: Path, sessions: Path) -> CheckResult:
        """Copy the folder, run the cells, and compare.

        Args:
            workspace: The workspace, whose session answers.
            folder: The notebook's folder.
            sessions: The folder of its sessions, which is not copied.

        Raises:
            PlanckError: The kernel does not start, or the folder has grown.
            OSError: The copy cannot be written.
        """
        from planck_nb.jupyter.lab.scratch_kernel import (  # noqa: PLC0415 - jupyter_client loads at the first check
            in_thread,
            scratch_folder,
            scratch_kernel,
        )

        async with scratch_folder() as (scratch, watch):
            size = await run_in_thread(partial(measure, folder, sessions))
            if size.is_copied != self._order.copied:
                return self.ended(_OTHER_SIZE)
            if size.is_copied:
                await in_thread(partial(copy_folder, folder, scratch.project, sessions))
            environment = await _environment(workspace, scratch)
            with _trusting(workspace, folder, scratch.project):
                async with scratch_kernel(scratch, watch, environment) as kernel:
                    return await self._run_cells(kernel, {str(scratch.project): str(folder)})

    async def _run_cells(self, kernel: ScratchKernel, paths: Mapping[str, str]) -> CheckResult:
        comparisons = omissions = 0
        for cell in self._order.cells:
            self._number, self._began = cell.number, time.monotonic()
            self.report()
            outputs = await kernel.run(cell.source)
            if outputs is None:
                return self.ended(f"The kernel ended in cell {cell.number}.", cell.id)
            if (result := self._early_end(cell, outputs)) is not None:
                return result
            if cell.outputs is None:
                omissions += 1
                continue
            before = await run_in_thread(partial(comparable, cell.outputs))
            after = await run_in_thread(partial(comparable, outputs, paths))
            if before != after:
                excerpt, instead = map(visible, excerpts(before, after))
                text = f"Cell {cell.number} has another output."
                return CheckResult(self._order.set, "different", text, cell.id, excerpt, instead)
            comparisons += 1
        if not comparisons:
            return self.ended("The cells run, but none had an output to compare.")
        text = "The cell is as before" if comparisons == 1 else f"All {counted(comparisons, 'cell')} as before"
        if omissions:
            text += f"; {omissions} had not been run, or had too long outputs"
        return CheckResult(self._order.set, "same", f"{text}.")

    def _early_end(self, cell: CheckedCell, outputs: list[Output]) -> CheckResult | None:
        """Return the end for what a check cannot answer."""
        name, text = error_of(outputs)
        if name == CassetteMissError.__name__:
            return self.ended(f"Cell {cell.number}: {one_line(visible(text), 400)}", cell.id)
        if name in _NO_INPUT:
            return self.ended(f"Cell {cell.number} asks a person for input, which a check cannot give.", cell.id)
        return None


async def _environment(workspace: Workspace, scratch: ScratchFolder) -> dict[str, str]:
    """Return the scratch kernel's variables, without secrets, after writing the session's answers."""
    answers = scratch.path / "answers.jsonl"
    session = workspace.session if workspace.session_id is not None else None
    if session is not None:
        await session.flush()

    def write() -> None:
        with answers.open("wb") as file:
            if session is not None:
                file.writelines(answer_lines(session))

    await run_in_thread(write)
    environment = child_environment(os.environ)
    for name in ("PLANCK_NB_CASSETTE", "PLANCK_NB_CASSETTE_MODE", "JPY_SESSION_NAME", "PLANCK_NB_ENV_FILE"):
        environment.pop(name, None)
    environment[ANSWERS_VARIABLE] = str(answers)
    environment["PLANCK_NB_SESSIONS_DIR"] = str(scratch.path / "sessions")
    return environment


@contextmanager
def _trusting(workspace: Workspace, folder: Path, copy: Path) -> Iterator[None]:
    """Extend the trust in a folder to its copy, by digests."""
    trust = FolderTrust(copy, workspace.config.user_folder)
    items = [
        replace(file.item, path=copy / file.item.path.relative_to(folder))
        for file in workspace.trust_items()
        if file.status == "trusted" and file.item.path.is_relative_to(folder)
    ]
    trust.add(items)
    try:
        yield
    finally:
        if items:
            trust.clear()


async def _tell_stale(page: Page, message: ChangedCells) -> None:
    cells, before = await _names(message.cells), await _names(message.before)
    page.send(StaleCells(message.request, stale_cells(cells, before)))


async def _names(cells: Iterable[CellText]) -> list[tuple[str, CellNames]]:
    names: list[tuple[str, CellNames]] = []
    for cell in cells:
        names.append((cell.id, cell_names(cell.source)))
        await asyncio.sleep(0)  # a notebook may have many
    return names

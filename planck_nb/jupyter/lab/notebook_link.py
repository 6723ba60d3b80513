"""The connection between a kernel and its notebook in pages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from uuid import uuid4

from IPython.core.interactiveshell import InteractiveShell

from planck_nb.agent.calling.tool import Tool
from planck_nb.base.async_tasks import spawn
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.frontend import kernel_handles_clicks
from planck_nb.jupyter.ipython.compat import idle_loop
from planck_nb.jupyter.lab.cell_help import CellHelp
from planck_nb.jupyter.lab.change_book import ChangeBook
from planck_nb.jupyter.lab.notebook_check import NotebookChecks
from planck_nb.jupyter.lab.notebook_tools import CellRuns, NotebookTools, outcome
from planck_nb.jupyter.lab.overview import OverviewSource
from planck_nb.jupyter.lab.pages import Page, Pages
from planck_nb.jupyter.lab.project_settings import save_settings, setting_entries
from planck_nb.jupyter.lab.protocol import AnswerProposed, CellChange, ChangeSet
from planck_nb.jupyter.lab.session_texts import SessionTexts
from planck_nb.jupyter.notebook import Notebook
from planck_nb.sessions import Session
from planck_nb.workspace.agent_names import named_agents
from planck_nb.workspace.toolbox import ToolSource


class NotebookLink:
    """A notebook's pages, proposed changes and tools.

    Args:
        shell: The shell, which has a kernel.
        controller: Its controller.
        kernel_tools: The kernel tools.
        notebook: Returns the notebook as verbs see it.
    """

    def __init__(
        self,
        shell: InteractiveShell,
        controller: Controller,
        kernel_tools: ToolSource,
        notebook: Callable[[], Notebook],
    ) -> None:
        self._workspace = workspace = controller.workspace
        self._kernel_tools = kernel_tools
        self.book = ChangeBook(self._session)
        loop = _kernel_loop()
        self.pages = Pages(self.book, loop)
        self.runs = CellRuns(shell, self._update)
        self._notebook_tools = NotebookTools(
            shell,
            workspace,
            self.pages,
            self.book,
            self.runs,
            executed_cells=lambda: notebook().controller.cells,
            hears=lambda: kernel_handles_clicks(shell.kernel),
        )
        self.pages.concurrent = kernel_handles_clicks(shell.kernel)
        self.overview = OverviewSource(shell, controller, loop, is_busy=lambda: self.runs.is_busy)
        self.texts = SessionTexts(lambda: workspace.sessions_dir)
        self.checks = NotebookChecks(workspace, self.book)
        self.help = CellHelp(notebook, self.pages, self.book, self.runs, attempts=workspace.config.fix_attempts)

    def install(self) -> None:
        """Let pages connect."""
        self.pages.model = lambda: self._workspace.config.default_model or ""
        self.pages.on_help, self.pages.on_stop = self.help.start, self.help.stop
        self.pages.on_not_run = self.runs.give_up
        self.pages.overview, self.pages.on_approve = self.overview.answer, self.overview.decide
        self.pages.on_answer = self._propose
        self.pages.on_trust = self.overview.trust
        self.pages.settings = lambda: setting_entries(self._workspace)
        self.pages.on_save = lambda request: save_settings(self._workspace, request.scope, request.values)
        self.pages.texts = self.texts.answer
        self.pages.on_page, self.overview.tell = self.overview.follow, self.pages.tell_activity
        self.pages.on_check = self.checks.receive
        self.pages.on_check_seen, self.pages.on_check_stopped = self.checks.see, self.checks.stop
        self.overview.install()
        self.runs.install()
        self.pages.install()

    def remove(self) -> None:
        """Undo `install`."""
        self.help.end()
        self.checks.end()
        self.pages.remove()
        self.texts.close()
        self.overview.remove()
        self.runs.remove()

    def tools(self) -> Mapping[str, Tool]:
        """Return the tools for the kernel and for the notebook."""
        return {**self._kernel_tools.tools(), **self._notebook_tools.tools}

    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """Return groups by name."""
        return {**self._kernel_tools.groups(), **self._notebook_tools.groups()}

    def news(self, agent_id: str) -> str:
        """Return the news about an agent's proposals, a line for each.

        Args:
            agent_id: The agent.
        """
        return "\n".join(f"[{outcome(change)}]" for change in self.book.news(agent_id))

    def _propose(self, page: Page, answer: AnswerProposed) -> None:
        """Add an answer's code as a set; its agent may have left."""
        agent = named_agents(self._workspace).get(answer.agent)
        change = CellChange(
            uuid4().hex[:8], "change", answer.cell, answer.cell_type, before=answer.before, source=answer.source
        )
        agent_id = "" if agent is None else agent.id
        self.book.put(ChangeSet(uuid4().hex[:12], answer.agent, agent_id, page.path, time.time(), (change,)))

    def _update(self) -> None:
        """Follow the last cell, which may have opened a session."""
        self.pages.tell_names()
        with suppress(RuntimeError):  # without a running loop, as in tests
            asyncio.get_running_loop()
            spawn(self.book.load(), name="planck cell changes")

    def _session(self) -> Session | None:
        return self._workspace.session if self._workspace.session_id is not None else None


def _kernel_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return idle_loop()

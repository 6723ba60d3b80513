"""`%load_ext planck_nb` adds the magics to a shell, and `%unload_ext` removes them."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from IPython import get_ipython
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import needs_local_scope, no_var_expand
from IPython.display import publish_display_data
from IPython.lib.pretty import RepresentationPrinter

from planck_nb.agent.run import Run
from planck_nb.base.errors import PlanckError, UsageError
from planck_nb.base.programs import hidden_sentence, installed_modules
from planck_nb.base.terminal_markdown import supports_styles, to_terminal
from planck_nb.config import Config
from planck_nb.jupyter.completion import matcher, names, verbs
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.frontend import is_terminal, kernel_handles_clicks
from planck_nb.jupyter.ipython.blocked_loop import BlockedLoop
from planck_nb.jupyter.ipython.bridge import (
    NEST_ASYNCIO_WARNING,
    OTHER_LOOP,
    interrupts_cancel,
    nest_asyncio_is_active,
    wait_for,
    waking_loop,
)
from planck_nb.jupyter.ipython.compat import CellStatus, idle_loop, ipykernel_version
from planck_nb.jupyter.ipython.warm_up import WarmUp
from planck_nb.jupyter.kernel_tools.steps import running_steps
from planck_nb.jupyter.kernel_tools.surroundings import NO_MAGIC
from planck_nb.jupyter.kernel_tools.tool_definitions import KernelTools
from planck_nb.jupyter.lab.notebook_link import NotebookLink
from planck_nb.jupyter.magics import STOPPED, PlanckMagics, in_one_line, interrupted
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.notebook_answers import background_line
from planck_nb.jupyter.parsing import syntax
from planck_nb.jupyter.side_by_side import Comparison
from planck_nb.jupyter.transcript.answer import Answer
from planck_nb.rendering.plain_output import for_terminal
from planck_nb.workspace import Workspace
from planck_nb.workspace.installation_findings import kernel_fault

NOTEBOOK = "JPY_SESSION_NAME"
"""The environment variable with the path of the notebook, which Jupyter Server sets."""

DEMO_PACE = 0.02
"""Seconds between two words of the demo model in a notebook, unless the configuration says otherwise."""

_loaded: dict[int, Extension] = {}
"""The extension of each shell, by the shell's identity."""


def load(shell: InteractiveShell) -> None:
    """Add the magics to a shell; a second time changes nothing.

    Args:
        shell: The shell.

    Raises:
        ConfigError: A setting cannot be used.
    """
    if id(shell) in _loaded:
        return
    kernel = getattr(shell, "kernel", None)
    if kernel_handles_clicks(kernel) and nest_asyncio_is_active():
        print(NEST_ASYNCIO_WARNING)  # noqa: T201 - a line in the cell's output
    if (installed := ipykernel_version(kernel)) and (fault := kernel_fault(installed)):
        print(f"{fault} Run `%pip install -U ipykernel`, then restart the kernel.")  # noqa: T201 - as above
    if sentence := hidden_sentence():
        print(sentence)  # noqa: T201 - a line in the cell's output
    try:
        config = Config.load()
    except PlanckError as error:
        raise in_one_line(error) from None
    for warning in config.warnings:
        print(warning)  # noqa: T201 - a line in the cell's output
    if config.demo_pace is None:
        config = replace(config, demo_pace=DEMO_PACE)
    extension = Extension(shell, Controller(Workspace(config, owner=Path(os.environ.get(NOTEBOOK, "")).name)))
    extension.install()
    _loaded[id(shell)] = extension


def unload(shell: InteractiveShell) -> None:
    """Remove the magics from a shell, and stop the agents.

    Args:
        shell: The shell.
    """
    extension = _loaded.pop(id(shell), None)
    if extension is not None:
        extension.remove()
    if not _loaded:
        installed_modules.remove()


def current_workspace() -> Workspace | None:
    """Return the workspace that the magics of this notebook use.

    Returns:
        The workspace, or None outside IPython and where `%load_ext planck_nb` was not run.
    """
    extension = _loaded.get(id(get_ipython()))
    return None if extension is None else extension.workspace


class Extension:
    """Everything that planck_nb adds to one shell.

    Args:
        shell: The shell.
        controller: The state behind the magics.
    """

    def __init__(self, shell: InteractiveShell, controller: Controller) -> None:
        self._shell = shell
        self._controller = controller
        self._magics = PlanckMagics(shell, controller)
        self._completion = matcher(shell, self._notebook)
        self._thread = threading.get_ident()
        self._warm_up = WarmUp()
        self._is_terminal = is_terminal(shell)
        kernel = getattr(shell, "kernel", None)
        self._cancels_cells = bool(ipykernel_version(kernel))
        """An interrupt (■) cancels the cell's task."""
        handles_clicks = kernel_handles_clicks(kernel)
        self._cell_status = CellStatus(kernel) if handles_clicks else None  # other kernels handle nothing meanwhile
        self._blocked_loop = BlockedLoop(kernel) if self._cancels_cells else None
        self._link: NotebookLink | None = None
        self._await_magics = partial(syntax.await_magics, only_in_async_code=self._is_terminal)

    @property
    def workspace(self) -> Workspace:
        """The workspace behind the magics."""
        return self._controller.workspace

    def install(self) -> None:
        """Register magics, tools for the kernel, input transformers, completion, and how answers are displayed."""
        tools = KernelTools(self._shell, self.workspace, self._controller.readable)
        self._controller.name_changes, self._controller.cells = tools.changes, tools.cells
        tools.cells.install()
        if self._is_terminal:
            self.workspace.offer_kernel_tools(tools)
        else:
            self._link = NotebookLink(self._shell, self._controller, tools, self._notebook)
            self._link.pages.verbs, self._link.pages.names = verbs, lambda: names(self._notebook())
            self._link.install()
            self.workspace.offer_kernel_tools(self._link)
            self._controller.news_for = self._link.news
            self._controller.examine_pages = self._link.pages.examine
        self.workspace.show_map = self._magics.frontend.show_map
        self._shell.register_magic_function(self._awaited, "line_cell", syntax.AWAITED)
        self._shell.register_magic_function(self._blocking, "line_cell", syntax.MAGIC)
        self._shell.input_transformers_cleanup.append(syntax.take_line_magics)
        self._shell.input_transformers_post.append(self._await_magics)
        self._shell.Completer.custom_matchers.append(self._completion)
        self._shell.display_formatter.formatters["text/plain"].for_type(Run, self._print_run)
        if self._is_terminal:  # whose first prompt may wait for its imports
            for kind in (Answer, Comparison):
                self._shell.display_formatter.formatters["text/plain"].for_type(kind, self._print)
        else:
            for kind in (Answer, Comparison):
                self._shell.display_formatter.ipython_display_formatter.for_type(kind, self._show)
            self._warm_up.start()
        if self._cell_status is not None:
            self._cell_status.install()
        if self._blocked_loop is not None:
            self._blocked_loop.install()

    def remove(self) -> None:
        """Undo `install` and close the workspace."""
        self._warm_up.stop()
        if self._blocked_loop is not None:
            self._blocked_loop.remove()
        if self._link is not None:
            self._link.remove()
        if self._controller.cells is not None:
            self._controller.cells.remove()
        if self._cell_status is not None:
            self._cell_status.remove()
        wait_for(self._controller.close(), idle_loop)
        for kind in ("line", "cell"):
            for name in (syntax.MAGIC, syntax.AWAITED):
                self._shell.magics_manager.magics[kind].pop(name, None)
        self._shell.input_transformers_cleanup.remove(syntax.take_line_magics)
        self._shell.input_transformers_post.remove(self._await_magics)
        self._shell.Completer.custom_matchers.remove(self._completion)
        for answer_type in (Answer, Comparison):
            self._shell.display_formatter.ipython_display_formatter.pop(answer_type, None)
            self._shell.display_formatter.formatters["text/plain"].pop(answer_type, None)
        self._shell.display_formatter.formatters["text/plain"].pop(Run, None)

    def _notebook(self) -> Notebook:
        return self._magics.notebook(self._magics.notebook_names())

    @no_var_expand
    @needs_local_scope
    async def _awaited(
        self, line: str, cell: str | None = None, local_ns: Mapping[str, object] | None = None
    ) -> object:
        """`%planck` and `%%planck` in code that can await."""
        self._check_caller()
        task = asyncio.current_task()
        try:
            with waking_loop() if self._cancels_cells or task is None else interrupts_cancel(task, task.get_loop()):
                return await self._magics.run(line, cell, local_ns)
        except asyncio.CancelledError as error:
            if _is_the_cells_own_task():
                raise interrupted() from None
            in_one_line(error, STOPPED)  # a cell that gathers prompts shows it
            raise

    @no_var_expand
    @needs_local_scope
    def _blocking(self, line: str, cell: str | None = None, local_ns: Mapping[str, object] | None = None) -> object:
        """Prompt an agent; `%planck help` explains how."""
        self._check_caller()
        try:
            return wait_for(self._magics.run(line, cell, local_ns, blocking=True), idle_loop)
        except KeyboardInterrupt:
            raise interrupted() from None

    def _check_caller(self) -> None:
        if threading.get_ident() != self._thread:
            raise in_one_line(UsageError(OTHER_LOOP))
        if running_steps() is not None:
            raise in_one_line(UsageError(NO_MAGIC))

    def _print_run(self, run: Run[Any], printer: RepresentationPrinter, _cycle: bool) -> None:
        """Print a run. For one in the background, say how to get its answer, because the cell keeps this text."""
        name = self._controller.answers.agent_of(run)
        printer.text(background_line(name) if name and run.outcome is None else repr(run))

    def _print(self, answer: Answer | Comparison, printer: RepresentationPrinter, _cycle: bool) -> None:
        """Print an answer in a terminal: its figures below its text in its own cell, and all of it in later ones."""
        if answer.was_shown_in(self._shell.execution_count):
            printer.text(f"<{type(answer).__name__}: {for_terminal(answer.figures)}>")
        else:
            printer.text(to_terminal(repr(answer)) if supports_styles(sys.stdout, os.environ) else repr(answer))

    def _show(self, answer: Answer | Comparison) -> None:
        if not answer.was_shown_in(self._shell.execution_count):
            publish_display_data(*answer.mime_bundle())


def _is_the_cells_own_task() -> bool:
    """Whether the running task is the cell's. In any other, a KeyboardInterrupt would end the kernel."""
    task = asyncio.current_task()
    return task is not None and getattr(task.get_coro(), "__name__", "") == InteractiveShell.run_cell_async.__name__

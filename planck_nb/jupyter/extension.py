"""`%load_ext planck_nb`: puts the magics into a shell, and `%unload_ext` takes them out again."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from IPython import get_ipython
from IPython.core.async_helpers import get_asyncio_loop
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import needs_local_scope, no_var_expand
from IPython.display import publish_display_data

from planck_nb.base.errors import PlanckError, UsageError
from planck_nb.config import Config
from planck_nb.jupyter import syntax
from planck_nb.jupyter.bridge import NEST_ASYNCIO_WARNING, OTHER_LOOP, awake, nest_asyncio_is_active, wait_for
from planck_nb.jupyter.completion import matcher
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.magics import PlanckMagics, in_one_line, interrupted
from planck_nb.jupyter.transcript.answer import Answer
from planck_nb.workspace import Workspace

NOTEBOOK = "JPY_SESSION_NAME"
"""The variable in which Jupyter Server tells a kernel the path of its notebook."""

NATURAL_PACE = 0.02
"""Seconds between two words of the demo model in a notebook, unless the configuration says otherwise."""

_loaded: dict[int, Extension] = {}
"""The extension of each shell, by the shell's identity."""


def load(shell: InteractiveShell) -> None:
    """Add the magics to the shell; a second time changes nothing."""
    if id(shell) in _loaded:
        return
    if nest_asyncio_is_active():
        print(NEST_ASYNCIO_WARNING)  # noqa: T201 - a line in the cell's output
    try:
        config = Config.load()
    except PlanckError as error:
        raise in_one_line(error) from None
    for warning in config.warnings:
        print(warning)  # noqa: T201 - a line in the cell's output
    if config.demo_pace is None:
        config = replace(config, demo_pace=NATURAL_PACE)
    extension = Extension(shell, Controller(Workspace(config, owner=Path(os.environ.get(NOTEBOOK, "")).name)))
    extension.install()
    _loaded[id(shell)] = extension


def unload(shell: InteractiveShell) -> None:
    """Take the magics out of the shell and stop what they started."""
    extension = _loaded.pop(id(shell), None)
    if extension is not None:
        extension.remove()


def current_workspace() -> Workspace | None:
    """Return the workspace that the magics of this notebook use.

    Returns:
        The workspace, or None outside IPython and where `%load_ext planck_nb` was not run.
    """
    extension = _loaded.get(id(get_ipython()))
    return None if extension is None else extension.workspace


class Extension:
    """All that planck_nb puts into one shell."""

    def __init__(self, shell: InteractiveShell, controller: Controller) -> None:
        self._shell = shell
        self._controller = controller
        self._magics = PlanckMagics(shell, controller)
        self._completion = matcher(lambda: self._magics.notebook(self._magics.notebook_names()))
        self._thread = threading.get_ident()

    @property
    def workspace(self) -> Workspace:
        """The workspace behind the magics."""
        return self._controller.workspace

    def install(self) -> None:
        """Register magics, transformers, completion and the way answers show."""
        self._shell.register_magic_function(self._awaited, "line_cell", syntax.AWAITED)
        self._shell.register_magic_function(self._blocking, "line_cell", syntax.MAGIC)
        self._shell.input_transformers_cleanup.append(syntax.take_line_magics)
        self._shell.input_transformers_post.append(syntax.await_magics)
        self._shell.Completer.custom_matchers.append(self._completion)
        self._shell.display_formatter.ipython_display_formatter.for_type(Answer, self._show)

    def remove(self) -> None:
        """Undo `install` and close the workspace."""
        wait_for(self._controller.close(), get_asyncio_loop)
        for kind in ("line", "cell"):
            for name in (syntax.MAGIC, syntax.AWAITED):
                self._shell.magics_manager.magics[kind].pop(name, None)
        self._shell.input_transformers_cleanup.remove(syntax.take_line_magics)
        self._shell.input_transformers_post.remove(syntax.await_magics)
        self._shell.Completer.custom_matchers.remove(self._completion)
        self._shell.display_formatter.ipython_display_formatter.pop(Answer, None)

    @no_var_expand
    @needs_local_scope
    async def _awaited(
        self, line: str, cell: str | None = None, local_ns: Mapping[str, object] | None = None
    ) -> object:
        """What `%planck` is where the cell can await it."""
        if threading.get_ident() != self._thread:
            raise in_one_line(UsageError(OTHER_LOOP))
        try:
            with awake():
                return await self._magics.run(line, cell, local_ns)
        except asyncio.CancelledError:
            if _is_the_cells_own_task():
                raise interrupted() from None
            raise

    @no_var_expand
    @needs_local_scope
    def _blocking(self, line: str, cell: str | None = None, local_ns: Mapping[str, object] | None = None) -> object:
        """Talk to an agent; `%planck help` says how."""
        if threading.get_ident() != self._thread:
            raise in_one_line(UsageError(OTHER_LOOP))
        try:
            return wait_for(self._magics.run(line, cell, local_ns), get_asyncio_loop)
        except KeyboardInterrupt:
            raise interrupted() from None

    def _show(self, answer: Answer) -> None:
        if not answer.was_shown_in(self._shell.execution_count):
            publish_display_data(*answer.mime_bundle())


def _is_the_cells_own_task() -> bool:
    """Whether the running task is the cell's. In any other a KeyboardInterrupt would end the kernel."""
    task = asyncio.current_task()
    return task is not None and getattr(task.get_coro(), "__name__", "") == InteractiveShell.run_cell_async.__name__

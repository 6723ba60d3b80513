"""How the person at a shell sees a run and is asked for approval: in a notebook, or in a terminal."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from html import escape
from typing import Any, Protocol

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import DisplayHandle, display, publish_display_data

from planck_nb.agent.agent import Agent
from planck_nb.agent.approval.gate import Approvals
from planck_nb.agent.run import Run
from planck_nb.base.async_tasks import spawn
from planck_nb.base.terminal_markdown import supports_styles
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.display.beside_view import beside_view
from planck_nb.jupyter.ipython.compat import ipykernel_version, running_request
from planck_nb.jupyter.live.browser_requests import RunRequests
from planck_nb.jupyter.live.confirmation import Confirmation
from planck_nb.jupyter.live.map_view import MapView, saved_summary
from planck_nb.jupyter.live.question_channel import QuestionChannel
from planck_nb.jupyter.live.run_actions import RunActions
from planck_nb.jupyter.live.sidecar_wait import SidecarWait
from planck_nb.jupyter.live.view import LiveView, RunSummary
from planck_nb.jupyter.terminal.approval_prompt import (
    ApprovalPrompt,
    LineReader,
    one_at_a_time,
    read_answer,
    read_by_input,
    read_terminal,
)
from planck_nb.jupyter.terminal.map_line import MapLine
from planck_nb.jupyter.terminal.question_prompt import QuestionPrompt
from planck_nb.jupyter.terminal.terminal_view import TerminalPrinter, TerminalView
from planck_nb.sessions import reading_reports
from planck_nb.workspace import MapRun
from planck_nb.workspace.sidecar_notices import waiting_sentence

_CONCURRENT_MESSAGES = 7
"""The first version of ipykernel that handles messages of the browser while a cell awaits."""

_READING_STEP = 1.0
"""Seconds between two sentences about reading."""

_COLUMNS = "repeat(auto-fit, minmax(min(100%, 292px), 1fr))"
"""Grid columns; a narrow page has one below 600 pixels."""

PLACEHOLDER = {"text/plain": "", "text/html": ""}
"""What replaces a live view that nobody would see, so that a notebook has the same outputs however it is executed."""

BACKGROUND_IN_TERMINAL = (
    "In a terminal a background run goes on only while a cell runs; `%gui asyncio` lets it go on at the prompt, too."
)


class RunDisplay(Protocol):
    """What shows a run while it is under way."""

    @property
    def has_shown_answer(self) -> bool:
        """Whether the whole answer was shown, so that no transcript has to follow."""
        ...

    @property
    def is_missing(self) -> bool:
        """Whether the newest page with the notebook does not show the answer."""
        ...

    def finish(self, summary: RunSummary, *, saved: bool, requests: RunRequests | None = None) -> None:
        """Show that the run is over.

        Args:
            summary: What is known of it then.
            saved: Whether the transcript is an output of the cell, so that the notebook saves it.
            requests: Does what the user requests of the run from then on.
        """
        ...


class Frontend:
    """The frontend of one shell.

    Args:
        shell: The shell.
        controller: The state behind the magics.
    """

    def __init__(self, shell: InteractiveShell, controller: Controller) -> None:
        self._shell = shell
        self._controller = controller
        self._maps = ("", 0)
        """The newest request with maps, and their number."""

    @property
    def is_terminal(self) -> bool:
        """Whether the shell runs in a terminal, without a kernel."""
        return is_terminal(self._shell)

    @property
    def client(self) -> str:
        """What identifies the page, or the other program, that executes the cell; another one after a reload."""
        return self._request_header("session")

    @property
    def request_id(self) -> str:
        """The id of the request that executes the cell, empty in a terminal."""
        return self._request_header("msg_id")

    def _request_header(self, name: str) -> str:
        if self.is_terminal:
            return ""
        return str(running_request(self._shell.kernel).get("header", {}).get(name, ""))

    def notices(self, *, background: bool) -> list[str]:
        """Return what to say before a run."""
        return [BACKGROUND_IN_TERMINAL] if background and self.is_terminal and not self._loop_runs_at_prompt else []

    def show(
        self,
        agent: Agent,
        run: Run,
        actions: RunActions,
        *,
        blocking: bool,
        background: bool,
        quiet: bool,
        prompts: bool,
        marker: str = "",
    ) -> RunDisplay:
        """Show a run until `finish` is called on what this returns.

        Args:
            agent: The agent.
            run: Its run.
            actions: What can be done in the view.
            blocking: Whether the cell blocks the event loop of the kernel, so that no click arrives.
            background: Whether the cell ends before the run.
            quiet: Whether only the finished answer is to be shown.
            prompts: Whether the prompt was not typed in this cell, so that it is shown, too.
            marker: The class of the HTML that is saved for the run.
        """
        if not self.is_terminal and not quiet and is_unattended(self._shell.kernel):
            display(PLACEHOLDER, raw=True)
            quiet = True
        live = partial(self._live_view, agent, run, actions, marker)
        approvals = self._controller.workspace.approvals
        if background:
            return self._shown(None if quiet or self.is_terminal else live(), actions)
        read = None if (reader := self.line_reader()) is None else one_at_a_time(reader)
        if self.is_terminal:
            styles = supports_styles(sys.stdout, os.environ)
            printer = None if quiet else TerminalPrinter(prompts=prompts, agent=(agent.id, agent.name), styles=styles)
            write = _print if printer is None else printer.write
            prompt = ApprovalPrompt(agent, approvals, run.events, read=read, write=write, agents=actions.agents)
            questions = self._question_prompt(actions, read, write)
            return _TerminalDisplay(TerminalView(run.events, prompt, printer), approvals, questions)
        if not blocking and kernel_handles_clicks(self._shell.kernel):
            return self._shown(None if quiet else live(), actions)
        view = None if quiet else live(clicks=False)
        prompt = ApprovalPrompt(agent, approvals, run.events, read=read, write=_print, agents=actions.agents)
        return _PromptingDisplay(view, prompt, approvals, self._question_prompt(actions, read, _print))

    def show_columns(
        self, columns: Sequence[tuple[Agent, Run, RunActions]], *, blocking: bool, quiet: bool
    ) -> ColumnsDisplay:
        """Show runs side by side until `finish` is called on the result.

        Args:
            columns: Agents with their runs and actions.
            blocking: Whether the cell blocks the event loop, so that clicks are lost.
            quiet: Whether only the finished answers are shown.
        """
        if not self.is_terminal and not quiet and is_unattended(self._shell.kernel):
            display(PLACEHOLDER, raw=True)
            quiet = True
        if self.is_terminal or quiet or blocking or not kernel_handles_clicks(self._shell.kernel):
            show = partial(self.show, blocking=blocking, background=False, quiet=True, prompts=False)
            return ColumnsDisplay([show(agent, run, actions) for agent, run, actions in columns])
        views = [self._new_view(agent, run, actions, "") for agent, run, actions in columns]
        return ColumnsDisplay(
            [self._shown(view, actions) for view, (_, _, actions) in zip(views, columns, strict=True)],
            display(_grid(views), display_id=True),
        )

    def _shown(self, view: LiveView | None, actions: RunActions) -> _Shown:
        """A live view whose clicks arrive, which also shows the questions of sidecars; for None, nothing is shown."""
        if view is None:
            return _Shown(None)
        return _Shown(view, QuestionChannel(view, self._controller.questions, actions.agents.take_part))

    def _question_prompt(
        self, actions: RunActions, read: LineReader | None, write: Callable[[str], None]
    ) -> asyncio.Task[None] | None:
        """Ask the questions of sidecars by typed answers; None if nobody types, so that they are declined."""
        if read is None:
            return None
        prompt = QuestionPrompt(self._controller.questions, actions.agents.take_part, read=read, write=write)
        return spawn(prompt.follow(), name="planck question prompts")

    def _live_view(self, agent: Agent, run: Run, actions: RunActions, marker: str, *, clicks: bool = True) -> LiveView:
        view = self._new_view(agent, run, actions, marker, clicks=clicks)
        display(view)
        return view

    def _new_view(self, agent: Agent, run: Run, actions: RunActions, marker: str, *, clicks: bool = True) -> LiveView:
        return LiveView(
            run.events,
            agent=agent.name,
            actions=actions,
            on_connect=self._controller.workspace.attend,
            clicks=clicks,
            members=actions.agents.members,
            facts=actions.agents.facts,
            marker=marker,
        )

    def show_map(self, run: MapRun) -> None:
        """Show a map's progress, and save a summary at its end.

        Args:
            run: The map.
        """
        if self.is_terminal:
            run.at_end.append(MapLine(run, sys.stdout).finish)
            return
        cell, number = self._maps
        request = self.request_id  # execution counts stand still without a history, as under nbval
        number = number + 1 if cell == request else 1
        self._maps = request, number
        marker = f"planck-map-{number}"
        view: MapView | None = None
        if is_unattended(self._shell.kernel):
            display(PLACEHOLDER, raw=True)
        else:
            view = MapView(run, attend=self._controller.workspace.attend, marker=marker)
            display(view)
        handle: DisplayHandle | None = None

        def finish() -> None:
            nonlocal handle
            if view is not None:
                view.update()
            html, text = saved_summary(run)
            bundle = {"text/html": beside_view(html, marker), "text/plain": text}
            if handle is None:
                handle = display(bundle, raw=True, display_id=True)
            else:  # after a preview
                handle.update(bundle, raw=True)

        run.at_end.append(finish)

    def offer_cell(self, code: str) -> None:
        """Offer code as a new cell: a terminal has it at its next prompt, to be edited and run.

        In a notebook, people insert it by the buttons on the code itself.

        Args:
            code: The cell.
        """
        if self.line_reader() is not None and self.is_terminal:
            self._shell.set_next_input(code)
            _print("The cell is at the next prompt; Enter runs it.\n")

    async def confirm(
        self, question: str, *, accept: str, decline: str, seconds: float, blocking: bool = False
    ) -> bool | None:
        """Ask for a decision in the running cell.

        Args:
            question: The question.
            accept: The button for yes.
            decline: The other button.
            seconds: Time for the person.
            blocking: Whether the cell blocks the event loop, so that clicks are lost.

        Returns:
            The decision: False if it is late, None without a person.
        """
        if self.is_terminal or blocking or not kernel_handles_clicks(self._shell.kernel):
            read = self.line_reader()
            return None if read is None else await _typed_confirmation(read, question)
        if is_unattended(self._shell.kernel):
            return None
        buttons = Confirmation(question, accept=accept, decline=decline, seconds=seconds)
        handle = display(buttons, display_id=True)
        try:
            return await buttons.answer()
        finally:
            handle.update(PLACEHOLDER, raw=True)
            buttons.close()

    @contextmanager
    def show_wait(self, names: Sequence[str], *, blocking: bool) -> Iterator[SidecarWait | None]:
        """Show a prompt's wait for sidecars, while the context is open.

        The cell has the same outputs after any wait, with a person or without.

        Args:
            names: The sidecars.
            blocking: Whether the cell blocks the event loop, so clicks are lost.
        """
        if self.is_terminal or blocking or not kernel_handles_clicks(self._shell.kernel):
            _print(f"{waiting_sentence(names)}\n")
            yield None
        elif is_unattended(self._shell.kernel):
            display(PLACEHOLDER, raw=True)
            yield None
        else:
            view = SidecarWait(names)
            handle = display(view, display_id=True)
            try:
                yield view
            finally:
                view.finish()
                handle.update(PLACEHOLDER, raw=True)

    @contextmanager
    def show_reading(self) -> Iterator[None]:
        """Show how far queries are in reading sessions for the first time.

        It begins after a second, and disappears in the end.
        """
        loop, context = asyncio.get_running_loop(), copy_context()
        shown_at = time.monotonic()
        handle: DisplayHandle | None = None
        is_open = True

        def report(size: int, total: int) -> None:
            nonlocal shown_at
            if time.monotonic() - shown_at > _READING_STEP:
                shown_at = time.monotonic()
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(show, size, total, context=context)

        def show(size: int, total: int) -> None:
            nonlocal handle
            text = {"text/plain": reading_sentence(size, total)}
            if not is_open or (self.is_terminal and handle is not None):
                return
            if handle is None:
                handle = display(text, raw=True, display_id=True)
            else:
                handle.update(text, raw=True)

        with reading_reports(report):
            try:
                yield
            finally:
                is_open = False
                if handle is not None and not self.is_terminal:
                    handle.update(PLACEHOLDER, raw=True)

    def line_reader(self) -> LineReader | None:
        """Return what reads a line that is typed; None if nobody types, as when a notebook or a script is executed."""
        if self.is_terminal:
            return read_terminal if sys.stdin is not None and sys.stdin.isatty() else None
        return read_by_input if getattr(self._shell.kernel, "_allow_stdin", False) else None

    @property
    def _loop_runs_at_prompt(self) -> bool:
        return getattr(self._shell, "active_eventloop", None) == "asyncio"


def reading_sentence(size: int, total: int) -> str:
    """Say how many bytes have been read."""
    return (
        f"Reading sessions for the first time: {size // 1_000_000:,} of {total // 1_000_000:,} MB. "
        "Stopping keeps what was read."
    )


async def _typed_confirmation(read: LineReader, question: str) -> bool:
    while True:
        try:
            answer = read_answer(await read(f"{question} [y]es, [n]o: "))
        except EOFError:
            return False
        if answer is not None and not answer.remember:
            return answer.allow
        _print("Answer y or n.\n")


def is_terminal(shell: InteractiveShell) -> bool:
    """Return whether the shell has no kernel, so that nothing but text can be shown."""
    return getattr(shell, "kernel", None) is None


def is_unattended(kernel: Any) -> bool:  # noqa: ANN401 - ipykernel has no types
    """Return whether a program executes the notebook, so that a live view would be saved and never seen.

    Such programs allow no input and send no metadata with a cell (nbclient, nbconvert, papermill, nbval). Voilà is the
    exception: it executes in the same way, and shows the widgets afterwards.

    Args:
        kernel: The kernel, whose request for the running cell decides.
    """
    if os.environ.get("SERVER_SOFTWARE", "").startswith("voila"):
        return False
    request = running_request(kernel)
    return request.get("content", {}).get("allow_stdin") is False and not request.get("metadata")


def kernel_handles_clicks(kernel: object) -> bool:
    """Return whether the kernel handles messages of the browser while a cell awaits; unknown kernels do not."""
    return int(ipykernel_version(kernel).partition(".")[0] or 0) >= _CONCURRENT_MESSAGES


class _Shown:
    """A live view in a notebook, or none."""

    has_shown_answer = False

    def __init__(self, view: LiveView | None, questions: QuestionChannel | None = None) -> None:
        self._view = view
        self._questions = questions

    @property
    def is_missing(self) -> bool:
        return self._view is not None and self._view.is_missing

    def finish(self, summary: RunSummary, *, saved: bool, requests: RunRequests | None = None) -> None:
        if self._questions is not None:
            self._questions.close()
        if self._view is not None:
            marker = self._view.marker
            self._view.finish(summary, saved=saved, requests=requests)
            if not saved:  # what hides the view in a notebook that is opened later; the cell's error says the rest
                publish_display_data({"text/plain": "", "text/html": beside_view("<div></div>", marker)})


class ColumnsDisplay:
    """Runs side by side.

    Args:
        displays: Each run's display.
        handle: The output with the columns, None without them.
    """

    is_missing = False

    def __init__(self, displays: Sequence[RunDisplay], handle: DisplayHandle | None = None) -> None:
        self._displays = displays
        self._handle = handle

    def finish(self, summaries: Sequence[RunSummary]) -> None:
        """Remove the columns; their answers are in the saved table.

        Args:
            summaries: What is known about each run.
        """
        for run_display, summary in zip(self._displays, summaries, strict=True):
            run_display.finish(summary, saved=True)
        if self._handle is not None:
            self._handle.update(PLACEHOLDER, raw=True)


def _grid(views: Sequence[LiveView]) -> object:
    """Put views side by side, each below its name."""
    from ipywidgets import HTML, GridBox, Layout, VBox  # noqa: PLC0415 - only side by side

    layout = Layout(grid_template_columns=_COLUMNS, grid_gap="8px 16px", align_items="flex-start")
    whole = Layout(width="100%", min_width="0")
    columns = [VBox([HTML(f"<strong>{escape(view.agent)}</strong>"), view], layout=whole) for view in views]
    return GridBox(columns, layout=layout)


class _PromptingDisplay(_Shown):
    """A live view whose clicks do not arrive while the cell runs, so that approvals are asked by `input`."""

    def __init__(
        self,
        view: LiveView | None,
        prompt: ApprovalPrompt,
        approvals: Approvals,
        question_prompts: asyncio.Task[None] | None,
    ) -> None:
        super().__init__(view)
        self._attendance = _Attendance(approvals)
        self._prompts: asyncio.Task[None] = spawn(prompt.follow(), name="planck approval prompts")
        self._question_prompts = question_prompts

    def finish(self, summary: RunSummary, *, saved: bool, requests: RunRequests | None = None) -> None:
        self._prompts.cancel()
        if self._question_prompts is not None:
            self._question_prompts.cancel()
        self._attendance.end()
        super().finish(summary, saved=saved, requests=requests)


class _TerminalDisplay:
    def __init__(self, view: TerminalView, approvals: Approvals, question_prompts: asyncio.Task[None] | None) -> None:
        self._view = view
        self._question_prompts = question_prompts
        self._attendance = _Attendance(approvals)

    @property
    def has_shown_answer(self) -> bool:
        return self._view.has_shown_answer

    @property
    def is_missing(self) -> bool:
        return False

    def finish(self, _summary: RunSummary, *, saved: bool, requests: RunRequests | None = None) -> None:  # noqa: ARG002 - nothing is saved or clicked in a terminal
        if self._question_prompts is not None:
            self._question_prompts.cancel()
        self._attendance.end()
        self._view.finish()


class _Attendance:
    """At the end, no frontend counts as connected if one did only because someone could type answers."""

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals
        self._before = approvals.attendance is not None and approvals.attendance.is_set()

    def end(self) -> None:
        if not self._before:
            self._approvals.leave()


def _print(text: str) -> None:
    print(text, end="", flush=True)  # noqa: T201 - a line in the cell's output

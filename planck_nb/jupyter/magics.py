"""`%planck` and `%%planck`: parse what was typed, start the run, show its result."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import publish_display_data

from planck_nb.agent.agent import Agent
from planck_nb.agent.run import Run
from planck_nb.ai.providers import base_url_of
from planck_nb.ai.server_address import is_loopback
from planck_nb.base.async_tasks import spawn, uninterrupted
from planck_nb.base.errors import AgentError, PlanckError, UsageError
from planck_nb.base.programs import hidden_sentence
from planck_nb.base.threads import run_in_thread
from planck_nb.jupyter.controller import Controller, StartedRun
from planck_nb.jupyter.display.error_titles import key_variable
from planck_nb.jupyter.display.run_facts import model_name
from planck_nb.jupyter.finished_run import FinishedRun
from planck_nb.jupyter.frontend import ColumnsDisplay, Frontend, RunDisplay
from planck_nb.jupyter.interpretation import VerbLine, interpret
from planck_nb.jupyter.live.run_actions import RunActions
from planck_nb.jupyter.live.run_agents import RunAgents
from planck_nb.jupyter.live.view import RunSummary
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.notebook_answers import AnswerRecord
from planck_nb.jupyter.parsing.options import late_options, read_prompt_arguments
from planck_nb.jupyter.side_by_side import Columns, Comparison
from planck_nb.jupyter.tool_prints import prints_in_calls
from planck_nb.jupyter.transcript.answer import Answer, is_structured, transcript_of
from planck_nb.jupyter.transcript.transcript import Transcript
from planck_nb.jupyter.verbs import VERBS
from planck_nb.workspace.sidecars import ShowWait

E = TypeVar("E", bound=BaseException)

_LONG_WORD = re.compile(r"(\S{100})\S{400,}(\S{20})")
"""A word that would hide the sentence about it, such as data that was pasted in the place of a name."""

STOPPED = "the prompts were stopped; what was said so far is kept"
_SHOWN_ABOVE = "the transcript above says what happened"


class PlanckMagics:
    """The magics of one shell."""

    def __init__(self, shell: InteractiveShell, controller: Controller) -> None:
        self._shell = shell
        self._controller = controller
        self._columns = Columns(controller)
        self.frontend = Frontend(shell, controller)

    async def run(
        self, line: str, cell: str | None, local_ns: Mapping[str, object] | None, *, blocking: bool = False
    ) -> object:
        """Execute a `%planck` line or a `%%planck` cell.

        Args:
            line: What follows `%planck` or `%%planck` on its line.
            cell: The lines below `%%planck`; None for `%planck`.
            local_ns: The local variables of the function that contains the magic.
            blocking: Whether the caller is sync, so that the kernel handles nothing else meanwhile.

        Returns:
            The value of the magic: an `Answer`, a `Run` in the background, or the result of a verb.

        Raises:
            PlanckError: The line cannot be used, or the run or the verb failed.
        """
        debug = "--debug" in line.split()
        try:
            return await self._run(line, cell, self.notebook_names(local_ns), blocking=blocking)
        except PlanckError as error:
            if not debug:
                in_one_line(error)
            raise
        except (ImportError, AttributeError) as error:
            if debug or not (sentence := hidden_sentence()):
                raise
            raise in_one_line(UsageError(sentence)) from error

    def notebook_names(self, local_ns: Mapping[str, object] | None = None) -> dict[str, object]:
        """The variables of the notebook and those where the magic was called, without those of IPython."""
        names = {**self._shell.user_ns, **(local_ns or {})}
        hidden = self._shell.user_ns_hidden
        return {name: value for name, value in names.items() if name not in hidden or hidden[name] is not value}

    def notebook(self, names: Mapping[str, object], *, blocking: bool = False) -> Notebook:
        """The notebook with these variables, as verbs see it."""
        return Notebook(
            self._controller,
            names,
            put=lambda name, value: self._shell.push({name: value}),
            line_reader=self.frontend.line_reader,
            confirm=partial(self.frontend.confirm, blocking=blocking),
        )

    async def _run(self, line: str, cell: str | None, namespace: Mapping[str, object], *, blocking: bool) -> object:
        notebook = self.notebook(namespace, blocking=blocking)
        word, _, argument = line.strip().partition(" ")
        if cell is None and word not in VERBS and (named := self._prompt_of_sidecar(word)) is not None:
            return await self._send_prompt_of_sidecar(*named, argument, notebook, blocking=blocking)
        read = interpret(line, cell, notebook)
        if isinstance(read, VerbLine):
            return await self._run_verb(read, notebook, blocking=blocking)
        show_wait = self._show_wait(read.options, blocking=blocking)
        if not {"models", "repeat"}.isdisjoint(read.options):
            start = partial(self._controller.start, read.text, namespace=namespace, show_wait=show_wait)
            return await self._compare(start, read.options, blocking=blocking)
        started = await self._controller.start(read.text, read.options, namespace, show_wait=show_wait)
        if cell is None and (hint := late_options(read.text)):
            started = replace(started, notice=f"{started.notice}\n{hint}".strip())
        return await self._follow(started, read.options, blocking=blocking)

    async def _compare(
        self, start: Callable[..., Awaitable[StartedRun]], options: Mapping[str, Any], *, blocking: bool
    ) -> Comparison:
        """Prompt several agents side by side."""
        shared = {name: value for name, value in options.items() if name not in {"models", "repeat", "agent", "new"}}
        agents = await self._columns.create(options)
        columns: list[tuple[Agent, list[Run], RunActions]] = []
        notices: dict[str, None] = {}
        try:
            for agent in agents:
                started = await start(options={**shared, "agent": agent.name})
                runs = [started.run]
                columns.append((agent, runs, RunActions(agent, started.run, runs.append, runs)))
                notices[started.notice] = None
        except BaseException:
            for _, runs, _ in columns:
                runs[0].abort()
            await self._columns.remove(agents)
            raise
        for notice in filter(None, notices):
            print(notice)  # noqa: T201 - a line in the cell's output
        view = self.frontend.show_columns(
            [(agent, runs[0], actions) for agent, runs, actions in columns],
            blocking=blocking,
            quiet=bool(options.get("quiet")),
        )
        try:
            with nullcontext() if self.frontend.is_terminal else prints_in_calls():
                await asyncio.gather(*(self._until_idle(*column) for column in columns))
        finally:
            comparison = self._finish_columns(columns, view)
        failures = [runs[0].outcome for _, runs, _ in columns]
        if all(isinstance(failure, PlanckError) for failure in failures):
            error = failures[0]
            assert isinstance(error, PlanckError)  # noqa: S101 - for the type checker
            raise in_one_line(error, _SHOWN_ABOVE)
        return comparison

    async def _until_idle(self, agent: Agent, runs: list[Run], actions: RunActions) -> None:
        with self._controller.shown(agent, runs):
            for run in runs:  # which grows while more prompts are sent
                with suppress(PlanckError):
                    await self._until_ended(run, actions)

    def _finish_columns(
        self, columns: Sequence[tuple[Agent, list[Run], RunActions]], view: ColumnsDisplay
    ) -> Comparison:
        cell = self._shell.execution_count
        answers: dict[str, Answer] = {}
        for agent, runs, _ in columns:
            record = self._controller.answers.begin(
                agent, runs[-1], cell, self.frontend.client, self.frontend.request_id
            )
            transcript = _transcript_of(agent, runs[-1], prompts=False, timed=self._is_timed(agent))
            record.answer = answers[agent.name] = Answer(transcript, agent=agent, run=runs[-1], shown_in=cell)
            record.shown = view
        comparison = Comparison(answers, shown_in=cell)
        view.finish([_summary(answer) for answer in answers.values()])
        publish_display_data(*comparison.mime_bundle())
        return comparison

    def _prompt_of_sidecar(self, word: str) -> tuple[str, str] | None:
        """The sidecar and the prompt that `SIDECAR:PROMPT` names; None if there is no sidecar of this name."""
        name, colon, prompt = word.partition(":")
        if not (colon and name and prompt) or name not in self._controller.workspace.sidecars.known_names():
            return None
        return name, prompt

    async def _send_prompt_of_sidecar(
        self, sidecar: str, name: str, argument: str, notebook: Notebook, *, blocking: bool
    ) -> object:
        options, arguments = read_prompt_arguments(argument, f"{sidecar}:{name}")
        parts = await self._controller.workspace.sidecars.offers.render(sidecar, name, arguments)
        show_wait = self._show_wait(options, blocking=blocking)
        started = await self._controller.start("", options, notebook.names, parts=parts, show_wait=show_wait)
        return await self._follow(started, options, blocking=blocking)

    def _show_wait(self, options: Mapping[str, Any], *, blocking: bool) -> ShowWait | None:
        return None if options.get("quiet") else partial(self.frontend.show_wait, blocking=blocking)

    async def _run_verb(self, read: VerbLine, notebook: Notebook, *, blocking: bool) -> object:
        """Run a verb. If it cannot be run, the line may have been meant as a prompt."""
        try:
            with self.frontend.show_reading():
                answer = await read.verb.run(notebook, read.argument, read.cell)
            return await self._follow(answer, {}, blocking=blocking) if isinstance(answer, StartedRun) else answer
        except (UsageError, AgentError) as error:
            if read.cell is not None or " " not in read.argument or " -" in f" {read.argument}":
                raise
            raise UsageError(f"{error} To send it as a prompt write `%planck -- {read.line}`.") from None

    async def _follow(self, started: StartedRun, options: Mapping[str, Any], *, blocking: bool) -> object:
        background = bool(options.get("background"))
        missing = self._controller.answers.notices(self.frontend.client)
        for notice in filter(None, (*missing, started.notice, *self.frontend.notices(background=background))):
            print(notice)  # noqa: T201 - a line in the cell's output
        show = partial(self.frontend.show, blocking=blocking, background=background, quiet=bool(options.get("quiet")))
        showing = self._show_all(started, show)
        if background:
            self._controller.answers.add_background(started.agent, started.run)
            spawn(showing, name="planck-background")
            return started.run
        answer = await showing
        for notice in self._controller.workspace.sidecars.progress.take():
            print(notice)  # noqa: T201 - a line in the cell's output
        if started.offers_cell and answer.code:
            self.frontend.offer_cell(answer.code)
        return answer

    async def _show_all(self, started: StartedRun, show: Callable[..., RunDisplay]) -> Answer:
        """Show the run and, below it, the runs of prompts that were sent while it was shown.

        Returns the newest answer. Raises the first failure after all runs are shown.
        """
        if self.frontend.is_terminal:
            return await self._show_each(started, show)
        with prints_in_calls():
            return await self._show_each(started, show)

    async def _show_each(self, started: StartedRun, show: Callable[..., RunDisplay]) -> Answer:
        runs, turns = [started.run, *started.later], set[int]()
        answers: list[Answer] = []
        failures: list[PlanckError] = []
        with self._controller.shown(started.agent, runs):
            for run in runs:  # which grows while more prompts are sent
                if run.turn in turns or (run.turn is None and run.status == "aborted"):
                    continue
                try:
                    answers.append(await self._show(started.agent, run, runs, show))
                except PlanckError as error:
                    failures.append(error)
                except BaseException:
                    for waiting in runs:
                        waiting.abort()
                    raise
                if run.turn is not None:
                    turns.add(run.turn)
        if failures:
            raise failures[0]
        return answers[-1]

    async def _show(self, agent: Agent, run: Run, runs: list[Run], show: Callable[..., RunDisplay]) -> Answer:
        """Show one run until it ends; runs of prompts that are sent meanwhile are added to `runs`."""
        actions = RunActions(agent, run, runs.append, runs)
        later = run is not runs[0]
        record = self._controller.answers.begin(
            agent, run, self._shell.execution_count, self.frontend.client, self.frontend.request_id
        )
        record.shown = view = show(agent, run, actions, prompts=later, marker=record.marker)
        finish = partial(self._finish, record, view, in_cell=not later)
        timed = self._is_timed(agent)
        try:
            await self._until_ended(run, actions)
        except PlanckError as error:
            answer = finish(await self._transcript(agent, run, prompts=later, timed=timed), raising=True)
            if answer.messages and not view.has_shown_answer:
                in_one_line(error, _SHOWN_ABOVE)
            raise
        except BaseException:
            finish(_transcript_of(agent, run, prompts=later, timed=timed))
            raise
        return finish(await self._transcript(agent, run, prompts=later, timed=timed))

    @staticmethod
    async def _until_ended(run: Run, actions: RunActions) -> None:
        """Wait for the run. An interrupt stops it, and returns the prompts that are queued after it."""
        try:
            await run.wait()
        except asyncio.CancelledError:
            actions.stop()
            with suppress(PlanckError):
                await run  # until what was written is stored
            raise

    def _is_timed(self, agent: Agent) -> bool:
        """Whether saved transcripts show durations: not if the answer may be the same each time, as tests require.

        That is so for the demo model, for recorded answers and for servers on this machine.
        """
        cassette = self._controller.workspace.cassette
        if agent.model.provider == "demo" or (cassette is not None and cassette.mode == "replay"):
            return False
        try:
            return not is_loopback(base_url_of(agent.model))
        except PlanckError:
            return False

    @staticmethod
    async def _transcript(agent: Agent, run: Run, *, prompts: bool, timed: bool) -> Transcript:
        """The transcript of a run that is over. A large one is rendered in a thread: other agents may be running."""
        transcript = _transcript_of(agent, run, prompts=prompts, timed=timed)
        if transcript.is_large:
            rendering = spawn(run_in_thread(transcript.bundle), name="planck transcript")
            await uninterrupted(rendering)  # an interrupt in this moment must not lose the answer
        return transcript

    def _finish(
        self, record: AnswerRecord, view: RunDisplay, transcript: Transcript, *, in_cell: bool, raising: bool = False
    ) -> Answer:
        """Show the transcript under the cell, then collapse the live view above it.

        A run that failed before its first message has no transcript if the error is raised in the cell.
        """
        answer = record.answer = Answer(transcript, agent=record.agent, run=record.run, shown_in=record.cell)
        saved = not view.has_shown_answer and bool(answer.messages or not raising)
        if saved:
            publish_display_data(*answer.mime_bundle(record.marker))
        view.finish(
            {**_summary(answer), "key_variable": key_variable(record.agent.model, transcript.error_kind)},
            saved=saved,
            requests=FinishedRun(
                self._controller, record.agent, record.run, answer, in_cell=in_cell, names=self.notebook_names
            ),
        )
        return answer


def _summary(answer: Answer) -> RunSummary:
    transcript = answer.transcript
    return {
        "outcome": "failed" if transcript.error is not None else transcript.outcome,
        "seconds": round(transcript.seconds, 1),
        "spent": transcript.spent,
        "cost": transcript.cost,
        "model": transcript.model,
        "text": answer.text,
        "trouble": transcript.trouble,
        "ending": transcript.ending,
    }


def _transcript_of(agent: Agent, run: Run, *, prompts: bool, timed: bool) -> Transcript:
    return transcript_of(
        agent.name,
        model_name(agent.model),
        run.events.since(0),
        prompts=prompts,
        agent_id=agent.id,
        timed=timed,
        structured=is_structured(run),
        limits=agent.limits,
        aliases=RunAgents(agent, run.events).aliases(),
    )


def interrupted() -> KeyboardInterrupt:
    """The exception of an interrupted cell: it stops the cells after it, and is shown as one line."""
    return in_one_line(KeyboardInterrupt(), "the cell was interrupted; what was said so far is kept")


def in_one_line(error: E, sentence: str | None = None) -> E:
    """Have IPython show the error without a traceback, with `sentence` instead of its own if one is given."""
    if not hasattr(error, "_render_traceback_"):
        line = _LONG_WORD.sub(r"\1…\2", f"{type(error).__name__}: {sentence or error}")
        error._render_traceback_ = lambda: [line]  # type: ignore[attr-defined]  # IPython's protocol
    return error

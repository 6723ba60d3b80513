"""Runs the tool calls of one reply concurrently; each gets exactly one result."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from planck_nb.agent import events as ev
from planck_nb.agent.calling.json_schema import unwrapped
from planck_nb.agent.calling.previews import without_secrets
from planck_nb.agent.calling.progress import ProgressReporter
from planck_nb.agent.calling.tool_output import ToolOutput, as_output
from planck_nb.agent.calling.user_code import STOPPED
from planck_nb.agent.preview_types import HtmlPreview, Preview, TablePreview
from planck_nb.agent.run_group import current_group
from planck_nb.agent.turn_runner import TurnRunner
from planck_nb.ai.messages import ToolCallPart, ToolResultMessage, ToolResultPart
from planck_nb.base.errors import CallStoppedError, DeadlockError, ToolError
from planck_nb.base.safe_html import framed_html
from planck_nb.base.secrets import redact
from planck_nb.base.threads import run_in_thread

CANCEL_GRACE = 2.0
"""Seconds that a cancelled tool has to end before the turn goes on without it."""

MAX_CONCURRENT = 32
"""The most calls of one reply that run at the same time; those that only wait do not count. The others start later."""


async def run_calls(turn: TurnRunner, calls: Sequence[ToolCallPart]) -> None:
    """Run the calls and append their results in call order, also if the turn is cancelled meanwhile.

    Args:
        turn: The turn whose reply made the calls.
        calls: The calls of one reply.
    """
    slots = asyncio.Semaphore(MAX_CONCURRENT)
    running = [_RunningCall(turn, call) for call in calls]
    tasks = [asyncio.create_task(call.run(slots), name=f"planck-tool-{call.part.name}") for call in running]
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        try:
            await asyncio.wait(tasks, timeout=CANCEL_GRACE)
        finally:  # also if a second cancellation ends the wait, because the event loop is closing
            for call in running:
                call.give_up()
            await turn.append(_results(turn, calls, tasks))
        raise
    await turn.append(_results(turn, calls, tasks))


def _results(
    turn: TurnRunner, calls: Sequence[ToolCallPart], tasks: Sequence[asyncio.Task[ToolResultPart]]
) -> ToolResultMessage:
    return ToolResultMessage(tuple(map(turn.noting_repetition, calls, map(_result_or_stopped, calls, tasks))))


def _result_or_stopped(call: ToolCallPart, task: asyncio.Task[ToolResultPart]) -> ToolResultPart:
    if task.done() and not task.cancelled() and task.exception() is None:  # a tool may cancel its own task
        return task.result()
    return ToolResultPart(call.id, call.name, STOPPED, is_error=True)


class _RunningCall:
    """One call. Its events end with the turn: what a tool does after its cancellation is not shown.

    Args:
        turn: The turn whose reply made the call.
        part: The call.
    """

    def __init__(self, turn: TurnRunner, part: ToolCallPart) -> None:
        tool = turn.tool(part.name)
        args = part.args if tool is None else unwrapped(part.args, tool.parameters)
        self.part = part if args is part.args else replace(part, args=args)
        self._turn = turn
        self._given_up = False
        self._is_shown = False
        """It has a `tool_start` and no `tool_end`."""

    async def run(self, slots: asyncio.Semaphore) -> ToolResultPart:
        """Run the call when a slot is free. Every failure becomes a result that the model can read."""
        tool = self._turn.tool(self.part.name)
        if tool is not None and tool.waits:
            return await self._answer()
        async with slots:
            return await self._answer()

    def give_up(self) -> None:
        """Show the call as stopped unless it has ended, and show nothing of it from now on."""
        self._end(STOPPED, is_error=True)
        self._given_up = True

    async def _answer(self) -> ToolResultPart:
        call = self.part
        self._is_shown = True
        self._turn.emit(ev.ToolStart, call.id, call.name, call.args)
        try:
            with self._turn.waiting_for_call():
                output = await self._execute()
            result = ToolResultPart(call.id, call.name, output.text, images=output.images)
            await self._show_previews(output)
        except CallStoppedError:
            self._stop_run()
            result = ToolResultPart(call.id, call.name, STOPPED, is_error=True)
        except ToolError as error:
            if isinstance(error.__cause__, DeadlockError):
                self._turn.count_hopeless_call(call, error.__cause__)
            result = _failed(call, str(error))
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) and task.cancelling():
                self._end(STOPPED, is_error=True)
                raise
            result = _failed(call, "what the tool waited for was cancelled")
        except Exception as error:  # noqa: BLE001 - no tool, schema or result may end the loop
            result = _failed(call, f"{type(error).__name__}: {error}")
        if (text := redact(result.text)) != result.text:
            result = replace(result, text=text)
        self._end(result.text, is_error=result.is_error)
        return result

    def _stop_run(self) -> None:
        """Stop the run as well, whose cell may have ended already."""
        if (group := current_group()) is not None:
            group.abort()
        for run in self._turn.runs:
            run.abort()

    def _end(self, text: str, *, is_error: bool) -> None:
        if self._is_shown and not self._given_up:
            self._is_shown = False
            self._turn.emit(ev.ToolEnd, self.part.id, self.part.name, text, is_error)

    async def _show_previews(self, output: ToolOutput) -> None:
        previews = await run_in_thread(lambda: _shown_previews(output)) if output.previews else ()
        if previews and self._is_shown and not self._given_up:
            tables = tuple(each for each in previews if isinstance(each, TablePreview))
            documents = tuple(each for each in previews if isinstance(each, HtmlPreview))
            self._turn.emit(ev.ToolPreview, self.part.id, self.part.name, tables, documents)

    def _show_progress(self, text: str) -> None:
        if not self._given_up:
            self._turn.emit(ev.ToolProgress, self.part.id, self.part.name, text)

    async def _execute(self) -> ToolOutput:
        turn, call = self._turn, self.part
        if call.invalid is not None:
            if not call.invalid.strip():
                raise ToolError(f"The reply was cut off before the arguments of {call.name} came; call it again.")
            raise ToolError(f"The arguments of {call.name} are not a JSON object: {call.invalid[:500]}")
        tool = turn.tool(call.name)
        if tool is None:
            raise ToolError(turn.missing_tool(call.name))
        approved = await turn.approve(tool, call)
        progress = ProgressReporter(self._show_progress)
        try:
            with progress.in_context():
                output = await tool.run(
                    approved.args, agent_id=turn.agent_id, call_id=call.id, progress=progress, approved=approved
                )
        except (ToolError, asyncio.CancelledError):
            task = asyncio.current_task()
            if progress.is_stopped and not (task and task.cancelling()):
                raise CallStoppedError(STOPPED) from None
            raise
        finally:
            progress.close()
        if progress.is_stopped:
            raise CallStoppedError(STOPPED)
        return output


def _shown_previews(output: ToolOutput) -> tuple[Preview, ...]:
    """Remove secrets from previews, and prepare HTML for views."""
    previews = without_secrets(output.previews)
    for preview in previews:
        if isinstance(preview, HtmlPreview):
            framed_html(preview.html)  # which remembers it for the view
    return previews


def _failed(call: ToolCallPart, reason: str) -> ToolResultPart:
    return ToolResultPart(call.id, call.name, as_output(f"Error: {reason}").text, is_error=True)

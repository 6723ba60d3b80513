"""Runs the tool calls of one reply concurrently; each gets exactly one result."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from planck_nb.agent import events as ev
from planck_nb.agent.calling.progress import ProgressReporter
from planck_nb.agent.calling.tool_output import ToolOutput, as_output
from planck_nb.agent.turn_runner import TurnRunner
from planck_nb.ai.messages import ToolCallPart, ToolResultMessage, ToolResultPart
from planck_nb.base.errors import ToolError, did_you_mean
from planck_nb.base.secrets import redact

GRACE = 2.0
"""Seconds that a cancelled tool has to end before the turn goes on without it."""

MAX_CONCURRENT = 32
"""Calls of one reply that run at the same time; the others wait."""

STOPPED = "The call was stopped before it returned."


async def run_calls(turn: TurnRunner, calls: Sequence[ToolCallPart]) -> None:
    """Run the calls and append their results in call order, also if the turn is cancelled meanwhile.

    Args:
        turn: The turn whose reply made the calls.
        calls: The calls of one reply.
    """
    slots = asyncio.Semaphore(MAX_CONCURRENT)
    tasks = [asyncio.create_task(_run_call(turn, call, slots), name=f"planck-tool-{call.name}") for call in calls]
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        try:
            await asyncio.wait(tasks, timeout=GRACE)
        finally:  # also if a second cancellation ends the wait, because the event loop is closing
            await turn.append(_results(calls, tasks))
        raise
    await turn.append(_results(calls, tasks))


def _results(calls: Sequence[ToolCallPart], tasks: Sequence[asyncio.Task[ToolResultPart]]) -> ToolResultMessage:
    return ToolResultMessage(tuple(map(_result_or_stopped, calls, tasks)))


def _result_or_stopped(call: ToolCallPart, task: asyncio.Task[ToolResultPart]) -> ToolResultPart:
    if task.done() and not task.cancelled() and task.exception() is None:  # a tool may cancel its own task
        return task.result()
    return ToolResultPart(call.id, call.name, STOPPED, is_error=True)


async def _run_call(turn: TurnRunner, call: ToolCallPart, slots: asyncio.Semaphore) -> ToolResultPart:
    async with slots:
        return await _answer(turn, call)


async def _answer(turn: TurnRunner, call: ToolCallPart) -> ToolResultPart:
    """Run one call. Every failure becomes a result that the model can read."""
    turn.emit(ev.ToolStart, call.id, call.name, call.args)
    try:
        output = await _execute(turn, call)
        result = ToolResultPart(call.id, call.name, output.text, images=output.images)
    except ToolError as error:
        result = _failed(call, str(error))
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) and task.cancelling():
            turn.emit(ev.ToolEnd, call.id, call.name, STOPPED, True)
            raise
        result = _failed(call, "what the tool waited for was cancelled")
    except Exception as error:  # noqa: BLE001 - whatever a tool, its schema or its result does, the loop goes on
        result = _failed(call, f"{type(error).__name__}: {error}")
    result = replace(result, text=redact(result.text))
    turn.emit(ev.ToolEnd, call.id, call.name, result.text, result.is_error)
    return result


def _failed(call: ToolCallPart, reason: str) -> ToolResultPart:
    return ToolResultPart(call.id, call.name, as_output(f"Error: {reason}").text, is_error=True)


async def _execute(turn: TurnRunner, call: ToolCallPart) -> ToolOutput:
    if call.invalid is not None:
        if not call.invalid.strip():
            raise ToolError(f"The reply was cut off before the arguments of {call.name} came; call it again.")
        raise ToolError(f"The arguments of {call.name} are not a JSON object: {call.invalid[:500]}")
    tool = turn.tool(call.name)
    if tool is None:
        raise ToolError(f"unknown tool: {call.name}. {did_you_mean(call.name, turn.tool_names())}".rstrip())
    approved = await turn.approve(tool, call)
    progress = ProgressReporter(lambda text: turn.emit(ev.ToolProgress, call.id, call.name, text))
    try:
        return await tool.run(
            approved.args, agent_id=turn.agent_id, call_id=call.id, progress=progress, approved=approved
        )
    finally:
        progress.close()

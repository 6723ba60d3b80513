"""The calls of one reply: run side by side, each answered exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from planck_nb.agent import events as ev
from planck_nb.agent.calling.progress import ProgressReporter
from planck_nb.agent.calling.tool import Tool
from planck_nb.agent.calling.tool_output import ToolOutput, as_output
from planck_nb.ai.messages import Message, ToolCallPart, ToolResultMessage, ToolResultPart
from planck_nb.base.errors import ToolError, did_you_mean
from planck_nb.base.json_types import JsonObject

GRACE = 2.0
"""Seconds that a tool gets to end after it was cancelled, before the turn goes on without it."""

AT_ONCE = 32
"""Calls of one reply that run side by side; others wait for one of these to end."""

STOPPED = "The call was stopped before it returned."


class Caller(Protocol):
    """What running calls needs of the agent."""

    @property
    def id(self) -> str:
        """The agent's id, which some tools want to know."""
        ...

    async def append(self, message: Message) -> None:
        """Make the message durable and part of the conversation."""
        ...

    def emit(self, kind: type[ev.EventBase], *payload: object) -> None:
        """Tell whoever watches."""
        ...

    def tool(self, name: str) -> Tool | None:
        """The tool of this name, as it stands now."""
        ...

    def tool_names(self) -> Sequence[str]:
        """The names that a call may use."""
        ...

    async def approve(self, tool: Tool, call: ToolCallPart) -> JsonObject:
        """The arguments to run the call with, once it may run. Raises `ToolError` where it may not."""
        ...


async def run_calls(host: Caller, calls: Sequence[ToolCallPart]) -> None:
    """Run the calls side by side and append their results in call order, also when the turn is stopped meanwhile."""
    room = asyncio.Semaphore(AT_ONCE)
    tasks = [asyncio.create_task(_run_call(host, call, room), name=f"planck-tool-{call.name}") for call in calls]
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        try:
            await asyncio.wait(tasks, timeout=GRACE)
        finally:  # also where that is cut short, because the event loop goes away
            await host.append(_results(calls, tasks))
        raise
    await host.append(_results(calls, tasks))


def _results(calls: Sequence[ToolCallPart], tasks: Sequence[asyncio.Task[ToolResultPart]]) -> ToolResultMessage:
    return ToolResultMessage(tuple(map(_result_or_stopped, calls, tasks)))


def _result_or_stopped(call: ToolCallPart, task: asyncio.Task[ToolResultPart]) -> ToolResultPart:
    if task.done() and not task.cancelled() and task.exception() is None:  # a tool may cancel its own task
        return task.result()
    return ToolResultPart(call.id, call.name, STOPPED, is_error=True)


async def _run_call(host: Caller, call: ToolCallPart, room: asyncio.Semaphore) -> ToolResultPart:
    async with room:
        return await _answer(host, call)


async def _answer(host: Caller, call: ToolCallPart) -> ToolResultPart:
    """Run one call. Every failure becomes a result that the model can read."""
    host.emit(ev.ToolStart, call.id, call.name, call.args)
    try:
        output = await _execute(host, call)
        result = ToolResultPart(call.id, call.name, output.text, images=output.images)
    except ToolError as error:
        result = _failed(call, str(error))
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) and task.cancelling():
            host.emit(ev.ToolEnd, call.id, call.name, STOPPED, True)
            raise
        result = _failed(call, "what the tool waited for was cancelled")
    except Exception as error:  # noqa: BLE001 - whatever a tool, its schema or its result does, the loop goes on
        result = _failed(call, f"{type(error).__name__}: {error}")
    host.emit(ev.ToolEnd, call.id, call.name, result.text, result.is_error)
    return result


def _failed(call: ToolCallPart, reason: str) -> ToolResultPart:
    return ToolResultPart(call.id, call.name, as_output(f"Error: {reason}").text, is_error=True)


async def _execute(host: Caller, call: ToolCallPart) -> ToolOutput:
    if call.invalid is not None:
        if not call.invalid.strip():
            raise ToolError(f"The reply was cut off before the arguments of {call.name} came; call it again.")
        raise ToolError(f"The arguments of {call.name} are not a JSON object: {call.invalid[:500]}")
    tool = host.tool(call.name)
    if tool is None:
        raise ToolError(f"unknown tool: {call.name}. {did_you_mean(call.name, host.tool_names())}".rstrip())
    args = await host.approve(tool, call)
    progress = ProgressReporter(lambda text: host.emit(ev.ToolProgress, call.id, call.name, text))
    try:
        return await tool.run(args, agent_id=host.id, call_id=call.id, progress=progress)
    finally:
        progress.close()

"""The agent loop: ask the model, run the tools it calls, ask again, until it answers without calling any.

One turn, top to bottom. Everything it touches is handed in as a `Host`. However a turn ends, the log stays a valid
conversation: a reply that was cut keeps its text and loses its unfinished calls, and every call that was stored has
exactly one result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from planck_nb.agent import events as ev
from planck_nb.agent.progress import Progress
from planck_nb.agent.tool import Tool
from planck_nb.agent.tool_output import ToolOutput
from planck_nb.ai.client import Stream
from planck_nb.ai.events import StreamEvent
from planck_nb.ai.messages import (
    AssistantMessage,
    Message,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
    Usage,
    UserMessage,
)
from planck_nb.base.errors import PlanckError, ToolError, did_you_mean

GRACE = 2.0
"""Seconds that a tool gets to end after it was cancelled, before the turn goes on without it."""

STOPPED = "The call was stopped before it returned."


class Host(Protocol):
    """What the loop needs of its agent."""

    @property
    def id(self) -> str:
        """The agent's id, which some tools want to know."""
        ...

    def open_stream(self) -> Stream:
        """Ask the model for the next reply to the conversation so far."""
        ...

    async def append(self, message: Message) -> None:
        """Make the message durable and part of the conversation."""
        ...

    def emit(self, kind: type[ev.Envelope], *payload: object) -> None:
        """Tell whoever watches."""
        ...

    def count(self, reply: AssistantMessage) -> None:
        """Add the reply's tokens and cost to the agent's totals."""
        ...

    def correction(self, answer: AssistantMessage) -> UserMessage | None:
        """What to tell the model about its final answer, None where it is as wanted. Raises `OutputError`."""
        ...

    def tool(self, name: str) -> Tool | None:
        """The tool of this name, as it stands now."""
        ...

    def tool_names(self) -> Sequence[str]:
        """The names that a call may use."""
        ...


async def run_turn(host: Host, prompts: Sequence[UserMessage]) -> tuple[AssistantMessage, Usage]:
    """Answer the prompts: the final message, and the usage of all replies of the turn."""
    usage = Usage()
    for prompt in prompts:
        await host.append(prompt)
    while True:
        reply = await _stream_reply(host)
        usage += reply.usage or Usage()
        if reply.tool_calls:
            await _run_tools(host, reply.tool_calls)
        elif correction := host.correction(reply):
            await host.append(correction)
        else:
            return reply, usage


async def _stream_reply(host: Host) -> AssistantMessage:
    """One reply of the model, shown as it comes and appended when it is complete, or as far as it came."""
    stream = host.open_stream()
    names: dict[int, tuple[str, str]] = {}
    try:
        async with stream:
            async for batch in stream.batches():
                for event in batch:
                    _show(host, event, names)
    except asyncio.CancelledError:
        await _keep_partial(host, stream, None)
        raise
    except PlanckError as error:
        await _keep_partial(host, stream, str(error))
        raise
    reply = stream.message
    await host.append(reply)
    host.count(reply)
    return reply


def _show(host: Host, event: StreamEvent, names: dict[int, tuple[str, str]]) -> None:
    match event.type:
        case "text_delta":
            host.emit(ev.TextDelta, event.text)
        case "thinking_delta":
            host.emit(ev.ThinkingDelta, event.text)
        case "tool_args_delta":
            host.emit(ev.ToolArgsDelta, *names[event.index], event.text)
        case "tool_call_start":
            names[event.index] = (event.id, event.name)
            host.emit(ev.ToolArgsDelta, event.id, event.name, "")
        case "retry":
            host.emit(ev.Retry, event.attempt, event.delay, event.reason)
        case "warning":
            host.emit(ev.Warned, event.text)
        case _:
            pass


async def _keep_partial(host: Host, stream: Stream, error: str | None) -> None:
    """Append what the reply said before it was cut; its calls were never run and go."""
    partial = stream.message
    said = tuple(part for part in partial.content if part.type != "tool_call" and (part.text or part.provider_state))
    if not said:
        return
    kept = replace(partial, content=said, stop_reason="aborted" if error is None else "error", error=error)
    await host.append(kept)
    host.count(kept)


async def _run_tools(host: Host, calls: Sequence[ToolCallPart]) -> None:
    """Run the calls side by side and append their results in call order, also when the turn is stopped meanwhile."""
    tasks = [asyncio.create_task(_run_tool(host, call), name=f"planck-tool-{call.name}") for call in calls]
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=GRACE)
        await host.append(ToolResultMessage(tuple(map(_result_or_stopped, calls, tasks))))
        raise
    await host.append(ToolResultMessage(tuple(task.result() for task in tasks)))


def _result_or_stopped(call: ToolCallPart, task: asyncio.Task[ToolResultPart]) -> ToolResultPart:
    if task.done() and not task.cancelled() and task.exception() is None:
        return task.result()
    return ToolResultPart(call.id, call.name, STOPPED, is_error=True)


async def _run_tool(host: Host, call: ToolCallPart) -> ToolResultPart:
    """Run one call. Every failure becomes a result that the model can read."""
    host.emit(ev.ToolStart, call.id, call.name, call.args)
    try:
        output = await _execute(host, call)
        result = ToolResultPart(call.id, call.name, output.text, images=output.images)
    except ToolError as error:
        result = ToolResultPart(call.id, call.name, f"Error: {error}", is_error=True)
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) and task.cancelling():
            host.emit(ev.ToolEnd, call.id, call.name, STOPPED, True)
            raise
        result = ToolResultPart(call.id, call.name, "Error: what the tool waited for was cancelled", is_error=True)
    except Exception as error:  # noqa: BLE001 - whatever a tool, its schema or its result does, the loop goes on
        result = ToolResultPart(call.id, call.name, f"Error: {type(error).__name__}: {error}", is_error=True)
    host.emit(ev.ToolEnd, call.id, call.name, result.text, result.is_error)
    return result


async def _execute(host: Host, call: ToolCallPart) -> ToolOutput:
    if call.invalid is not None:
        if not call.invalid.strip():
            raise ToolError(f"The reply was cut off before the arguments of {call.name} came; call it again.")
        raise ToolError(f"The arguments of {call.name} are not a JSON object: {call.invalid[:500]}")
    tool = host.tool(call.name)
    if tool is None:
        raise ToolError(f"unknown tool: {call.name}. {did_you_mean(call.name, host.tool_names())}".rstrip())
    progress = Progress(lambda text: host.emit(ev.ToolProgress, call.id, call.name, text))
    try:
        return await tool.run(call.args, agent_id=host.id, call_id=call.id, progress=progress)
    finally:
        progress.close()

"""The agent loop: ask the model, run the tools it calls, ask again, until it answers without calling any.

One turn, top to bottom. Everything it touches is handed in as a `LoopHost`. However a turn ends, the log stays a valid
conversation: a reply that was cut keeps its text and loses its unfinished calls, and every call that was stored has
exactly one result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from planck_nb.agent import events as ev
from planck_nb.agent.calling.calls import Caller, run_calls
from planck_nb.ai.client import Stream
from planck_nb.ai.messages import AssistantMessage, AssistantPart, StopReason, UserMessage
from planck_nb.ai.stream_events import StreamEvent, joined
from planck_nb.base.errors import PlanckError

T = TypeVar("T")

EMPTY = "The model's reply was empty."
"""The note on a reply without content, which is stored for what it took and never sent to a model."""


class LoopHost(Caller, Protocol):
    """What the loop needs of its agent."""

    async def fit_window(self) -> None:
        """Shorten a conversation that is about to outgrow the model's window."""
        ...

    def open_stream(self) -> Stream:
        """Ask the model for the next reply to the conversation so far."""
        ...

    async def recover(self, error: PlanckError) -> bool:
        """Whether a request that failed before a word can be tried again, with another model or less to read."""
        ...

    def count_streamed(self, characters: int) -> bool:
        """Take in that the model wrote so much more; whether a limit is reached and the reply must end here."""
        ...

    def seconds_left(self) -> float | None:
        """How long the turn may go on, None where there is no limit."""
        ...

    def count(self, reply: AssistantMessage) -> None:
        """Add the reply's tokens and cost to the agent's totals."""
        ...

    def out_of_budget(self) -> bool:
        """Whether a limit is reached, which watchers are told. Raises `LimitError` where nothing was asked yet."""
        ...

    def is_steered(self) -> bool:
        """Whether something was said since to steer the running turn."""
        ...

    def steering(self) -> Sequence[UserMessage]:
        """What was said since to steer the running turn."""
        ...

    def correction(self, answer: AssistantMessage) -> UserMessage | None:
        """What to tell the model about its final answer, None where it is as wanted. Raises `OutputError`."""
        ...


async def run_turn(host: LoopHost, prompts: Sequence[UserMessage]) -> AssistantMessage:
    """Answer the prompts: the final message."""
    asked_again = False
    for prompt in prompts:
        await host.append(prompt)
    host.out_of_budget()
    while True:
        await host.fit_window()
        reply, complete = await _stream_reply(host)
        correction = None
        if reply.tool_calls:
            await _in_time(host, run_calls(host, reply.tool_calls))
        elif complete and not host.is_steered():
            if reply.error == EMPTY and not asked_again:
                asked_again = True
                host.emit(ev.Warned, f"{EMPTY} It is asked once more.")
            elif (correction := host.correction(reply)) is None:
                return reply
        if host.out_of_budget():
            return reply
        for message in host.steering() or filter(None, [correction]):
            await host.append(message)


async def _stream_reply(host: LoopHost) -> tuple[AssistantMessage, bool]:
    """One reply of the model, shown as it comes and appended; and whether it is complete, or was cut by a limit."""
    while True:
        stream = host.open_stream()
        try:
            complete = await _in_time(host, _show_stream(host, stream)) or False
        except asyncio.CancelledError:
            await _keep_partial(host, stream, "aborted")
            raise
        except PlanckError as error:
            if await _keep_partial(host, stream, "error", str(error)) or not await host.recover(error):
                raise
        else:
            break
    reply = stream.message
    if not complete:
        reply = replace(reply, content=_said(reply), stop_reason="length")
    elif reply.stop_reason == "stop" and not _said(reply):
        reply = replace(reply, content=(), error=EMPTY)
    if complete or reply.content:
        await host.append(reply)
    host.count(reply)
    return reply, complete


async def _show_stream(host: LoopHost, stream: Stream) -> bool:
    """Show the reply as it comes; False where a limit cut it short."""
    names: dict[int, tuple[str, str]] = {}
    async with stream:
        while (batch := await stream.next_batch()) is not None:
            written = 0
            for event in joined(batch):  # what comes at once is told at once: most of what an event costs is per event
                written += _show(host, event, names)
            if host.count_streamed(written):
                return False
    return True


async def _in_time(host: LoopHost, work: Coroutine[object, object, T]) -> T | None:
    """What comes of the work, which is stopped when the time of the turn is over: None then."""
    limit = asyncio.timeout(host.seconds_left())
    try:
        async with limit:
            return await work
    except TimeoutError:
        if not limit.expired():
            raise
        return None


def _show(host: LoopHost, event: StreamEvent, names: dict[int, tuple[str, str]]) -> int:
    """Tell of one event; how many characters the model wrote in it."""
    match event.type:
        case "text_delta":
            host.emit(ev.TextDelta, event.text)
            return len(event.text)
        case "thinking_delta":
            host.emit(ev.ThinkingDelta, event.text)
            return len(event.text)
        case "tool_args_delta":
            host.emit(ev.ToolArgsDelta, *names[event.index], event.text)
            return len(event.text)
        case "tool_call_start":
            names[event.index] = (event.id, event.name)
            host.emit(ev.ToolArgsDelta, event.id, event.name, "")
        case "retry":
            host.emit(ev.Retry, event.attempt, event.delay, event.reason)
        case "warning":
            host.emit(ev.Warned, event.text)
        case _:
            pass
    return 0


async def _keep_partial(host: LoopHost, stream: Stream, reason: StopReason, error: str | None = None) -> bool:
    """Append what the reply said before it was cut, if anything; its calls were never run and go."""
    partial = stream.message
    said = _said(partial)
    if said:
        kept = replace(partial, content=said, stop_reason=reason, error=error)
        await host.append(kept)
        host.count(kept)
    return bool(said)


def _said(partial: AssistantMessage) -> tuple[AssistantPart, ...]:
    return tuple(part for part in partial.content if part.type != "tool_call" and (part.text or part.provider_state))

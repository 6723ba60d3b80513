"""The agent loop: ask the model, run the tools it calls, ask again, until it answers without calling any.

One turn, top to bottom. `TurnRunner` is everything that it works with. However a turn ends, the log stays a valid
conversation: a partial reply keeps its text and loses its unfinished calls, and every stored call has exactly one
result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from planck_nb.agent import events as ev
from planck_nb.agent.tool_calls import run_calls
from planck_nb.agent.turn_runner import TurnRunner
from planck_nb.ai.client import Stream
from planck_nb.ai.messages import AssistantMessage, AssistantPart, StopReason, UserMessage
from planck_nb.ai.server_calls import ServerCall, ServerCallReader
from planck_nb.ai.stream_events import StreamEvent, joined
from planck_nb.base.errors import PlanckError, WorkerLostError

EMPTY = "The model's reply was empty."
"""The error of a reply without content, which is stored because it was paid for, and never sent to a model."""

_MAX_LOSSES = 3
"""Lost workers after which a turn is given up."""

_SMALL_BATCH = 20
"""Events below which a batch costs more than they do."""

_SINGLE_BATCHES = 10
"""Small batches before any is joined, so short replies stay fast."""

_JOINED_SECONDS = 0.02
"""Seconds for an unwatched reply's later batches to gather."""


async def run_turn(turn: TurnRunner, prompts: Sequence[UserMessage]) -> AssistantMessage:
    """Answer the prompts.

    Args:
        turn: The turn to run.
        prompts: The prompts to answer; may be empty, to let the model continue.

    Returns:
        The final message of the model.
    """
    asked_again = False
    reply: AssistantMessage | None = None
    for prompt in prompts:
        await turn.append(prompt)
    turn.out_of_budget()
    while True:
        await turn.check_images()
        compacted = await turn.fit_window()
        if (compacted and turn.out_of_budget()) or turn.cannot_afford_request():
            assert reply is not None  # noqa: S101 - else a `LimitError` was raised
            return reply
        reply, complete = await _stream_reply(turn)
        correction = None
        if calls := reply.tool_calls:
            with turn.within_time():
                await run_calls(turn, calls)
        elif complete and not turn.is_steered():
            if reply.error == EMPTY and not asked_again:
                asked_again = True
                turn.emit(ev.Warned, f"{EMPTY} The request is sent again.")
            elif (correction := turn.correct(reply)) is None:
                return reply
        if turn.out_of_budget():
            return reply
        for message in turn.take_steering() or filter(None, [correction]):
            await turn.append(message)


async def _stream_reply(turn: TurnRunner) -> tuple[AssistantMessage, bool]:
    """Stream one reply and append it. Returns it, and whether it is complete or was ended by a limit."""
    while True:
        stream = turn.open_stream()
        complete = False
        try:
            with turn.within_time():
                complete = await _show_stream(turn, stream)
        except asyncio.CancelledError:
            await _keep_partial(turn, stream, "aborted")
            raise
        except PlanckError as error:
            if not await _can_ask_again(turn, stream, error):
                raise
        else:
            break
    reply = turn.charged(stream)
    if not complete:
        reply = replace(reply, content=_without_calls(reply), stop_reason="length")
    elif reply.stop_reason == "stop" and not _without_calls(reply):
        reply = replace(reply, content=(), error=EMPTY)
    if complete or reply.content or stream.usage is not None:
        await turn.keep(reply)
    else:
        turn.drop(reply)
    if complete:
        turn.warn_about(reply)
    return reply, complete


async def _can_ask_again(turn: TurnRunner, stream: Stream, error: PlanckError) -> bool:
    """Prepare for another attempt, or keep the reply so far."""
    if isinstance(error, WorkerLostError) and turn.lost_workers < _MAX_LOSSES:
        turn.lost_workers += 1
        turn.count_lost(turn.charged(stream))
        turn.emit(ev.Retry, turn.lost_workers, 0.0, str(error))  # views take back what was written
        return True
    return not await _keep_partial(turn, stream, "error", str(error)) and await turn.recover(error)


async def _show_stream(turn: TurnRunner, stream: Stream) -> bool:
    """Emit the reply while it streams; False if a limit ended it."""
    names: dict[int, tuple[str, str]] = {}
    on_server = ServerCallReader()
    turn.require_fit()
    small_batches = 0
    async with stream:
        while (batch := await stream.next_batch()) is not None:
            small_batches += len(batch) < _SMALL_BATCH
            if not turn.has_deltas and len(batch) < _SMALL_BATCH and small_batches > _SINGLE_BATCHES:
                await asyncio.sleep(_JOINED_SECONDS)  # so the next batch has more, at almost the same cost
            written = 0
            # Deltas that arrive together become one event: most of the cost is per event.
            for event in batch if len(batch) == 1 else joined(batch):
                written += _show(turn, event, names, on_server)
            if turn.count_streamed(written, turn.model, stream.usage):
                return False
    for call in on_server.open.values():  # the server reported no result for these
        turn.emit(ev.ToolEnd, call.id, call.name, "", False)
    return True


def _show(turn: TurnRunner, event: StreamEvent, names: dict[int, tuple[str, str]], on_server: ServerCallReader) -> int:
    """Emit one event of the stream; returns how many characters the model wrote in it."""
    match event.type:
        case "text_delta":
            turn.emit(ev.TextDelta, event.text)
            return len(event.text)
        case "thinking_delta":
            turn.emit(ev.ThinkingDelta, event.text)
            return len(event.text)
        case "tool_args_delta":
            turn.emit(ev.ToolArgsDelta, *names[event.index], event.text)
            return len(event.text)
        case "tool_call_start":
            names[event.index] = (event.id, event.name)
            turn.emit(ev.ToolArgsDelta, event.id, event.name, "")
        case "part_end" if event.provider_state is not None:
            for call in on_server.read(event.provider_state):
                _show_server_call(turn, call)
        case "retry":
            turn.emit(ev.Retry, event.attempt, event.delay, event.reason)
        case "warning":
            turn.warn(event.text, about=event.about)
        case _:
            pass
    return 0


def _show_server_call(turn: TurnRunner, call: ServerCall) -> None:
    """Emit a call that the model's server has run as a call of a tool."""
    if call.is_new:
        turn.emit(ev.ToolArgsDelta, call.id, call.name, "")
        turn.emit(ev.ToolStart, call.id, call.name, call.args)
    if call.result is not None:
        turn.emit(ev.ToolEnd, call.id, call.name, call.result, call.is_error)


async def _keep_partial(turn: TurnRunner, stream: Stream, reason: StopReason, error: str | None = None) -> bool:
    """Append what the model wrote before the stream ended early, without its calls: they never ran.

    A reply whose usage was reported is appended even if nothing is left of it, because it is paid for.

    Returns:
        Whether the model wrote or read anything, so that the request cannot be sent again as if nothing had happened.
    """
    partial = turn.charged(stream)
    content = _without_calls(partial)
    if content or stream.usage is not None:
        await turn.keep(replace(partial, content=content, stop_reason=reason, error=error))
        return True
    turn.count_lost(partial)
    return False


def _without_calls(partial: AssistantMessage) -> tuple[AssistantPart, ...]:
    return tuple(part for part in partial.content if part.type != "tool_call" and (part.text or part.provider_state))

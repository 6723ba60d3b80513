"""A prompt that was sent: await it for the answer, iterate over it for its events."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, Generic

from planck_nb.agent.calling.user_code import UserInterrupt, calls_user_code, mark_observer
from planck_nb.agent.events import AgentEvent
from planck_nb.agent.output import OutputSpec
from planck_nb.agent.run_group import RunGroup, current_group
from planck_nb.agent.run_result import RunResult, RunStatus
from planck_nb.agent.wait_graph import Participant, is_within_turn, waiting_for
from planck_nb.ai.messages import UserMessage
from planck_nb.base.errors import DeadlockError, UsageError
from planck_nb.base.event_log import EventLog, Subscription
from planck_nb.base.event_loops import await_in_loop, is_running_here

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=str)
else:
    from typing import TypeVar

    T = TypeVar("T")


PARTIAL_INTERVAL = 0.1
"""Seconds between two readings of an answer that is being written, by default."""

_PAUSE_FACTOR = 20
"""The pause after a reading is at least this many times as long as the reading, which starts from the beginning."""


class Run(Generic[T]):
    """One prompt to an agent, as returned by `Agent.prompt`.

    - `await run` returns the `RunResult`, or raises the error that ended the turn. Cancelling it aborts the run; the
      partial text is kept.
    - `async for event in run` yields the turn's events from its start, even if iteration begins later. Leaving the
      loop does not abort the run.
    - `await run.wait()` returns the same as `await run`, but cancelling it does not abort the run.
    - `async for partial in run.stream_output()` yields a structured answer while the model writes it.

    A run that is never awaited goes on anyway, and its failure prints nothing. All of this also works in the event
    loops of other threads, and `abort` in any thread.

    Args:
        id: The id of the prompt.
        prompt: The message to answer.
        stop: Called with the run by `abort`, on the run's event loop.
        output_spec: The structured output that the answer must have, None for text.
        steer: Whether the prompt may enter the running turn.
        join: Whether one turn may answer it together with others that wait.
        batch: It joins only prompts with the same batch, in the same run group.
        fresh: Whether the model is sent nothing of the conversation before it.
        logged: Whether the run keeps its own log of events. Responses of other agents have none: one turn may answer
            hundreds of them, and each event would go to all of their logs.
        allow: Names of tools that may run without approval in a turn that answers only such prompts.
        agent: The agent that answers, as the graph of waits knows it.
        loop: The event loop of the turn; by default the running one.
    """

    def __init__(
        self,
        id: str,  # noqa: A002 - the public name
        prompt: UserMessage,
        stop: Callable[[Run[Any]], None],
        output_spec: OutputSpec | None = None,
        *,
        steer: bool = False,
        join: bool = False,
        batch: object = None,
        fresh: bool = False,
        logged: bool = True,
        allow: Iterable[str] = (),
        agent: Participant | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.id = id
        self.prompt = prompt
        self.output_spec = output_spec
        self.steer = steer
        self.join = join
        self.batch = batch
        """One turn answers only prompts of the same batch."""
        self.fresh = fresh
        self.allow = frozenset(allow)
        self.status: RunStatus = "queued"
        self.events: EventLog[AgentEvent] = EventLog()
        """All events of the turn, from its start."""
        self.context = contextvars.copy_context()
        """The context variables of the caller, by which a notebook finds the cell for what tools print."""
        self.loop = loop or asyncio.get_running_loop()
        """The event loop on which the prompt is answered."""
        self.turn: int | None = None
        """The index of the turn that answers the prompt, None before there is one."""
        self._logged = logged
        self._stop = stop
        self._agents = () if agent is None else (agent,)
        self._done: asyncio.Future[RunResult[T]] = self.loop.create_future()
        self._followers: list[Callable[[Run[T]], None]] = []
        self.group = current_group()
        """The group of runs that one prompt causes, if this run belongs to one."""
        self.whole: RunGroup | None = None
        """The runs that this one stands for, if it is the run of a team."""
        self.answered_by: str | None = None
        """The id of the agent that answers, if `events` are of several agents."""
        self._group_key: object = None
        if self.group is not None:
            self._group_key = self.group.add(self.abort, self.loop)

    def __await__(self) -> Generator[object, None, RunResult[T]]:
        return self._own().__await__()

    def __aiter__(self) -> AsyncIterator[AgentEvent]:
        mark_observer()
        events = self.events.subscribe(0)
        if is_running_here(self.loop) and not is_within_turn():
            return events
        return _RunEvents(events, self.loop, self._agents)

    def __repr__(self) -> str:
        return f"<Run {self.status}>"

    @property
    def outcome(self) -> RunResult[T] | BaseException | None:
        """The result, or the error that `await run` raises; None until the run has ended."""
        if not self._done.done():
            return None
        return self._done.exception() or self._done.result()

    def follow(self, follower: Callable[[Run[T]], None]) -> None:
        """Call a function when the run has ended; at once if it has ended already.

        Args:
            follower: Called with the run, on its event loop. What it raises goes to the loop's exception handler.
        """
        if self._done.done():
            self._call(follower)
        else:
            self._followers.append(follower)

    @property
    def logs(self) -> tuple[EventLog[AgentEvent], ...]:
        """Where the events of its turn go: its own log, and that of its group."""
        own = (self.events,) if self._logged else ()
        return own if self.group is None else (*own, *self.group.logs)

    async def wait(self) -> RunResult[T]:
        """Wait for the result; cancelling the wait does not abort the run.

        Returns:
            The result.

        Raises:
            DeadlockError: If a tool waits for an agent that waits for the agent of the tool.
            PlanckError: If the run failed.
        """
        if self._done.done():
            return self._done.result()
        with waiting_for(*self._agents):
            if is_running_here(self.loop):
                return await asyncio.shield(self._done)
            return await await_in_loop(self.loop, self.wait)

    async def stream_output(self, *, interval: float = PARTIAL_INTERVAL) -> AsyncIterator[Any]:
        """Iterate over the structured answer while the model writes it, for a prompt with an `output`.

        Each item is plain JSON data as received so far: for a model or a dataclass, a dictionary without the fields
        that have not arrived yet. It is not validated. A string at its end may be cut; numbers are complete. In a team,
        only the orchestrator's answer counts. The last item is the complete data, and `await run` returns the validated
        object as `RunResult.output`. If an answer does not fit and is corrected, the items start again with the
        corrected one. Leaving the loop does not abort the run.

        Args:
            interval: Minimum seconds between two items, 0 for as often as possible. They are further apart if
                the answer is so long that reading it would take more than a twentieth of the time.

        Yields:
            The data so far, each time it has changed.

        Raises:
            UsageError: The prompt has no `output`.
            PlanckError: The run failed.

        Example:
            >>> import asyncio
            >>> from planck_nb import Agent
            >>> from planck_nb.testing import scripted_model
            >>> async def main():
            ...     run = Agent(model=scripted_model(['{"n": [1, 2]}'])).prompt("Count.", output=dict[str, list[int]])
            ...     return [partial async for partial in run.stream_output()][-1]
            >>> asyncio.run(main())
            {'n': [1, 2]}
        """
        if self.output_spec is None:
            raise UsageError("A prompt without `output` has no structured answer to stream; iterate over the run.")
        partial = PartialOutput(self.output_spec, interval)
        async for event in self:
            if self.answered_by is not None and event.agent_id != self.answered_by:
                continue  # what another agent of the team wrote may have the same form
            if event.type == "text_delta":
                changed = partial.add(event.text)
            elif event.type == "message" and event.message.type == "assistant":
                changed = partial.finish(event.message.text)
            else:
                continue
            if changed:
                yield partial.value
        await self.wait()

    def abort(self) -> None:
        """Stop the run, queued or running; no effect once it has ended. What was written so far is kept."""
        if self._done.done():
            return
        if is_running_here(self.loop):
            self._stop(self)
        else:
            with suppress(RuntimeError):  # the loop is closed, so nothing runs any more
                self.loop.call_soon_threadsafe(self._abort_here)

    def settle(self, status: RunStatus, outcome: RunResult[T] | BaseException) -> None:
        """Set the result of the run. Called by the agent; has no effect on the result once there is one.

        Args:
            status: How the run ended.
            outcome: The result, or the error that `await run` raises.
        """
        self.status = status
        if self._done.done():
            return
        if isinstance(outcome, BaseException):
            self._done.set_exception(outcome)
            self._done.exception()  # marks it as retrieved: asyncio must not log the failure of a run never awaited
        else:
            self._done.set_result(outcome)
        self.events.close()
        with self.group.held() if self.group is not None else nullcontext():
            for follower in self._followers:
                self._call(follower)
        if self.group is not None:
            self.group.remove(self._group_key)

    def _call(self, follower: Callable[[Run[T]], None]) -> None:
        try:
            _notify(follower, self)
        except (Exception, UserInterrupt) as error:  # noqa: BLE001 - the agent goes on with its next turn, and its group ends
            context = {"message": "A callback that was waiting for a run failed.", "exception": error}
            self.loop.call_exception_handler(context)

    def _abort_here(self) -> None:
        if not self._done.done():
            self._stop(self)

    async def _own(self) -> RunResult[T]:
        try:
            return await self.wait()
        except asyncio.CancelledError:
            self.abort()
            await self._settled()
            raise
        except DeadlockError:
            if self.status == "queued":  # this await owns it, so nobody else waits for it
                self.abort()
            raise

    async def _settled(self) -> None:
        """Return when the run has ended, however it did."""
        if is_running_here(self.loop):
            await asyncio.wait([self._done])
        else:
            await await_in_loop(self.loop, self._settled)


def logs_of(runs: Iterable[Run[Any]]) -> list[EventLog[AgentEvent]]:
    """The logs that get the events of a turn that answers these runs, each once."""
    return list(dict.fromkeys(log for run in runs for log in run.logs))


class PartialOutput:
    """Reads an answer again and again while it grows.

    Args:
        spec: The structured output that the answer must have.
        interval: Seconds between two readings, at least.
    """

    def __init__(self, spec: OutputSpec, interval: float) -> None:
        self.value: Any = None
        """The data of the newest reading; None before there is any."""
        self._spec = spec
        self._interval = interval
        self._pieces: list[str] = []
        self._next = 0.0

    def add(self, text: str) -> bool:
        """Add text that the model wrote. Returns whether `value` changed; not every piece of text changes it."""
        self._pieces.append(text)
        return time.monotonic() >= self._next and self._read()

    def finish(self, text: str) -> bool:
        """Read a complete reply; whether `value` changed. Text that is added later belongs to another reply."""
        self._pieces = [text]
        changed = self._read()
        self._pieces, self._next = [], 0.0
        return changed

    def _read(self) -> bool:
        began = time.monotonic()
        self._pieces = ["".join(self._pieces)]
        value = self._spec.read_partial(self._pieces[0])
        ended = time.monotonic()
        self._next = ended + max(self._interval, _PAUSE_FACTOR * (ended - began))
        if value is None or value == self.value:
            return False
        self.value = value
        return True


class _RunEvents:
    """Iterates over the events of a run, in any event loop."""

    def __init__(
        self,
        events: Subscription[AgentEvent],
        loop: asyncio.AbstractEventLoop,
        agents: tuple[Participant, ...],
    ) -> None:
        self._events = events
        self._loop = loop
        self._agents = agents

    def __aiter__(self) -> _RunEvents:
        return self

    async def __anext__(self) -> AgentEvent:
        with waiting_for(*self._agents):
            if is_running_here(self._loop):
                return await self._events.__anext__()
            event = await await_in_loop(self._loop, self._next)
        if event is None:
            raise StopAsyncIteration
        return event

    async def _next(self) -> AgentEvent | None:
        """The next event, None after the last: a task cannot end with `StopAsyncIteration`."""
        async for event in self._events:
            return event
        return None


@calls_user_code
def _notify(follower: Callable[[Run[Any]], None], run: Run[Any]) -> None:
    follower(run)

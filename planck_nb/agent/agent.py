"""The agent: a conversation with a model that can call tools."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from planck_nb.agent import events as ev
from planck_nb.agent import functions
from planck_nb.agent.log import Journal, MemoryLog, MessageLog
from planck_nb.agent.loop import run_turn
from planck_nb.agent.output import Misfit, Wanted, correction, wanted
from planck_nb.agent.run import Run, RunResult, RunStatus
from planck_nb.agent.state import AgentState, Entry, Status, fold
from planck_nb.agent.tool import Tool, toolbox
from planck_nb.ai.catalogue import get_model
from planck_nb.ai.client import Client, Stream
from planck_nb.ai.context import Context, Options
from planck_nb.ai.messages import AssistantMessage, Message, Usage, UserMessage, UserPart
from planck_nb.ai.models import Model
from planck_nb.ai.shortcuts import default_client
from planck_nb.base.aio import spawn
from planck_nb.base.errors import AgentStoppedError, NoRunningLoopError, OutputError, PlanckError
from planck_nb.base.eventlog import EventLog, Subscription
from planck_nb.base.ids import new_id
from planck_nb.base.json import JsonObject

T = TypeVar("T")

REPLAY = 1_000
"""Events that an agent keeps for subscribers that come late."""


class Agent:
    """An agent. It needs no running event loop until it is prompted; `async with Agent(…)` stops it at the end.

    `model` is a `Model` or "provider:model". `tools` are tools or Python functions. With a `session` every message is
    durable before the next step; without one the conversation lasts as long as the agent. `observers` get every event
    of the agent, in addition to its own subscribers. `client` is who asks the model, by default the event loop's.
    """

    def __init__(
        self,
        *,
        model: Model | str,
        system_prompt: str = "",
        tools: Iterable[Tool | Callable[..., object]] = (),
        id: str | None = None,  # noqa: A002 - the seeds' name
        name: str | None = None,
        type: str | None = None,  # noqa: A002 - the seeds' name
        description: str = "",
        session: Journal | None = None,
        options: Options | None = None,
        client: Client | None = None,
        observers: Sequence[EventLog[ev.AgentEvent]] = (),
    ) -> None:
        self.id = id or new_id()
        self.name = name or ""
        self.type = type or ""
        self.description = description
        self.options = options or Options()
        self.events: EventLog[ev.AgentEvent] = EventLog(limit=REPLAY)
        self._model = get_model(model) if isinstance(model, str) else model
        self._client = client
        self._tools = functions.by_name(tools)
        self._session_id = session.id if session else None
        self._log: MessageLog = session.log(self.id) if session else MemoryLog()
        self._observers = tuple(observers)
        self._runs: list[Run[Any]] = []
        self._inbox: list[Run[Any]] = []
        self._output: object = None
        self._corrected = False
        self._driver: asyncio.Task[None] | None = None
        self._work: asyncio.Task[tuple[AssistantMessage, Usage]] | None = None
        self._aborting = False
        self._stopping = False
        self._sequence = 0
        self._deltas: list[ev.AgentEvent] = []
        self._state = AgentState(messages=tuple(Entry(*entry) for entry in self._log.messages()))
        self.emit(ev.AgentStarted, self.name, self.type, str(self._model), system_prompt, tuple(self._tools))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def __repr__(self) -> str:
        return f"<Agent {self.name or self.id} {self._model} {self.status}>"

    @property
    def model(self) -> Model:
        """The model that answers from the next request on."""
        return self._model

    @model.setter
    def model(self, model: Model | str) -> None:
        self._model = get_model(model) if isinstance(model, str) else model
        self._changed(self.system_prompt)

    @property
    def system_prompt(self) -> str:
        """What the model is told before the conversation."""
        return self._state.system_prompt

    @system_prompt.setter
    def system_prompt(self, text: str) -> None:
        self._changed(text)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that the model can call."""
        return tuple(self._tools.values())

    @property
    def status(self) -> Status:
        """Whether the agent is idle, hears the model, or runs tools."""
        return self._state.status

    @property
    def state(self) -> AgentState:
        """A snapshot: messages, the reply being written, running tools, queue, usage."""
        state = self._state
        for delta in self._deltas:
            state = fold(state, delta)
        return state

    def add_tool(self, tool: Tool | Callable[..., object]) -> None:
        """Let the model call this tool from the next request on; one of the same name is replaced."""
        made = functions.as_tool(tool)
        known = made.name in self._tools
        self._tools = {**self._tools, made.name: made}
        if not known:
            self._changed(self.system_prompt)

    def remove_tool(self, name: str) -> None:
        """Take the tool away; a name that the agent does not have is ignored."""
        if name in self._tools:
            self._tools = {key: tool for key, tool in self._tools.items() if key != name}
            self._changed(self.system_prompt)

    def subscribe(self, *, since: int | None = None) -> Subscription[ev.AgentEvent]:
        """The agent's events from this call on; `since=0` begins with the oldest still kept.

        A subscriber that falls more than `REPLAY` events behind misses the oldest ones (`Subscription.missed`); it
        never slows the agent. To resync, read `state`.
        """
        return self.events.subscribe(since)

    @overload
    def prompt(self, content: str | Sequence[UserPart], *, output: None = None) -> Run[str]: ...

    @overload
    def prompt(self, content: str | Sequence[UserPart], *, output: type[T]) -> Run[T]: ...

    @overload
    def prompt(self, content: str | Sequence[UserPart], *, output: JsonObject) -> Run[Any]: ...

    def prompt(self, content: str | Sequence[UserPart], *, output: type[T] | JsonObject | None = None) -> Run[Any]:
        """Say something to the agent. Returns at once; see `Run` for how to wait and watch.

        With `output`, a type that pydantic can read from JSON or a JSON Schema, the final answer has that form, and
        `RunResult.output` is its value. An answer that does not fit is told to the model once; then the run fails with
        `OutputError`.

        While a turn runs, prompts queue; all that wait when it ends are answered together in the next turn, but for
        those with an `output`, which have a turn of their own. Raises `NoRunningLoopError` outside an event loop,
        `AgentStoppedError` after `stop`, and `UsageError` for an `output` that says nothing about JSON.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise NoRunningLoopError(
                "An agent needs a running event loop; wrap the call in `asyncio.run(main())`."
            ) from None
        if self._stopping:
            raise AgentStoppedError(f"Agent {self.name or self.id} was stopped; make a new one.")
        form = None if output is None else wanted(output)
        run: Run[Any] = Run(new_id(), UserMessage(content), self._stop_run, form)
        if self._driver is None:
            self._begin_turn([run])
            self._driver = spawn(self._drive(), name=f"planck-agent-{self.name or self.id}")
        else:
            self._inbox.append(run)
            self._tell([run], ev.Queued, run.id, run.prompt.text)
        return run

    async def abort(self) -> None:
        """Stop the running turn and return when it has ended; prompts that wait are taken up. Idle: no effect."""
        runs = list(self._runs)
        if not runs:
            return
        self._cancel_work()
        await asyncio.gather(*(run.wait() for run in runs), return_exceptions=True)

    async def stop(self) -> None:
        """Take no more prompts, drop what waits, and return when the running turn has ended."""
        self._stopping = True
        for run in list(self._inbox):
            self._stop_run(run)
        if self._driver is None:
            self._close()
        else:
            self._cancel_work()
            await asyncio.wait([self._driver])

    # What the loop needs of its agent (loop.Host).

    def open_stream(self) -> Stream:
        """Ask the model for the next reply."""
        client = self._client or default_client()
        form = self._wanted
        options = self.options if form is None else replace(self.options, output=form.schema)
        return client.stream(self._model, self._context(), options)

    def correction(self, answer: AssistantMessage) -> UserMessage | None:
        """What to tell the model about its final answer, None where it is as wanted. Raises `OutputError`."""
        form = self._wanted
        if form is None:
            return None
        try:
            self._output = form.read(answer.text)
        except Misfit as problems:
            if self._corrected or answer.stop_reason == "refusal":
                raise OutputError(
                    f"The answer of {self._model} is not in the form asked for ({problems}); "
                    "make `output` simpler or choose another model."
                ) from None
            self._corrected = True
            return UserMessage(correction(str(problems), form.schema))
        return None

    async def append(self, message: Message) -> None:
        """Make the message durable, then part of the conversation."""
        message_id = await self._log.append(message, turn=self._state.turn, time=time.time())
        self.emit(ev.Message, message_id, message)

    def emit(self, kind: type[ev.Envelope], *payload: object) -> None:
        """Tell whoever watches, and fold the event into the state."""
        self._tell(self._runs, kind, *payload)

    def _tell(self, runs: Sequence[Run[Any]], kind: type[ev.Envelope], *payload: object) -> None:
        """Tell of something that concerns these runs."""
        event: ev.AgentEvent = kind(  # type: ignore[assignment]  # every subclass of Envelope is an AgentEvent
            self.id, self._session_id, self._state.turn, self._sequence, time.time(), *payload
        )
        self._sequence += 1
        if event.type in ev.TRANSIENT:
            self._deltas.append(event)
        else:
            self._settle(event)
        for run in runs:
            run.events.append(event)
        self.events.append(event)
        for observer in self._observers:
            observer.append(event)

    def count(self, reply: AssistantMessage) -> None:
        """Add the reply's tokens and cost to the totals; a reply without usage counts nothing."""
        if reply.usage is None:
            return
        total_cost = self._state.cost if reply.cost is None else (self._state.cost or 0.0) + reply.cost
        self.emit(ev.UsageDelta, reply.usage, self._state.usage + reply.usage, reply.cost, total_cost)

    def tool(self, name: str) -> Tool | None:
        """The tool of this name."""
        return self._tools.get(name)

    def tool_names(self) -> Sequence[str]:
        """The names that a call may use."""
        return list(self._tools)

    @property
    def _wanted(self) -> Wanted | None:
        """The form that the running turn's answer has to have."""
        return self._runs[0].wanted if self._runs else None

    def _changed(self, system_prompt: str) -> None:
        self.emit(ev.AgentChanged, str(self._model), system_prompt, tuple(self._tools))

    def _context(self) -> Context:
        return Context(
            system=self._state.system_prompt,
            messages=[entry.message for entry in self._state.messages],
            tools=toolbox(self._tools),
        )

    def _settle(self, event: ev.AgentEvent) -> None:
        """Fold an event that lasts. A message or the end of a turn stands for the deltas before it."""
        self._state = fold(self._state, event)
        if self._deltas and self._state.partial is None and event.type in _SUPERSEDE_DELTAS:
            self._deltas.clear()
        if event.type != "message":
            self._log.record(event)

    def _begin_turn(self, runs: list[Run[Any]]) -> None:
        self._runs = runs
        self._aborting = self._corrected = False
        self._output = None
        for run in runs:
            run.status = "running"
        index = self._state.turn + 1
        self.emit(ev.TurnStart, index, str(self._model))

    async def _drive(self) -> None:
        """Take turns until nothing waits."""
        try:
            while self._runs:
                await self._take_turn(self._runs)
                if self._inbox:
                    runs = self._next_runs()
                    for run in runs:
                        self._tell([run], ev.Unqueued, run.id)
                    self._begin_turn(runs)
        finally:
            self._driver = None
            for run in list(self._inbox):  # only when this task was cancelled: the event loop goes away
                self._stop_run(run)
            if self._stopping:
                self._close()

    def _next_runs(self) -> list[Run[Any]]:
        """The prompts that the next turn answers: all up to one whose answer is to have a form, or that one alone."""
        alone = next((place for place, run in enumerate(self._inbox) if run.wanted), len(self._inbox))
        count = alone or 1
        runs, self._inbox = self._inbox[:count], self._inbox[count:]
        return runs

    async def _take_turn(self, runs: list[Run[Any]]) -> None:
        first = len(self._state.messages)
        self._work = asyncio.create_task(run_turn(self, [run.prompt for run in runs]), name="planck-turn")
        if self._aborting:  # stopped between the prompt and this task's first step
            self._work.cancel()
        try:
            await asyncio.wait([self._work])
        except asyncio.CancelledError:
            self._cancel_work()
            await asyncio.wait([self._work])
            raise
        finally:
            work, self._work = self._work, None
            self._end_turn(runs, work, first)

    def _end_turn(self, runs: list[Run[Any]], work: asyncio.Task[tuple[AssistantMessage, Usage]], first: int) -> None:
        outcome: RunResult[Any] | BaseException
        status: RunStatus
        if work.cancelled() or not work.done():
            self.emit(ev.Aborted)
            status, outcome = "aborted", self._result(first, aborted=True)
        elif error := work.exception():
            reason = str(error) if isinstance(error, PlanckError) else f"{type(error).__name__}: {error}"
            self.emit(ev.Error, reason, type(error).__name__)
            status, outcome = "failed", error
        else:
            message, usage = work.result()
            self.emit(ev.TurnEnd, message, usage)
            status, outcome = "done", self._result(first, aborted=False)
        self._runs = []
        for run in runs:
            run.settle(status, outcome)

    def _result(self, first: int, *, aborted: bool) -> RunResult[Any]:
        messages = tuple(entry.message for entry in self._state.messages[first:])
        replies = [message for message in messages if isinstance(message, AssistantMessage)]
        usage = sum((reply.usage for reply in replies if reply.usage), Usage())
        costs = [reply.cost for reply in replies]
        known = [cost for cost in costs if cost is not None]
        cost = sum(known) if known and len(known) == len(costs) else None
        result: RunResult[Any] = RunResult(messages, usage, cost, aborted)
        return replace(result, output=self._output if self._wanted else result.text)

    def _close(self) -> None:
        """Say that the agent stopped, once."""
        if not self._state.stopped:
            self.emit(ev.AgentStopped)
            self.events.close()

    def _stop_run(self, run: Run[Any]) -> None:
        if run in self._inbox:
            self._inbox.remove(run)
            self._tell([run], ev.Unqueued, run.id)
            run.settle("aborted", RunResult((), Usage(), None, aborted=True, output=None if run.wanted else ""))
        elif run in self._runs:
            self._cancel_work()

    def _cancel_work(self) -> None:
        """Cancel the turn once; a second request must not interrupt what the first one left to be kept."""
        if self._aborting:
            return
        self._aborting = True
        if self._work is not None:
            self._work.cancel()


_SUPERSEDE_DELTAS = frozenset({"message", "turn_start", "turn_end", "aborted", "error"})

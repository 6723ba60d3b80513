"""The agent: a conversation with a model that can call tools."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from planck_nb.agent import events as ev
from planck_nb.agent import functions
from planck_nb.agent.approval import Approvals, Gate
from planck_nb.agent.briefing import Briefing, system_prompt
from planck_nb.agent.compaction import Compactor, Situation, as_compactor
from planck_nb.agent.conversation import sent
from planck_nb.agent.inbox import Inbox
from planck_nb.agent.limits import Ledger, Limits, Meter
from planck_nb.agent.log import Journal, MemoryLog, MessageLog
from planck_nb.agent.loop import run_turn
from planck_nb.agent.output import Misfit, Wanted, correction, wanted
from planck_nb.agent.room import Room
from planck_nb.agent.run import Run, RunResult, RunStatus
from planck_nb.agent.state import AgentState, Entry, Status, fold
from planck_nb.agent.tokens import context_tokens
from planck_nb.agent.tool import Tool, toolbox
from planck_nb.ai.catalogue import get_model
from planck_nb.ai.client import Client, Stream
from planck_nb.ai.context import Context, Options
from planck_nb.ai.messages import (
    AssistantMessage,
    Message,
    SummaryMessage,
    ToolCallPart,
    Usage,
    UserMessage,
    UserPart,
    as_parts,
)
from planck_nb.ai.models import Model
from planck_nb.ai.shortcuts import default_client
from planck_nb.base.aio import spawn
from planck_nb.base.errors import (
    AgentError,
    AgentStoppedError,
    ContextOverflowError,
    LimitError,
    ModelError,
    NoRunningLoopError,
    OutputError,
    PlanckError,
    ProviderError,
)
from planck_nb.base.eventlog import EventLog, Subscription
from planck_nb.base.ids import new_id
from planck_nb.base.json import JsonObject

T = TypeVar("T")

REPLAY = 1_000
"""Events that an agent keeps for subscribers that come late."""


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """An agent at a glance; see `AgentState` for what the fields mean."""

    id: str
    name: str
    description: str
    type: str
    model: str
    status: Status
    turn: int
    usage: Usage
    cost: float | None


class Agent:
    """An agent. It needs no running event loop until it is prompted; `async with Agent(…)` stops it at the end.

    `model` is a `Model` or "provider:model"; `fallbacks` are asked in its place, in order, when it cannot answer.
    `tools` are tools or Python functions. With a `session` every message is durable before the next step; without one
    the conversation lasts as long as the agent. `on_compact` shortens the conversation before it outgrows the window.
    `limits` bound each turn and, with a `ledger` that several agents share, their session. `approvals` decides which
    calls may run; without it all may. `briefing` is asked at the beginning of each turn. `usage`, `cost` and `turn` are
    what a resumed agent goes on from. `observers` get every event of the agent, in addition to its own subscribers.
    `client` is who asks the model, by default the event loop's.
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
        on_compact: Compactor | Callable[..., object] | None = None,
        fallbacks: Sequence[Model | str] = (),
        limits: Limits | None = None,
        ledger: Ledger | None = None,
        approvals: Approvals | None = None,
        briefing: Callable[[], Briefing] = Briefing,
        usage: Usage | None = None,
        cost: float | None = None,
        turn: int = -1,
        client: Client | None = None,
        observers: Sequence[EventLog[ev.AgentEvent]] = (),
    ) -> None:
        self.id = id or new_id()
        self.name = name or ""
        self.type = type or ""
        self.description = description
        self.options = options or Options()
        self.limits = limits or Limits()
        self.events: EventLog[ev.AgentEvent] = EventLog(limit=REPLAY)
        self._model = _as_model(model)
        self._fallbacks = tuple(map(_as_model, fallbacks))
        self._asked = self._model
        self._client = client
        self._tools = functions.by_name(tools)
        self._briefing = briefing
        self._briefed = Briefing()
        self._session_id = session.id if session else None
        self._log: MessageLog = session.log(self.id) if session else MemoryLog()
        self._appending = asyncio.Lock()
        self._observers = tuple(observers)
        self._ledger = ledger or Ledger()
        self._meter = Meter(self.limits, self._ledger)
        self._gate = Gate(approvals, self.emit, self.keep) if approvals else None
        self._room = Room(self, as_compactor(on_compact) if on_compact else None)
        self._runs: list[Run[Any]] = []
        self._inbox = Inbox()
        self._output: object = None
        self._corrected = False
        self._limit = ""
        self._driver: asyncio.Task[None] | None = None
        self._work: asyncio.Task[tuple[AssistantMessage, Usage]] | None = None
        self._aborting = False
        self._stopping = self._removed = self._held = False
        self._sequence = 0
        self._deltas: list[ev.AgentEvent] = []
        self._state = AgentState(messages=self._stored(), turn=turn, usage=usage or Usage(), cost=cost)
        self._log.follow(self)
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
        self._model = self._asked = _as_model(model)
        self._changed(self.system_prompt)

    @property
    def system_prompt(self) -> str:
        """What the agent itself is told; `request` shows all that the model is told before the conversation."""
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

    def info(self) -> AgentInfo:
        """The agent at a glance, without its messages."""
        state = self._state
        return AgentInfo(
            self.id,
            self.name,
            self.description,
            self.type,
            str(self._model),
            state.status,
            state.turn,
            state.usage,
            state.cost,
        )

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
        return self._accept(UserMessage(content), form=None if output is None else wanted(output))

    def steer(self, content: str | Sequence[UserPart]) -> Run[str]:
        """Say something that enters the running turn once its running tools have ended.

        An idle agent takes it as a prompt. What could not enter, because the turn was stopped or has just ended, is
        the next prompt. Raises what `prompt` raises.
        """
        return self._accept(UserMessage(content), steer=True)

    def nudge(self) -> Run[str] | None:
        """Have the model go on without saying anything to it; a busy agent ignores it and gives None."""
        return None if self._driver or self._held else self._accept(UserMessage(()))

    def edit_queued(self, prompt_id: str, content: str | Sequence[UserPart]) -> None:
        """Change a prompt that waits. Raises `AgentError` where none of this id does."""
        run = self._find_queued(prompt_id)
        run.prompt = UserMessage(as_parts(content))
        self._tell([*self._runs, run], ev.Queued, run.id, run.prompt.text, run.steer)

    def remove_queued(self, prompt_id: str) -> None:
        """Take back a prompt that waits. Raises `AgentError` where none of this id does."""
        self._find_queued(prompt_id).abort()

    def decide(
        self, call_id: str, *, allow: bool, args: JsonObject | None = None, remember: bool = False, reason: str = ""
    ) -> None:
        """Answer an `approval_request`; the first answer counts.

        `args` are arguments to run the call with instead of the model's; `remember` allows calls like it for the rest
        of the session; `reason` is told to the model where the call is denied. Raises `AgentError` where no such call
        waits, and `ToolError` for arguments that do not fit.
        """
        if self._gate is None:
            raise AgentError(f"Agent {self.name or self.id} asks for no approval; give it `approvals`.")
        self._gate.decide(call_id, allow=allow, args=args, remember=remember, reason=reason)

    async def compact(self) -> bool:
        """Shorten the conversation now; whether it got shorter. Raises `AgentError` without a compactor."""
        return await self._room.compact()

    async def checkpoint(self, summary: str) -> None:
        """Begin a new chapter: from now on the model is sent this summary and what follows it."""
        await self._room.close()
        await self.append_summary(summary, (), upto=None)

    async def abort(self) -> None:
        """Stop the running turn and return when it has ended; prompts that wait are taken up. Idle: no effect."""
        runs = list(self._runs)
        if runs:
            self._cancel_work()
        await self._room.close()
        await asyncio.gather(*(run.wait() for run in runs), return_exceptions=True)

    async def stop(self, *, removed: bool = False) -> None:
        """Take no more prompts, drop what waits, and return when the running turn has ended.

        `removed` says that the agent is not to be there when its session goes on.
        """
        self._stopping = True
        self._removed = self._removed or removed
        self._drop_queue()
        if self._driver is not None:
            self._cancel_work()
        await self._room.close()
        if self._driver is not None:
            await asyncio.wait([self._driver])
        self._close()

    async def rewind_to_message(self, message_id: int) -> None:
        """Go back to just before the message.

        It, and all that came after it in the session, of all agents, is taken back; what runs is stopped first. An
        agent without a session has nothing to go back to. Raises `SessionError` where the store does not take it.
        """
        await self._log.truncate_from(message_id)

    def request(self) -> Context:
        """Exactly what the next request would send: system prompt, tools and messages."""
        if self._driver is None:
            self._brief()
        return self._context()

    # What the log needs of its agent (log.LogFollower).

    async def rewinding(self) -> None:
        """Stop what runs and drop what waits; what is said from now on waits for `rewound`."""
        self._held = True
        self._drop_queue()
        await self.abort()
        await self._room.close()

    def rewound(self, message_id: int | None) -> None:
        """Go on from what is left in the log."""
        self._held = False
        if message_id is not None:
            self.emit(ev.Rewound, message_id, self._state.usage, self._state.cost)
            self._state = replace(self._state, messages=self._stored())
            self._changed(self.system_prompt)
        if self._inbox:
            self._next_turn()
            self._start()

    # What the room for the conversation needs of its agent (room.Tenant).

    @property
    def entries(self) -> Sequence[Entry]:
        """All messages with their ids."""
        return self._state.messages

    def situation(self) -> Situation:
        """How much of which model's window the next request would fill."""
        context = self._context()
        tokens = context_tokens(context.messages, context.system, context.tools)
        return Situation(tokens, self._asked.context_window, self._asked, self._client or default_client())

    async def append_summary(self, summary: str, kept: Sequence[int], *, upto: int | None) -> int:
        """Append a summary of everything as far as the id `upto`, but the messages `kept`; its id."""
        async with self._appending:
            newer = [entry.id for entry in sent(self._state.messages) if upto is not None and entry.id > upto]
            return await self._append(SummaryMessage(summary, [*kept, *newer]))

    def spend(self, usage: Usage, cost: float | None) -> None:
        """Add to the totals what was read and written beside the conversation."""
        self._ledger.spend(usage.total_tokens, cost)
        total_cost = self._state.cost if cost is None else (self._state.cost or 0.0) + cost
        filled = self._state.context_tokens
        self.emit(ev.UsageDelta, usage, self._state.usage + usage, cost, total_cost, filled)

    # What the loop needs of its agent (loop.Host).

    async def make_room(self) -> None:
        """Shorten a conversation that is about to outgrow the model's window."""
        await self._room.make()

    def open_stream(self) -> Stream:
        """Ask the model for the next reply."""
        client = self._client or default_client()
        form = self._wanted
        options = self.options if form is None else replace(self.options, output=form.schema)
        return client.stream(self._asked, self._context(), options)

    async def recover(self, error: PlanckError) -> bool:
        """Whether a request that failed before a word can be tried again."""
        if isinstance(error, ContextOverflowError) and await self._room.after_overflow():
            return True
        later = self._fallbacks[self._failures :]
        if not later or not isinstance(error, (ModelError, ProviderError)):
            return False
        failed, self._asked = self._asked, later[0]
        self._failures += 1
        self.emit(ev.Fallback, str(failed), str(self._asked), str(error))
        return True

    def heard(self, characters: int) -> bool:
        """Take in that the model wrote so much more; whether the reply must end here."""
        return self._meter.heard(characters, self._asked)

    def out_of_budget(self) -> bool:
        """Whether a limit is reached. Raises `LimitError` where nothing was asked yet."""
        crossed = self._meter.crossed(self._asked)
        if crossed is None:
            return False
        name, self._limit = crossed
        if not self._meter.rounds:
            raise LimitError(self._limit)
        self.emit(ev.LimitReached, name, self._limit)
        return True

    def is_steered(self) -> bool:
        """Whether something was said since to steer the running turn."""
        return any(run.steer for run in self._inbox)

    def steering(self) -> Sequence[UserMessage]:
        """What was said since to steer the running turn."""
        runs = self._inbox.take_steering()
        for run in runs:
            self._tell([*self._runs, run], ev.Unqueued, run.id)
            self._runs.append(run)
            run.status = "running"
            self.emit(ev.Steered, run.id)
        return [run.prompt for run in runs]

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
                    f"The answer of {self._asked} is not in the form asked for ({problems}); "
                    "make `output` simpler or choose another model."
                ) from None
            self._corrected = True
            return UserMessage(correction(str(problems), form.schema))
        return None

    async def append(self, message: Message) -> None:
        """Make the message durable, then part of the conversation."""
        async with self._appending:
            await self._append(message)

    def emit(self, kind: type[ev.Envelope], *payload: object) -> None:
        """Tell whoever watches, and fold the event into the state."""
        self._tell(self._runs, kind, *payload)

    async def keep(self, kind: type[ev.Envelope], *payload: object) -> None:
        """Like `emit`, and return once what was told cannot be lost any more."""
        await self._log.keep(self._tell(self._runs, kind, *payload, record=False))

    def count(self, reply: AssistantMessage) -> None:
        """Add the reply's tokens and cost to the totals; a reply without usage adds a guess to the limits only."""
        self._meter.counted(reply, self._asked)
        self._room.settled()
        if reply.usage is None:
            return
        total_cost = self._state.cost if reply.cost is None else (self._state.cost or 0.0) + reply.cost
        filled = reply.usage.total_tokens
        self.emit(ev.UsageDelta, reply.usage, self._state.usage + reply.usage, reply.cost, total_cost, filled)

    def tool(self, name: str) -> Tool | None:
        """The tool of this name."""
        return self._tools.get(name)

    def tool_names(self) -> Sequence[str]:
        """The names that a call may use."""
        return list(self._tools)

    async def approve(self, tool: Tool, call: ToolCallPart) -> JsonObject:
        """The arguments to run the call with, once it may run. Raises `ToolError` where it may not."""
        return call.args if self._gate is None else await self._gate.approve(tool, call)

    @property
    def _wanted(self) -> Wanted | None:
        """The form that the running turn's answer has to have."""
        return self._runs[0].wanted if self._runs else None

    def _accept(self, prompt: UserMessage, *, form: Wanted | None = None, steer: bool = False) -> Run[Any]:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise NoRunningLoopError(
                "An agent needs a running event loop; wrap the call in `asyncio.run(main())`."
            ) from None
        if self._stopping:
            raise AgentStoppedError(f"Agent {self.name or self.id} was stopped; make a new one.")
        run: Run[Any] = Run(new_id(), prompt, self._stop_run, form, steer=steer)
        if self._driver is None and not self._held:
            self._begin_turn([run])
            self._start()
        else:
            self._inbox.put(run)
            self._tell([*self._runs, run], ev.Queued, run.id, run.prompt.text, steer)
        return run

    async def _append(self, message: Message) -> int:
        message_id = await self._log.append(message, turn=self._state.turn, time=time.time())
        self.emit(ev.Message, message_id, message)
        return message_id

    def _tell(
        self, runs: Sequence[Run[Any]], kind: type[ev.Envelope], *payload: object, record: bool = True
    ) -> ev.AgentEvent:
        """Tell of something that concerns these runs."""
        turn = self._state.turn + (kind is ev.TurnStart)  # which belongs to the turn that it begins
        event: ev.AgentEvent = kind(  # type: ignore[assignment]  # every subclass of Envelope is an AgentEvent
            self.id, self._session_id, turn, self._sequence, time.time(), *payload
        )
        self._sequence += 1
        if event.type in ev.TRANSIENT:
            self._deltas.append(event)
        else:
            self._settle(event)
            if record and event.type != "message":
                self._log.record(event)
        for run in runs:
            run.events.append(event)
        self.events.append(event)
        for observer in self._observers:
            observer.append(event)
        return event

    def _brief(self) -> None:
        self._briefed = self._briefing()
        for tool in self._briefed.tools:
            if tool.name not in self._tools:
                self.add_tool(tool)

    def _changed(self, text: str) -> None:
        self.emit(ev.AgentChanged, str(self._model), text, tuple(self._tools))

    def _context(self) -> Context:
        messages = self._room.fit([entry.message for entry in sent(self._state.messages)])
        prompt = system_prompt(self.name, self.type, self.system_prompt, self._tools.values(), self._briefed)
        return Context(system=prompt, messages=messages, tools=toolbox(self._tools))

    def _stored(self) -> tuple[Entry, ...]:
        return tuple(Entry(*entry) for entry in self._log.messages())

    def _settle(self, event: ev.AgentEvent) -> None:
        """Fold an event that lasts. A reply, or the beginning or end of a turn, stands for the deltas before it."""
        self._state = fold(self._state, event)
        if self._deltas and ev.supersedes_deltas(event):
            self._deltas.clear()

    def _begin_turn(self, runs: list[Run[Any]]) -> None:
        self._runs = runs
        self._aborting = self._corrected = False
        self._output = None
        self._limit = ""
        self._asked = self._model
        self._failures = 0
        self._meter = Meter(self.limits, self._ledger)
        for run in runs:
            run.status = "running"
        self.emit(ev.TurnStart, self._state.turn + 1, str(self._model))

    def _next_turn(self) -> None:
        """Take up what waits."""
        runs = self._inbox.take_turn()
        for run in runs:
            self._tell([run], ev.Unqueued, run.id)
        self._begin_turn(runs)

    def _start(self) -> None:
        self._driver = spawn(self._drive(), name=f"planck-agent-{self.name or self.id}")

    async def _drive(self) -> None:
        """Take turns until nothing waits."""
        try:
            while self._runs:
                await self._take_turn(self._runs)
                if self._inbox and not self._held:
                    self._next_turn()
        finally:
            self._driver = None
            if not self._held:
                self._drop_queue()  # only when this task was cancelled does anything wait: the event loop goes away
            if self._stopping:
                self._close()
        if not (self._stopping or self._aborting):  # after a stop nothing is to be asked of a model
            self._room.make_ahead()

    async def _take_turn(self, runs: list[Run[Any]]) -> None:
        first = len(self._state.messages)
        prompts = [run.prompt for run in runs if run.prompt.content]
        self._work = asyncio.create_task(self._answer(prompts), name="planck-turn")
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
            self._end_turn(work, first)

    async def _answer(self, prompts: Sequence[UserMessage]) -> tuple[AssistantMessage, Usage]:
        self._brief()
        return await run_turn(self, prompts)

    def _end_turn(self, work: asyncio.Task[tuple[AssistantMessage, Usage]], first: int) -> None:
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
        runs, self._runs = self._runs, []
        for run in runs:
            run.settle(status, outcome)

    def _result(self, first: int, *, aborted: bool) -> RunResult[Any]:
        messages = tuple(entry.message for entry in self._state.messages[first:])
        replies = [message for message in messages if isinstance(message, AssistantMessage)]
        usage = sum((reply.usage for reply in replies if reply.usage), Usage())
        costs = [reply.cost for reply in replies]
        known = [cost for cost in costs if cost is not None]
        cost = sum(known) if known and len(known) == len(costs) else None
        result: RunResult[Any] = RunResult(messages, usage, cost, aborted, limit=self._limit)
        return replace(result, output=self._output if self._wanted else result.text)

    def _close(self) -> None:
        """Say that the agent stopped, once."""
        if not self._state.stopped:
            self.emit(ev.AgentStopped, self._removed)
            self.events.close()

    def _find_queued(self, prompt_id: str) -> Run[Any]:
        run = self._inbox.find(prompt_id)
        if run is None:
            raise AgentError(f"No prompt {prompt_id} waits; it was taken up or removed before.")
        return run

    def _drop_queue(self) -> None:
        for run in self._inbox:
            self._stop_run(run)

    def _stop_run(self, run: Run[Any]) -> None:
        if run in self._inbox:
            self._inbox.remove(run)
            self._tell([*self._runs, run], ev.Unqueued, run.id)
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


def _as_model(model: Model | str) -> Model:
    return get_model(model) if isinstance(model, str) else model

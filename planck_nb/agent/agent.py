"""The agent: a conversation with a model that can call tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from planck_nb.agent import events as ev
from planck_nb.agent.approval.gate import Approvals, Gate
from planck_nb.agent.calling import functions
from planck_nb.agent.calling.tool import Tool, tool_specs
from planck_nb.agent.context.compactor import Compactor, ContextUsage, as_compactor
from planck_nb.agent.context.conversation import sent
from planck_nb.agent.context.system_prompt import SystemPromptParts, system_prompt
from planck_nb.agent.context.tokens import context_tokens
from planck_nb.agent.context.window import ContextWindow
from planck_nb.agent.limits import Limits, SessionSpend, TurnBudget
from planck_nb.agent.loop import run_turn
from planck_nb.agent.message_log import MemoryLog, SessionStore
from planck_nb.agent.output import OutputSpec, output_spec
from planck_nb.agent.prompt_queue import PromptQueue
from planck_nb.agent.recorder import EventRecorder
from planck_nb.agent.run import Run, RunResult, RunStatus
from planck_nb.agent.state import AgentState, Entry, Status
from planck_nb.agent.turn import Turn
from planck_nb.ai.catalogue import get_model
from planck_nb.ai.client import Client, RequestPreview, Stream
from planck_nb.ai.messages import AssistantMessage, Message, ToolCallPart, Usage, UserMessage, UserPart, as_parts
from planck_nb.ai.models import Model
from planck_nb.ai.request import Context, Options
from planck_nb.ai.shortcuts import default_client
from planck_nb.base.errors import (
    AgentError,
    AgentStoppedError,
    ContextOverflowError,
    LimitError,
    ModelError,
    NoRunningLoopError,
    PlanckError,
    ProviderError,
    UsageError,
)
from planck_nb.base.event_log import EventLog, Subscription
from planck_nb.base.ids import new_id
from planck_nb.base.json_types import JsonObject

T = TypeVar("T")

_OPTIONS = Options()
_LIMITS = Limits()

_working: set[Agent] = set()
"""Agents with a turn under way, because an event loop forgets tasks that nobody else holds."""


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
    `limits` bound each turn and, with a `session_spend` that several agents share, their session. `approvals` decides
    which calls may run; without it all may. `prompt_parts` is called at the beginning of each turn. `usage`, `cost`
    and `turn` are what a resumed agent starts from. `observers` get every event of the agent, in addition to its own
    subscribers.
    `client` is who asks the model, by default the event loop's. `team_id` says which agents work together, and
    `available_models` which models they may be given. `cwd` is the working directory of tools that have none of their
    own, by default the process's.
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
        session: SessionStore | None = None,
        options: Options | None = None,
        on_compact: Compactor | Callable[..., object] | None = None,
        fallbacks: Sequence[Model | str] = (),
        limits: Limits | None = None,
        session_spend: SessionSpend | None = None,
        approvals: Approvals | None = None,
        prompt_parts: Callable[[], SystemPromptParts] = SystemPromptParts,
        usage: Usage | None = None,
        cost: float | None = None,
        turn: int = -1,
        client: Client | None = None,
        observers: Sequence[EventLog[ev.AgentEvent]] = (),
        team_id: str | None = None,
        available_models: Sequence[Model] = (),
        cwd: Path | None = None,
    ) -> None:
        self.id = id or new_id()
        self.name = name or ""
        self.type = type or ""
        self.description = description
        self.team_id = team_id
        self.available_models = tuple(available_models)
        self.cwd = cwd
        self._options = options or _OPTIONS
        self.limits = limits or _LIMITS
        self._model = _as_model(model)
        self._fallbacks = tuple(map(_as_model, fallbacks))
        self._client = client
        self._tools = {name: self._placed(tool) for name, tool in functions.by_name(tools).items()}
        self._prompt_parts = prompt_parts
        self._parts = SystemPromptParts()
        self._session_spend = session_spend or SessionSpend()
        self._recorder = EventRecorder(
            self.id,
            session.id if session else None,
            session.log(self.id) if session else MemoryLog(),
            AgentState(turn=turn, usage=usage or Usage(), cost=cost),
            observers,
        )
        self._gate = Gate(approvals, self._recorder.emit, self._recorder.keep) if approvals else None
        self._window = ContextWindow(self, as_compactor(on_compact) if on_compact else None)
        self._turn = self._no_turn()
        self._queue = PromptQueue()
        self._work: asyncio.Task[None] | None = None
        self._aborting = False
        self._stopping = self._removed = self._held = False
        self._recorder.follow(self)
        self.emit(
            ev.AgentStarted,
            self.name,
            self.type,
            str(self._model),
            system_prompt,
            tuple(self._tools),
            self._options.named(),
        )

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
        self._model = self._turn.model = _as_model(model)
        self._changed(self.system_prompt)

    @property
    def system_prompt(self) -> str:
        """What the agent itself is told; `request` shows all that the model is told before the conversation."""
        return self._recorder.settled.system_prompt

    @system_prompt.setter
    def system_prompt(self, text: str) -> None:
        self._changed(text)

    @property
    def options(self) -> Options:
        """How the model answers from the next request on."""
        return self._options

    @options.setter
    def options(self, options: Options) -> None:
        self._options = options
        self._changed(self.system_prompt)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that the model can call."""
        return tuple(self._tools.values())

    @property
    def status(self) -> Status:
        """Whether the agent is idle, hears the model, or runs tools."""
        return self._recorder.settled.status

    @property
    def state(self) -> AgentState:
        """A snapshot: messages, the reply being written, running tools, queue, usage."""
        return self._recorder.state

    @property
    def events(self) -> EventLog[ev.AgentEvent]:
        """The newest events."""
        return self._recorder.events

    def info(self) -> AgentInfo:
        """The agent at a glance, without its messages."""
        state = self._recorder.settled
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
        made = self._placed(functions.as_tool(tool))
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
        return self._accept(UserMessage(content), form=None if output is None else output_spec(output))

    def steer(self, content: str | Sequence[UserPart]) -> Run[str]:
        """Say something that enters the running turn once its running tools have ended.

        An idle agent takes it as a prompt. What could not enter, because the turn was stopped or has just ended, is
        the next prompt. Raises what `prompt` raises.
        """
        return self._accept(UserMessage(content), steer=True)

    def continue_(self) -> Run[str] | None:
        """Have the model go on without saying anything to it; a busy agent ignores it and gives None."""
        return None if self._work or self._held else self._accept(UserMessage(()))

    def edit_queued(self, prompt_id: str, content: str | Sequence[UserPart]) -> None:
        """Change a prompt that waits. Raises `AgentError` where none of this id does."""
        run = self._find_queued(prompt_id)
        run.prompt = UserMessage(as_parts(content))
        self._tell_of(run, ev.Queued, run.id, run.prompt.text, run.steer)

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
        return await self._window.compact()

    async def checkpoint(self, summary: str) -> None:
        """Begin a new chapter: from now on the model is sent this summary and what follows it.

        Raises `UsageError` for a summary that says nothing.
        """
        if not isinstance(summary, str) or not summary.strip():
            raise UsageError("A checkpoint without a summary would lose the conversation; say what it was about.")
        await self._window.close()
        await self._recorder.append_summary(summary, (), upto=None)

    async def abort(self) -> None:
        """Stop the running turn and return when it has ended; prompts that wait are taken up. Idle: no effect."""
        runs = list(self._turn.runs)
        if runs:
            self._cancel_work()
        await self._window.close()
        await asyncio.gather(*(run.wait() for run in runs), return_exceptions=True)

    async def stop(self, *, removed: bool = False) -> None:
        """Take no more prompts, drop what waits, and return when the running turn has ended.

        `removed` says that the agent is not to be there when its session goes on.
        """
        self._stopping = True
        self._removed = self._removed or removed
        self._drop_queue()
        self._cancel_work()
        await self._window.close()
        if self._work is not None:
            await asyncio.wait([self._work])
        self._close()

    async def rewind_to_message(self, message_id: int) -> None:
        """Go back to just before the message.

        It, and all that came after it in the session, of all agents, is taken back; what runs is stopped first. An
        agent without a session has nothing to go back to. Raises `SessionError` where the store does not take it.
        """
        await self._recorder.take_back(message_id)

    def request(self) -> Context:
        """Exactly what the next request would send: system prompt, tools and messages."""
        if self._work is None:
            self._refresh_prompt_parts()
        return self._context()

    async def preview(self) -> RequestPreview:
        """Build the HTTP request that the next turn would begin with, without sending it.

        Returns:
            Method, URL, headers without secrets, JSON body, and warnings about options that would be left out.

        Raises:
            ModelError: The model or its wire format cannot express a part of the request.
        """
        client = self._client or default_client()
        return await client.preview(self._model, self.request(), self._options)

    # What the log needs of its agent (log.LogFollower).

    async def rewinding(self) -> None:
        """Stop what runs and drop what waits; what is said from now on waits for `rewound`."""
        self._held = True
        self._drop_queue()
        await self.abort()
        await self._window.close()

    def rewound(self, message_id: int | None) -> None:
        """Go on from what is left in the log."""
        self._held = False
        if self._stopping:  # another agent may go by its id now
            return
        if message_id is not None:
            self._recorder.taken_back(message_id)
            self._changed(self.system_prompt)
        if self._queue and self._work is None:  # a turn may still run where nothing was taken back
            self._next_turn()

    # What the room for the conversation needs of its agent (room.Tenant).

    @property
    def entries(self) -> Sequence[Entry]:
        """All messages with their ids."""
        return self._recorder.settled.messages

    def context_usage(self) -> ContextUsage:
        """How much of which model's window the next request would fill."""
        context = self._context()
        tokens = context_tokens(context.messages, context.system, context.tools)
        model = self._turn.model
        return ContextUsage(tokens, model.context_window, model, self._client or default_client())

    async def append_summary(self, summary: str, kept: Sequence[int], *, upto: int | None) -> int:
        """Append a summary of everything as far as the id `upto`, but the messages `kept`; its id."""
        return await self._recorder.append_summary(summary, kept, upto=upto)

    def spend(self, usage: Usage, cost: float | None) -> None:
        """Add to the totals what was read and written beside the conversation."""
        self._session_spend.spend(usage.total_tokens, cost)
        self._add_up(usage, cost, self._recorder.settled.context_tokens)

    # What the loop needs of its agent (loop.Host).

    async def fit_window(self) -> None:
        """Shorten a conversation that is about to outgrow the model's window."""
        await self._window.make()

    def open_stream(self) -> Stream:
        """Ask the model for the next reply."""
        client = self._client or default_client()
        form = self._turn.output_spec
        options = self._options if form is None else replace(self._options, output=form.schema)
        return client.stream(self._turn.model, self._context(), options)

    async def recover(self, error: PlanckError) -> bool:
        """Whether a request that failed before a word can be tried again."""
        if isinstance(error, ContextOverflowError) and await self._window.after_overflow():
            return True
        if not isinstance(error, (ModelError, ProviderError)):
            return False
        failed = self._turn.fall_back()
        if failed is not None:
            self.emit(ev.Fallback, str(failed), str(self._turn.model), str(error))
        return failed is not None

    def count_streamed(self, characters: int) -> bool:
        """Take in that the model wrote so much more; whether the reply must end here."""
        return self._turn.count_streamed(characters)

    def seconds_left(self) -> float | None:
        """How long the turn may go on, None where there is no limit."""
        return self._turn.seconds_left

    def out_of_budget(self) -> bool:
        """Whether a limit is reached. Raises `LimitError` where nothing was asked yet."""
        limit_hit = self._turn.limit_hit()
        if limit_hit is None:
            return False
        name, reason = limit_hit
        if not self._turn.begun:
            raise LimitError(reason)
        self.emit(ev.LimitReached, name, reason)
        return True

    def is_steered(self) -> bool:
        """Whether something was said since to steer the running turn."""
        return any(run.steer for run in self._queue)

    def steering(self) -> Sequence[UserMessage]:
        """What was said since to steer the running turn."""
        runs = self._queue.take_steering()
        for run in runs:
            self._tell_of(run, ev.Unqueued, run.id)
            self._turn.join(run)
            self._recorder.audience.append(run.events)
            self.emit(ev.Steered, run.id)
        return [run.prompt for run in runs]

    def correction(self, answer: AssistantMessage) -> UserMessage | None:
        """What to tell the model about its final answer, None where it is as wanted. Raises `OutputError`."""
        return self._turn.correction(answer)

    async def append(self, message: Message) -> None:
        """Make the message durable, then part of the conversation."""
        await self._recorder.append(message)

    def emit(self, kind: type[ev.EventBase], *payload: object) -> None:
        """Tell whoever watches, and fold the event into the state."""
        self._recorder.emit(kind, *payload)

    def count(self, reply: AssistantMessage) -> None:
        """Add the reply's tokens and cost to the totals; a reply without usage adds a guess to the limits only."""
        self._turn.count(reply)
        self._window.settled()
        if reply.usage is not None:
            self._add_up(reply.usage, reply.cost, reply.usage.total_tokens)

    def tool(self, name: str) -> Tool | None:
        """The tool of this name."""
        return self._tools.get(name)

    def tool_names(self) -> Sequence[str]:
        """The names that a call may use."""
        return list(self._tools)

    async def approve(self, tool: Tool, call: ToolCallPart) -> JsonObject:
        """The arguments to run the call with, once it may run. Raises `ToolError` where it may not."""
        return call.args if self._gate is None else await self._gate.approve(tool, call)

    def _no_turn(self) -> Turn:
        """What there is between turns."""
        return Turn([], self._model, (), TurnBudget(self.limits, self._session_spend), 0)

    def _placed(self, tool: Tool) -> Tool:
        """The tool with the agent's working directory, where it has none of its own."""
        return tool if tool.at is None or self.cwd is None else tool.at(self.cwd)

    def _accept(self, prompt: UserMessage, *, form: OutputSpec | None = None, steer: bool = False) -> Run[Any]:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise NoRunningLoopError(
                "An agent needs a running event loop; wrap the call in `asyncio.run(main())`."
            ) from None
        if self._stopping:
            raise AgentStoppedError(f"Agent {self.name or self.id} was stopped; make a new one.")
        run: Run[Any] = Run(new_id(), prompt, self._stop_run, form, steer=steer)
        if self._work is None and not self._held:
            self._begin_turn([run])
        else:
            self._queue.put(run)
            self._tell_of(run, ev.Queued, run.id, run.prompt.text, steer)
        return run

    def _tell_of(self, run: Run[Any], kind: type[ev.EventBase], *payload: object) -> None:
        """Tell of a run that waits, its own watchers too."""
        self._recorder.emit(kind, *payload, also=[run.events])

    def _add_up(self, usage: Usage, cost: float | None, filled: int) -> None:
        state = self._recorder.settled
        total_cost = state.cost if cost is None else (state.cost or 0.0) + cost
        self.emit(ev.UsageDelta, usage, state.usage + usage, cost, total_cost, filled)

    def _refresh_prompt_parts(self) -> None:
        self._parts = self._prompt_parts()
        for tool in self._parts.tools:
            if tool.name not in self._tools:
                self.add_tool(tool)

    def _changed(self, text: str) -> None:
        self.emit(ev.AgentChanged, str(self._model), text, tuple(self._tools), self._options.named())

    def _context(self) -> Context:
        messages = self._window.fit([entry.message for entry in sent(self._recorder.settled.messages)])
        prompt = system_prompt(self.name, self.type, self.system_prompt, self._tools.values(), self._parts)
        return Context(system=prompt, messages=messages, tools=tool_specs(self._tools))

    def _begin_turn(self, runs: list[Run[Any]]) -> None:
        self._aborting = False
        meter = TurnBudget(self.limits, self._session_spend)
        self._turn = Turn(runs, self._model, self._fallbacks, meter, len(self.entries))
        self._recorder.audience = [run.events for run in runs]
        self.emit(ev.TurnStart, self._recorder.settled.turn + 1, str(self._model))
        name, context = f"planck-agent-{self.name or self.id}", runs[0].context
        self._work = asyncio.get_running_loop().create_task(self._answer(self._turn), name=name, context=context)
        self._work.add_done_callback(self._answered, context=context)
        _working.add(self)

    def _next_turn(self) -> None:
        """Take up what waits."""
        runs = self._queue.take_turn()
        for run in runs:
            self._tell_of(run, ev.Unqueued, run.id)
        self._begin_turn(runs)

    async def _answer(self, turn: Turn) -> None:
        """The task of one turn. Only where it was stopped or fails it leaves the turn's end to `_answered`."""
        self._refresh_prompt_parts()
        reply = await run_turn(self, turn.prompts)
        task = asyncio.current_task()
        if task is not None and not task.cancelling():
            self._end_turn(task, reply=reply)

    def _answered(self, task: asyncio.Task[None]) -> None:
        """The turn's task has ended, perhaps before its first step."""
        if task is self._work:
            self._end_turn(task, error=None if task.cancelled() else task.exception())

    def _end_turn(
        self,
        task: asyncio.Task[Any],
        *,
        reply: AssistantMessage | None = None,
        error: BaseException | None = None,
    ) -> None:
        """Say what came of the turn, and go on with what waits."""
        turn = self._turn
        status: RunStatus
        if reply is not None:
            status = "done"
            self.emit(ev.TurnEnd, reply, turn.usage)
        elif error is not None:
            status = "failed"
            reason = str(error) if isinstance(error, PlanckError) else f"{type(error).__name__}: {error}"
            self.emit(ev.Error, reason, type(error).__name__)
        else:
            status = "aborted"
            self.emit(ev.Aborted)
        self._work, self._turn = None, self._no_turn()
        _working.discard(self)
        self._recorder.audience = []
        turn.settle(status, self.entries, error)
        if task.cancelling() > self._aborting:  # somebody else cancelled it too: the event loop goes away
            self._drop_queue()
        elif self._queue and not self._held:
            self._next_turn()
        elif not (self._stopping or self._aborting):  # after a stop nothing is to be asked of a model
            self._window.make_ahead()
        if self._stopping:
            self._close()

    def _close(self) -> None:
        """Say that the agent stopped, once."""
        if not self._recorder.settled.stopped:
            self.emit(ev.AgentStopped, self._removed)
            self.events.close()

    def _find_queued(self, prompt_id: str) -> Run[Any]:
        run = self._queue.find(prompt_id)
        if run is None:
            raise AgentError(f"No prompt {prompt_id} waits; it was taken up or removed before.")
        return run

    def _drop_queue(self) -> None:
        for run in self._queue:
            self._stop_run(run)

    def _stop_run(self, run: Run[Any]) -> None:
        if run in self._queue:
            self._queue.remove(run)
            self._tell_of(run, ev.Unqueued, run.id)
            run.settle("aborted", RunResult((), Usage(), None, aborted=True, output=None if run.output_spec else ""))
        elif run in self._turn.runs:
            self._cancel_work()

    def _cancel_work(self) -> None:
        """Cancel the turn once; a second request must not interrupt what the first one left to be kept."""
        if self._aborting:
            return
        self._aborting = True
        if self._work is not None:
            self._work.cancel()


def _as_model(model: Model | str) -> Model:
    if isinstance(model, str):
        return get_model(model)
    if not isinstance(model, Model):
        raise UsageError(f"{model!r} is not a model; pass a Model, or its name such as 'anthropic:claude-sonnet-4-6'.")
    return model

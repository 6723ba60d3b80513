"""The state of an agent as a pure fold over its events.

The live agent, replay from a session, widgets and tests all use this one function. Between turns, folding every event
and folding only the stored ones give the same state, because a stored event replaces what its deltas built up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from planck_nb.agent import events as ev
from planck_nb.agent.effect import Effect
from planck_nb.agent.identity import Grants, Role
from planck_nb.ai.messages import Message, Usage
from planck_nb.base.json_types import JsonObject
from planck_nb.base.quick_init import quick_init

NO_TURN = -1
"""Turn index before the first turn."""

Status: TypeAlias = Literal["idle", "streaming", "executing_tools"]


@quick_init
@dataclass(frozen=True, slots=True)
class Entry:
    """A message with the id that its log gave it."""

    id: int
    message: Message


@dataclass(frozen=True, slots=True)
class QueuedPrompt:
    """A prompt that is waiting: if it steers, for the running tools to end, otherwise for the running turn."""

    id: str
    text: str
    steer: bool = False


@dataclass(frozen=True, slots=True)
class RunningTool:
    """A tool call that has started and not ended."""

    id: str
    name: str
    args: JsonObject


@dataclass(frozen=True, slots=True)
class Teammate:
    """A worker of the agent's team, for the state of an orchestrator."""

    id: str
    name: str
    type: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class OpenTask:
    """A task that the agent gave to another one and that has no response yet."""

    id: str
    kind: ev.TaskKind
    target_id: str
    target_name: str
    text: str


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """A call that is waiting for approval; `deadline` is in seconds since the epoch.

    `rule` is the rule that is remembered if such calls are always allowed. `for_prompt` says whether the tool can be
    allowed for the present prompts.
    """

    id: str
    name: str
    args: JsonObject
    touches: tuple[Effect, ...]
    reason: str
    deadline: float
    rule: str = ""
    for_prompt: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Partial:
    """The reply that is being streamed: its newest delta and a link to those before it.

    A linked list, so that a delta costs the same however long the text is; nothing is joined until it is read.
    """

    delta: ev.TextDelta | ev.ThinkingDelta | ev.ToolArgsDelta
    before: Partial | None

    def deltas(self) -> Iterator[ev.TextDelta | ev.ThinkingDelta | ev.ToolArgsDelta]:
        """All deltas, oldest first."""
        found: list[ev.TextDelta | ev.ThinkingDelta | ev.ToolArgsDelta] = []
        node: Partial | None = self
        while node is not None:
            found.append(node.delta)
            node = node.before
        return reversed(found)

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(delta.text for delta in self.deltas() if delta.type == "text_delta")

    @property
    def thinking(self) -> str:
        """The reasoning so far."""
        return "".join(delta.text for delta in self.deltas() if delta.type == "thinking_delta")


@dataclass(frozen=True)  # without slots, so that `changed` can copy it at once
class AgentState:
    """A snapshot of an agent.

    Args:
        turn: The index of the newest turn, -1 before the first.
        messages: The whole conversation, with ids.
        queue: Prompts that are waiting.
        running: Tool calls that have started and not ended.
        pending_approvals: Calls that are waiting for approval.
        workers: The workers of its team, if it is the orchestrator.
        open_tasks: The tasks that it gave to other agents and that have no response yet.
        context_tokens: Tokens of the model's context window that the conversation filled after the last reply.
        cost: US dollars so far, None until a price was known.
        error: Why the last turn failed, None if it did not.
        partial: The reply that is being streamed.

    The other fields are those of `AgentStarted`.
    """

    agent_id: str = ""
    session_id: str | None = None
    name: str = ""
    agent_type: str = ""
    model: str = ""
    system_prompt: str = ""
    tools: tuple[str, ...] = ()
    options: JsonObject = field(default_factory=dict[str, Any])
    role: Role = ""
    team_id: str | None = None
    parent_id: str | None = None
    description: str = ""
    grants: Grants = field(default_factory=Grants)
    model_source: JsonObject = field(default_factory=dict[str, Any])
    status: Status = "idle"
    turn: int = NO_TURN
    messages: tuple[Entry, ...] = ()
    queue: tuple[QueuedPrompt, ...] = ()
    running: tuple[RunningTool, ...] = ()
    pending_approvals: tuple[PendingApproval, ...] = ()
    workers: tuple[Teammate, ...] = ()
    open_tasks: tuple[OpenTask, ...] = ()
    compacting: bool = False
    context_tokens: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    error: str | None = None
    stopped: bool = False
    partial: Partial | None = None


def fold(state: AgentState, event: ev.AgentEvent) -> AgentState:
    """Apply an event to a state.

    Args:
        state: The state so far; `AgentState()` before the first event.
        event: The next event. Events of unknown types change nothing.

    Returns:
        The state after the event; `state` itself is never changed.
    """
    change = _FOLDS.get(event.type)
    return state if change is None else change(state, event)


def changed(state: AgentState, **changes: object) -> AgentState:
    """Copy the state with some fields changed. `dataclasses.replace` costs ten times as much, on every event."""
    copy = object.__new__(AgentState)
    object.__setattr__(copy, "__dict__", vars(state) | changes)  # a dictionary is copied at once, not item by item
    return copy


def _agent_started(state: AgentState, event: ev.AgentStarted) -> AgentState:
    return changed(
        state,
        agent_id=event.agent_id,
        session_id=event.session_id,
        name=event.name,
        agent_type=event.agent_type,
        model=event.model,
        system_prompt=event.system_prompt,
        tools=event.tools,
        options=event.options,
        role=event.role,
        team_id=event.team_id,
        parent_id=event.parent_id,
        description=event.description,
        grants=event.grants,
        model_source=event.model_source,
        usage=event.usage,
        cost=event.cost,
        status="idle",
        queue=(),
        running=(),
        pending_approvals=(),
        workers=(),
        open_tasks=(),
        compacting=False,
        context_tokens=0,
        error=None,
        stopped=False,
        partial=None,
    )


def _agent_changed(state: AgentState, event: ev.AgentChanged) -> AgentState:
    return changed(
        state,
        model=event.model,
        system_prompt=event.system_prompt,
        tools=event.tools,
        options=event.options,
        model_source=event.model_source,
    )


def _agent_stopped(state: AgentState, _event: ev.AgentStopped) -> AgentState:
    return changed(state, stopped=True)


def _queued(state: AgentState, event: ev.Queued) -> AgentState:
    prompt = QueuedPrompt(event.prompt_id, event.text, event.steer)
    if any(other.id == prompt.id for other in state.queue):
        return changed(state, queue=tuple(prompt if other.id == prompt.id else other for other in state.queue))
    return changed(state, queue=(*state.queue, prompt))


def _unqueued(state: AgentState, event: ev.Unqueued) -> AgentState:
    return changed(state, queue=tuple(prompt for prompt in state.queue if prompt.id != event.prompt_id))


def _turn_start(state: AgentState, event: ev.TurnStart) -> AgentState:
    return changed(state, status="streaming", turn=event.index, model=event.model, error=None, partial=None)


def _message(state: AgentState, event: ev.MessageAppended) -> AgentState:
    messages = (*state.messages, Entry(event.id, event.message))
    if event.message.type == "summary" or state.status == "idle":  # may come at any time, whatever the agent does
        return changed(state, messages=messages)
    calls = event.message.type == "assistant" and event.message.tool_calls
    return changed(state, messages=messages, status="executing_tools" if calls else "streaming", partial=None)


def _retry(state: AgentState, _event: ev.Retry) -> AgentState:
    return changed(state, partial=None)


def _delta(state: AgentState, event: ev.TextDelta | ev.ThinkingDelta | ev.ToolArgsDelta) -> AgentState:
    return changed(state, partial=Partial(event, state.partial))


def _usage(state: AgentState, event: ev.UsageDelta) -> AgentState:
    return changed(state, usage=event.total, cost=event.total_cost, context_tokens=event.context_tokens)


def _tool_start(state: AgentState, event: ev.ToolStart) -> AgentState:
    return changed(state, running=(*state.running, RunningTool(event.id, event.name, event.args)))


def _tool_end(state: AgentState, event: ev.ToolEnd) -> AgentState:
    return changed(state, running=tuple(call for call in state.running if call.id != event.id))


def _approval_request(state: AgentState, event: ev.ApprovalRequest) -> AgentState:
    pending = PendingApproval(
        event.id, event.name, event.args, event.touches, event.reason, event.deadline, event.rule, event.for_prompt
    )
    return changed(state, pending_approvals=(*state.pending_approvals, pending))


def _approval_decision(state: AgentState, event: ev.ApprovalDecision) -> AgentState:
    return changed(state, pending_approvals=tuple(call for call in state.pending_approvals if call.id != event.id))


def _worker_spawned(state: AgentState, event: ev.WorkerSpawned) -> AgentState:
    others = tuple(worker for worker in state.workers if worker.id != event.worker_id)
    return changed(state, workers=(*others, Teammate(event.worker_id, event.name, event.worker_type, event.model)))


def _worker_exit(state: AgentState, event: ev.WorkerExit) -> AgentState:
    return changed(state, workers=tuple(worker for worker in state.workers if worker.id != event.worker_id))


def _delegated(state: AgentState, event: ev.Delegated) -> AgentState:
    task = OpenTask(event.task_id, event.kind, event.target_id, event.target_name, event.text)
    return changed(state, open_tasks=(*state.open_tasks, task))


def _responded(state: AgentState, event: ev.Responded) -> AgentState:
    return changed(state, open_tasks=tuple(task for task in state.open_tasks if task.id != event.task_id))


def _compacting(state: AgentState, _event: ev.Compacting) -> AgentState:
    return changed(state, compacting=True)


def _compacted(state: AgentState, event: ev.Compacted) -> AgentState:
    size = state.context_tokens if event.summary_id is None else event.tokens_after
    return changed(state, compacting=False, context_tokens=size)


def _fallback(state: AgentState, event: ev.Fallback) -> AgentState:
    return changed(state, model=event.model)


def _rewound(state: AgentState, event: ev.Rewound) -> AgentState:
    return changed(
        state,
        messages=tuple(entry for entry in state.messages if entry.id < event.message_id),
        turn=event.turn,
        usage=event.usage,
        cost=event.cost,
        status="idle",
        queue=(),
        running=(),
        pending_approvals=(),
        open_tasks=(),
        compacting=False,
        context_tokens=0,
        partial=None,
        error=None,
    )


def _at_rest(state: AgentState, _event: ev.TurnEnd | ev.Aborted) -> AgentState:
    return changed(state, status="idle", running=(), pending_approvals=(), partial=None)


def _unchanged(state: AgentState, _event: ev.AgentEvent) -> AgentState:
    """For events that only views and transcripts show."""
    return state


def _error(state: AgentState, event: ev.Error) -> AgentState:
    return changed(state, status="idle", running=(), pending_approvals=(), partial=None, error=event.reason)


_FOLDS: dict[str, Callable[[AgentState, Any], AgentState]] = {
    "agent_started": _agent_started,
    "agent_changed": _agent_changed,
    "agent_stopped": _agent_stopped,
    "queued": _queued,
    "unqueued": _unqueued,
    "steered": _unchanged,
    "turn_start": _turn_start,
    "message": _message,
    "text_delta": _delta,
    "thinking_delta": _delta,
    "tool_args_delta": _delta,
    "usage_delta": _usage,
    "tool_start": _tool_start,
    "tool_progress": _unchanged,
    "tool_preview": _unchanged,
    "tool_end": _tool_end,
    "approval_request": _approval_request,
    "approval_decision": _approval_decision,
    "compacting": _compacting,
    "compacted": _compacted,
    "limit_reached": _unchanged,
    "fallback": _fallback,
    "rewound": _rewound,
    "retry": _retry,
    "warning": _unchanged,
    "evaluation_started": _unchanged,
    "scored": _unchanged,
    "worker_spawned": _worker_spawned,
    "worker_exit": _worker_exit,
    "delegated": _delegated,
    "responded": _responded,
    "turn_end": _at_rest,
    "aborted": _at_rest,
    "error": _error,
}

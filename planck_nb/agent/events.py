"""What an agent tells whoever watches it: a tagged union of immutable values.

Names and payloads follow Planck's README (turn_start, text_delta, tool_start, …); `message`, `aborted`, `queued`,
`unqueued`, `steered`, `retry`, `fallback`, `limit_reached`, `tool_args_delta`, `tool_progress`, `approval_request`,
`approval_decision`, `rewound` and `agent_started|changed|stopped` are additions. Exactly one of `turn_end`, `aborted`
and `error` ends a turn. Deltas and progress are shown and forgotten; every other event is stored, and folding the
stored ones gives the same state as folding all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, cast

from planck_nb.agent.approval.effect import Effect
from planck_nb.ai.messages import AssistantMessage, Usage
from planck_nb.ai.messages import Message as ConversationMessage
from planck_nb.base.json_types import JsonObject


@dataclass(frozen=True, slots=True)
class EventBase:
    """What every event carries.

    `turn` counts the prompts that the agent took up, from 0. `seq` counts the agent's events without gaps. `time` is
    in seconds since the epoch. `session_id` is None for an agent that is not stored.
    """

    agent_id: str
    session_id: str | None
    turn: int
    seq: int
    time: float


@dataclass(frozen=True, slots=True)
class AgentStarted(EventBase):
    """The agent exists. `model` is "provider:model"; `tools` are the names it can call; `options` how it answers."""

    name: str
    agent_type: str
    model: str
    system_prompt: str
    tools: tuple[str, ...]
    options: JsonObject = field(default_factory=dict[str, Any])
    type: Literal["agent_started"] = "agent_started"


@dataclass(frozen=True, slots=True)
class AgentChanged(EventBase):
    """The agent has another model, system prompt, set of tools or options from now on."""

    model: str
    system_prompt: str
    tools: tuple[str, ...]
    options: JsonObject = field(default_factory=dict[str, Any])
    type: Literal["agent_changed"] = "agent_changed"


@dataclass(frozen=True, slots=True)
class AgentStopped(EventBase):
    """The agent takes no more prompts; `removed` tells that it is not to be there when the session goes on."""

    removed: bool = False
    type: Literal["agent_stopped"] = "agent_stopped"


@dataclass(frozen=True, slots=True)
class Queued(EventBase):
    """A prompt waits for the running turn to end, or, to steer, for its running tools; the same id again: edited."""

    prompt_id: str
    text: str
    steer: bool = False
    type: Literal["queued"] = "queued"


@dataclass(frozen=True, slots=True)
class Unqueued(EventBase):
    """A waiting prompt was taken up, or removed."""

    prompt_id: str
    type: Literal["unqueued"] = "unqueued"


@dataclass(frozen=True, slots=True)
class Steered(EventBase):
    """A waiting prompt enters the running turn; its `message` follows."""

    prompt_id: str
    type: Literal["steered"] = "steered"


@dataclass(frozen=True, slots=True)
class TurnStart(EventBase):
    """The agent takes up one or more prompts."""

    index: int
    model: str
    type: Literal["turn_start"] = "turn_start"


@dataclass(frozen=True, slots=True)
class Message(EventBase):
    """A message was appended to the log under `id`; it is durable when the log is."""

    id: int
    message: ConversationMessage
    type: Literal["message"] = "message"


@dataclass(frozen=True, slots=True)
class TextDelta(EventBase):
    """More text of the reply that is being written."""

    text: str
    type: Literal["text_delta"] = "text_delta"


@dataclass(frozen=True, slots=True)
class ThinkingDelta(EventBase):
    """More of the model's reasoning."""

    text: str
    type: Literal["thinking_delta"] = "thinking_delta"


@dataclass(frozen=True, slots=True)
class ToolArgsDelta(EventBase):
    """More JSON text of the arguments that the model is writing for the call `id`; empty when the call begins."""

    id: str
    name: str
    text: str
    type: Literal["tool_args_delta"] = "tool_args_delta"


@dataclass(frozen=True, slots=True)
class UsageDelta(EventBase):
    """A reply was counted: `delta` and `cost` for the reply, `total` and `total_cost` for the agent's life.

    Costs are in US dollars, None as long as no price was known. `context_tokens` is how much of the model's window the
    conversation fills now.
    """

    delta: Usage
    total: Usage
    cost: float | None
    total_cost: float | None
    context_tokens: int = 0
    type: Literal["usage_delta"] = "usage_delta"


@dataclass(frozen=True, slots=True)
class ToolStart(EventBase):
    """A tool begins to run."""

    id: str
    name: str
    args: JsonObject
    type: Literal["tool_start"] = "tool_start"


@dataclass(frozen=True, slots=True)
class ToolProgress(EventBase):
    """More of what a running tool shows of its work, such as the output of a command; `tool_end` has the result."""

    id: str
    name: str
    text: str
    type: Literal["tool_progress"] = "tool_progress"


@dataclass(frozen=True, slots=True)
class ToolEnd(EventBase):
    """A tool gave its result, the text the model will read; `error` tells whether it failed."""

    id: str
    name: str
    result: str
    error: bool
    type: Literal["tool_end"] = "tool_end"


@dataclass(frozen=True, slots=True)
class ApprovalRequest(EventBase):
    """The call `id` waits until somebody decides whether it may run; at `deadline` (epoch seconds) it is denied.

    `touches` is what it would touch, `reason` one sentence that says why it is asked.
    """

    id: str
    name: str
    args: JsonObject
    touches: tuple[Effect, ...]
    reason: str
    deadline: float
    type: Literal["approval_request"] = "approval_request"


@dataclass(frozen=True, slots=True)
class ApprovalDecision(EventBase):
    """Whether the call `id` may run, and who decided.

    `by` is "rule" (the policy), "user", "deadline" (nobody answered in time), "nobody" (there was nobody to ask) or
    "stop" (the turn was stopped). `args` are the arguments as somebody edited them, None where they are unchanged.
    `rule` is the rule that decided, or the one that is remembered from now on; empty where there is none. `reason` is
    one sentence for the model where the call was denied.
    """

    id: str
    name: str
    allowed: bool
    by: Literal["rule", "user", "deadline", "nobody", "stop"]
    args: JsonObject | None = None
    rule: str = ""
    reason: str = ""
    type: Literal["approval_decision"] = "approval_decision"


@dataclass(frozen=True, slots=True)
class Compacting(EventBase):
    """The older part of the conversation is being summarised; `tokens` is its size, estimated. `compacted` follows."""

    messages: int
    tokens: int
    type: Literal["compacting"] = "compacting"


@dataclass(frozen=True, slots=True)
class Compacted(EventBase):
    """The compaction is over.

    `summary_id` is the id of the summary, None where the conversation stays as it was: `reason` then says why.
    `tokens_before` and `tokens_after` are sizes of the conversation that is sent, estimated.
    """

    summary_id: int | None
    tokens_before: int
    tokens_after: int
    reason: str = ""
    type: Literal["compacted"] = "compacted"


@dataclass(frozen=True, slots=True)
class LimitReached(EventBase):
    """A limit ends the turn softly: what was said is kept, `turn_end` follows.

    `limit` is the name of the field of `Limits`, `reason` one sentence with what to do.
    """

    limit: str
    reason: str
    type: Literal["limit_reached"] = "limit_reached"


@dataclass(frozen=True, slots=True)
class Fallback(EventBase):
    """`failed` could not answer, for this `reason`; `model` is asked instead. Both are "provider:model"."""

    failed: str
    model: str
    reason: str
    type: Literal["fallback"] = "fallback"


@dataclass(frozen=True, slots=True)
class Rewound(EventBase):
    """The conversation was taken back to just before `message_id`; what it had cost until then stays spent."""

    message_id: int
    usage: Usage
    cost: float | None
    type: Literal["rewound"] = "rewound"


@dataclass(frozen=True, slots=True)
class Retry(EventBase):
    """The request failed before any content and is sent again in `delay` seconds."""

    attempt: int
    delay: float
    reason: str
    type: Literal["retry"] = "retry"


@dataclass(frozen=True, slots=True)
class Warned(EventBase):
    """Something was not sent to the model as asked; the turn goes on. `text` is one sentence."""

    text: str
    type: Literal["warning"] = "warning"


@dataclass(frozen=True, slots=True)
class TurnEnd(EventBase):
    """The turn is complete. `usage` sums all its replies."""

    message: AssistantMessage
    usage: Usage
    type: Literal["turn_end"] = "turn_end"


@dataclass(frozen=True, slots=True)
class Aborted(EventBase):
    """Somebody stopped the turn; what was written until then is kept."""

    type: Literal["aborted"] = "aborted"


@dataclass(frozen=True, slots=True)
class Error(EventBase):
    """The turn failed. `reason` is one sentence, `kind` the name of the exception's class."""

    reason: str
    kind: str
    type: Literal["error"] = "error"


AgentEvent: TypeAlias = (
    AgentStarted
    | AgentChanged
    | AgentStopped
    | Queued
    | Unqueued
    | Steered
    | TurnStart
    | Message
    | TextDelta
    | ThinkingDelta
    | ToolArgsDelta
    | UsageDelta
    | ToolStart
    | ToolProgress
    | ToolEnd
    | ApprovalRequest
    | ApprovalDecision
    | Compacting
    | Compacted
    | LimitReached
    | Fallback
    | Rewound
    | Retry
    | Warned
    | TurnEnd
    | Aborted
    | Error
)
"""Any event of an agent."""

TRANSIENT = frozenset({"text_delta", "thinking_delta", "tool_args_delta", "tool_progress"})
"""Types of the events that are shown and not stored: what follows them says it all."""


_SUPERSEDING = frozenset({"turn_start", "turn_end", "aborted", "error", "rewound"})


def supersedes_deltas(event: AgentEvent) -> bool:
    """Whether the event stands for all deltas before it."""
    return event.type in _SUPERSEDING or (event.type == "message" and event.message.type != "summary")


@cache
def _adapter() -> Any:  # noqa: ANN401 - pydantic's adapter over a union of dataclasses has no useful static type
    from pydantic import Field, TypeAdapter  # noqa: PLC0415 - a third of the package's import time, needed only here

    return TypeAdapter(Annotated[AgentEvent, Field(discriminator="type")])


def encode_event(event: AgentEvent) -> JsonObject:
    """The event as JSON data; `decode_event` gives an equal event back."""
    return cast("JsonObject", _adapter().dump_python(event, mode="json"))


def decode_event(data: JsonObject) -> AgentEvent:
    """The event that `encode_event` made `data` from. Raises pydantic's ValidationError for anything else."""
    return cast("AgentEvent", _adapter().validate_python(data))

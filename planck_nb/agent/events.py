"""The events of an agent: a tagged union of immutable dataclasses.

Exactly one of `turn_end`, `aborted` and `error` ends a turn. Deltas and progress are transient; every other event is
stored, and folding the stored events gives the same state as folding all of them.

Names and payloads follow Planck's README (turn_start, text_delta, tool_start, …). `message`, `aborted`, `queued`,
`unqueued`, `steered`, `retry`, `fallback`, `limit_reached`, `tool_args_delta`, `tool_progress`, `approval_request`,
`approval_decision`, `rewound`, `delegated`, `responded`, `evaluation_started`, `scored` and
`agent_started|changed|stopped` are additions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, cast

from planck_nb.agent.answers import ReplyProblem
from planck_nb.agent.effect import Effect
from planck_nb.agent.identity import Grants, Role
from planck_nb.agent.preview_types import HtmlPreview, TablePreview
from planck_nb.ai.messages import AssistantMessage, Purpose, Usage, UserPart
from planck_nb.ai.messages import Message as ConversationMessage
from planck_nb.ai.numbers import (
    MAX_TOKENS_TOGETHER,
    dollars,
    token_count,
    usage_counts,
    with_plausible_numbers,
)
from planck_nb.base.json_types import JsonObject
from planck_nb.base.quick_init import quick_init


@dataclass(frozen=True, slots=True)
class EventBase:
    """The fields that every event has.

    Args:
        agent_id: The agent that the event is about.
        session_id: The session that stores it, None for an agent without a session.
        turn: The index of the agent's turn, from 0; -1 before the first turn.
        seq: Counts the agent's events without gaps.
        time: Seconds since the epoch.
    """

    agent_id: str
    session_id: str | None
    turn: int
    seq: int
    time: float


@dataclass(frozen=True, slots=True)
class AgentStarted(EventBase):
    """An agent was created.

    Args:
        name: What people call the agent; unique within its team.
        agent_type: What kind of agent it is, such as "builder".
        model: The model as "provider:model".
        system_prompt: The agent's own system prompt.
        tools: The names of its tools.
        options: The request options that are set.
        role: Its role in its team, empty if it is in no team.
        team_id: Its team, None if it is in no team.
        parent_id: The agent that started it, None if a person or a program did.
        description: What the agent is for, in a sentence.
        grants: What it may give to the agents that it starts.
        model_source: How the model was found; see `planck_nb.ai.model_lookup.model_source`.
        grant_sources: How the models of `grants` were found, in their order.
        compactor: What shortens its conversation; see `stored_compactor`. Empty if nothing does.
        skills: The names of the skills that its system prompt lists, None if it lists all.
        limits: Its limits by name, apart from its session's usual ones.
        usage: Tokens that it has taken in its session before; a fork begins at zero.
        cost: US dollars for them, None until a price was known.
    """

    name: str
    agent_type: str
    model: str
    system_prompt: str
    tools: tuple[str, ...]
    options: JsonObject = field(default_factory=dict[str, Any])
    role: Role = ""
    team_id: str | None = None
    parent_id: str | None = None
    description: str = ""
    grants: Grants = field(default_factory=Grants)
    model_source: JsonObject = field(default_factory=dict[str, Any])
    grant_sources: tuple[JsonObject, ...] = ()
    compactor: JsonObject = field(default_factory=dict[str, Any])
    skills: tuple[str, ...] | None = None
    limits: JsonObject = field(default_factory=dict[str, Any])
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    type: Literal["agent_started"] = "agent_started"


@dataclass(frozen=True, slots=True)
class AgentChanged(EventBase):
    """The agent has another model, system prompt, set of tools, options or limits from now on.

    Args:
        model: The model as "provider:model".
        system_prompt: The agent's own system prompt.
        tools: The names of its tools.
        options: The request options that are set.
        model_source: How the model was found; see `planck_nb.ai.model_lookup.model_source`.
        limits: Its limits by name, apart from its session's usual ones.
    """

    model: str
    system_prompt: str
    tools: tuple[str, ...]
    options: JsonObject = field(default_factory=dict[str, Any])
    model_source: JsonObject = field(default_factory=dict[str, Any])
    limits: JsonObject = field(default_factory=dict[str, Any])
    type: Literal["agent_changed"] = "agent_changed"


@dataclass(frozen=True, slots=True)
class AgentStopped(EventBase):
    """The agent has stopped accepting prompts.

    Args:
        removed: Whether it was removed: it is not restored when the session is resumed.
    """

    removed: bool = False
    type: Literal["agent_stopped"] = "agent_stopped"


@dataclass(frozen=True, slots=True)
class Queued(EventBase):
    """A prompt is waiting: for the running turn to end or, if it steers, for the running tools.

    Args:
        prompt_id: The id of the prompt. If the same id is queued again, the waiting prompt was edited.
        text: The text of the prompt.
        steer: Whether it may enter the running turn.
        content: The whole prompt if it is more than its text, such as an image; otherwise empty.
        output: The JSON Schema that the answer must match, None for text.
        join: Whether it is answered together with others that wait.
        sender_id: The id of the agent that sent it, None if a person or a program did.
        sender_name: The name of that agent.
        purpose: What that agent sent it for.
    """

    prompt_id: str
    text: str
    steer: bool = False
    content: tuple[UserPart, ...] = ()
    output: JsonObject | None = None
    join: bool = False
    sender_id: str | None = None
    sender_name: str | None = None
    purpose: Purpose | None = None
    type: Literal["queued"] = "queued"


@dataclass(frozen=True, slots=True)
class Unqueued(EventBase):
    """A waiting prompt left the queue, to be answered or because it was removed.

    Args:
        prompt_id: The id of the prompt.
        removed: Whether it was removed instead of being answered.
        returned: Whether it was removed because the agent was stopped, so that its author can send it again.
    """

    prompt_id: str
    removed: bool = False
    returned: bool = False
    type: Literal["unqueued"] = "unqueued"


@dataclass(frozen=True, slots=True)
class Steered(EventBase):
    """A waiting prompt enters the running turn; its `message` event follows.

    Args:
        prompt_id: The id of the prompt.
    """

    prompt_id: str
    type: Literal["steered"] = "steered"


@dataclass(frozen=True, slots=True)
class TurnStart(EventBase):
    """The agent starts to answer one or more prompts.

    Args:
        index: The index of the turn, from 0.
        model: The model as "provider:model".
    """

    index: int
    model: str
    type: Literal["turn_start"] = "turn_start"


@quick_init
@dataclass(frozen=True, slots=True)
class MessageAppended(EventBase):
    """A message was appended to the log; it is as durable as the log.

    Args:
        id: The id of the message in the log.
        message: The message.
    """

    id: int
    message: ConversationMessage
    type: Literal["message"] = "message"


@quick_init
@dataclass(frozen=True, slots=True)
class TextDelta(EventBase):
    """More text of the reply that is being streamed.

    Args:
        text: The text to append.
    """

    text: str
    type: Literal["text_delta"] = "text_delta"


@quick_init
@dataclass(frozen=True, slots=True)
class ThinkingDelta(EventBase):
    """More of the model's reasoning.

    Args:
        text: The text to append.
    """

    text: str
    type: Literal["thinking_delta"] = "thinking_delta"


@quick_init
@dataclass(frozen=True, slots=True)
class ToolArgsDelta(EventBase):
    """More JSON text of the arguments of a tool call.

    Args:
        id: The id of the call.
        name: The name of the tool.
        text: The text to append; empty when the call begins.
    """

    id: str
    name: str
    text: str
    type: Literal["tool_args_delta"] = "tool_args_delta"


ChargePurpose: TypeAlias = Literal["reply", "summary", "sampling", "failed"]
"""The purpose of a request to a model."""


@quick_init
@dataclass(frozen=True, slots=True)
class UsageDelta(EventBase):
    """Usage count for one request; all spending has one.

    Args:
        delta: Tokens of the request and its answer.
        total: Tokens of the agent so far.
        cost: US dollars for them, None if the price is unknown.
        total_cost: US dollars for the agent so far, None until a price was known.
        context_tokens: Tokens of the model's context window that the conversation fills now.
        estimated: Whether `delta` and `cost` are the least that it took, partly estimated, because its provider has
            not counted all of it.
        purpose: What it was for: "reply", a message of the conversation; "summary", of a compaction; "sampling", a
            reply for a sidecar; or "failed", a reply that could not even be kept in part.
        model: The model, `provider:model`.
    """

    delta: Usage
    total: Usage
    cost: float | None
    total_cost: float | None
    context_tokens: int = 0
    type: Literal["usage_delta"] = "usage_delta"
    estimated: bool = False
    purpose: ChargePurpose = "reply"
    model: str = ""


@dataclass(frozen=True, slots=True)
class ToolStart(EventBase):
    """A tool starts to run.

    Args:
        id: The id of the call.
        name: The name of the tool.
        args: The arguments that the model wrote.
    """

    id: str
    name: str
    args: JsonObject
    type: Literal["tool_start"] = "tool_start"


@quick_init
@dataclass(frozen=True, slots=True)
class ToolProgress(EventBase):
    """Output of a tool that is still running, such as the lines of a command; `tool_end` has the result.

    Args:
        id: The id of the call.
        name: The name of the tool.
        text: The text to append.
    """

    id: str
    name: str
    text: str
    type: Literal["tool_progress"] = "tool_progress"


@dataclass(frozen=True, slots=True)
class ToolPreview(EventBase):
    """What a call has returned, as users see it; `tool_end` follows with the text that the model reads.

    Args:
        id: The id of the call.
        name: The name of the tool.
        tables: Data frames and series.
        documents: Objects that draw themselves as HTML.
    """

    id: str
    name: str
    tables: tuple[TablePreview, ...]
    documents: tuple[HtmlPreview, ...]
    type: Literal["tool_preview"] = "tool_preview"


@dataclass(frozen=True, slots=True)
class ToolEnd(EventBase):
    """A tool call has a result.

    Args:
        id: The id of the call.
        name: The name of the tool.
        result: The text that the model will read.
        error: Whether the call failed.
    """

    id: str
    name: str
    result: str
    error: bool
    type: Literal["tool_end"] = "tool_end"


@dataclass(frozen=True, slots=True)
class ApprovalRequest(EventBase):
    """The call `id` waits for a decision; it is denied at `deadline`.

    Args:
        id: The id of the call.
        name: The name of the tool.
        args: The arguments that the model wrote.
        touches: What the call would read, change, run or connect to.
        reason: One sentence on why approval is needed.
        deadline: The time at which it is denied, in seconds since the epoch; `Approvals.deadline` is the duration
            until then.
        rule: The rule that is remembered if such calls are always allowed.
        sandboxed: Whether commands of the call would run in a sandbox; None if that is not known.
        for_prompt: Whether the tool can be allowed for the present prompts.
    """

    id: str
    name: str
    args: JsonObject
    touches: tuple[Effect, ...]
    reason: str
    deadline: float
    rule: str = ""
    sandboxed: bool | None = None
    for_prompt: bool = False
    type: Literal["approval_request"] = "approval_request"


RuleScope: TypeAlias = Literal["", "agent", "role", "all", "prompt"]

DEFAULT_SCOPE: RuleScope = "agent"
"""Which agents a remembered rule is for: the one that asked, all of its role, or all; empty if none is remembered.

"prompt" lets the agent call the tool until it has answered the present prompts, without a rule.
"""


@dataclass(frozen=True, slots=True)
class ApprovalDecision(EventBase):
    """The call `id` may run, or may not.

    Args:
        id: The id of the call.
        name: The name of the tool.
        allowed: Whether the call may run.
        by: What decided: "rule" (the policy), "user", "deadline" (no decision in time), "nobody" (there was nobody to
            ask) or "stop" (the turn was stopped).
        args: The arguments as the user edited them, None if they are unchanged.
        rule: The rule that decided, or the one that is remembered from now on; empty if there is none.
        reason: One sentence for the model if the call was denied.
        scope: Which agents the remembered rule is for; empty if none is remembered.
    """

    id: str
    name: str
    allowed: bool
    by: Literal["rule", "user", "deadline", "nobody", "stop"]
    args: JsonObject | None = None
    rule: str = ""
    reason: str = ""
    scope: RuleScope = ""
    type: Literal["approval_decision"] = "approval_decision"


@dataclass(frozen=True, slots=True)
class Compacting(EventBase):
    """The older part of the conversation is being summarised; `compacted` follows.

    Args:
        messages: How many messages there are.
        tokens: Their estimated size.
    """

    messages: int
    tokens: int
    type: Literal["compacting"] = "compacting"


@dataclass(frozen=True, slots=True)
class Compacted(EventBase):
    """The compaction has ended.

    Args:
        summary_id: The message id of the summary, None if the conversation stays as it was.
        tokens_before: Estimated size of the conversation as it was sent before.
        tokens_after: Estimated size of the conversation as it is sent from now on.
        reason: Why the conversation stays as it was.
    """

    summary_id: int | None
    tokens_before: int
    tokens_after: int
    reason: str = ""
    type: Literal["compacted"] = "compacted"


@dataclass(frozen=True, slots=True)
class LimitReached(EventBase):
    """A limit ends the turn early: what was written is kept, and `turn_end` follows.

    Args:
        limit: The name of the field of `Limits`.
        reason: One sentence that says what to do.
    """

    limit: str
    reason: str
    type: Literal["limit_reached"] = "limit_reached"


@dataclass(frozen=True, slots=True)
class Fallback(EventBase):
    """A model could not answer; another one is used instead.

    Args:
        failed: The model that failed, as "provider:model".
        model: The model that is used instead, as "provider:model".
        reason: Why the first one failed.
    """

    failed: str
    model: str
    reason: str
    type: Literal["fallback"] = "fallback"


@dataclass(frozen=True, slots=True)
class Rewound(EventBase):
    """A message and everything after it was removed from the conversation.

    Args:
        message_id: The first message that was removed.
        usage: Tokens of the agent so far; those of removed replies still count.
        cost: US dollars for the agent so far, None if no price was known.
    """

    message_id: int
    usage: Usage
    cost: float | None
    type: Literal["rewound"] = "rewound"


@dataclass(frozen=True, slots=True)
class Retry(EventBase):
    """The request failed before any content arrived and is sent again.

    Args:
        attempt: The number of the failed attempt, from 1.
        delay: Seconds until it is sent again.
        reason: Why it failed.
    """

    attempt: int
    delay: float
    reason: str
    type: Literal["retry"] = "retry"


@dataclass(frozen=True, slots=True)
class Warned(EventBase):
    """Something that the user should know; the turn goes on.

    Args:
        text: One sentence about it.
        about: What is wrong with the reply before it; empty if the sentence is about something else, such as an option
            that could not be sent.
    """

    text: str
    about: ReplyProblem = ""
    type: Literal["warning"] = "warning"


@dataclass(frozen=True, slots=True)
class WorkerSpawned(EventBase):
    """A worker joined the team of this agent, the orchestrator.

    Args:
        worker_id: The id of the worker.
        name: Its name.
        role: Its role.
        worker_type: What kind of agent it is, such as "builder".
        model: Its model as "provider:model".
    """

    worker_id: str
    name: str
    role: Role
    worker_type: str = ""
    model: str = ""
    type: Literal["worker_spawned"] = "worker_spawned"


@dataclass(frozen=True, slots=True)
class WorkerExit(EventBase):
    """A worker left the team of this agent, the orchestrator.

    Args:
        worker_id: The id of the worker.
        name: Its name.
        reason: Why, in a few words.
        normal: Whether that was intended.
    """

    worker_id: str
    name: str
    reason: str
    normal: bool
    type: Literal["worker_exit"] = "worker_exit"


TaskKind: TypeAlias = Literal["ask", "delegate"]
"""How an agent gives a task to another one: it waits for the answer, or goes on until the response comes."""


@dataclass(frozen=True, slots=True)
class Delegated(EventBase):
    """This agent gave a task to another one of its team; `responded` follows.

    Args:
        task_id: The id of the task, which is that of the prompt to the other agent.
        kind: Whether this agent waits for the answer.
        target_id: The id of the other agent.
        target_name: Its name.
        text: The task.
        call_id: The id of the tool call by which this agent gave it.
    """

    task_id: str
    kind: TaskKind
    target_id: str
    target_name: str
    text: str
    call_id: str = ""
    type: Literal["delegated"] = "delegated"


@dataclass(frozen=True, slots=True)
class Responded(EventBase):
    """Another agent answered a task that this agent gave it.

    Args:
        task_id: The id of the task.
        kind: Whether this agent waited for the answer.
        target_id: The id of the other agent.
        target_name: Its name.
        text: The response, or the reason if there is none.
        error: Whether the task failed.
        automatic: Whether the other agent did not send it itself: its final text was sent, or the reason of a failure.
        task_turn: The index of the turn in which the other agent worked on it, None if there was none.
    """

    task_id: str
    kind: TaskKind
    target_id: str
    target_name: str
    text: str
    error: bool = False
    automatic: bool = False
    task_turn: int | None = None
    type: Literal["responded"] = "responded"


@dataclass(frozen=True, slots=True)
class EvaluationStarted(EventBase):
    """An evaluation has started, or goes on.

    Its `agent_id` is the evaluation's.

    Args:
        name: What people call it.
        cases: The cases, each with `name`, `expected` and `metadata`.
        repeat: How often each case is asked.
    """

    name: str
    cases: tuple[JsonObject, ...]
    repeat: int
    type: Literal["evaluation_started"] = "evaluation_started"


@dataclass(frozen=True, slots=True)
class Scored(EventBase):
    """A scorer has judged an agent's answer to a case.

    Args:
        evaluation_id: The evaluation.
        model: The answering model as "provider:model".
        case: The case's name.
        repetition: Counts the case's answers from 1.
        scorer: The scorer's name.
        scorer_digest: A digest for its source and settings.
        measure: The score's name, for scorers with several.
        score: The score, None after an error.
        passed: The verdict, None for a number.
        error: Why there is a row without a score.
        reason: What a judging agent said.
        judge_id: The judging agent.
        seconds: How long it took.
    """

    evaluation_id: str
    model: str
    case: str
    repetition: int
    scorer: str
    scorer_digest: str
    measure: str = ""
    score: float | None = None
    passed: bool | None = None
    error: str = ""
    reason: str = ""
    judge_id: str = ""
    seconds: float = 0.0
    type: Literal["scored"] = "scored"


@dataclass(frozen=True, slots=True)
class TurnEnd(EventBase):
    """The turn is complete.

    Args:
        message: The final reply.
        usage: What all requests of the turn took together.
    """

    message: AssistantMessage
    usage: Usage
    type: Literal["turn_end"] = "turn_end"


@dataclass(frozen=True, slots=True)
class Aborted(EventBase):
    """The turn was stopped; what was written until then is kept."""

    type: Literal["aborted"] = "aborted"


@dataclass(frozen=True, slots=True)
class Error(EventBase):
    """The turn failed.

    Args:
        reason: One sentence about the error.
        kind: The name of the exception's class.
    """

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
    | MessageAppended
    | TextDelta
    | ThinkingDelta
    | ToolArgsDelta
    | UsageDelta
    | ToolStart
    | ToolProgress
    | ToolPreview
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
    | WorkerSpawned
    | WorkerExit
    | Delegated
    | Responded
    | EvaluationStarted
    | Scored
    | TurnEnd
    | Aborted
    | Error
)
"""Any event of an agent."""

_COUNTS = frozenset({"context_tokens", "tokens", "tokens_before", "tokens_after"})

TRANSIENT = frozenset({"text_delta", "thinking_delta", "tool_args_delta", "tool_progress", "tool_preview"})
"""Types of the events that are not stored, because a later event repeats what they contain."""


_SUPERSEDING = frozenset({"turn_start", "turn_end", "aborted", "error", "rewound"})


def supersedes_deltas(event: AgentEvent) -> bool:
    """Whether the event makes all deltas before it redundant."""
    return event.type in _SUPERSEDING or (event.type == "message" and event.message.type != "summary")


@cache
def _adapter() -> Any:  # noqa: ANN401 - pydantic's adapter over a union of dataclasses has no useful static type
    from pydantic import Field, TypeAdapter  # noqa: PLC0415 - a third of the package's import time, needed only here

    return TypeAdapter(Annotated[AgentEvent, Field(discriminator="type")])


def encode_event(event: AgentEvent) -> JsonObject:
    """Encode an event as JSON data.

    Args:
        event: Any event of an agent.

    Returns:
        A dictionary of JSON values that `decode_event` turns back into an equal event.
    """
    return cast("JsonObject", _adapter().dump_python(event, mode="json"))


def decode_event(data: JsonObject) -> AgentEvent:
    """Decode an event.

    Args:
        data: What `encode_event` returned.

    Returns:
        The event.

    Raises:
        pydantic.ValidationError: If `data` is not an encoded event.
    """
    return cast("AgentEvent", _adapter().validate_python(_plausible(data) if isinstance(data, dict) else data))


def _plausible(data: JsonObject) -> JsonObject:
    """The event without numbers that cannot be right: somebody else may have written the session."""
    changes: JsonObject = {}
    for name in ("delta", "total", "usage"):
        if name in data and (counts := usage_counts(data[name], maximum=MAX_TOKENS_TOGETHER) or {}) != data[name]:
            changes[name] = counts
    for name in ("cost", "total_cost"):
        if name in data and (amount := dollars(data[name])) != data[name]:
            changes[name] = amount
    for name in _COUNTS & data.keys():
        if token_count(data[name]) is None:
            changes[name] = 0
    if isinstance(message := data.get("message"), dict) and (checked := with_plausible_numbers(message)) is not message:
        changes["message"] = checked
    return {**data, **changes} if changes else data

"""One agent event as the browser gets it: what is shown of it, long texts cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planck_nb.agent import events as ev
from planck_nb.base.json_types import JsonObject
from planck_nb.jupyter.formatting import bounded, key_argument, shown_arguments
from planck_nb.jupyter.live.approval_requests import encode_request
from planck_nb.jupyter.terminal import plain

_SENTENCE = 500
_REASON = 2_000


def encode_event(event: ev.AgentEvent, origin: float) -> JsonObject | None:
    """What is shown of the event, as JSON data with a `type`; None for nothing.

    `origin` is when the run began, in seconds since the epoch: other times count from it.
    """
    if isinstance(event, ev.ApprovalRequest):
        deadline = round(event.deadline - origin, 3)
        return {"type": "ask", "key": key_argument(event.args), "deadline": deadline, **encode_request(event)}
    encode = _ENCODERS.get(event.type)
    return None if encode is None else encode(event)


def _turn_start(event: ev.TurnStart) -> JsonObject:
    return {"type": "turn", "model": event.model}


def _queued(event: ev.Queued) -> JsonObject:
    text = bounded(event.text)
    return {"type": "queued", "id": event.prompt_id, "text": text, "steer": event.steer, "whole": text == event.text}


def _unqueued(event: ev.Unqueued | ev.Steered) -> JsonObject:
    return {"type": "unqueued", "id": event.prompt_id}


def _message(event: ev.Message) -> JsonObject | None:
    """An assistant's message closes what it streamed; of results only failures carry news (a call never run)."""
    message = event.message
    if message.type == "assistant":
        return {"type": "message", "stop": message.stop_reason}
    if message.type == "tool_result":
        failed = [[part.id, bounded(plain(part.text))] for part in message.content if part.is_error]
        return {"type": "failures", "calls": failed} if failed else None
    return None


def _tool_start(event: ev.ToolStart) -> JsonObject:
    key, args = key_argument(event.args), shown_arguments(event.args)
    return {"type": "tool", "id": event.id, "name": event.name, "key": key, "args": args}


def _tool_end(event: ev.ToolEnd) -> JsonObject:
    text = bounded(plain(event.result))
    return {"type": "result", "id": event.id, "name": event.name, "text": text, "error": event.error}


def _decision(event: ev.ApprovalDecision) -> JsonObject:
    decided: JsonObject = {"type": "decided", "id": event.id, "allowed": event.allowed, "by": event.by}
    if event.args is None:
        return decided
    return decided | {"key": key_argument(event.args), "args": shown_arguments(event.args)}


def _compacting(_event: ev.Compacting) -> JsonObject:
    return {"type": "compacting"}


def _compacted(event: ev.Compacted) -> JsonObject:
    after = None if event.summary_id is None else event.tokens_after
    return {"type": "compacted", "before": event.tokens_before, "after": after, "reason": _sentence(event.reason)}


def _rewound(_event: ev.Rewound) -> JsonObject:
    return {"type": "rewound"}


def _limit(event: ev.LimitReached) -> JsonObject:
    return {"type": "limit", "limit": event.limit, "reason": _sentence(event.reason)}


def _fallback(event: ev.Fallback) -> JsonObject:
    return {"type": "fallback", "failed": event.failed, "model": event.model, "reason": _sentence(event.reason)}


def _usage(event: ev.UsageDelta) -> JsonObject:
    usage = event.delta
    return {"type": "usage", "input": usage.input_tokens, "output": usage.output_tokens, "cost": event.cost}


def _retry(event: ev.Retry) -> JsonObject:
    return {"type": "retry", "attempt": event.attempt, "delay": event.delay, "reason": _sentence(event.reason)}


def _warned(event: ev.Warned) -> JsonObject:
    return {"type": "warning", "text": _sentence(event.text)}


def _turn_end(_event: ev.TurnEnd) -> JsonObject:
    return {"type": "end"}


def _aborted(_event: ev.Aborted) -> JsonObject:
    return {"type": "aborted"}


def _error(event: ev.Error) -> JsonObject:
    return {"type": "error", "reason": bounded(event.reason, _REASON)}


def _sentence(text: str) -> str:
    return bounded(text, _SENTENCE)


_ENCODERS: dict[str, Callable[[Any], JsonObject | None]] = {
    "turn_start": _turn_start,
    "queued": _queued,
    "unqueued": _unqueued,
    "steered": _unqueued,
    "message": _message,
    "tool_start": _tool_start,
    "tool_end": _tool_end,
    "approval_decision": _decision,
    "compacting": _compacting,
    "compacted": _compacted,
    "rewound": _rewound,
    "limit_reached": _limit,
    "fallback": _fallback,
    "usage_delta": _usage,
    "retry": _retry,
    "warning": _warned,
    "turn_end": _turn_end,
    "aborted": _aborted,
    "error": _error,
}

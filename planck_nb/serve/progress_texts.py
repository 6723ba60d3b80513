"""Sentences about a run's events, for progress in other programs."""

from __future__ import annotations

from planck_nb.agent.events import AgentEvent
from planck_nb.base.text import one_line
from planck_nb.serve.bounds import bounded_text

_MAX_LENGTH = 200


def progress_text(event: AgentEvent, name: str) -> str:  # noqa: C901, PLR0911, PLR0912 - one line for each event
    """Describe an event in a sentence; empty for a trivial event."""
    match event.type:
        case "queued":
            return f"{name} has a prompt waiting"
        case "turn_start":
            return f"{name} started its turn"
        case "tool_start":
            return f"{name} calls {_short(event.name)}"
        case "tool_end":
            return f"{_short(event.name)} {'failed' if event.error else 'ended'}"
        case "approval_request":
            return f"{_short(event.name)} of {name} waits for approval in the notebook"
        case "approval_decision":
            return f"{_short(event.name)} of {name} was {'allowed' if event.allowed else 'denied'}"
        case "message":
            text = event.message.text if event.message.type == "assistant" else ""
            return f"{name}: {_short(text)}" if text else ""
        case "delegated":
            return f"{name} gave a task to {_short(event.target_name)}"
        case "worker_spawned":
            return f"{name} started the worker {_short(event.name)}"
        case "compacting":
            return f"{name} shortens its conversation"
        case "retry":
            return f"{name} tries its request again"
        case "turn_end":
            return f"{name} ended its turn"
        case "aborted":
            return f"{name} was stopped"
        case "error":
            return f"{name} failed: {_short(event.reason)}"
        case _:
            return ""


def _short(text: str) -> str:
    return one_line(bounded_text(text), _MAX_LENGTH)

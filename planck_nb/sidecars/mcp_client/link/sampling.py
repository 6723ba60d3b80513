"""A sidecar's requests for a reply from the user's model.

MCP calls this sampling; it is off unless the spec allows it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from planck_nb.ai.messages import AssistantMessage, ImagePart, Message, TextPart, UserMessage


@dataclass(frozen=True, slots=True)
class SamplingRequest:
    """A request for a reply.

    Args:
        sidecar: The asking sidecar's name.
        messages: The conversation to continue.
        system_prompt: The requested system prompt; may be empty.
        max_tokens: Longest reply in tokens.
        temperature: The requested temperature, None for any.
        stop_sequences: Texts at which the reply is to end.
        model_hints: Preferred models' names, the best first; they may be ignored.
        agent_id: The agent whose call made the sidecar ask; empty if unknown.
        call_id: The call, likewise.
    """

    sidecar: str
    messages: tuple[Message, ...]
    system_prompt: str = ""
    max_tokens: int = 1_000
    temperature: float | None = None
    stop_sequences: tuple[str, ...] = ()
    model_hints: tuple[str, ...] = ()
    agent_id: str = ""
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class SamplingReply:
    """A reply.

    Args:
        text: Its text.
        model: Its model, as "provider:model".
        stop_reason: The reason for its end.
    """

    text: str
    model: str
    stop_reason: Literal["endTurn", "stopSequence", "maxTokens"] = "endTurn"


Sample: TypeAlias = Callable[[SamplingRequest], Awaitable[SamplingReply | None]]
"""A model's reply after the user's approval; None without approval."""


def sampling_request(sidecar: str, params: Any, *, agent_id: str, call_id: str) -> SamplingRequest:  # noqa: ANN401 - mcp's
    """Convert a request's parameters from the MCP library."""
    hints = params.model_preferences.hints if params.model_preferences else None
    return SamplingRequest(
        sidecar=sidecar,
        messages=tuple(map(_message, params.messages)),
        system_prompt=params.system_prompt or "",
        max_tokens=params.max_tokens,
        temperature=params.temperature,
        stop_sequences=tuple(params.stop_sequences or ()),
        model_hints=tuple(hint.name for hint in hints or () if hint.name),
        agent_id=agent_id,
        call_id=call_id,
    )


def _message(message: Any) -> Message:  # noqa: ANN401 - an mcp_types.SamplingMessage
    content = message.content if isinstance(message.content, list) else [message.content]
    text = "\n".join(item.text for item in content if item.type == "text")
    if message.role == "assistant":
        return AssistantMessage((TextPart(text),))
    images = [ImagePart(item.data, item.mime_type) for item in content if item.type == "image"]
    return UserMessage((TextPart(text), *images) if images else text)

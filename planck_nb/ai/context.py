"""What a model is asked: the conversation, the tools it may call, and how it should answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from planck_nb.ai.messages import Message
from planck_nb.base.json import JsonObject


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model sees of a tool. `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: JsonObject


@dataclass(frozen=True, slots=True)
class Context:
    """One request: system prompt, messages in order, tools. Sampling options are never part of it."""

    system: str = ""
    messages: Sequence[Message] = ()
    tools: Sequence[ToolSpec] = ()


@dataclass(frozen=True, slots=True)
class Options:
    """How the model should answer. None means the provider's default.

    `max_tokens` bounds the reply in tokens; `thinking` is off, minimal, low, medium or high; `extra` is merged into
    the request body as it is.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: Sequence[str] = ()
    thinking: str | None = None
    extra: Mapping[str, object] = field(default_factory=dict[str, object])

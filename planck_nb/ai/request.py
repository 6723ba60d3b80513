"""What a model is asked: the conversation, the tools it may call, and how it should answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from planck_nb.ai.messages import Message
from planck_nb.base.json_types import JsonObject


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

    `max_tokens` bounds the reply in tokens; `thinking` is off, minimal, low, medium, high, xhigh or max, mapped to
    what the model knows; `tool_choice` is auto, none, required or a tool's name; `output` is the JSON Schema that the
    answer's text must fit; `extra` is merged into the request body as it is. What a model does not accept is left out
    of the request, and a `StreamWarning` event says so.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: Sequence[str] = ()
    thinking: str | None = None
    tool_choice: str | None = None
    output: JsonObject | None = None
    extra: Mapping[str, object] = field(default_factory=dict[str, object])

    def named(self) -> JsonObject:
        """What they name, by field; `from_named` gives it back."""
        found = {item.name: getattr(self, item.name) for item in fields(self)} | {"extra": dict(self.extra)}
        return {name: value for name, value in found.items() if value not in _UNSAID}

    @classmethod
    def from_named(cls, named: JsonObject) -> Options:
        """Options that name this; a field that there is none of is left out."""
        return cls(**{item.name: named[item.name] for item in fields(cls) if item.name in named})

    def over(self, defaults: Options) -> Options:
        """These options, with `defaults` where they name nothing; `extra` has what either names."""
        if defaults == _NOTHING:
            return self
        return Options(**{**defaults.named(), **self.named(), "extra": {**defaults.extra, **self.extra}})


_UNSAID: tuple[object, ...] = (None, (), [], {})
_NOTHING = Options()

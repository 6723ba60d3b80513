"""A request to a model: the conversation, the tools it may call, and how it should answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from planck_nb.ai.messages import Message
from planck_nb.ai.server_tools import ServerTool
from planck_nb.base.json_types import JsonObject


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it.

    Args:
        name: Its name.
        description: What it does and when to use it.
        parameters: A JSON Schema of type "object".
    """

    name: str
    description: str
    parameters: JsonObject


class HistoryCache:
    """Keeps what was encoded for one conversation from one request to the next.

    `encoded_history` fills the first part, `fit_context` the other.
    """

    __slots__ = ("encoder", "fitted")

    def __init__(self) -> None:
        self.encoder: object = None
        self.fitted: object = None


@dataclass(frozen=True, slots=True)
class Context:
    """What a model is given: the conversation and the tools. Options are separate.

    Args:
        system: The system prompt, empty for none.
        messages: The messages in order.
        tools: The tools that the model may call.
        cache: Keeps what was encoded of this conversation for its next request. None encodes everything each time.
        server_tools: The tools that the model's server may run.
    """

    system: str = ""
    messages: Sequence[Message] = ()
    tools: Sequence[ToolSpec] = ()
    cache: HistoryCache | None = field(default=None, compare=False, repr=False)
    server_tools: Sequence[ServerTool] = ()


@dataclass(frozen=True, slots=True)
class Options:
    """How a model should answer. None means the provider's default.

    What a model does not accept is left out of the request, with a `StreamWarning` event.

    Args:
        max_tokens: The most tokens that the reply may have.
        temperature: The sampling temperature.
        top_p: The probability mass to sample from, between 0 and 1.
        stop: Texts that end the reply.
        thinking: "off", "minimal", "low", "medium", "high", "xhigh" or "max"; the nearest level that the model has.
        tool_choice: "auto", "none", "required" or the name of a tool.
        output: A JSON Schema that the text of the reply must match.
        extra: Fields that are merged into the request body unchanged; "tools" are added to the agent's.
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
        """Collect the options that are set.

        Returns:
            The values by field name; `from_named` is the inverse.
        """
        if self == _NOTHING:  # as for most agents
            return {}
        found = {item.name: getattr(self, item.name) for item in fields(self)} | {"extra": dict(self.extra)}
        return {name: value for name, value in found.items() if value not in _UNSET}

    @classmethod
    def from_named(cls, named: JsonObject) -> Options:
        """Make options from values by field name.

        Args:
            named: The values. Names that are not options are ignored.

        Returns:
            The options.
        """
        return cls(**{item.name: named[item.name] for item in fields(cls) if item.name in named})

    def over(self, defaults: Options) -> Options:
        """Combine these options with defaults.

        Args:
            defaults: The values of options that are not set here.

        Returns:
            The combined options; `extra` has the fields of both, those set here first.

        Example:
            >>> from planck_nb import ai
            >>> ai.Options(temperature=0.0).over(ai.Options(temperature=1.0, max_tokens=9)).named()
            {'max_tokens': 9, 'temperature': 0.0}
        """
        if defaults == _NOTHING:
            return self
        return Options(**{**defaults.named(), **self.named(), "extra": {**defaults.extra, **self.extra}})


_UNSET: tuple[object, ...] = (None, (), [], {})
_NOTHING = Options()

"""Encodes the conversation of a request, and caches the result for the next request of the same conversation."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, TypeAlias, TypeVar

from planck_nb.ai.message_history.portable_history import Prefix, Preparation, PreparedMessage
from planck_nb.ai.messages import Message, Part
from planck_nb.ai.models import Model
from planck_nb.ai.providers import rules_of
from planck_nb.ai.request import Context, HistoryCache
from planck_nb.ai.schemas.fitted_tools import FittedTool

KEPT_CHARACTERS = 32_000_000
"""The longest conversation that is cached: a longer one would take too much memory twice."""

T = TypeVar("T")

Encode: TypeAlias = Callable[[Model, PreparedMessage, PreparedMessage | None, list[str]], T]
"""Converts a message to a wire format. Called with the model, the message, the one before it, and a list for warnings.

The result must depend on nothing else, and must not be changed later.
"""


@dataclass(frozen=True, slots=True)
class EncodedHistory(Generic[T]):
    """The messages of a request in a wire format.

    Args:
        wire: Each message in the wire format.
        warnings: What could not be sent.
        digest: The digest of all that is sent, None if none was asked for.
        has_neighbours: Whether two messages in a row were `neighbours`.
    """

    wire: list[T]
    warnings: list[str]
    digest: str | None
    has_neighbours: bool


def encode_history(
    context: Context,
    model: Model,
    encode: Encode[T],
    prefix: Prefix | None = None,
    fitted_tools: Mapping[str, FittedTool] = MappingProxyType({}),
    *,
    neighbours: Callable[[T, T], bool] | None = None,
) -> EncodedHistory[T]:
    """Prepare the messages of a request for the model, and encode them.

    A conversation grows at its end. What comes before its latest reply does not change any more, unless messages are
    removed, summarized or sent to another model; so it is kept in the context's cache and not encoded again.

    Args:
        context: The conversation.
        model: The model that is asked.
        encode: Converts a message to the wire format.
        prefix: Stands for what is sent before the messages, if a digest of everything is needed.
        fitted_tools: The tools whose arguments are sent under other names, by name.
        neighbours: Tells whether two encoded messages must not follow one another.

    Returns:
        The encoded messages.

    Raises:
        UnsupportedFeatureError: The model or its wire format cannot express a message.
    """
    cache, messages = context.cache or HistoryCache(), context.messages
    kept, cache.encoder = cache.encoder, None  # only one request at a time may add to it
    settled = _before_latest_reply(messages)
    if not isinstance(kept, _Encoder) or not kept.continues_with(
        messages[:settled], model, encode, prefix, fitted_tools
    ):
        kept = _Encoder(model, encode, prefix, fitted_tools, neighbours)
    kept.add(messages, settled)
    newest = kept.copy_without_wire()
    newest.add(messages, len(messages))
    if kept.characters <= KEPT_CHARACTERS:
        cache.encoder = kept
    warnings = [*kept.warnings, *newest.warnings]
    return EncodedHistory([*kept.wire, *newest.wire], warnings, newest.digest, newest.has_neighbours)


def characters(context: Context) -> int:
    """About how many characters the messages of a request have. What its cache holds is not counted again."""
    kept = None if context.cache is None else context.cache.encoder
    if not isinstance(kept, _Encoder) or kept.count > len(context.messages):
        return sum(map(characters_of, context.messages))
    return kept.characters + sum(map(characters_of, context.messages[kept.count :]))


def characters_of(message: Message) -> int:
    """About how many characters a message has."""
    return sum(map(_characters_of_part, message.content))


def _characters_of_part(part: Part) -> int:
    match part.type:
        case "text" | "thinking":
            return len(part.text)
        case "image" | "file" | "video":
            return len(part.data or "")
        case "tool_call":
            return sum(len(value) for value in part.args.values() if isinstance(value, str))
        case "tool_result":
            return len(part.text) + sum(len(image.data or "") for image in part.images)


class _Encoder(Generic[T]):
    """Encodes messages in their order, and remembers which ones it has encoded."""

    def __init__(
        self,
        model: Model,
        encode: Encode[T],
        prefix: Prefix | None,
        fitted_tools: Mapping[str, FittedTool],
        neighbours: Callable[[T, T], bool] | None,
    ) -> None:
        self.wire: list[T] = []
        self.warnings: list[str] = []
        self._model = model
        self._rules = rules_of(model)
        self._encode = encode
        self._before = None if prefix is None else prefix.digest
        self._fitted_tools = fitted_tools
        self._preparation = Preparation(model, None if prefix is None else prefix.copy(), fitted_tools)
        self._messages: list[Message] = []
        self.count = 0
        """How many messages were encoded."""
        self.characters = 0
        """About how many characters they had."""
        self._latest: PreparedMessage | None = None
        self._neighbours = neighbours
        self._latest_wire: T | None = None
        self.has_neighbours = False

    @property
    def digest(self) -> str | None:
        return None if self._preparation.prefix is None else self._preparation.prefix.digest

    def continues_with(
        self,
        messages: Sequence[Message],
        model: Model,
        encode: Encode[Any],
        prefix: Prefix | None,
        fitted_tools: Mapping[str, FittedTool],
    ) -> bool:
        """Whether these messages begin with those that were encoded, for the same model and format."""
        return (
            encode is self._encode
            and (model is self._model or model == self._model)
            and rules_of(model) is self._rules  # a provider may have been registered anew
            and fitted_tools == self._fitted_tools
            and self._before == (None if prefix is None else prefix.digest)
            and self.count <= len(messages)
            and all(map(operator.is_, self._messages, messages))
        )

    def add(self, messages: Sequence[Message], end: int) -> None:
        """Encode the messages before `end` that have not been encoded yet."""
        for message in self._preparation.add(messages, self.count, end):
            wire = self._encode(self._model, message, self._latest, self.warnings)
            self.wire.append(wire)
            self._latest = message
            if self._neighbours is not None and wire:
                if self._latest_wire is not None and self._neighbours(self._latest_wire, wire):
                    self.has_neighbours = True
                self._latest_wire = wire
        added = messages[self.count : end]
        self._messages.extend(added)
        self.characters += sum(map(characters_of, added))
        self.count = end

    def copy_without_wire(self) -> _Encoder[T]:
        """An encoder that continues from here without changing this one, and holds only what it encodes itself."""
        copy = _Encoder(self._model, self._encode, None, self._fitted_tools, self._neighbours)
        copy._preparation, copy._latest, copy.count = self._preparation.copy(), self._latest, self.count
        copy._latest_wire, copy.has_neighbours = self._latest_wire, self.has_neighbours
        return copy


def _before_latest_reply(messages: Sequence[Message]) -> int:
    """How many messages are before the latest reply, whose calls may still get results; 0 without a reply."""
    for position in range(len(messages) - 1, -1, -1):
        if messages[position].type == "assistant":
            return position
    return 0

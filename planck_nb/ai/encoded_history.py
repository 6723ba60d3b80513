"""Encodes the conversation of a request, and keeps what it encoded for the next request of the same conversation."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from planck_nb.ai.messages import Message
from planck_nb.ai.models import Model
from planck_nb.ai.portable_history import Prefix, Preparation, PreparedMessage
from planck_nb.ai.request import Context, HistoryCache

T = TypeVar("T")

Encode: TypeAlias = Callable[[Model, PreparedMessage, PreparedMessage | None, list[str]], T]
"""Converts a message to a wire format. Called with the model, the message, the one before it, and a list for warnings.

The result must depend on nothing else, and must not be changed later.
"""


@dataclass(frozen=True, slots=True)
class EncodedHistory(Generic[T]):
    """The messages of a request in a wire format.

    Args:
        wire: What was made of each message.
        warnings: What could not be sent.
        digest: The digest of all that is sent, None if none was asked for.
    """

    wire: list[T]
    warnings: list[str]
    digest: str | None


def encode_history(
    context: Context, model: Model, encode: Encode[T], prefix: Prefix | None = None
) -> EncodedHistory[T]:
    """Prepare the messages of a request for the model, and encode them.

    A conversation grows at its end. What comes before its latest reply cannot change any more, unless messages are
    taken back, summarized or sent to another model; so it is kept in the context's cache and not encoded again.

    Args:
        context: The conversation.
        model: The model that is asked.
        encode: Converts a message to the wire format.
        prefix: Stands for what is sent before the messages, if a digest of everything is needed.

    Returns:
        The encoded messages.

    Raises:
        UnsupportedFeatureError: The model or its wire format cannot express a message.
    """
    cache, messages = context.cache or HistoryCache(), context.messages
    kept, cache.encoder = cache.encoder, None  # only one request at a time may add to it
    settled = _before_latest_reply(messages)
    if not isinstance(kept, _Encoder) or not kept.continues_with(messages[:settled], model, encode, prefix):
        kept = _Encoder(model, encode, prefix)
    kept.add(messages, settled)
    newest = kept.copy_without_wire()
    newest.add(messages, len(messages))
    cache.encoder = kept
    return EncodedHistory([*kept.wire, *newest.wire], [*kept.warnings, *newest.warnings], newest.digest)


class _Encoder(Generic[T]):
    """Encodes messages in their order, and remembers which ones it has encoded."""

    def __init__(self, model: Model, encode: Encode[T], prefix: Prefix | None) -> None:
        self.wire: list[T] = []
        self.warnings: list[str] = []
        self._model = model
        self._encode = encode
        self._before = None if prefix is None else prefix.digest
        self._preparation = Preparation(model, None if prefix is None else prefix.copy())
        self._messages: list[Message] = []
        self._count = 0
        self._latest: PreparedMessage | None = None

    @property
    def digest(self) -> str | None:
        return None if self._preparation.prefix is None else self._preparation.prefix.digest

    def continues_with(
        self, messages: Sequence[Message], model: Model, encode: Encode[Any], prefix: Prefix | None
    ) -> bool:
        """Whether these messages begin with those that were encoded, for the same model and format."""
        return (
            encode is self._encode
            and model == self._model
            and self._before == (None if prefix is None else prefix.digest)
            and self._count <= len(messages)
            and all(map(operator.is_, self._messages, messages))
        )

    def add(self, messages: Sequence[Message], end: int) -> None:
        """Encode the messages before `end` that have not been encoded yet."""
        for message in self._preparation.add(messages, self._count, end):
            self.wire.append(self._encode(self._model, message, self._latest, self.warnings))
            self._latest = message
        self._messages.extend(messages[self._count : end])
        self._count = end

    def copy_without_wire(self) -> _Encoder[T]:
        """An encoder that continues from here without changing this one, and holds only what it encodes itself."""
        copy = _Encoder(self._model, self._encode, None)
        copy._preparation, copy._latest, copy._count = self._preparation.copy(), self._latest, self._count
        return copy


def _before_latest_reply(messages: Sequence[Message]) -> int:
    """How many messages are before the latest reply, whose calls may still get results; 0 without a reply."""
    for position in range(len(messages) - 1, -1, -1):
        if messages[position].type == "assistant":
            return position
    return 0

"""What a provider is: a mapping between provider-neutral values and one wire format. It does no I/O of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from planck_nb.ai.models import Model
from planck_nb.ai.request import Context, Options
from planck_nb.ai.stream_events import StreamEvent
from planck_nb.base.errors import ProviderError
from planck_nb.base.json_types import JsonObject


@dataclass(frozen=True, slots=True)
class WireRequest:
    """One HTTP POST that is answered by a stream.

    `warnings` are sentences about what was asked and is not sent. `prefix` is the digest of all that is sent, where the
    vendor binds what it signs to that.
    """

    url: str
    body: JsonObject
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    warnings: tuple[str, ...] = ()
    prefix: str | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """The server interrupts a long answer: it goes on once all that came so far is sent back unchanged."""

    type: Literal["pause"] = "pause"


class Decoder(Protocol):
    """Turns the frames of one stream into events. It holds that stream's state and is used once."""

    def feed(self, data: bytes) -> Iterable[StreamEvent | Pause]:
        """The events that one frame's data stands for; a `Pause` may stand in the place of `Finish`.

        Raises a `ProviderError` for an error that the server reports inside the stream, `ProviderProtocolError` for a
        frame that is not valid.
        """
        ...

    def end(self) -> Iterable[StreamEvent]:
        """The bytes ended: the last events. Raises `StreamTruncated` when the format's terminal event never came."""
        ...


class Dialect(Protocol):
    """One wire format: a request from a context, events from frames."""

    framing: Literal["sse", "ndjson"]

    def request(self, model: Model, context: Context, options: Options, key: str | None) -> WireRequest:
        """The request. Raises `UnsupportedFeatureError` where the format cannot express a part of it."""
        ...

    def decoder(self, model: Model) -> Decoder:
        """A decoder for the answer to one request."""
        ...

    def error(self, model: Model, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """What an answer with an HTTP status of 400 or more means."""
        ...


class LocalModel(Protocol):
    """A provider that answers without a server, such as the scripted demo."""

    def stream(self, model: Model, context: Context, options: Options) -> AsyncIterator[list[StreamEvent]]:
        """The events of one answer, in batches."""
        ...

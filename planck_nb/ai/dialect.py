"""Interface for a wire format: a mapping between messages and bytes, without I/O."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from planck_nb.ai.models import Model
from planck_nb.ai.request import Context, Options
from planck_nb.ai.schemas.fitted_output import FittedOutput
from planck_nb.ai.schemas.fitted_tools import FittedTool
from planck_nb.ai.stream_events import StreamEvent
from planck_nb.base.errors import ProviderError
from planck_nb.base.json_types import JsonObject


@dataclass(frozen=True, slots=True)
class WireRequest:
    """One HTTP POST, answered by a stream.

    Args:
        url: The whole URL.
        body: The JSON body.
        headers: The format's headers, such as the one with the key, by their lower-case names.
        warnings: Sentences about options left out.
        prefix: A digest of all that is sent, if the vendor binds its signatures to that.
        tools: The tools whose arguments are sent under other names or in another form, by name.
        output: The schema for a structured answer, if sent in another form.
    """

    url: str
    body: JsonObject
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    warnings: tuple[str, ...] = ()
    prefix: str | None = None
    tools: Mapping[str, FittedTool] = field(default_factory=dict[str, FittedTool])
    output: FittedOutput | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """The server interrupts a long answer, and continues it when everything received is sent back unchanged."""

    type: Literal["pause"] = "pause"


class Decoder(Protocol):
    """Turns the frames of one stream into events. It holds that stream's state and is used once."""

    def feed(self, data: bytes) -> Iterable[StreamEvent | Pause]:
        """Decode the data of one frame.

        Args:
            data: The `data` of a server-sent event, or one line.

        Returns:
            The events; a `Pause` may replace `Finish`.

        Raises:
            ProviderError: The server reports an error inside the stream.
            ProviderProtocolError: The frame is not valid.
        """
        ...

    def end(self) -> Iterable[StreamEvent]:
        """Finish decoding after the last byte.

        Returns:
            The last events.

        Raises:
            StreamTruncated: The format's terminal event is missing.
        """
        ...


class Dialect(Protocol):
    """One wire format: makes a request from a context, and events from frames.

    `framing` says how its stream is split into frames. It does no I/O and holds no state, so one instance serves all
    requests.
    """

    framing: Literal["sse", "ndjson"]

    def request(self, model: Model, context: Context, options: Options, key: str | None) -> WireRequest:
        """Make the request for one reply.

        Args:
            model: The model to ask; `planck_nb.ai.dialects.base_url_of` gives its address.
            context: The conversation and the tools; `planck_nb.ai.dialects.prepare` makes its messages valid for the
                model.
            options: How to answer; what the format cannot express goes into the request's `warnings`.
            key: The API key, None if there is none.

        Returns:
            The request.

        Raises:
            UnsupportedFeatureError: The format cannot express a part of the context.
        """
        ...

    def decoder(self, model: Model) -> Decoder:
        """Make a decoder for the answer to one request.

        Args:
            model: The model that answers.

        Returns:
            A new decoder.
        """
        ...

    def error(self, model: Model, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """Make the error for an answer with an HTTP status of 400 or more.

        Args:
            model: The model that was asked.
            status: The HTTP status.
            headers: The answer's headers.
            body: Its body; `planck_nb.ai.dialects.body_error` understands the usual shapes.

        Returns:
            The error to raise.
        """
        ...


class LocalModel(Protocol):
    """A model that answers without a server, such as the scripted demo."""

    def stream(self, model: Model, context: Context, options: Options) -> AsyncIterator[list[StreamEvent]]:
        """Answer one request.

        Args:
            model: The model that was asked for.
            context: The conversation and the tools.
            options: How to answer.

        Returns:
            The events in batches, the last of which ends with `Finish`.
        """
        ...

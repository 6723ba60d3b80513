"""Decoder for an HTTP response: events in a stream, or an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic_core import from_json

from planck_nb.ai.dialect import Decoder, Dialect, Pause
from planck_nb.ai.framing import splitter
from planck_nb.ai.models import Model
from planck_nb.ai.providers import base_url_of
from planck_nb.ai.status_errors import quoted, reported_error
from planck_nb.ai.stream_events import StreamEvent
from planck_nb.base.errors import ProviderError, ProviderProtocolError
from planck_nb.base.secrets import redact

if TYPE_CHECKING:
    from planck_nb.ai.engine import Reply
    from planck_nb.ai.transport import HttpResponse

_MAX_REASON_LENGTH = 200

_OK = 200

_MAX_DOCUMENT = 65_536
"""Bytes that an error may have."""

_END_TIMEOUT = 0.2
"""Seconds to wait for the end of an answer whose message is complete, so that its connection can be reused."""

_ENDS = frozenset({"finish", "pause"})


def is_stream(reply: Reply) -> bool:
    """Tell streams from other answers, by their heads."""
    kind = reply.headers.get("content-type", "")
    return reply.status == _OK and (("json" not in kind and "html" not in kind) or "ndjson" in kind)


async def raise_for_error(reply: Reply, wire: Dialect, model: Model, secrets: set[str]) -> None:
    """Raise the error for an answer that is not a stream."""
    if is_stream(reply):
        return
    kind = reply.headers.get("content-type", "")
    body = await reply.body()
    # Before the sentence is written: it may quote only the beginning of a secret, which would not be recognised.
    body = redacted(body.decode("utf-8", "surrogateescape"), secrets).encode("utf-8", "surrogateescape")
    if reply.status != _OK:
        raise wire.error(model, reply.status, reply.headers, body)
    if (error := reported_error(model, _parsed(body))) is not None:
        error.request_id = _request_id(reply)
        raise error
    what = "an HTML page" if "html" in kind else "one JSON document"
    raise ProviderProtocolError(
        f"{base_url_of(model)} answered with {what} instead of a stream ({body[:200].decode('utf-8', 'replace')!r}); "
        "check base_url.",
        provider=model.provider,
        model=model.id,
        request_id=_request_id(reply),
    )


def _parsed(body: bytes) -> object:
    try:
        return from_json(body)
    except ValueError:
        return None


class ReplyDecoder:
    """Reads the events of one stream. Events that were decoded before an error are returned before it is raised.

    It is not an asynchronous generator, because the event loop would have to register and close one for each reply.
    """

    def __init__(self, reply: HttpResponse, wire: Dialect, model: Model) -> None:
        self.status = reply.status
        self.headers = reply.headers
        self.worker = ""
        self.body = reply.body
        self.aclose = reply.aclose
        self._reply = reply
        self._model = model
        self._frames = splitter(wire.framing)
        self._decoder = wire.decoder(model)
        self._ended = False
        self._document: bytes | None = None
        """Beginning of a JSON document which has the type for a stream."""
        self._is_first = wire.framing == "sse"
        self._complete = False
        """Whether the last event of the message was returned."""
        self._failure: ProviderError | None = None

    async def next_batch(self) -> list[StreamEvent | Pause] | None:
        """The events in the next piece of data that has any, None after the last."""
        while self._failure is None and not self._ended and not self._complete:
            batch: list[StreamEvent | Pause] = []
            try:
                if (chunk := await self._reply.chunk()) is None:
                    self._end(batch)
                else:
                    if self._is_first or self._document is not None:
                        self._look_at(chunk)
                    for data in self._frames.feed(chunk):
                        batch.extend(self._decoder.feed(data))
            except ProviderError as error:
                self._failure = error
                error.provider, error.model = self._model.provider, self._model.id
                error.request_id = error.request_id or _request_id(self._reply)
            except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as error:
                self._failure = self._unreadable(error)
            if batch:
                self._complete = batch[-1].type in _ENDS
                return batch
        if self._failure is not None:
            raise self._failure
        if self._complete:
            await self._reply.read_to_end(_END_TIMEOUT)
        return None

    def _end(self, batch: list[StreamEvent | Pause]) -> None:
        """Add the events at the end of all data to the batch, as far as they can be read."""
        self._ended = True
        if self._document is not None and (error := reported_error(self._model, _parsed(self._document))) is not None:
            raise error
        _feed_last(self._decoder, self._frames.end(), batch)
        batch.extend(self._decoder.end())

    def _look_at(self, chunk: bytes) -> None:
        """Keep the beginning of a JSON document."""
        if self._document is not None:
            self._document += chunk[: max(0, _MAX_DOCUMENT - len(self._document))]
        elif chunk.lstrip().startswith((b"{", b"[")):
            self._document = chunk[:_MAX_DOCUMENT]
        self._is_first = False

    def _unreadable(self, error: Exception) -> ProviderProtocolError:
        return ProviderProtocolError(
            f"{self._model.provider} sent an event that its wire format {self._model.api!r} does not allow "
            f"({quoted(repr(error)[:_MAX_REASON_LENGTH])}); "
            "check that base_url names the right API.",
            provider=self._model.provider,
            model=self._model.id,
            request_id=_request_id(self._reply),
        )


def _feed_last(decoder: Decoder, frames: list[bytes], batch: list[StreamEvent | Pause]) -> None:
    """Decode a frame that the end of the data cut off, which may be complete or useless."""
    for data in frames:
        try:
            batch.extend(decoder.feed(data))
        except ProviderProtocolError:
            return


def _request_id(reply: Reply | HttpResponse) -> str | None:
    return reply.headers.get("request-id") or reply.headers.get("x-request-id")


def redacted(text: str, secrets: set[str]) -> str:
    """The text with "[key]" in place of each of the secrets, and without the secrets of the process."""
    return redact(redact(text, dict.fromkeys(secrets, "key")))

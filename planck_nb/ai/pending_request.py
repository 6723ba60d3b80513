"""The request for one message: built, encoded, and changed if the server refuses it or pauses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from planck_nb.ai.auth import Authenticator
from planck_nb.ai.cassettes.cassette import CassetteRequest
from planck_nb.ai.dialect import WireRequest
from planck_nb.ai.dialects.json_wire import write_json, write_long_json
from planck_nb.ai.message_builder import MessageBuilder
from planck_nb.ai.message_history.encoded_history import characters
from planck_nb.ai.message_history.portable_history import without_signatures
from planck_nb.ai.messages import Message
from planck_nb.ai.models import Model
from planck_nb.ai.providers import auth_of, dialect, request_address
from planck_nb.ai.request import Context, Options
from planck_nb.ai.retries.known_servers import KnownServers
from planck_nb.ai.retries.request_attempts import RequestAttempts
from planck_nb.ai.server_address import is_readable_in_transit
from planck_nb.ai.status_errors import is_about_images, is_about_thinking
from planck_nb.ai.stream_events import StreamEvent, StreamRetry, StreamWarning
from planck_nb.base.errors import AuthenticationError, ProviderError, ProviderProtocolError
from planck_nb.base.threads import run_in_thread

_ENCODE_IN_THREAD_FROM = 4_000_000
"""Characters from which a conversation is encoded in a thread: it would block the event loop for more than 10 ms."""

_UNAUTHORIZED = 401

_MAX_PAUSES = 20
"""Pauses that a server may make in one answer; each costs a further request."""

_STREAM_HEADERS = {"accept": "text/event-stream, application/x-ndjson", "content-type": "application/json"}


class PendingRequest:
    """The request for one message, and the further ones if the first does not complete it.

    `refused` are the digests of thinking that a server has refused; more are added as they are refused.
    """

    def __init__(
        self,
        model: Model,
        context: Context,
        options: Options,
        builder: MessageBuilder,
        *,
        request_info: CassetteRequest,
        refused: set[str],
        servers: KnownServers,
    ) -> None:
        self.model = model
        self.wire = dialect(model)
        self.request_info = request_info
        self.key = request_info.key
        auth = None if self.key else auth_of(model)
        self.auth = None if auth is None else Authenticator(auth, str(model))
        self.address = request_address(model)
        self._context, self._options = context, options
        self._builder = builder
        self._refused = refused
        self._servers = servers
        self._pauses = 0
        self._messages = without_signatures(context.messages, refused)[0] if refused else context.messages
        self._partial: Sequence[Message] = ()
        """The answer so far, if the server has paused in it: every later request continues it."""
        self._is_long = characters(context) > _ENCODE_IN_THREAD_FROM
        self.request: WireRequest
        request_info.auth = self.auth

    async def build(self) -> None:
        """Build the request: in a thread if it is long, because it would block the event loop."""
        self._set_request(await run_in_thread(self._request) if self._is_long else self._request())

    @property
    def secrets(self) -> set[str]:
        """What must not appear in messages."""
        return self.request_info.secrets

    async def encoded(self) -> tuple[str, dict[str, str], bytes]:
        """URL, headers and body as they are sent."""
        request = self.request
        headers = {**_STREAM_HEADERS, **request.headers, **self.address.headers}
        body = (
            await run_in_thread(partial(write_long_json, request.body)) if self._is_long else write_json(request.body)
        )
        return self.address.with_query(request.url), headers, body

    @property
    def exposes_credentials(self) -> bool:
        """Whether credentials are sent in a way that lets others read them in transit."""
        credentials = self.key or self.auth is not None or self.address.headers
        return bool(credentials) and is_readable_in_transit(self.request.url)

    def after(self, error: ProviderError, attempts: RequestAttempts) -> tuple[StreamEvent, float]:
        """The event to report and the seconds to wait before the next attempt. Raises the error if none would help."""
        if self._builder.has_content:
            raise error
        attempt = attempts.number
        if (delay := attempts.next_delay(error)) is not None:
            return StreamRetry(attempt, delay, str(error)), delay
        if self.auth is not None and not self.auth.rejected and _is_unauthorized(error):
            self.auth.rejected = True
            return StreamRetry(attempt, 0.0, str(error)), 0.0
        if is_about_images(error):
            return self._without_images(error), 0.0
        if not is_about_thinking(error):
            raise error
        self._messages, found = without_signatures(self._messages)
        self._partial, found_in_partial = without_signatures(self._partial)
        if not (found or found_in_partial):  # a second time there is nothing left to leave out
            raise error
        self._refused |= found | found_in_partial
        self._set_request(self._request())
        return StreamWarning(
            f"{self.model} did not accept its earlier thinking; the request is sent again without it."
        ), 0.0

    def _without_images(self, error: ProviderError) -> StreamEvent:
        """Leave out the images that tools returned. Raises the error if there are none.

        Raises `UnsupportedFeatureError` if a prompt contains an image.
        """
        if not (self.model.takes("image") and any(map(_has_images, self._messages))):
            raise error
        self._servers.refused_images(self.model)
        self.model = self._servers.accepting(self.model)
        self._set_request(self._request())
        return StreamWarning(f"{self.model} does not accept images; the request is sent again without them.")

    def resume(self) -> None:
        """Request the rest of a message in which the server paused, which it may do `_MAX_PAUSES` times."""
        self._pauses += 1
        if self.auth is not None:
            self.auth.rejected = False
        if self._pauses > _MAX_PAUSES:
            raise ProviderProtocolError(
                f"{self.model} paused {self._pauses} times without completing its answer; try again.",
                provider=self.model.provider,
                model=self.model.id,
            )
        self._partial = (self._builder.build("stop"),)
        self.request = self._request()
        self._builder.resume()

    def _set_request(self, request: WireRequest) -> None:
        self.request, builder = request, self._builder
        builder.prefix, builder.tools, builder.output = request.prefix, request.tools, request.output

    def _request(self) -> WireRequest:
        messages = [*self._messages, *self._partial] if self._partial else self._messages
        context = self._context if messages is self._context.messages else replace(self._context, messages=messages)
        return self.wire.request(self.model, context, self._options, self.key)


def _has_images(message: Message) -> bool:
    if message.type == "tool_result":
        return any(part.images for part in message.content)
    return message.type == "user" and any(part.type == "image" for part in message.content)


def _is_unauthorized(error: ProviderError) -> bool:
    return isinstance(error, AuthenticationError) and error.status == _UNAUTHORIZED

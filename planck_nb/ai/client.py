"""Sends requests to models and streams their answers."""

from __future__ import annotations

import asyncio
import os
import warnings
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pydantic_core import from_json

from planck_nb.ai import discovery
from planck_nb.ai.auth import Authenticator, secrets_in
from planck_nb.ai.cassettes.cassette import Cassette, CassetteRequest
from planck_nb.ai.cassettes.request_key import canonical_request
from planck_nb.ai.context_windows import ContextWindows, is_reported
from planck_nb.ai.dialect import Decoder, Dialect, LocalModel, Pause, WireRequest
from planck_nb.ai.dialects.json_wire import write_json, write_long_json
from planck_nb.ai.encoded_history import characters
from planck_nb.ai.framing import splitter
from planck_nb.ai.known_servers import KnownServers, known_servers
from planck_nb.ai.message_builder import MessageBuilder
from planck_nb.ai.messages import AssistantMessage, Message, Usage
from planck_nb.ai.models import Model
from planck_nb.ai.portable_history import without_signatures
from planck_nb.ai.providers import (
    auth_of,
    base_url_of,
    dialect,
    key_variables_of,
    local_model,
    provider,
    request_address,
)
from planck_nb.ai.request import Context, Options
from planck_nb.ai.request_attempts import RequestAttempts
from planck_nb.ai.retry import RetryPolicy, Timeouts
from planck_nb.ai.server_address import is_loopback, is_readable_on_the_way
from planck_nb.ai.status_errors import is_about_images, is_about_thinking, quoted, truncated
from planck_nb.ai.stream_events import StreamEvent, StreamRetry, StreamWarning
from planck_nb.base.aio import run_in_thread
from planck_nb.base.errors import (
    AuthenticationError,
    ConfigError,
    MissingCredentialError,
    ModelError,
    PlanckError,
    ProviderError,
    ProviderProtocolError,
)
from planck_nb.base.forks import forget_in_forks, never_destroy
from planck_nb.base.json_types import JsonObject
from planck_nb.base.secrets import looks_like_key, redact, remember_secret

if TYPE_CHECKING:
    import httpx

    from planck_nb.ai.transport import HttpResponse, Transport

_MAX_REASON_LENGTH = 200
_ENCODE_IN_THREAD_FROM = 4_000_000
"""Characters of a conversation that is encoded in a thread; the event loop would be blocked for more than 10 ms."""

_OK = 200
_UNAUTHORIZED = 401

_END_TIMEOUT = 0.2
"""Seconds to wait for the end of an answer whose message is complete, so that its connection can be reused."""

_ENDS = frozenset({"finish", "pause"})
_MAX_PAUSES = 20
"""Pauses that a server may make in one answer; each costs a further request."""

_STREAM_HEADERS = {"accept": "text/event-stream, application/x-ndjson", "content-type": "application/json"}


@dataclass(frozen=True, slots=True)
class RequestPreview:
    """A request as `Client.stream` would send it.

    Args:
        method: The HTTP method.
        url: The whole URL; None for a model that needs no server.
        headers: The headers by their lower-case names, with "[key]" in place of each secret. Those that an `auth`
            function would add are missing.
        body: The JSON body; for a model that needs no server, what it is given.
        warnings: Sentences about options that the model does not accept and that are left out.
    """

    method: str
    url: str | None
    headers: Mapping[str, str]
    body: JsonObject = field(repr=False)
    warnings: tuple[str, ...] = ()


_clients: weakref.WeakSet[Client] = weakref.WeakSet()


# To close a connection in a forked process would end that of its parent.
forget_in_forks(_clients, never_destroy)


class Client:
    """Asks models over connections that it keeps and closes.

    It may be used in the event loops of several threads, each of which gets connections of its own.

    Args:
        credentials: API keys by the names of variables such as `ANTHROPIC_API_KEY`; by default the environment, read at
            each request.
        transport: An httpx transport to use instead of the network.
        cassette: Records answers, or gives them in place of the server; the attribute may be changed at any time.
        timeouts: How long to wait for a server.
        retries: When to send a request again; the attribute may be changed at any time.
    """

    def __init__(
        self,
        *,
        credentials: Mapping[str, str] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        cassette: Cassette | None = None,
        timeouts: Timeouts | None = None,
        retries: RetryPolicy | None = None,
    ) -> None:
        self.cassette = cassette
        self._credentials = os.environ if credentials is None else credentials
        self._custom_transport = transport
        self._timeouts = timeouts or Timeouts()
        self._retries = retries or RetryPolicy()
        self._transport: Transport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop that `_transport` belongs to."""
        self._further: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Transport] = weakref.WeakKeyDictionary()
        """The connections of event loops that run in other threads at the same time, which are closed with them."""
        # So that the thinking of a conversation is refused only once.
        self._refused: set[str] = set()
        self._warned: set[str] = set()
        self._windows: dict[tuple[str, str], int | None] = {}
        _clients.add(self)

    @property
    def retries(self) -> RetryPolicy:
        """When a request is sent again; a change holds from the next request on."""
        return self._retries

    @retries.setter
    def retries(self, policy: RetryPolicy) -> None:
        self._retries = policy

    def stream(self, model: Model, context: Context, options: Options | None = None) -> Stream:
        """Ask a model, and stream its answer. Nothing is sent before the first event is read.

        Args:
            model: The model to ask.
            context: The conversation and the tools.
            options: How the model should answer; the model's own options apply where these set nothing.

        Returns:
            A stream. Iterating it raises `ModelError` or `ProviderError`.
        """
        return Stream(self, model, context, (options or Options()).over(model.options))

    async def complete(self, model: Model, context: Context, options: Options | None = None) -> AssistantMessage:
        """Ask a model, and wait for its whole answer.

        Args:
            model: The model to ask.
            context: The conversation and the tools.
            options: How the model should answer; the model's own options apply where these set nothing.

        Returns:
            The message.

        Raises:
            ModelError: The model cannot be used as asked.
            ProviderError: The server, or the connection to it, failed.
        """
        async with self.stream(model, context, options) as stream:
            async for _ in stream.batches():
                pass
            return stream.message

    async def preview(self, model: Model, context: Context, options: Options | None = None) -> RequestPreview:
        """Build the request that `stream` would send, without sending it.

        No key is needed. An Ollama server is asked for the model's context length, as before a real request.

        Args:
            model: The model to ask.
            context: The conversation and the tools.
            options: How the model should answer; the model's own options hold where these name nothing.

        Returns:
            The request, without secrets.

        Raises:
            ModelError: The model or its wire format cannot express a part of the request.
        """
        _require_available(model)
        options = (options or Options()).over(model.options)
        if local_model(model) is not None:
            return RequestPreview("", None, {}, canonical_request(model, context, options))
        pending = await self._pending(model, context, options, MessageBuilder(model), needs_key=False)
        _, headers, body = await pending.encoded()
        secrets = {*secrets_in(headers), *((pending.key,) if pending.key else ())}
        shown = {name: _redacted(value, secrets) for name, value in headers.items()}
        url = _redacted(pending.request.url, secrets)  # without the query of base_url, which may be a key
        return RequestPreview("POST", url, shown, from_json(body), pending.request.warnings)

    async def aclose(self) -> None:
        """Close all connections. The client may be used again and then opens new ones."""
        if self._transport is not None:
            transport, self._transport = self._transport, None
            await transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def discard(self) -> None:
        """Discard the connections of an event loop that has ended."""
        if self._transport is not None:
            self._transport.discard()
            self._transport = None

    def abandon(self) -> None:
        """Discard the connections. This is the name of `discard` in 0.1.0."""
        warnings.warn("Client.abandon is now Client.discard.", DeprecationWarning, stacklevel=2)
        self.discard()

    def key_for(self, model: Model) -> str | None:
        """Find the API key of a model.

        Args:
            model: The model.

        Returns:
            The key, None if none is needed.

        Raises:
            MissingCredentialError: A key is needed and not set.
            ModelError: The key holds characters that no header can carry.
        """
        if not model.has_api_key:
            return None
        if auth_of(model) is not None and not model.api_key:
            return None
        variables = key_variables_of(model)
        key = _usable_key(model.api_key, "api_key")
        for variable in () if key else variables:
            if key := _usable_key(self._credentials.get(variable), variable):
                break
        if key and (looks_like_key(key) or not is_loopback(base_url_of(model))):
            remember_secret(key, "key")  # local servers accept any word, such as "lm-studio"
        if key or not variables:
            return key
        if model.identifier or (provider(model.provider).needs_key and not is_loopback(base_url_of(model))):
            raise MissingCredentialError(
                f"{variables[0]} is not set, so {model} cannot be used; set it where Jupyter starts, or choose "
                "another model.",
                provider=model.provider,
                variable=variables[0],
            )
        return None

    async def answer(
        self,
        model: Model,
        context: Context,
        options: Options,
        builder: MessageBuilder,
        *,
        continues: bool = False,
    ) -> AsyncGenerator[list[StreamEvent], None]:
        """Stream one answer into a message builder; `stream` is the same for users.

        Args:
            model: The model to ask.
            context: The conversation and the tools.
            options: How the model should answer.
            builder: Receives each batch of events before it is yielded.
            continues: Whether the request continues a turn, as `Stream.continues` says.

        Yields:
            The events in batches, one for each piece of data from the network.

        Raises:
            ModelError: The model cannot be used as asked.
            ProviderError: The server, or the connection to it, failed.
        """
        _require_available(model)
        if (local := local_model(model)) is not None:
            async with aclosing(_local_answer(local, model, context, options, builder)) as batches:
                async for batch in batches:
                    yield batch
            return
        cassette = self._active_cassette
        pending = await self._pending(model, context, options, builder, needs_key=cassette is None)
        if found := [*pending.request.warnings, *self._about_encryption(pending, cassette)]:
            notice: list[StreamEvent] = [StreamWarning(text) for text in found]
            builder.feed(notice)
            yield notice
        model, request_info = pending.model, pending.request_info
        servers = known_servers(self._custom_transport)
        paused = False
        with closing(RequestAttempts(self._retries, servers, request_info, pending.request.url, cassette)) as attempts:
            attempts.begin(continues=continues)
            while True:
                url, headers, body = await pending.encoded()
                if (waiting := attempts.expected_wait()) is not None:
                    yield [waiting]
                await attempts.wait()
                builder.sending(measured=cassette is None or cassette.mode != "replay")
                try:
                    reply = await self._open_transport().send(
                        model, url, headers, body, auth=pending.auth, cassette=cassette, request_info=request_info
                    )
                    async with aclosing(reply):
                        attempts.answered(reply.status, reply.headers)
                        await _raise_for_error(reply, pending.wire, model, pending.secrets)
                        events_of = _ReplyDecoder(reply, pending.wire, model)
                        while (received := await events_of.next_batch()) is not None:
                            paused = received[-1].type == "pause"
                            events: Any = received[:-1] if paused else received  # `cast` would be called each time
                            builder.feed(events)
                            yield events
                        request_info.paused = paused
                except ProviderError as error:
                    builder.is_sent = builder.has_content or builder.usage is not None
                    _redact(error, pending.secrets)
                    event, delay = pending.after(error, attempts)
                else:
                    if not paused:
                        return
                    pending.resume()
                    attempts.begin(continues=True)
                    continue
                builder.feed([event])
                yield [event]
                await self._retries.sleep(0 if request_info.without_delay else delay)

    def _about_encryption(self, pending: _PendingRequest, cassette: Cassette | None) -> Iterator[str]:
        """A warning, once for each model, about a key that others can read on its way to the server."""
        is_sent = cassette is None or cassette.mode != "replay"
        if not (is_sent and pending.is_readable):
            return
        place = f"{pending.model} at {base_url_of(pending.model)}"
        if place not in self._warned:
            self._warned.add(place)
            yield (
                f"The credentials for {place} are sent without encryption, and others on the network can read them; "
                "use https://, or a tunnel to this machine."
            )

    @property
    def _active_cassette(self) -> Cassette | None:
        return None if self.cassette is None or self.cassette.mode == "off" else self.cassette

    async def _pending(
        self, model: Model, context: Context, options: Options, builder: MessageBuilder, *, needs_key: bool
    ) -> _PendingRequest:
        """The request to send. Without `needs_key`, a missing key matters only if it has to be sent."""
        key, missing = None, None
        try:
            key = self.key_for(model)
        except MissingCredentialError as error:
            if needs_key:
                raise
            missing = error
        request_info = CassetteRequest(model, context, options, builder, key=key, missing=missing)
        model = self.accepting(await self._with_context_window(model))
        servers = known_servers(self._custom_transport)
        pending = _PendingRequest(
            model, context, options, builder, request_info=request_info, refused=self._refused, servers=servers
        )
        await pending.build()
        return pending

    async def with_reported_window(self, model: Model, *, refresh: bool = False) -> Model:
        """Look up the context window that the server of a local model runs it with.

        Args:
            model: The model.
            refresh: Whether to look it up again, because the server may have been restarted.

        Returns:
            The model with that window; the model as it is if its window was set by hand, if its server is not one of
            Ollama or llama.cpp, or if the server does not answer within two seconds.
        """
        cassette = self._active_cassette
        if not is_reported(model) or self._custom_transport is not None:
            return model
        if cassette is not None and cassette.mode == "replay":  # there is no server
            return model
        try:
            place = (base_url_of(model), model.id)
            if refresh or place not in self._windows:
                key = self.key_for(model)
                window = await discovery.context_window_of(model, key, self._open_transport())
                self._windows[place] = window
                if window is not None:
                    self._context_windows.forget(model)
        except (PlanckError, OSError, ValueError, LookupError, TypeError, AttributeError):
            return model
        window = self._windows[place]
        if window is None or window == model.context_window:
            return model
        return replace(model, context_window=window, found=model.found and replace(model.found, context_window=window))

    def context_window(self, model: Model, options: Options | None = None) -> int | None:
        """Look up how long a request to a model may be, without asking its server.

        Args:
            model: The model.
            options: The options of the request.

        Returns:
            Tokens: the model's context window, or less if its server has refused a shorter request; None if nothing is
            known.
        """
        return self._context_windows.window(model, options or Options())

    def refused(self, model: Model, tokens: int) -> None:
        """Remember for the whole process that a model's server refuses requests of more than so many tokens.

        Args:
            model: The model.
            tokens: The most tokens that a request may have.
        """
        self._context_windows.refused(model, tokens)

    def accepting(self, model: Model) -> Model:
        """Look up what a model accepts, without asking its server.

        Args:
            model: The model.

        Returns:
            The model; without images among its modalities if its server has refused them.
        """
        return known_servers(self._custom_transport).accepting(model)

    @property
    def _context_windows(self) -> ContextWindows:
        return known_servers(self._custom_transport).windows

    async def _with_context_window(self, model: Model) -> Model:
        """The model; one of Ollama with its context length, without which the server cuts a conversation silently.

        Its server is asked once. If that fails, the request is sent as it is, and fails with the same error.
        """
        return await self.with_reported_window(model) if model.api == "ollama" else model

    def _open_transport(self) -> Transport:
        """The connections of the running event loop, which no other loop can use."""
        loop = asyncio.get_running_loop()
        if self._transport is None or self._loop is None or not self._loop.is_running():
            self._loop = loop
            self._transport = self._transport or self._new_transport()
        if loop is self._loop:
            return self._transport
        if loop not in self._further:
            self._further[loop] = self._new_transport()
        return self._further[loop]

    def _new_transport(self) -> Transport:
        from planck_nb.ai.transport import Transport  # noqa: PLC0415 - httpx and aiohttp load at the first request

        return Transport(self._timeouts, self._custom_transport)


class _PendingRequest:
    """The request for one message, and the next one when that did not complete it.

    `refused` are the digests of thinking that a server did not accept back; it is added to.
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
        self._is_long = characters(context) > _ENCODE_IN_THREAD_FROM
        self.request: WireRequest
        request_info.auth = self.auth

    async def build(self) -> None:
        """Build the request: in a thread if it is long, because it would block the event loop."""
        build = partial(self._request, self._messages)
        self.request = await run_in_thread(build) if self._is_long else build()
        self._builder.prefix = self.request.prefix

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
    def is_readable(self) -> bool:
        """Whether credentials are sent so that others can read them on the way."""
        credentials = self.key or self.auth is not None or self.address.headers
        return bool(credentials) and is_readable_on_the_way(self.request.url)

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
        if not found:  # a second time there is nothing left to leave out
            raise error
        self._refused |= found
        self.request = self._request(self._messages)
        self._builder.prefix = self.request.prefix
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
        self.request = self._request(self._messages)
        self._builder.prefix = self.request.prefix
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
        self.request = self._request([*self._messages, self._builder.build("stop")])
        self._builder.resume()

    def _request(self, messages: Sequence[Message]) -> WireRequest:
        context = self._context if messages is self._context.messages else replace(self._context, messages=messages)
        return self.wire.request(self.model, context, self._options, self.key)


def _require_available(model: Model) -> None:
    """Raise for a model that was not found again. `ConfigError`, because no fallback may be used in its place."""
    if model.unavailable is not None:
        raise ConfigError(model.unavailable.reason)


def _has_images(message: Message) -> bool:
    if message.type == "tool_result":
        return any(part.images for part in message.content)
    return message.type == "user" and any(part.type == "image" for part in message.content)


def _is_unauthorized(error: ProviderError) -> bool:
    return isinstance(error, AuthenticationError) and error.status == _UNAUTHORIZED


def _usable_key(key: str | None, source: str) -> str | None:
    """The key without white space around it, None if it is empty. Raises `ModelError` if no header can carry it."""
    key = (key or "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ModelError(f"{source} contains characters that are not allowed in a key; set it again.")
    return key or None


async def _local_answer(
    local: LocalModel, model: Model, context: Context, options: Options, builder: MessageBuilder
) -> AsyncGenerator[list[StreamEvent], None]:
    """The answer of a model that needs no server."""
    builder.sending()
    replies = local.stream(model, context, options)
    try:
        async for batch in replies:
            builder.feed(batch)
            yield batch
    finally:
        if isinstance(replies, AsyncGenerator):
            await replies.aclose()


async def _raise_for_error(reply: HttpResponse, wire: Dialect, model: Model, secrets: set[str]) -> None:
    """Raise the error for an answer that is not a stream."""
    kind = reply.headers.get("content-type", "")
    if reply.status == _OK and "json" not in kind and "html" not in kind:
        return
    if reply.status == _OK and "ndjson" in kind:
        return
    body = await reply.body()
    # Before the sentence is made, which may quote only the beginning of a secret.
    body = _redacted(body.decode("utf-8", "surrogateescape"), secrets).encode("utf-8", "surrogateescape")
    if reply.status != _OK:
        raise wire.error(model, reply.status, reply.headers, body)
    what = "an HTML page" if "html" in kind else "one JSON document"
    raise ProviderProtocolError(
        f"{base_url_of(model)} answered with {what} instead of a stream ({body[:200].decode('utf-8', 'replace')!r}); "
        "check base_url.",
        provider=model.provider,
        model=model.id,
        request_id=_request_id(reply),
    )


class _ReplyDecoder:
    """The events of one stream. Those that were decoded before an error are returned before it is raised.

    No asynchronous generator, which the event loop would have to register and to close for each reply.
    """

    def __init__(self, reply: HttpResponse, wire: Dialect, model: Model) -> None:
        self._reply = reply
        self._model = model
        self._frames = splitter(wire.framing)
        self._decoder = wire.decoder(model)
        self._ended = False
        self._complete = False
        """The last event of the message was returned."""
        self._failure: ProviderError | None = None

    async def next_batch(self) -> list[StreamEvent | Pause] | None:
        """The events in the next piece of data that has any, None after the last."""
        while self._failure is None and not self._ended and not self._complete:
            batch: list[StreamEvent | Pause] = []
            try:
                if (chunk := await self._reply.chunk()) is None:
                    self._end(batch)
                else:
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
        _feed_last(self._decoder, self._frames.end(), batch)
        batch.extend(self._decoder.end())

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


def _request_id(reply: HttpResponse) -> str | None:
    return reply.headers.get("request-id") or reply.headers.get("x-request-id")


def _redact(error: ProviderError, secrets: set[str]) -> None:
    if (text := _redacted(str(error), secrets)) != str(error):
        error.args = (text,)


def _redacted(text: str, secrets: set[str]) -> str:
    return redact(redact(text, dict.fromkeys(secrets, "key")))


class Stream:
    """A model's answer: an async iterator of `StreamEvent`, and a context manager that closes the connection.

    Iterating raises `ModelError` or `ProviderError`; what was received until then stays in `message`. Only one task may
    iterate. `Client.stream` makes streams.

    Args:
        client: The client that asks.
        model: The model to ask.
        context: The conversation and the tools.
        options: How the model should answer.
    """

    def __init__(self, client: Client, model: Model, context: Context, options: Options) -> None:
        self.model = model
        self.continues = bool(context.messages) and context.messages[-1].type == "tool_result"
        """Whether the request continues a turn, whose work would be lost, so that it is sent again for longer if it
        fails. It may be set before the first event is read; by default it is true after results of tools."""
        self._builder = MessageBuilder(model)
        self._answer = partial(client.answer, model, context, options, self._builder)
        self._batches: AsyncGenerator[list[StreamEvent], None] | None = None
        self._pending: list[StreamEvent] = []
        self._message: AssistantMessage | None = None

    @property
    def message(self) -> AssistantMessage:
        """The message: complete, or as far as it was received.

        Until the stream has ended its `stop_reason` is "aborted", and stays so if nothing more is read.
        """
        return self._message or self._builder.build("aborted")

    @property
    def usage(self) -> Usage | None:
        """The token counts that the provider has reported so far, None if it has reported none."""
        return self._builder.usage

    @property
    def is_sent(self) -> bool:
        """Whether a request was sent that a server may have begun to answer."""
        return self._builder.is_sent

    @property
    def is_finished(self) -> bool:
        """Whether the provider has ended the message, so that its usage is complete."""
        return self._builder.stop_reason is not None

    def written_text(self) -> str:
        """Join all that the model has written so far.

        Returns:
            The text, the thinking, and the names and arguments of calls, complete or not.
        """
        return self._builder.written_text()

    async def batches(self) -> AsyncIterator[list[StreamEvent]]:
        """Iterate over the events in lists.

        Yields:
            One list for each piece of data from the network.
        """
        while (batch := await self.next_batch()) is not None:
            yield batch

    async def next_batch(self) -> list[StreamEvent] | None:
        """Read the next of `batches`, which is the cheapest way to read.

        Returns:
            The events, None after the last.
        """
        if self._message is not None:
            return None
        if self._batches is None:
            self._batches = self._answer(continues=self.continues)
        try:
            return await anext(self._batches)
        except StopAsyncIteration:
            if self._builder.stop_reason is None:
                error = truncated(self.model)
                self._message = self._builder.build("error", str(error))
                raise error from None
            self._message = self._builder.build()
            return None
        except (asyncio.CancelledError, GeneratorExit):
            self._message = self._builder.build("aborted")
            raise
        except Exception as error:
            self._message = self._builder.build("error", str(error))
            raise

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent:
        while not self._pending:
            batch = await self.next_batch()
            if batch is None:
                raise StopAsyncIteration
            self._pending = batch[::-1]
        return self._pending.pop()

    async def aclose(self) -> None:
        """Stop reading and close the connection. The message stays as far as it was received."""
        self._pending.clear()
        if self._batches is not None:
            await self._batches.aclose()
        if self._message is None:
            self._message = self._builder.build("aborted")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

"""Sends requests to models and streams their answers."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pydantic_core import from_json

from planck_nb.ai.auth import secrets_in
from planck_nb.ai.cassettes.cassette import Cassette, CassetteRequest
from planck_nb.ai.cassettes.conversations import conversation_cassette
from planck_nb.ai.cassettes.request_key import canonical_request
from planck_nb.ai.context_windows import ContextWindows, is_reported
from planck_nb.ai.exchange import HttpRequest
from planck_nb.ai.lessons import Lessons
from planck_nb.ai.message_builder import MessageBuilder
from planck_nb.ai.messages import AssistantMessage, Usage
from planck_nb.ai.model_lookup import discovery
from planck_nb.ai.models import Model
from planck_nb.ai.pending_request import PendingRequest
from planck_nb.ai.providers import (
    auth_of,
    base_url_of,
    key_variables_of,
    local_model,
    provider,
)
from planck_nb.ai.reply_decoder import ReplyDecoder, raise_for_error, redacted
from planck_nb.ai.request import Context, Options
from planck_nb.ai.retries.known_servers import known_servers
from planck_nb.ai.retries.request_attempts import RequestAttempts
from planck_nb.ai.retries.retry import RetryPolicy, Timeouts
from planck_nb.ai.server_address import is_loopback
from planck_nb.ai.status_errors import truncated
from planck_nb.ai.stream_events import StreamEvent, StreamWarning
from planck_nb.base.errors import (
    ConfigError,
    MissingCredentialError,
    ModelError,
    PlanckError,
    ProviderError,
)
from planck_nb.base.forks import forget_in_forks, never_destroy
from planck_nb.base.json_types import JsonObject
from planck_nb.base.secrets import looks_like_key, remember_secret

if TYPE_CHECKING:
    from planck_nb.ai.engine import Engine, Reply
    from planck_nb.ai.exchange import HttpTransport
    from planck_nb.ai.transport import Transport


@dataclass(frozen=True, slots=True)
class RequestPreview:
    """A request as `Client.stream` would send it.

    Args:
        method: The HTTP method.
        url: The whole URL; None for a model that needs no server.
        headers: The headers by their lower-case names, with "[key]" instead of each secret. Those that an `auth`
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


# Closing a connection in a forked process would end the parent's.
forget_in_forks(_clients, never_destroy)


class Client:
    """Asks models over connections that it keeps open between requests.

    It may be used in the event loops of several threads, each of which gets connections of its own.

    Args:
        credentials: API keys by the names of variables such as `ANTHROPIC_API_KEY`; by default the environment, read at
            each request.
        transport: A transport from httpx or httpx2 to use instead of the network, such as their `MockTransport`.
        cassette: Records answers, or replays them instead of asking the server; may be changed at any time.
        timeouts: How long to wait for a server.
        retries: When to send a request again; may be changed at any time.
        engine: Sends requests from elsewhere, such as `planck_nb.engines.DaskEngine`; may be changed at any time. What
            a cassette records or answers is sent from here.

    Example:
        >>> import asyncio
        >>> from planck_nb import ai
        >>> async def main():
        ...     client = ai.Client()
        ...     reply = await client.complete(ai.get_model("demo"), ai.Context(messages=[ai.UserMessage("hi")]))
        ...     await client.aclose()
        ...     return reply.stop_reason
        >>> asyncio.run(main())
        'stop'
    """

    def __init__(
        self,
        *,
        credentials: Mapping[str, str] | None = None,
        transport: HttpTransport | None = None,
        cassette: Cassette | None = None,
        timeouts: Timeouts | None = None,
        retries: RetryPolicy | None = None,
        engine: Engine | None = None,
    ) -> None:
        self._cassette = cassette
        self.engine = engine
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
        self._lessons = Lessons()
        self._warned: set[str] = set()
        self._windows: dict[tuple[str, str], int | None] = {}
        _clients.add(self)

    @property
    def cassette(self) -> Cassette | None:
        """The cassette; during verification, always the session's answers."""
        return conversation_cassette() or self._cassette

    @cassette.setter
    def cassette(self, cassette: Cassette | None) -> None:
        self._cassette = cassette

    @property
    def retries(self) -> RetryPolicy:
        """When a request is sent again; a change applies from the next request on."""
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
            options: How the model should answer; the model's own options apply where these set nothing.

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
        shown = {name: redacted(value, secrets) for name, value in headers.items()}
        url = redacted(pending.request.url, secrets)  # without the query of base_url, which may be a key
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

    def key_for(self, model: Model) -> str | None:
        """Find the API key of a model.

        Args:
            model: The model.

        Returns:
            The key, None if none is needed.

        Raises:
            MissingCredentialError: A key is needed and not set.
            ModelError: The key contains characters that no header can carry.
        """
        if not model.has_api_key:
            return None
        has_auth = auth_of(model) is not None
        variables = () if model.auth is not None else key_variables_of(model)
        key = _usable_key(model.api_key, "api_key")
        for variable in () if key else variables:
            if key := _usable_key(self._credentials.get(variable), variable):
                break
        if key and (looks_like_key(key) or not is_loopback(base_url_of(model))):
            remember_secret(key, "key")  # local servers accept any word, such as "lm-studio"
        if key or has_auth or not variables:
            return key
        if model.key_variable or (provider(model.provider).needs_key and not is_loopback(base_url_of(model))):
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
        if conversation_cassette() is not None or local_model(model) is not None:
            async with aclosing(_local_answer(model, context, options, builder)) as batches:
                async for batch in batches:
                    yield batch
            return
        cassette = self._active_cassette
        pending = await self._pending(model, context, options, builder, needs_key=cassette is None)
        if found := [*pending.request.warnings, *self._about_encryption(pending, cassette)]:
            notice: list[StreamEvent] = [StreamWarning(text) for text in found]
            builder.feed(notice)
            yield notice
        request_info = pending.request_info
        servers = known_servers(self._custom_transport)
        paused = False
        with closing(RequestAttempts(self._retries, servers, request_info, pending.request.url, cassette)) as attempts:
            attempts.begin(continues=continues)
            while True:
                url, headers, body = await pending.encoded()
                if (waiting := attempts.expected_wait()) is not None:
                    yield [waiting]
                await attempts.wait()
                builder.text = pending.reply_text()
                builder.sending(measured=cassette is None or cassette.mode != "replay")
                try:
                    reply = await self._send(pending, url, headers, body, cassette)
                    builder.worker = reply.worker
                    async with aclosing(reply):
                        attempts.answered(reply.status, reply.headers)
                        await raise_for_error(reply, pending.wire, pending.model, pending.secrets)
                        while (received := await reply.next_batch()) is not None:
                            paused = received[-1].type == "pause"
                            events: Any = received[:-1] if paused else received  # `cast` would be called each time
                            yield builder.feed(events)
                        request_info.paused = paused
                except ProviderError as error:
                    builder.is_sent = builder.has_content or builder.usage is not None
                    _redact(error, pending.secrets)
                    notices, delay = pending.after(error, attempts)
                else:
                    pending.accepted()
                    if not paused:
                        return
                    pending.resume()
                    attempts.begin(continues=True)
                    continue
                yield builder.feed(notices)
                await self._retries.sleep(0 if request_info.without_delay else delay)

    async def _send(
        self, pending: PendingRequest, url: str, headers: Mapping[str, str], body: bytes, cassette: Cassette | None
    ) -> Reply:
        model, auth = pending.model, pending.auth
        if self.engine is None or cassette is not None:
            response = await self._open_transport().send(
                model, url, headers, body, auth=auth, cassette=cassette, request_info=pending.request_info
            )
            return ReplyDecoder(response, pending.wire, model)
        request = HttpRequest("POST", url, headers, body)
        if auth is not None:
            from planck_nb.ai.transport import with_credentials  # noqa: PLC0415 - as in `_new_transport`

            request = await with_credentials(request, auth)
        return await self.engine.send(request, model, self._timeouts)

    def _about_encryption(self, pending: PendingRequest, cassette: Cassette | None) -> Iterator[str]:
        """A warning, once for each model, about credentials that others can read in transit."""
        is_sent = cassette is None or cassette.mode != "replay"
        if not (is_sent and pending.exposes_credentials):
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
    ) -> PendingRequest:
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
        pending = PendingRequest(
            model,
            context,
            options,
            builder,
            request_info=request_info,
            refused=self._refused,
            lessons=self._lessons,
            servers=servers,
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
        """Remember for the whole process that a model's server refuses requests of more than this many tokens.

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


def _require_available(model: Model) -> None:
    """Raise for a model that was not found again. `ConfigError`, because no fallback may be used in its place."""
    if model.unavailable is not None:
        raise ConfigError(model.unavailable.reason)


def _usable_key(key: str | None, source: str) -> str | None:
    """The key without white space around it, None if it is empty. Raises `ModelError` if no header can carry it."""
    key = (key or "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ModelError(f"{source} contains characters that are not allowed in a key; set it again.")
    return key or None


async def _local_answer(
    model: Model, context: Context, options: Options, builder: MessageBuilder
) -> AsyncGenerator[list[StreamEvent], None]:
    """Answer without a server: from the session during verification, or locally."""
    local = local_model(model)
    if (answers := conversation_cassette()) is not None or local is None:
        if answers is not None:
            yield answers.answer(model, context, builder)
        return
    builder.sending()
    replies = local.stream(model, context, options)
    try:
        async for batch in replies:
            builder.feed(batch)
            yield batch
    finally:
        if isinstance(replies, AsyncGenerator):
            await replies.aclose()


def _redact(error: ProviderError, secrets: set[str]) -> None:
    if (text := redacted(str(error), secrets)) != str(error):
        error.args = (text,)


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
        """Whether the request continues a turn. If it fails it is then retried for longer, because the turn's work
        would be lost. May be set before the first event is read; by default it is true after tool results."""
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
    def worker(self) -> str:
        """Name the answer's worker, once it begins; empty in this process."""
        return self._builder.worker

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

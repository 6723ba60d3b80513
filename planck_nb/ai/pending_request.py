"""The request for one message: built, encoded, and changed if the server refuses it or pauses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from planck_nb.ai.auth import Authenticator
from planck_nb.ai.cassettes.cassette import CassetteRequest
from planck_nb.ai.dialect import WireRequest
from planck_nb.ai.dialects.json_wire import write_json, write_long_json
from planck_nb.ai.dialects.request_checks import output_prompt
from planck_nb.ai.lessons import Lesson, Lessons, lessons_of, with_lessons
from planck_nb.ai.message_builder import MessageBuilder
from planck_nb.ai.message_history.encoded_history import characters
from planck_nb.ai.message_history.portable_history import IN_TEXT, without_signatures
from planck_nb.ai.messages import Message
from planck_nb.ai.models import Model
from planck_nb.ai.providers import auth_of, dialect, request_address, rules_of
from planck_nb.ai.reply_text import ReplyText
from planck_nb.ai.request import Context, Options
from planck_nb.ai.retries.known_servers import KnownServers
from planck_nb.ai.retries.request_attempts import RequestAttempts
from planck_nb.ai.server_address import is_readable_in_transit
from planck_nb.ai.status_errors import is_about_images, is_about_thinking
from planck_nb.ai.stream_events import StreamEvent, StreamRetry, StreamWarning
from planck_nb.base.errors import AuthenticationError, BadRequestError, ProviderError, ProviderProtocolError
from planck_nb.base.threads import run_in_thread

_ENCODE_IN_THREAD_FROM = 4_000_000
"""Characters from which a conversation is encoded in a thread: it would block the event loop for more than 10 ms."""

_UNAUTHORIZED = 401

_MAX_PAUSES = 20
"""Pauses that a server may make in one answer; each costs a further request."""

_STREAM_HEADERS = {"accept": "text/event-stream, application/x-ndjson", "content-type": "application/json"}


class PendingRequest:
    """The request for one message, and the further ones if the first does not complete it.

    `refused` are digests of refused thinking; more are added as servers refuse them. `lessons` are the client's; those
    from this request are added once the server has accepted it.
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
        lessons: Lessons,
        servers: KnownServers,
    ) -> None:
        self.model = self._first_model = lessons.applied_to(model)
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
        self._lessons = lessons
        self._learned: list[Lesson] = []
        self._tried: set[Lesson] = set()
        self._latest_refusal = ""
        self._told: set[str] = set()
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
        """Secrets, which must not appear in messages."""
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
        """Tell if others can read credentials in transit."""
        credentials = self.key or self.auth is not None or self.address.headers
        return bool(credentials) and is_readable_in_transit(self.request.url)

    def accepted(self) -> None:
        """Remember lessons after the server has accepted a request with them."""
        if self._learned:
            self._lessons.add(self._first_model, self._learned)
            self._learned = []

    def after(self, error: ProviderError, attempts: RequestAttempts) -> tuple[list[StreamEvent], float]:
        """The events to report and the seconds to wait before the next attempt. Raises the error if none would help."""
        if self._builder.has_content:
            raise error
        attempt = attempts.number
        if (delay := attempts.next_delay(error)) is not None:
            return [StreamRetry(attempt, delay, str(error))], delay
        if self.auth is not None and not self.auth.rejected and _is_unauthorized(error):
            self.auth.rejected = True
            return [StreamRetry(attempt, 0.0, str(error))], 0.0
        if is_about_images(error):
            return [self._without_images(error)], 0.0
        events = self._learn(error)
        if events is None and is_about_thinking(error):
            events = self._without_thinking()
        if events is None:
            events = self._as_recorded(error, attempts)
        return events, 0.0

    def _without_thinking(self) -> list[StreamEvent] | None:
        """Leave out earlier thinking; None without any."""
        self._messages, found = without_signatures(self._messages)
        self._partial, found_in_partial = without_signatures(self._partial)
        if not (found or found_in_partial):  # a second time there is nothing left to leave out
            return None
        self._refused |= found | found_in_partial
        self._set_request(self._request())
        warning = f"{self.model} did not accept its earlier thinking; the request is sent again without it."
        return [StreamWarning(warning)]

    def _learn(self, error: ProviderError) -> list[StreamEvent] | None:
        """Build the request by a new lesson, if the refusal teaches one.

        A useless lesson is dropped before the next one is tried.
        """
        words = str(error)
        if words == self._latest_refusal:
            self._learned = self._learned[:-1]
        before, warnings = self.request.body, self.request.warnings
        context = self._context
        for lesson in lessons_of(error, self.model, context.tools, before):
            if lesson in self._tried:
                continue
            self._tried.add(lesson)
            model = self._servers.accepting(with_lessons(self._first_model, [*self._learned, lesson]))
            if model.rules == self.model.rules:
                continue
            self.model, former = model, self.model
            request = self._request()
            if request.body == before:
                self.model = former
                continue
            self._learned.append(lesson)
            self._latest_refusal = words
            self._set_request(request)
            sentences = [lesson.sentence, *(text for text in request.warnings if text not in warnings)]
            new = [text for text in sentences if text and text not in self._told]
            self._told.update(new)
            return [StreamWarning(text) for text in new]
        return None

    def _as_recorded(self, error: ProviderError, attempts: RequestAttempts) -> list[StreamEvent]:
        """Send the request again if recorded so; raise the error otherwise.

        The first agent in a replay need not be the first, and refused, one in the recording.
        """
        if isinstance(error, BadRequestError) and attempts.has_further_answer():
            return []
        raise error

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

    def reply_text(self) -> ReplyText | None:
        """Make the filter for thinking and calls in text, if needed."""
        rules, context, options = rules_of(self.model), self._context, self._options
        tools = (
            [tool.name for tool in context.tools]
            if rules.calls_in_text
            and context.tools
            and options.output is None
            and options.tool_choice != "none"
            and not _has_called(context.messages, self.model)
            else ()
        )
        if not (tools or rules.think_tags):
            return None
        return ReplyText(rules.think_tags, tools, may_lack_opening=rules.calls_in_text)

    def _request(self) -> WireRequest:
        messages = [*self._messages, *self._partial] if self._partial else self._messages
        context, options, model = self._context, self._options, self.model
        if messages is not context.messages:
            context = replace(context, messages=messages)
        if model.rules is None:
            return self.wire.request(model, context, options, self.key)
        if options.output is not None and model.rules.output_control == "prompt":
            system = "\n\n".join(filter(None, (context.system, output_prompt(model.rules, options))))
            context, options = replace(context, system=system), replace(options, output=None)
        request = self.wire.request(model, context, options, self.key)
        for name in model.rules.refused_fields & request.body.keys():
            del request.body[name]
        return request


def _has_images(message: Message) -> bool:
    if message.type == "tool_result":
        return any(part.images for part in message.content)
    return message.type == "user" and any(part.type == "image" for part in message.content)


def _has_called(messages: Sequence[Message], model: Model) -> bool:
    """Tell if the model has made a native call in this conversation."""
    return any(
        IN_TEXT not in (part.provider_state or ())
        for message in messages
        if message.type == "assistant" and (message.provider, message.model) == (model.provider, model.id)
        for part in message.content
        if part.type == "tool_call"
    )


def _is_unauthorized(error: ProviderError) -> bool:
    """Return true if new credentials may help; AWS reports expired ones with 403."""
    if not isinstance(error, AuthenticationError):
        return False
    return error.status == _UNAUTHORIZED or "expired" in str(error)

"""Every exception planck_nb raises on purpose.

`str(error)` is one sentence that says what happened and what to do about it.

    PlanckError
    ├─ ConfigError                  a setting is wrong
    │   └─ TrustError               the folder has files that the user has not trusted
    ├─ UsageError                   a magic or a call was used in a way that is not supported
    ├─ ModelError                   the model cannot be used as asked
    │   ├─ UnknownModelError
    │   ├─ UnknownProviderError
    │   ├─ MissingCredentialError
    │   └─ UnsupportedFeatureError
    ├─ ProviderError                the server, or the connection to it, failed
    │   ├─ ProviderConnectionError
    │   │   ├─ ProviderAddressError
    │   │   ├─ ProviderTimeoutError
    │   │   └─ WorkerLostError
    │   ├─ ProviderStatusError      an HTTP status, or its equivalent inside a stream
    │   │   ├─ AuthenticationError
    │   │   ├─ BadRequestError
    │   │   │   └─ ContextOverflowError
    │   │   │      └─ PromptTooLongError
    │   │   ├─ NotFoundError
    │   │   ├─ RateLimitError
    │   │   │   └─ QuotaExceededError
    │   │   └─ ProviderUnavailableError
    │   │       └─ ModelLoadingError
    │   └─ ProviderProtocolError    the reply is not what the wire format allows
    │       └─ StreamTruncated
    ├─ CassetteError                a recording cannot be made, read or used
    │   └─ CassetteMissError
    ├─ ToolError                    raised by tools; becomes a result the model sees
    ├─ AgentError
    │   ├─ AgentStoppedError
    │   ├─ NoRunningLoopError
    │   ├─ WrongLoopError
    │   ├─ DeadlockError
    │   ├─ LimitError
    │   ├─ OutputError
    │   └─ CompactionError
    ├─ SidecarError                 a sidecar cannot be started or used
    │   ├─ SidecarLostError
    │   ├─ SidecarSignInError
    │   └─ SidecarTimeoutError
    └─ SessionError
        ├─ SessionNotFoundError
        ├─ SessionLockedError
        ├─ SessionFormatError
        └─ QueryError
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from planck_nb.base.secrets import redact

_MAX_LISTED = 20
"""Longest list in a hint; there may be thousands."""


class PlanckError(Exception):
    """Base for all errors which planck_nb raises on purpose.

    Args:
        parts: The message; keys in vendors' formats are left out.
    """

    def __init__(self, *parts: object) -> None:
        super().__init__(*(redact(part, {}, formats=True) if isinstance(part, str) else part for part in parts))


class ConfigError(PlanckError):
    """A setting has an unusable value."""


class TrustError(ConfigError):
    """The folder has untrusted files with code or redirections."""


class UsageError(PlanckError):
    """Unsupported use, in a magic or a public call."""


class ModelError(PlanckError):
    """A model cannot be used as asked."""


class UnknownProviderError(ModelError):
    """Unknown provider name."""


class UnknownModelError(ModelError):
    """Unknown model name at this provider."""


class MissingCredentialError(ModelError):
    """Missing API key.

    `variable` names the environment variable for it.
    """

    def __init__(self, message: str, *, provider: str, variable: str) -> None:
        super().__init__(message)
        self.provider = provider
        self.variable = variable


class UnsupportedFeatureError(ModelError):
    """The model or its wire format cannot express the whole request.

    `about_media` says whether that is an image, a file or a video.
    """

    def __init__(self, message: str, *, about_media: bool = False) -> None:
        super().__init__(message)
        self.about_media = about_media


class ProviderError(PlanckError):
    """A provider, or the connection to it, failed.

    `provider` and `model` name the requested model; `request_id` is the vendor's request id, if known.
    """

    def __init__(self, message: str, *, provider: str = "", model: str = "", request_id: str | None = None) -> None:
        super().__init__(message)
        self.provider = provider
        self.model = model
        self.request_id = request_id


class ProviderConnectionError(ProviderError):
    """The server could not be reached, or the connection broke.

    `is_absent` is true for a missing server: its host is unknown, or its address on this machine has no listener.
    """

    is_absent = False


class ProviderAddressError(ProviderConnectionError):
    """The server's address or its certificate is wrong, so retrying is pointless."""


class ProviderTimeoutError(ProviderConnectionError):
    """The server's answer, or the rest after a beginning, took too long."""


class WorkerLostError(ProviderConnectionError):
    """An engine lost a worker before the answer's end."""


class ProviderStatusError(ProviderError):
    """The server answered with an error.

    `status` is the HTTP status. `retry_after` is a delay in seconds, and `should_retry` whether the same request may
    succeed later; both are None unless the server named them. `words` is the beginning of what the server said.
    """

    words: str = ""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        retry_after: float | None = None,
        should_retry: bool | None = None,
        provider: str = "",
        model: str = "",
        request_id: str | None = None,
    ) -> None:
        super().__init__(message, provider=provider, model=model, request_id=request_id)
        self.status = status
        self.retry_after = retry_after
        self.should_retry = should_retry


class AuthenticationError(ProviderStatusError):
    """Missing or wrong API key, or a forbidden operation (401, 403)."""


class BadRequestError(ProviderStatusError):
    """The server refused the request itself (400, 413, 422)."""


class ContextOverflowError(BadRequestError):
    """The conversation is longer than the model's context window.

    `tokens` is the request size, `input_tokens` the same without the room for the reply, and `limit` the allowed size;
    each is None unless the server named it. `about_window` is False if the request has too many bytes, or too many
    tokens for the account's limit per minute: neither limit belongs to the model.
    """

    tokens: int | None = None
    input_tokens: int | None = None
    limit: int | None = None
    about_window: bool = True


class PromptTooLongError(ContextOverflowError):
    """A prompt alone was refused as too long.

    It stays in the history and is not sent again.
    """


class NotFoundError(ProviderStatusError):
    """The model or the address does not exist there (404)."""


class RateLimitError(ProviderStatusError):
    """Too many requests, or a spent quota (429)."""


class QuotaExceededError(RateLimitError):
    """Exhausted quota or credit; retrying is pointless."""


class ProviderUnavailableError(ProviderStatusError):
    """The server failed or is overloaded (5xx)."""


class ModelLoadingError(ProviderUnavailableError):
    """The server has not loaded the model yet (503)."""


class ProviderProtocolError(ProviderError):
    """The reply does not follow its wire format."""


class StreamTruncated(ProviderProtocolError):
    """The stream ended before its terminal event.

    The parts received until then stay.
    """


class CassetteError(PlanckError):
    """Model traffic cannot be recorded, or a recording cannot be used."""


class CassetteMissError(CassetteError):
    """The request was not recorded, and must not be sent."""


class ToolError(PlanckError):
    """Failure in a tool, with one sentence for the model."""


class CallStoppedError(ToolError):
    """A tool blocked the event loop, and the user stopped its call."""


class AgentError(PlanckError):
    """An agent cannot do its task."""


class AgentStoppedError(AgentError):
    """The agent was stopped and accepts no more prompts."""


class NoRunningLoopError(AgentError):
    """An agent was prompted outside a running event loop."""


class WrongLoopError(AgentError):
    """An agent belongs to another thread's event loop.

    That loop cannot take the call.
    """


class DeadlockError(AgentError):
    """A tool would wait for an agent in a cycle.

    The agent itself waits for the tool's agent.

    Args:
        message: The sentence for the model.
        reason: Why the answer cannot come, for example "lead waits for ann".
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class LimitError(AgentError):
    """A limit was reached before the model could answer."""


class OutputError(AgentError):
    """The final answer does not match the schema, even after corrections."""


class CompactionError(AgentError):
    """A conversation could not be shortened; it is unchanged."""


class SidecarError(PlanckError):
    """A sidecar cannot be started, or gave an unusable answer."""


class SidecarLostError(SidecarError):
    """The connection to a sidecar was lost before its answer.

    It may have done its task.
    """


class SidecarSignInError(SidecarError):
    """Sign-in at a sidecar's server failed.

    The user is asked again only after the sidecar has been started again.
    """


class SidecarTimeoutError(SidecarError):
    """A sidecar did not answer within the time allowed."""


class SessionError(PlanckError):
    """A session cannot be read or written."""


class SessionNotFoundError(SessionError):
    """Unknown session id or name."""


class SessionLockedError(SessionError):
    """Another process has this session open for writing."""


class SessionFormatError(SessionError):
    """A session file is damaged, foreign or newer."""


class QueryError(SessionError):
    """An SQL query is not allowed or failed."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint with the names most similar to `name`.

    It has some names if all are unlike it, and is empty for an empty list.
    """
    names = sorted(set(known))
    options = {name.lstrip("-"): name for name in names}  # leading dashes do not make two options similar
    near = get_close_matches(name.lower().lstrip("-"), options, n=3, cutoff=0.5)
    if near:
        return f"Did you mean {' or '.join(options[match] for match in near)}?"
    if not names:
        return ""
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return f"Known are: {', '.join(names[:_MAX_LISTED])}{more}."

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
    │   │   └─ ProviderTimeoutError
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

_MAX_LISTED = 20
"""The most names that a hint lists; there may be thousands."""


class PlanckError(Exception):
    """Base of all errors that planck_nb raises on purpose."""


class ConfigError(PlanckError):
    """A setting has a value that cannot be used."""


class TrustError(ConfigError):
    """The folder has files that can run code or redirect requests, and the user has not trusted them."""


class UsageError(PlanckError):
    """A magic or a public call was used in a way that is not supported."""


class ModelError(PlanckError):
    """A model cannot be used as asked."""


class UnknownProviderError(ModelError):
    """No provider has this name."""


class UnknownModelError(ModelError):
    """The provider has no model of this name."""


class MissingCredentialError(ModelError):
    """No API key was found. `variable` names the environment variable that would hold it."""

    def __init__(self, message: str, *, provider: str, variable: str) -> None:
        super().__init__(message)
        self.provider = provider
        self.variable = variable


class UnsupportedFeatureError(ModelError):
    """The model or its wire format cannot express a part of the request.

    `about_media` says whether that is an image, a file or a video.
    """

    def __init__(self, message: str, *, about_media: bool = False) -> None:
        super().__init__(message)
        self.about_media = about_media


class ProviderError(PlanckError):
    """A provider, or the connection to it, failed.

    `provider` and `model` name the model that was asked; `request_id` is the vendor's id of the request, if known.
    """

    def __init__(self, message: str, *, provider: str = "", model: str = "", request_id: str | None = None) -> None:
        super().__init__(message)
        self.provider = provider
        self.model = model
        self.request_id = request_id


class ProviderConnectionError(ProviderError):
    """The server could not be reached, or the connection broke.

    `is_absent` is true if there is no server: its host is unknown, or nothing listens at its address on this machine.
    """

    is_absent = False


class ProviderAddressError(ProviderConnectionError):
    """The server's address or its certificate is wrong, so retrying is pointless."""


class ProviderTimeoutError(ProviderConnectionError):
    """The server did not answer, or stopped sending, within the time allowed."""


class ProviderStatusError(ProviderError):
    """The server answered with an error.

    `status` is the HTTP status. `retry_after` is the number of seconds to wait, and `should_retry` whether the same
    request may succeed later; both are None if the server did not say.
    """

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
    """The API key is missing, wrong, or not allowed to do this (401, 403)."""


class BadRequestError(ProviderStatusError):
    """The server refused the request itself (400, 413, 422)."""


class ContextOverflowError(BadRequestError):
    """The conversation is longer than the model's context window.

    `tokens` is the size of the request, `input_tokens` the same without the room for the reply, and `limit` the allowed
    size; each is None if the server did not name it. `about_window` is False if the request has too many bytes, or too
    many tokens for the account's limit per minute: neither is a limit of the model.
    """

    tokens: int | None = None
    input_tokens: int | None = None
    limit: int | None = None
    about_window: bool = True


class PromptTooLongError(ContextOverflowError):
    """A prompt alone was refused as too long; it stays in the history and is not sent again."""


class NotFoundError(ProviderStatusError):
    """The model or the address does not exist there (404)."""


class RateLimitError(ProviderStatusError):
    """Too many requests, or a spent quota (429)."""


class QuotaExceededError(RateLimitError):
    """The account has no quota or credit left, so retrying is pointless."""


class ProviderUnavailableError(ProviderStatusError):
    """The server failed or is overloaded (5xx)."""


class ModelLoadingError(ProviderUnavailableError):
    """The server has not loaded the model yet (503)."""


class ProviderProtocolError(ProviderError):
    """The reply does not follow its wire format."""


class StreamTruncated(ProviderProtocolError):
    """The stream ended before its terminal event; what was received until then is kept."""


class CassetteError(PlanckError):
    """Model traffic cannot be recorded, or a recording cannot be used."""


class CassetteMissError(CassetteError):
    """The request was not recorded, and must not be sent."""


class ToolError(PlanckError):
    """Raised inside a tool to tell the model, in one sentence, why the call failed."""


class AgentError(PlanckError):
    """An agent cannot do what was asked of it."""


class AgentStoppedError(AgentError):
    """The agent was stopped and accepts no more prompts."""


class NoRunningLoopError(AgentError):
    """An agent was prompted outside a running event loop."""


class WrongLoopError(AgentError):
    """An agent is used by the event loop of another thread, which cannot take the call."""


class DeadlockError(AgentError):
    """A tool would wait for an agent that is itself waiting for the tool's agent."""


class LimitError(AgentError):
    """A limit was reached before the model could answer."""


class OutputError(AgentError):
    """The final answer does not match the schema, even after corrections."""


class CompactionError(AgentError):
    """A conversation could not be shortened; it is unchanged."""


class SidecarError(PlanckError):
    """A sidecar cannot be started, or gave an answer that cannot be used."""


class SidecarLostError(SidecarError):
    """The connection to a sidecar was lost before it answered; what it was asked to do may have been done."""


class SidecarSignInError(SidecarError):
    """The server of a sidecar requires a sign-in, which failed. Nobody is asked again until the sidecar is started."""


class SidecarTimeoutError(SidecarError):
    """A sidecar did not answer within the time allowed."""


class SessionError(PlanckError):
    """A session cannot be read or written."""


class SessionNotFoundError(SessionError):
    """No session has this id or name."""


class SessionLockedError(SessionError):
    """Another process has this session open for writing."""


class SessionFormatError(SessionError):
    """A session file is damaged, foreign, or of a newer version."""


class QueryError(SessionError):
    """An SQL query is not allowed or failed."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint with the names most similar to `name`, or with some names if none is similar; empty if there are none."""
    names = sorted(set(known))
    bare = {name.lstrip("-"): name for name in names}  # leading dashes do not make two options similar
    near = get_close_matches(name.lower().lstrip("-"), bare, n=3, cutoff=0.5)
    if near:
        return f"Did you mean {' or '.join(bare[match] for match in near)}?"
    if not names:
        return ""
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return f"Known are: {', '.join(names[:_MAX_LISTED])}{more}."

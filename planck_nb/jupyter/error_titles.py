"""Titles of the errors with which runs end, as both views show them above the sentence of the error."""

from __future__ import annotations

ERROR_TITLES = {
    "AuthenticationError": "The provider does not accept the API key",
    "MissingCredentialError": "No API key",
    "QuotaExceededError": "The quota of the provider is used up",
    "RateLimitError": "The provider gets too many requests",
    "ProviderConnectionError": "No connection to the provider",
    "ProviderTimeoutError": "The provider did not answer in time",
    "StreamTruncated": "The connection closed before the answer was complete",
    "ProviderUnavailableError": "The provider is not available",
    "NotFoundError": "The provider does not have this model",
    "UnknownModelError": "There is no such model",
    "ContextOverflowError": "The conversation is too long for the model",
    "PromptTooLongError": "The prompt is too long for the model",
    "LimitError": "A limit was reached",
}
"""By kind of error. `labextension/src/error-titles.ts` has the same."""


def error_title(kind: str) -> str:
    """Return the title of an error of this kind."""
    return ERROR_TITLES.get(kind, "The run failed")

"""Titles for errors which end runs, and a missing key's variable."""

from __future__ import annotations

import re

from planck_nb.ai.models import Model
from planck_nb.ai.providers import key_variables_of
from planck_nb.base.errors import PlanckError

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
"""Titles by kind of error.

`labextension/src/model/error-titles.ts` has the same.
"""


def error_title(kind: str) -> str:
    """Return the title for this kind of error."""
    return ERROR_TITLES.get(kind, "The run failed")


_KEY_ERRORS = frozenset({"AuthenticationError", "MissingCredentialError"})
_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def key_variable(model: Model, kind: str) -> str:
    """Return the environment variable to set after an error.

    It is empty unless the error is about an API key.

    Args:
        model: The failed run's model.
        kind: The error's kind.
    """
    if kind not in _KEY_ERRORS:
        return ""
    try:
        variables = key_variables_of(model)
    except PlanckError:
        return ""
    return variables[0] if variables and _VARIABLE.fullmatch(variables[0]) else ""

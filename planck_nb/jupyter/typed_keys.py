"""Refusal of keys in typed texts.

A prompt goes to a provider and into the session.
"""

from __future__ import annotations

from planck_nb.base.errors import UsageError
from planck_nb.base.named_secrets import find_named_key
from planck_nb.base.secrets import find_key, is_generated_key, is_secret_name

_SIGN_IN = frozenset({"auth", "key", "login", "token"})
_MAX_WORDS = 4


def require_no_key(text: str) -> None:
    """Refuse a text with a key, by format or by name.

    Args:
        text: A prompt, or a line with a verb.

    Raises:
        UsageError: It has a key, which the message does not quote.
    """
    if kind := find_key(text) or ("a key" if find_named_key(text) or _is_key_command(text) else None):
        raise UsageError(
            f"Nothing was sent, because the text contains what looks like {kind}. Set keys as environment variables, "
            "or in a file that the setting env_file names. If it is meant to be read by the model, write `-- ` before "
            "the prompt, or `%%planck --` above it."
        )


def _is_key_command(text: str) -> bool:
    """Recognise `set key VALUE` and `login VALUE`, whatever a provider's keys look like."""
    *words, value = text.split() or [""]
    names = any(word.lower() in _SIGN_IN or is_secret_name(word) for word in words)
    return names and len(words) < _MAX_WORDS and is_generated_key(value)

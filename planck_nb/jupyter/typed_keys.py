"""Refusal of keys in typed texts.

A prompt goes to a provider and into the session.
"""

from __future__ import annotations

from planck_nb.base.errors import UsageError
from planck_nb.base.named_secrets import find_named_key
from planck_nb.base.secrets import find_key


def require_no_key(text: str) -> None:
    """Refuse a text with a key, by format or by name.

    Args:
        text: A prompt, or a line with a verb.

    Raises:
        UsageError: It has a key, which the message does not quote.
    """
    if kind := find_key(text) or ("a key" if find_named_key(text) else None):
        raise UsageError(
            f"Nothing was sent, because the text contains what looks like {kind}. Set keys as environment variables, "
            "or in a file that the setting env_file names. If it is meant to be read by the model, write `-- ` before "
            "the prompt, or `%%planck --` above it."
        )

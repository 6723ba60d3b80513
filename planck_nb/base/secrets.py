"""What counts as a secret: in cassettes, which are shared, and in the environment of commands."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Mapping

SHORTEST = 8
"""Characters that a secret has at least. A shorter one is a word such as "none", set for servers without keys."""

_NAME = re.compile(
    r"API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|TOKEN(?!IZER|S$)|SECRET|PASSW(OR)?D|PASSPHRASE|CREDENTIAL|COOKIE"
    r"|(^|_)KEY$|_(PASS|PWD|PAT|AUTH)$",
    re.IGNORECASE,
)
_PASSWORD_IN_ADDRESS = re.compile(r"://[^\s/?#@:]*:[^\s/?#@]+@")

_BASE64 = frozenset(string.ascii_letters + string.digits + "+/_-")
"""A match right after one of these characters is a coincidence inside encrypted reasoning or an image."""

# The vendors' own formats. Each begins with a literal, which makes the search fast.
_FORMATS: Mapping[str, re.Pattern[str]] = {
    what: re.compile(pattern)
    for what, pattern in {
        "an Anthropic key": r"sk-ant-[A-Za-z0-9_-]{20,}",
        "an API key": r"sk-[A-Za-z0-9_-]{20,}",
        "a Google key": r"AIza[A-Za-z0-9_-]{35}",
        "a GitHub token": r"gh[pousr]_[A-Za-z0-9]{36}",
        "a fine-grained GitHub token": r"github_pat_[A-Za-z0-9_]{22,}",
        "a GitLab token": r"glpat-[A-Za-z0-9_-]{20,}",
        "a Hugging Face token": r"hf_[A-Za-z0-9]{30,}",
        "a Slack token": r"xox[abprs]-[A-Za-z0-9-]{10,}",
        "an AWS key": r"A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9+/=])",
        "a bearer token": r"Bearer [A-Za-z0-9._~+/-]{20,}",
        "a JSON web token": r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
        "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    }.items()
}


def is_secret_name(name: str) -> bool:
    """Whether a setting or field of this name, with underscores between its words, is a secret, such as `api_key`."""
    return _NAME.search(name) is not None


def is_secret_variable(name: str, value: str) -> bool:
    """Whether an environment variable looks like a secret: by its name, or because it is an address with a password."""
    # A setting such as `max_tokens` is a number; of somebody else's variable that is not known.
    named = is_secret_name(name) or name.upper().endswith("TOKENS")
    return named or _PASSWORD_IN_ADDRESS.search(value) is not None


def known_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The values of the variables that look like secrets, each with a description that does not show it."""
    return {
        value: f"the value of {name}"
        for name, value in environment.items()
        if is_secret_variable(name, value) and len(value) >= SHORTEST and _is_specific(value)
    }


def find_secret(text: str, known: Mapping[str, str]) -> str | None:
    """Describe a secret that the text contains, without showing it; None if it contains none.

    `known` maps secrets to their descriptions. The formats of the vendors' keys are recognised, too.
    """
    for value, what in known.items():
        if value in text or json.dumps(value)[1:-1] in text:
            return what
    for what, pattern in _FORMATS.items():
        if any(_stands_alone(found) for found in pattern.finditer(text)):
            return f"what looks like {what}"
    return None


def _stands_alone(found: re.Match[str]) -> bool:
    before = found.string[max(0, found.start() - 2) : found.start()]
    # The letter of an escape, such as the line feed in JSON text, belongs to no word.
    return before[-1:] not in _BASE64 or (len(before) > 1 and before[0] == "\\")


def _is_specific(value: str) -> bool:
    """Whether a value is more than a plain word: a password such as "postgres" stands in many harmless texts."""
    return not value.isalpha() or len(value) >= 2 * SHORTEST

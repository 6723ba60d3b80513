"""Finds what must not be written into a file that is going to be shared."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Mapping

SHORTEST = 8
"""Characters of a secret, at least: what is shorter is a word such as "none", which servers without keys are given."""

_NAME = re.compile(r"(^|_)(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)

_BASE64 = frozenset(string.ascii_letters + string.digits + "+/_-")
"""Where one of these stands before it, a match is a chance find inside sealed reasoning or a picture."""

# The vendors' own formats. Each begins with a literal, which is what makes searching fast.
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


def known_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """What the variables hold whose names say that it is secret: values, and what to call them."""
    return {
        value: f"the value of {name}"
        for name, value in environment.items()
        if is_secret_name(name) and len(value) >= SHORTEST and _is_telling(value)
    }


def is_secret_name(name: str) -> bool:
    """Return whether what has this name is a secret, such as OPENAI_API_KEY or `token`."""
    return _NAME.search(name) is not None


def find_secret(text: str, known: Mapping[str, str]) -> str | None:
    """What secret the text holds, in words that do not tell it; None where there is none.

    `known` maps secrets to their descriptions.
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


def _is_telling(value: str) -> bool:
    """Whether a value is no plain word: a password such as "postgres" stands in many texts that give nothing away."""
    return not value.isalpha() or len(value) >= 2 * SHORTEST

"""Finds what must not be written into a file that is going to be shared."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

_SHORTEST = 8
"""Shorter values are words such as "test" or "none", which servers without keys are given."""

_NAME = re.compile(r"(^|_)(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)

# The vendors' own formats. The look-behind keeps them from matching inside the base64 of sealed reasoning.
_ALONE = r"(?<![A-Za-z0-9+/_=-])"
_FORMATS: Mapping[str, re.Pattern[str]] = {
    what: re.compile(_ALONE + pattern)
    for what, pattern in {
        "an Anthropic key": r"sk-ant-[A-Za-z0-9_-]{20,}",
        "an API key": r"sk-[A-Za-z0-9_-]{20,}",
        "a Google key": r"AIza[A-Za-z0-9_-]{35}",
        "a GitHub token": r"(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{22,})",
        "a GitLab token": r"glpat-[A-Za-z0-9_-]{20,}",
        "a Hugging Face token": r"hf_[A-Za-z0-9]{30,}",
        "a Slack token": r"xox[abprs]-[A-Za-z0-9-]{10,}",
        "an AWS key": r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9+/=])",
        "a bearer token": r"[Bb]earer [A-Za-z0-9._~+/-]{20,}",
        "a JSON web token": r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
        "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    }.items()
}


def known_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """What the variables hold whose names say that it is secret: values, and what to call them."""
    return {
        value: f"the value of {name}"
        for name, value in environment.items()
        if _NAME.search(name) and len(value) >= _SHORTEST and _is_telling(value)
    }


def find_secret(text: str, known: Mapping[str, str]) -> str | None:
    """What secret the text holds, in words that do not tell it; None where there is none.

    `known` maps secrets to their descriptions.
    """
    for value, what in known.items():
        if value in text or json.dumps(value)[1:-1] in text:
            return what
    for what, pattern in _FORMATS.items():
        if pattern.search(text):
            return f"what looks like {what}"
    return None


def _is_telling(value: str) -> bool:
    """Whether a value is no plain word: a password such as "postgres" stands in many texts that give nothing away."""
    return not value.isalpha() or len(value) >= 2 * _SHORTEST

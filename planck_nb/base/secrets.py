"""The one definition of a secret: for cassettes, exports, results of tools, errors, and the environment of commands.

A secret is the value of a variable whose name or value looks like one, a credential that this process has used, or a
text in one of the vendors' own formats. It is found verbatim and in its usual encodings.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
import string
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache, partial
from typing import Any
from urllib.parse import quote, quote_plus, unquote

MIN_LENGTH = 8
"""The fewest characters of a secret. A shorter value is a word such as "none", set for servers without keys."""

MAX_LENGTH = 16_384
"""The most characters of a secret in any encoding, enough for a private key."""

_MIN_WORD_LENGTH = 6
"""A value that is shorter than `MIN_LENGTH` and has letters and digits is looked for as a whole word."""

_MIN_GENERATED_LENGTH = 16
"""The fewest characters of a generated key."""

_NESTED = 4
"""How many levels deep JSON may be nested in the strings of other JSON."""

_MIN_DIGITS = 12
"""A shorter value of digits alone is a count or a port."""

_NAME = re.compile(
    r"API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|TOKEN(?!IZER|S$)|SECRET|PASSW(OR)?D|PASSPHRASE|CREDENTIAL|COOKIE|CONNECTION_?STRING"
    r"|(^|_)(KEYS?|PASS|PWD|PAT|AUTH|AUTHORI[SZ]ATION|DSN|JWT|BEARER)$|(DB|PG|SQL|USER|SMTP|MAIL|FTP|ROOT)(PASS|PWD)$",
    re.IGNORECASE,
)
_NOT_SECRET = frozenset({"PWD", "OLDPWD"})
"""The working directories."""

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[-. ]")
"""Where a word begins in `apiKey` and in `api-key`."""

_PASSWORD_IN_ADDRESS = re.compile(r"://[^\s/?#@:]*:([^\s/?#@]+)@")
_PASSWORD_IN_SETTINGS = re.compile(
    r"(?:[?&;]|^)\s*(?:password|passwd|pwd|(?:api|account|access|sharedaccess)?_?key|(?:access_?)?token|secret|sig)"
    r"\s*=\s*([^\s&;]+)",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    r"[<{$*%\[].*|x+|\.+|(your[-_]?)?(pass(word|wd)?|pwd|pw|secret|token|key)|user|postgres|root|admin|test|guest|example"
    r"|changeme|redacted|hidden",
    re.IGNORECASE,
)
"""What documentation has in place of a password."""

_BASE64 = frozenset(string.ascii_letters + string.digits + "+/_-")
"""A match right after one of these characters is a coincidence, inside encrypted reasoning or an image."""

# The vendors' own formats. Each begins with a literal, which makes the search fast.
_FORMATS: Mapping[str, re.Pattern[str]] = {
    what: re.compile(pattern)
    for what, pattern in {
        "an Anthropic key": r"sk-ant-[A-Za-z0-9_-]{20,}",
        "an API key": r"sk-[A-Za-z0-9_-]{20,}",
        "a Stripe key": r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}",
        "a Google key": r"AIza[A-Za-z0-9_-]{35}",
        "a GitHub token": r"gh[pousr]_[A-Za-z0-9]{36}",
        "a fine-grained GitHub token": r"github_pat_[A-Za-z0-9_]{22,}",
        "a GitLab token": r"glpat-[A-Za-z0-9_-]{20,}",
        "a Hugging Face token": r"hf_[A-Za-z0-9]{30,}",
        "a Groq key": r"gsk_[A-Za-z0-9]{40,}",
        "an xAI key": r"xai-[A-Za-z0-9]{40,}",
        "an npm token": r"npm_[A-Za-z0-9]{36}",
        "a PyPI token": r"pypi-[A-Za-z0-9_-]{50,}",
        "a SendGrid key": r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
        "a Slack token": r"xox[abeprs]-[A-Za-z0-9-]{10,}",
        "a Slack webhook": r"https://hooks\.slack\.com/services/[A-Za-z0-9/_-]{20,}",
        "an AWS key": r"A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9+/=])",
        "a bearer token": r"Bearer [A-Za-z0-9._~+/-]{20,}",
        "a JSON web token": r"eyJ[A-Za-z0-9_-]{10,1000}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
        "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[^-]*-----END [A-Z ]*PRIVATE KEY-----)?",
    }.items()
}

_used: dict[str, str] = {}
"""Credentials that this process has used, with descriptions. Some come from files, so no variable holds them."""

_used_lock = threading.Lock()


def is_secret_name(name: str) -> bool:
    """Whether a setting or field of this name is a secret, such as `api_key`, `apiKey` and `X-Api-Key`."""
    return name.upper() not in _NOT_SECRET and _NAME.search(_WORD_START.sub("_", name)) is not None


def is_secret_variable(name: str, value: str) -> bool:
    """Whether an environment variable looks like a secret: by its name, or because its value contains one."""
    # A setting such as `max_tokens` is known to be a number; somebody else's variable is not.
    named = is_secret_name(name) or name.upper().endswith("TOKENS")
    return named or next(_passwords(value), None) is not None or _format_in(value) is not None


@lru_cache(maxsize=64)  # asked of the same few keys with every request
def looks_like_key(value: str) -> bool:
    """Whether a value is a generated key, rather than a word that is written where a key is asked for."""
    has_both = any(map(str.isalpha, value)) and any(map(str.isdigit, value))
    return (has_both and len(value) >= _MIN_GENERATED_LENGTH) or _format_in(value) is not None


def known_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The values of the variables that look like secrets, each with a description that does not show it.

    A password inside such a value, as in the address of a database, is a secret of its own.
    """
    found: dict[str, str] = {}
    for name, value in environment.items():
        if is_secret_variable(name, value):
            for part in (value, *_passwords(value)):
                found |= {each: f"the value of {name}" for each in (part, unquote(part)) if _is_specific(each)}
    return found


def remember_secret(value: str | None, what: str = "an API key") -> None:
    """Treat a credential as a secret in this process from now on.

    Args:
        value: The credential; None and what is too short to be one are ignored.
        what: Its description, which is shown in its place.
    """
    if value is not None and len(value) >= MIN_LENGTH and value not in _used:
        with _used_lock:
            _used[value] = what


def process_secrets() -> dict[str, str]:
    """The secrets of this process: in its environment, and those that it has used."""
    return {**_used, **_environment.secrets()}


def find_secret(text: str, known: Mapping[str, str]) -> str | None:
    """Describe a secret that the text contains, without showing it; None if it contains none.

    `known` maps secrets to their descriptions. The formats of the vendors' keys are recognised, too.
    """
    for value, what in known.items():
        if _occurs(value, text):
            return what
    if (kind := _format_in(text)) is not None:
        return f"what looks like {kind}"
    if any(not _PLACEHOLDER.fullmatch(found[1]) for found in _PASSWORD_IN_ADDRESS.finditer(text)):
        return "what looks like an address with a password"
    return None


def redact(text: str, known: Mapping[str, str] | None = None, *, formats: bool = False) -> str:
    """The text with a description in brackets instead of each secret.

    Args:
        text: The text.
        known: Secrets with their descriptions, by default those of the process.
        formats: Whether to replace what looks like a vendor's key, or like a password in an address, too.
    """
    if len(text) < _MIN_WORD_LENGTH:
        return text
    text = _known_forms(tuple((process_secrets() if known is None else known).items())).replaced(text)
    if formats:
        for what, pattern in _FORMATS.items():
            text = pattern.sub(partial(_without_key, f"[{what}]"), text)
        text = _PASSWORD_IN_ADDRESS.sub(_without_password, text)
    return text


def redact_data(data: Any, known: Mapping[str, str]) -> Any:  # noqa: ANN401 - any JSON value
    """JSON data with `redact` applied to every text in it, formats included."""
    if isinstance(data, str):
        return redact(data, known, formats=True)
    if isinstance(data, dict):
        return {redact(name, known, formats=True): redact_data(value, known) for name, value in data.items()}
    if isinstance(data, list):
        return [redact_data(value, known) for value in data]
    return data


def redact_rows(rows: Iterable[Mapping[str, Any]], known: Mapping[str, str]) -> list[dict[str, Any]]:
    """Rows of JSON data with `redact_data` applied to every value; the names of their columns stay.

    Most rows have no secret. Those are recognised by one search of the whole row, which makes this fast.
    """
    forms = _known_forms(tuple(known.items()))
    in_json = tuple({json.dumps(form, ensure_ascii=False)[1:-1] for form in forms.substrings})

    def may_have_one(row: Mapping[str, Any]) -> bool:
        line = json.dumps(row, ensure_ascii=False)
        return (
            any(form in line for form in in_json)
            or (forms.words is not None and forms.words.search(line) is not None)
            or any(pattern.search(line) for pattern in (*_FORMATS.values(), _PASSWORD_IN_ADDRESS))
        )

    return [
        {name: redact_data(value, known) if found else value for name, value in row.items()}
        for row in rows
        for found in (may_have_one(row),)
    ]


def around_secret(text: str, at: int) -> tuple[int, int]:
    """Where to cut a text without splitting a secret of the process, half of which would no longer be recognised.

    Args:
        text: The text, with some context beyond the part that is kept.
        at: Where it is to be cut.

    Returns:
        The start and the end of the secret that `at` is inside of; `at` twice if it is inside of none.
    """
    start = max(at - MAX_LENGTH, 0)
    for first, last in _known_forms(tuple(process_secrets().items())).places(text[start : at + MAX_LENGTH]):
        if start + first < at < start + last:
            return start + first, start + last
    return at, at


def unfinished_secret(text: str, known: Mapping[str, str]) -> int:
    """How many characters at the end of the text may be the beginning of a secret; a single one is not counted."""
    return max((_begun(text, value) for value in known), default=0)


def _begun(text: str, value: str) -> int:
    end = text[-len(value) + 1 :] if len(value) > 1 else ""
    return next((len(end) - at for at in range(len(end) - 1) if value.startswith(end[at:])), 0)


class _EnvironmentSecrets:
    """The secrets of the environment, searched for again only when a variable has changed."""

    def __init__(self) -> None:
        self._found: tuple[object, dict[str, str]] = (None, {})

    def secrets(self) -> dict[str, str]:
        # Comparing the underlying dict takes a microsecond; reading all variables through the mapping takes a hundred.
        variables = dict(getattr(os.environ, "_data", os.environ))
        seen, found = self._found
        if variables != seen:
            found = known_secrets(os.environ)
            self._found = (variables, found)
        return found


_environment = _EnvironmentSecrets()


def _passwords(value: str) -> Iterator[str]:
    """The passwords in an address, or in settings such as those of a connection."""
    for pattern in (_PASSWORD_IN_ADDRESS, _PASSWORD_IN_SETTINGS):
        for found in pattern.finditer(value):
            yield found[1]


def _format_in(text: str) -> str | None:
    for what, pattern in _FORMATS.items():
        if any(_stands_alone(found) for found in pattern.finditer(text)):
            return what
    return None


def _without_key(instead: str, found: re.Match[str]) -> str:
    return instead if _stands_alone(found) else found[0]


def _without_password(found: re.Match[str]) -> str:
    return found[0] if _PLACEHOLDER.fullmatch(found[1]) else found[0].replace(f":{found[1]}@", ":[a password]@")


def _occurs(value: str, text: str) -> bool:
    if len(value) < MIN_LENGTH:
        return _word(value).search(text) is not None
    return any(form in text for form in _encodings(value))


class _KnownForms:
    """Known secrets, prepared for replacing them in many texts.

    Where one secret contains another, the longer one is replaced as a whole.
    """

    def __init__(self, known: Iterable[tuple[str, str]]) -> None:
        self._described: dict[str, str] = {}
        short: set[str] = set()
        for value, what in known:
            if len(value) < MIN_LENGTH:
                self._described.setdefault(value, what)
                short.add(value)
            else:
                for form in _encodings(value):
                    self._described.setdefault(form, what)
        self._patterns = {
            form: _word(form).pattern if form in short else re.escape(form)
            for form in sorted(self._described, key=len, reverse=True)
        }
        self.substrings = tuple(form for form in self._patterns if form not in short)
        self.words = re.compile("|".join(map(re.escape, sorted(short)))) if short else None

    def replaced(self, text: str) -> str:
        # Searching for one form after the other is faster than any pattern of all; few texts have a secret.
        if any(form in text for form in self._described):
            return self._pattern.sub(lambda found: f"[{self._described[found[0]]}]", text)
        return text

    def places(self, text: str) -> Iterator[tuple[int, int]]:
        if any(form in text for form in self._described):
            yield from (found.span() for found in self._pattern.finditer(text))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(self._patterns.values()))


@lru_cache(maxsize=8)
def _known_forms(known: tuple[tuple[str, str], ...]) -> _KnownForms:
    return _KnownForms(known)


@lru_cache(maxsize=256)
def _word(value: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z0-9]){re.escape(value)}(?![A-Za-z0-9])")


@lru_cache(maxsize=256)
def _encodings(value: str) -> tuple[str, ...]:
    """The value as it is, in JSON that may be in JSON again, in a URL, in HTML, in hexadecimal digits and in base64."""
    data = value.encode("utf-8", "backslashreplace")
    forms = {value, html.escape(value), html.escape(value, quote=False), data.hex(), data.hex().upper()}
    for as_json in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        nested = as_json
        for _ in range(_NESTED):
            forms.add(nested)
            nested = json.dumps(nested, ensure_ascii=False)[1:-1]
    for in_url in (quote(data, safe=""), quote(data), quote_plus(data)):
        forms |= {in_url, re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), in_url)}
    for offset in range(3):  # its offset within three bytes, which determines its base64 characters
        encoded = base64.b64encode(b"\0" * offset + data).decode("ascii")
        first = (0, 2, 3)[offset]
        last = len(encoded.rstrip("=")) - (1 if (offset + len(data)) % 3 else 0)
        inner = encoded[first:last]
        forms |= {inner, inner.replace("+", "-").replace("/", "_")}
    return tuple(sorted((form for form in forms if len(form) >= MIN_LENGTH), key=len, reverse=True))


def _stands_alone(found: re.Match[str]) -> bool:
    before = found.string[max(0, found.start() - 2) : found.start()]
    # The letter of an escape, such as the line feed in JSON text, belongs to no word.
    return before[-1:] not in _BASE64 or (len(before) > 1 and before[0] == "\\")


def _is_specific(value: str) -> bool:
    """Whether a value is more than a word, a number or a path, all of which occur in many harmless texts."""
    if len(value) < MIN_LENGTH:
        letters, digits = any(map(str.isalpha, value)), any(map(str.isdigit, value))
        return len(value) >= _MIN_WORD_LENGTH and value.isalnum() and letters and digits
    if value.isalpha():
        return len(value) >= 2 * MIN_LENGTH
    if value.isdigit():
        return len(value) >= _MIN_DIGITS
    return not (os.path.isabs(value) and os.path.exists(value))  # noqa: PTH110, PTH117 - a text, mostly no path

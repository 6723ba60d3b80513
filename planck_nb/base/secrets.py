"""Secrets in cassettes, exports, tool results, errors and command environments.

This is their only definition. A secret is the value of a variable whose name or value looks like a secret, a credential
which this process has used, or a text in a vendor's own format. It is found verbatim and in its usual encodings.
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
"""Shortest secret.

A shorter value is a word such as "none", set for servers without keys.
"""

MAX_LENGTH = 16_384
"""Longest secret in any encoding, enough for a private key."""

_MIN_WORD_LENGTH = 6
"""Shortest secret with letters and digits.

Below `MIN_LENGTH`, it is looked for as a whole word.
"""

_MIN_GENERATED_LENGTH = 16
"""Shortest generated key."""

_NESTED = 4
"""Levels of JSON inside strings in other JSON."""

_MIN_DIGITS = 12
"""Shortest secret with digits alone.

A shorter number is a count or a port.
"""

_NAME = re.compile(
    r"API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|TOKEN(?!IZER|S$)|SECRET|PASSW(OR)?D|PASSPHRASE|CREDENTIAL|COOKIE|CONNECTION_?STRING"
    r"|(^|_)(KEYS?|PASS|PWD|PW|CREDS?|PAT|AUTH|AUTHORI[SZ]ATION|DSN|JWT|BEARER|FERNET|AUTH_CONFIG)$"
    r"|^GIT_CONFIG_PARAMETERS$"
    r"|(DB|PG|SQL|USER|SMTP|MAIL|FTP|ROOT|SSH)(PASS|PWD)$",
    re.IGNORECASE,
)
_WHOLE_NAME = re.compile(
    r"(?:user|db|my|the|old|new)?(?:pass(?:word|wort|code|phrase)|passwd|pw|kennwort|contrase(?:n|ñ)a|senha|motdepasse"
    r"|密码|密碼|パスワード|비밀번호|пароль|hasło|haslo|lösenord|wachtwoord|parola)s?",
    re.IGNORECASE,
)
"""Names without spaces, in some languages."""

_GENERATED = re.compile(r"[A-Za-z0-9_+=-]{16,}")
_PLAIN_KEY = re.compile(
    r"\b(?:sk-ant-[\w-]{20,}|sk-[\w-]{20,}|[rs]k_(?:live|test)_\w{16,}|AIza[\w-]{35}|gh[pousr]_[A-Za-z0-9]{36}"
    r"|github_pat_\w{22,}|glpat-[\w-]{20,}|hf_[A-Za-z0-9]{30,}|gsk_[A-Za-z0-9]{40,}|xai-[A-Za-z0-9]{40,})",
    re.ASCII,
)
_NOT_SECRET = frozenset({"PWD", "OLDPWD"})
"""The working directories."""

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[-. ]")
"""A word's beginning in `apiKey` and in `api-key`."""

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
"""Usual placeholders for a password in documentation."""

_BASE64 = frozenset(string.ascii_letters + string.digits + "+/_-")
"""Characters before which a match is a coincidence.

It is then inside encrypted reasoning or an image.
"""

_AMBIGUOUS_ENDS = ("SIGNING", "SIGNATURE", "HMAC", "SALT", "PEPPER", "MNEMONIC")
"""Ends of variables' names, which count beside a generated key."""

# The vendors' own formats. Each begins with a literal, which makes the search fast, or has a sign in `_SIGNS`.
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
        # A key's secret is recognised only beside the key.
        "an AWS key with its secret": r"A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9+/=])[\s\S]{1,200}?(?<![A-Za-z0-9+/=])"
        r"(?=[A-Za-z0-9+/]*[a-z])(?=[A-Za-z0-9+/]*[A-Z])(?=[A-Za-z0-9+/]*[0-9])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])",
        "an AWS key": r"A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9+/=])",
        "a Google token": r"ya29\.[A-Za-z0-9_-]{20,}",
        "a Google client secret": r"GOCSPX-[A-Za-z0-9_-]{20,}",
        # https://github.com/microsoft/security-utilities describes these three.
        "an Azure key": r"(?<![A-Za-z0-9])[A-Za-z0-9]{52}JQQJ9[9DH][A-Za-z0-9][A-L][A-Za-z0-9]{16}[A-Za-z]"
        r"[A-Za-z0-9]{7}(?:[A-Za-z0-9]{2}==)?",
        "an Azure storage key": r"(?<![A-Za-z0-9/+])[A-Za-z0-9/+]{76}(?:APIM|ACDb|\+(?:ABa|AMC|ASt))[A-Za-z0-9/+]{5}"
        r"[AQgw]==",
        "an Azure client secret": r"(?<![\w.~-])[A-Za-z0-9_~.-]{3}[78]Q~[A-Za-z0-9_~.-]{31,34}(?![\w.~-])",
        "an age key": r"AGE-SECRET-KEY-1[A-Z0-9]{58}",
        "an NVIDIA key": r"nvapi-[A-Za-z0-9_-]{40,}",
        "a Replicate token": r"r8_[A-Za-z0-9]{30,}",
        "a Perplexity key": r"pplx-[A-Za-z0-9]{30,}",
        "a DigitalOcean token": r"do[opr]_v1_[a-f0-9]{40,}",
        "a Vault token": r"hv[sbr]\.[A-Za-z0-9_-]{20,}",
        "an Atlassian token": r"ATATT[A-Za-z0-9_=-]{30,}",
        "a Databricks token": r"dapi[a-f0-9]{32}",
        "a Tavily key": r"tvly-[A-Za-z0-9_-]{20,}",
        "a Fireworks key": r"fw_[A-Za-z0-9]{20,}",
        "a Cerebras key": r"csk-[A-Za-z0-9]{30,}",
        "a Linear key": r"lin_api_[A-Za-z0-9]{30,}",
        "a Notion token": r"ntn_[A-Za-z0-9]{30,}",
        "a Shopify token": r"shp(?:at|ss|ca|pa)_[a-fA-F0-9]{32}",
        "a Telegram token": r"\d{8,10}:AA[A-Za-z0-9_-]{32,}",
        "a Discord token": r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",
        "a bearer token": r"Bearer [A-Za-z0-9._~+/-]{20,}",
        "a JSON web token": r"eyJ[A-Za-z0-9_-]{10,1000}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
        "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[^-]*-----END [A-Z ]*PRIVATE KEY-----)?",
    }.items()
}

_SIGNS = {"an Azure key": "JQQJ9", "an Azure client secret": "Q~", "an Azure storage key": "=="}
"""Parts of formats without a literal at their beginning.

Texts without it are not searched.
"""

_used: dict[str, str] = {}
"""Credentials which this process has used, with descriptions.

Some come from files rather than variables.
"""

_used_lock = threading.Lock()


def is_secret_name(name: str) -> bool:
    """Return whether a setting or field with this name is a secret.

    Examples are `api_key`, `apiKey` and `X-Api-Key`.
    """
    if name.upper() in _NOT_SECRET:
        return False
    words = _WORD_START.sub("_", name)
    return _NAME.search(words) is not None or _WHOLE_NAME.fullmatch(words.replace("_", "")) is not None


def is_secret_variable(name: str, value: str) -> bool:
    """Return whether a variable's name or value looks like a secret."""
    # A setting such as `max_tokens` is a number; somebody else's variable may be more.
    is_named = is_secret_name(name) or name.upper().endswith("TOKENS")
    if name.upper().endswith(_AMBIGUOUS_ENDS) and looks_like_key(value):
        return True
    return is_named or next(_passwords(value), None) is not None or find_key(value) is not None


@lru_cache(maxsize=64)  # asked about the same few keys with every request
def looks_like_key(value: str) -> bool:
    """Return whether a value is a generated key rather than a word."""
    has_both = any(map(str.isalpha, value)) and any(map(str.isdigit, value))
    return (has_both and len(value) >= _MIN_GENERATED_LENGTH) or find_key(value) is not None


def is_generated_key(value: str) -> bool:
    """Return whether a value is only a generated key."""
    return _GENERATED.fullmatch(value) is not None and looks_like_key(value)


def without_generated_keys(text: str) -> str:
    """Return the text with the beginnings only of vendors' keys.

    Their characters cannot be a part of a command or an address with a meaning of its own, so nothing else is hidden.
    """
    return _PLAIN_KEY.sub(lambda match: f"{match[0][:8]}[and {len(match[0]) - 8} more characters of a key]", text)


def known_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the secret values among the variables, each with a description.

    The description does not show the value.

    A password inside such a value, as in a database address, is a secret too.
    """
    secrets: dict[str, str] = {}
    for name, value in environment.items():
        if is_secret_variable(name, value):
            for part in (value, *_passwords(value)):
                secrets |= {form: f"the value of {name}" for form in (part, unquote(part)) if _is_specific(form)}
    return secrets


def remember_secret(value: str | None, what: str = "an API key") -> None:
    """Treat a credential as a secret in this process from now on.

    Args:
        value: The credential; None and very short values are ignored.
        what: Its description, for showing in its place.
    """
    if value is not None and len(value) >= MIN_LENGTH and value not in _used:
        with _used_lock:
            _used[value] = what


def process_secrets() -> dict[str, str]:
    """Return this process's secrets, used or in its environment."""
    return {**_used, **_environment.secrets()}


def find_secret(text: str, known: Mapping[str, str]) -> str | None:
    """Describe a secret in the text without showing it.

    The result is None for a clean text.

    `known` maps secrets to their descriptions. The formats for vendors' keys are recognised, too.
    """
    for value, what in known.items():
        if _occurs(value, text):
            return what
    if (kind := find_key(text)) is not None:
        return f"what looks like {kind}"
    if any(not is_placeholder(match[1]) for match in _PASSWORD_IN_ADDRESS.finditer(text)):
        return "what looks like an address with a password"
    return None


def is_placeholder(value: str) -> bool:
    """Return whether a value stands for a password in documentation."""
    return _PLACEHOLDER.fullmatch(value) is not None


def redact(text: str, known: Mapping[str, str] | None = None, *, formats: bool = False) -> str:
    """Return the text with a description in brackets for each secret.

    Args:
        text: The text.
        known: Secrets with their descriptions, by default those in this process.
        formats: Whether to replace text which looks like a vendor's key, or like a password in an address, too.
    """
    if len(text) < _MIN_WORD_LENGTH:
        return text
    text = _known_forms(tuple((process_secrets() if known is None else known).items())).replaced(text)
    if formats:
        for what, pattern in _formats_for(text):
            text = pattern.sub(partial(_without_key, f"[{what}]"), text)
        text = _PASSWORD_IN_ADDRESS.sub(_without_password, text)
    return text


def redact_data(data: Any, known: Mapping[str, str]) -> Any:  # noqa: ANN401 - any JSON value
    """Return JSON data with `redact` applied to every text, formats included."""
    if isinstance(data, str):
        return redact(data, known, formats=True)
    if isinstance(data, dict):
        return {redact(name, known, formats=True): redact_data(value, known) for name, value in data.items()}
    if isinstance(data, list):
        return [redact_data(value, known) for value in data]
    return data


class Redactor:
    """Replaces secrets in JSON rows.

    Most rows are without secrets. A single search in the whole row recognises those, which makes this fast.

    Args:
        secrets: Secrets with their descriptions.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._secrets = secrets
        self._forms = _known_forms(tuple(secrets.items()))
        self._in_json = tuple({json.dumps(form, ensure_ascii=False)[1:-1] for form in self._forms.substrings})

    def may_be_in(self, line: str) -> bool:
        """Return whether a row in JSON may have a secret.

        Its texts must be without needless escapes.
        """
        words = self._forms.words
        return (
            any(form in line for form in self._in_json)
            or (words is not None and words.search(line) is not None)
            or any(pattern.search(line) for _, pattern in _formats_for(line))
            or _PASSWORD_IN_ADDRESS.search(line) is not None
        )

    def redacted(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Apply `redact_data` to every value in a row.

        The column names stay.
        """
        if not self.may_be_in(json.dumps(row, ensure_ascii=False)):
            return dict(row)
        return {name: redact_data(value, self._secrets) for name, value in row.items()}


def around_secret(text: str, at: int) -> tuple[int, int]:
    """Return where to cut a text without splitting a secret.

    Half a secret would be unrecognisable.

    Args:
        text: The text, with some context beyond the part to keep.
        at: Intended cut.

    Returns:
        The start and the end of the secret around `at`; `at` twice outside secrets.
    """
    start = max(at - MAX_LENGTH, 0)
    for first, last in _known_forms(tuple(process_secrets().items())).places(text[start : at + MAX_LENGTH]):
        if start + first < at < start + last:
            return start + first, start + last
    return at, at


def unfinished_secret(text: str, known: Mapping[str, str]) -> int:
    """Return how many final characters may begin a secret.

    A single character is ignored.
    """
    return max((_begun(text, value) for value in known), default=0)


def _begun(text: str, value: str) -> int:
    end = text[-len(value) + 1 :] if len(value) > 1 else ""
    return next((len(end) - at for at in range(len(end) - 1) if value.startswith(end[at:])), 0)


class _EnvironmentSecrets:
    """The environment's secrets, searched again only after a change."""

    def __init__(self) -> None:
        self._found: tuple[object, dict[str, str]] = (None, {})

    def secrets(self) -> dict[str, str]:
        # Comparing the underlying dict takes half a microsecond; reading all variables as a mapping takes a hundred.
        variables = getattr(os.environ, "_data", os.environ)
        snapshot, secrets = self._found
        if variables != snapshot:
            snapshot = dict(variables)
            secrets = known_secrets(os.environ)
            self._found = (snapshot, secrets)
        return secrets


_environment = _EnvironmentSecrets()


def _passwords(value: str) -> Iterator[str]:
    """Yield the passwords in an address or in connection settings."""
    for pattern in (_PASSWORD_IN_ADDRESS, _PASSWORD_IN_SETTINGS):
        for match in pattern.finditer(value):
            yield match[1]


def find_key(text: str) -> str | None:
    """Describe a vendor's key in a text; None without one."""
    for what, pattern in _formats_for(text):
        if any(_stands_alone(match) for match in pattern.finditer(text)):
            return what
    return None


def _formats_for(text: str) -> list[tuple[str, re.Pattern[str]]]:
    """Return the formats that may be in a text."""
    return [(what, pattern) for what, pattern in _FORMATS.items() if _SIGNS.get(what, "") in text]


def _without_key(instead: str, match: re.Match[str]) -> str:
    return instead if _stands_alone(match) else match[0]


def _without_password(match: re.Match[str]) -> str:
    return match[0] if is_placeholder(match[1]) else match[0].replace(f":{match[1]}@", ":[a password]@")


def _occurs(value: str, text: str) -> bool:
    if len(value) < MIN_LENGTH:
        return _word(value).search(text) is not None
    return any(form in text for form in _encodings(value))


class _KnownForms:
    """Known secrets, prepared for replacement in many texts.

    A secret inside a longer one is replaced together with it.
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
        # Searching for each form separately is faster than one pattern for all; few texts have a secret.
        if any(form in text for form in self._described):
            return self._pattern.sub(lambda match: f"[{self._described[match[0]]}]", text)
        return text

    def places(self, text: str) -> Iterator[tuple[int, int]]:
        if any(form in text for form in self._described):
            yield from (match.span() for match in self._pattern.finditer(text))

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
    """Return the value in its usual encodings.

    These are plain text, JSON that may be in JSON again, URLs, HTML, hexadecimal digits and base64.
    """
    data = value.encode("utf-8", "backslashreplace")
    forms = {value, html.escape(value), html.escape(value, quote=False), data.hex(), data.hex().upper()}
    for as_json in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        layer = as_json
        for _ in range(_NESTED):
            forms.add(layer)
            layer = json.dumps(layer, ensure_ascii=False)[1:-1]
    for in_url in (quote(data, safe=""), quote(data), quote_plus(data)):
        forms |= {in_url, re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), in_url)}
    for offset in range(3):  # its offset within three bytes, which determines its base64 characters
        base64_text = base64.b64encode(b"\0" * offset + data).decode("ascii")
        first = (0, 2, 3)[offset]
        last = len(base64_text.rstrip("=")) - (1 if (offset + len(data)) % 3 else 0)
        inner = base64_text[first:last]
        forms |= {inner, inner.replace("+", "-").replace("/", "_")}
    return tuple(sorted((form for form in forms if len(form) >= MIN_LENGTH), key=len, reverse=True))


def _stands_alone(match: re.Match[str]) -> bool:
    before = match.string[max(0, match.start() - 2) : match.start()]
    # An escape's letter, such as the line feed in JSON text, belongs to no word.
    return before[-1:] not in _BASE64 or (len(before) > 1 and before[0] == "\\")


def _is_specific(value: str) -> bool:
    """Return whether a value is neither word, number nor path.

    All these occur in many harmless texts.
    """
    if len(value) < MIN_LENGTH:
        letters, digits = any(map(str.isalpha, value)), any(map(str.isdigit, value))
        return len(value) >= _MIN_WORD_LENGTH and value.isalnum() and letters and digits
    if value.isalpha():
        return len(value) >= 2 * MIN_LENGTH
    if value.isdigit():
        return len(value) >= _MIN_DIGITS
    return not (os.path.isabs(value) and os.path.exists(value))  # noqa: PTH110, PTH117 - a text, mostly no path

"""Values beside secrets' names, in texts with usual formats."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from contextlib import suppress

from planck_nb.base.secrets import is_placeholder, is_secret_name, looks_like_key

_AMBIGUOUS = frozenset({"key", "keys", "token", "auth", "pat", "pass", "cookie", "cookies", "bearer"})
"""Secret names which often have another meaning, such as a row's key."""

_NAME = r"(?<![\w.-])(?P<name>[A-Za-z][\w.-]{1,60})"
_WORD = r"""[^\s"',;&<>(){}\[\]\\]{3,500}"""
_LABEL = r"(?:name|key|id|setting|option|field|variable|label|param(?:eter)?)"
_LINE = r"^[\ \t]{0,80}"

_FORMATS = (
    # password=x, password: x, "password": "x", ("password", "x"), d["password"] = "x"
    r"""(?P<before>(?P<mark>["']?)(?<![\w.])(?P<name>[A-Za-z][\w.-]{1,60})(?P=mark)\]?
    (?:\s{0,3}(?::=|=>|->|[=:])\s{0,3}(?:Basic\s)?|(?<=["']),\s?|(?<=["']\])\s?=\s?))
    (?:b?(?P<open>["'])(?P<quoted>(?:[^"'\\\n]|\\.){1,500})(?P=open)(?!\s?:)|(?P<value>WORD))""",
    # \"password\": \"x\", JSON in a text
    r"""(?P<before>NAME(?P<mark>\\+["'])\s?:\s?(?P=mark))(?P<value>[^"'\\\n]{1,500})""",
    # a text in three quotation marks
    r"""(?P<before>NAME\s?[=:]\s?(?:\"{3}|'{3})\s?)(?P<value>[^"']{1,500})""",
    # YAML, with the value in the next line
    r"""(?P<before>LINE(?:-\ )?["']?NAME["']?[\ \t]{0,9}:[\ \t]{0,9}[|>]?[+-]?\n[\ \t]{1,80}["']?)
    (?P<value>WORD(?<!:))(?=["']?(?:\s|$))""",
    # "name": "password", "value": "x", also in YAML and TOML and as attributes
    r"""(?P<before>\bLABEL["']?\s?[:=]\s?["']?NAME["']?\s{0,20}[,\n]?\s{0,20}["']?[\w-]{1,40}["']?\s?[:=]\s?["']?)
    (?P<value>WORD)""",
    # | password | x |
    r"""(?P<before>\|\s{0,20}`?NAME`?\s{0,20}\|\s{0,20}`?)(?P<value>[^|\s`]{3,500})""",
    # <password>x</password>, <entry key="password">x</entry>, <key>password</key><string>x</string>
    r"""(?P<before><(?P<name>[A-Za-z][\w.:-]{1,60})(?:\s[^<>]{0,200})?>\s{0,20}(?:<!\[CDATA\[)?)
    (?P<value>[^<\]]{1,500})""",
    r"""(?P<before><[\w:.-]{1,60}\s[^<>]{0,100}\bLABEL\s?=\s?["']NAME["'][^<>]{0,100}>\s{0,20})(?P<value>[^<]{1,500})""",
    r"""(?P<before><\w{1,20}>NAME</\w{1,20}>\s{0,20}<\w{1,20}>)(?P<value>[^<]{1,500})""",
    # --password x
    r"""(?P<before>(?<![\w-])--?(?P<name>[A-Za-z][\w-]{1,60})\s{1,9})(?P<value>[^\s-][^\s"']{2,500})""",
    # ENV PASSWORD x
    r"""(?P<before>LINE(?:ENV|ARG|set|setenv|export)\s{1,9}NAME\s{1,9})(?P<value>WORD)""",
    # X-Api-Key "x"
    r"""(?P<before>NAME[\ \t]{1,3}(?P<mark>["']))(?P<value>[^"'\n]{1,500})(?P=mark)""",
    # SQL
    r"""(?P<before>\b(?i:(?P<name>password)|identified\s{1,9}by)\s{1,9}')(?P<value>[^'\n]{1,500})""",
    # netrc, in one line and in several
    r"""(?P<before>LINE(?:machine\s{1,9}\S{1,200}|default)\s(?:[^\n]{0,200}\s)?(?P<name>password)\s{1,9})
    (?P<value>\S{1,500})""",
    r"""(?P<before>LINElogin\s{1,9}\S{1,200}\s{1,9}(?P<name>password)\s{1,9})(?P<value>\S{1,500})""",
    # https://user:password@host
    r"""(?P<before>(?:://|^)[^\s/?\#@:']{0,200}:)(?P<value>[^\s/?\#@']{1,500})(?=@)""",
    # host:port:database:user:password
    r"""(?P<before>^[^\s:]{1,200}:(?:\d{1,5}|\*):[^\s:]{1,200}:[^\s:]{1,200}:)(?P<value>\S{1,500})$""",
)
"""Patterns with bounded repetitions, so the time is linear."""

_PATTERNS = [
    re.compile(
        text.replace("NAME", _NAME).replace("WORD", _WORD).replace("LABEL", _LABEL).replace("LINE", _LINE),
        re.VERBOSE | re.MULTILINE,
    )
    for text in _FORMATS
]
_HEAD = 5_000
"""Longest head of separated values."""


def names_secret(name: str, value: str) -> bool:
    """Return whether a value beside this name is a secret.

    A name with other meanings, such as "key", needs a value like a generated key.
    """
    return is_secret_name(name) and (name.lower() not in _AMBIGUOUS or looks_like_key(value))


def without_named_values(text: str, replacement: str) -> str:
    """Return a text with `replacement` for each value beside a secret's name.

    The formats are settings, environment files, `repr`, JSON, YAML, TOML, XML, command lines, SQL, separated values,
    Markdown tables, netrc and PostgreSQL's password file.

    Args:
        text: Any text.
        replacement: Shown instead.

    Example:
        >>> without_named_values("user: ann, password: tulip", "***")
        'user: ann, password: ***'
    """
    for pattern in _PATTERNS:
        text = _replaced(pattern, text, replacement)
    return _without_columns(text, lambda name, value: replacement if names_secret(name, value) else value)


def find_named_key(text: str) -> bool:
    """Return whether a generated key is beside its name."""
    at = 0
    while match := _PATTERNS[0].search(text, at):
        if names_secret(match["name"], value := _value(match)) and looks_like_key(value):
            return True
        at = match.end("name")
    return False


def _matches(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield the places with a secret beside its name."""
    at = 0
    while match := pattern.search(text, at):
        value, name = _value(match), match.groupdict().get("name")
        if names_secret(name or "password", value) and not is_placeholder(value):
            yield match
            at = match.end()
        else:  # its value may have another name with a value
            at = match.end("name") if name else match.end()


def _value(match: re.Match[str]) -> str:
    return match.groupdict().get("quoted") or match["value"]


def _replaced(pattern: re.Pattern[str], text: str, replacement: str) -> str:
    parts: list[str] = []
    start = 0
    for match in _matches(pattern, text):
        parts += [text[start : match.end("before")], replacement]
        start = match.end()
    return "".join([*parts, text[start:]])


def _without_columns(text: str, cell_text: Callable[[str, str], str]) -> str:
    """Return separated values with other cells."""
    head, line_break, rest = text[:_HEAD].partition("\n")
    sign = next((sign for sign in "\t;,|" if sign in head), "")
    names = [name.strip(" \"'") for name in head.split(sign)] if sign else []
    if not line_break or not rest or not any(map(is_secret_name, names)):
        return text
    lines = [head]
    for line in text[len(head) + 1 :].split("\n"):
        cells = [line]
        with suppress(csv.Error):
            cells = next(csv.reader([line], delimiter=sign), [])
        fits = len(cells) == len(names)
        lines.append(sign.join(map(cell_text, names, cells)) if fits else line)
    return "\n".join(lines)

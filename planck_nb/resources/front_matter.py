"""Front matter: YAML between two lines of three dashes, at the beginning of a file.

Every value is a string, or a list or mapping of strings: what YAML makes of `no`, `1.10` or a date is not what the
author of a name or a version meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from planck_nb.base.json_types import JsonObject

if TYPE_CHECKING:
    from yaml import Event

MAX_BYTES = 16_384
"""Bytes from the beginning of a file within which its front matter must end."""

_MAX_DEPTH = 16

_BLOCK = re.compile(rb"---[ \t]*\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
_ENTRY = re.compile(r"^([A-Za-z][\w-]*):[ \t]+(\S.*(?:\n[ \t]+\S.*)*)$", re.MULTILINE)
_BLOCK_SCALAR = re.compile(r"[|>][\d+-]*[ \t]*(?:#.*)?$", re.MULTILINE)
_CLOSING = {'"': '"', "'": "'", "[": "]", "{": "}"}


def parse(head: bytes) -> JsonObject:
    """Return the fields of the front matter of a file that begins with `head`.

    Raises:
        ValueError: There is no front matter, or it cannot be used; the message is a clause about the file.
    """
    head = head.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    block = _BLOCK.match(head)
    if block is None:
        if re.match(rb"---[ \t]*(\n|$)", head):
            raise ValueError(f"its front matter has no closing line '---' in the first {MAX_BYTES:,} bytes")
        raise ValueError("it does not begin with a line '---' and front matter")
    try:
        text = block[1].decode()
    except UnicodeDecodeError as error:
        raise ValueError("its front matter is not UTF-8 text") from error
    fields = _load(text)
    if not isinstance(fields, dict):
        raise ValueError("its front matter is not a mapping, such as 'name: review'")  # noqa: TRY004 - one kind of error
    return fields


class _NotYamlError(Exception):
    """The text is not YAML; the message is the reason."""


def _load(text: str) -> object:
    try:
        return _load_yaml(text)
    except _NotYamlError as error:
        try:
            return _load_yaml(_quoted(text))
        except _NotYamlError:
            raise ValueError(f"its front matter is not valid YAML: {error}") from error


def _load_yaml(text: str) -> object:
    import yaml  # noqa: PLC0415 - loaded with the first skill

    try:
        danger = _dangerous_part(yaml.parse(text, Loader=yaml.BaseLoader))
        value = None if danger else yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - makes no objects
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the latter two: characters such as "\U99999999"
        raise _NotYamlError(_problem(error)) from error
    if danger:
        raise ValueError(danger)
    return value


def _dangerous_part(events: Iterable[Event]) -> str:
    """A clause about what could make a small text a huge value or exhaust the stack, found before anything is built."""
    from yaml import AliasEvent, CollectionEndEvent, CollectionStartEvent  # noqa: PLC0415 - as above

    depth = 0
    for event in events:
        if isinstance(event, AliasEvent):
            return "its front matter has YAML aliases such as '*name'; write each value out, or in quotes"
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > _MAX_DEPTH:
            return f"its front matter is nested more than {_MAX_DEPTH} levels deep"
    return ""


def _quoted(text: str) -> str:
    """The text with quotes around unquoted top-level values, for authors who meant `A: b` or `*x*` literally."""

    def entry(match: re.Match[str]) -> str:
        key, value = match[1], match[2].rstrip()
        closing = _CLOSING.get(value[0])
        if _BLOCK_SCALAR.match(value) or (closing and len(value) > 1 and value.endswith(closing)):
            return match[0]
        doubled = value.replace("'", "''")
        return f"{key}: '{doubled}'"

    return _ENTRY.sub(entry, text)


def _problem(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return "it holds a character that YAML does not allow"
    return f"{getattr(error, 'problem', None) or 'unreadable'} in line {mark.line + 2}"

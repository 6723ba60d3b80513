"""What a docstring tells a model about a function, with `docstring_parser` if it is installed.

A sidecar's environment has few packages. Without that one, the Google style and reST fields are understood.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field

_SECTION = re.compile(
    r"^(Args|Arguments|Parameters|Params|Returns|Yields|Raises|Examples?|Notes?|Attributes|Warns|Warnings|See Also|"
    r"References)(:\s*|\s*\n-{3,}\s*)$",
    re.MULTILINE,
)
_FIELD = re.compile(r"^:(\w+)([^:\n]*):(.*(?:\n[ \t]+.*)*)", re.MULTILINE)
_ARGUMENT = re.compile(r"^(\*{0,2}\w+)\s*(?:\([^)\n]*\))?:[ \t]*(.*(?:\n[ \t]+.*|\n(?=[ \t]))*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Documented:
    """A docstring.

    Args:
        summary: Its text without sections.
        arguments: The descriptions of arguments, by their names.
    """

    summary: str
    arguments: dict[str, str] = field(default_factory=dict)


def documented(docstring: str) -> Documented:
    """Split a docstring into its text and the descriptions of arguments."""
    try:
        from docstring_parser import parse  # noqa: PLC0415 - see above
    except ImportError:
        return read_docstring(docstring)
    found = parse(docstring)
    texts = (found.short_description, found.long_description)
    return Documented(
        "\n\n".join(text for text in texts if text), {item.arg_name: item.description or "" for item in found.params}
    )


def read_docstring(docstring: str) -> Documented:
    """Split a docstring in Google style or with reST fields; other sections are left out."""
    text = inspect.cleandoc(docstring)
    first = _SECTION.search(text) or _FIELD.search(text)
    return Documented(text[: first.start() if first else None].strip(), _google(text) | _rest(text))


def _google(text: str) -> dict[str, str]:
    sections = list(_SECTION.finditer(text))
    ends = [*(section.start() for section in sections[1:]), len(text)]
    arguments: dict[str, str] = {}
    for section, end in zip(sections, ends, strict=False):  # without sections there is only the end of the text
        if section.group(1).startswith(("Arg", "Param")) and section.group(2).startswith(":"):
            body = inspect.cleandoc("\n" + text[section.end() : end])
            arguments |= {name.lstrip("*"): inspect.cleandoc(told) for name, told in _ARGUMENT.findall(body)}
    return arguments


def _rest(text: str) -> dict[str, str]:
    fields = _FIELD.findall(text)
    return {
        words.split()[-1]: inspect.cleandoc(told.strip())
        for kind, words, told in fields
        if kind in {"param", "parameter", "arg", "argument"} and words.split()
    }

"""Splits the text of a shell command where a POSIX shell does: at quotes, escapes, expansions, operators and blanks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias, cast

Quotes: TypeAlias = Literal["bare", "single", "double"]

LexemeKind: TypeAlias = Literal[
    "text",
    "blank",
    "quote",
    "unclosed",
    "escape",
    "continuation",
    "expansion",
    "control",
    "redirection",
    "substitution",
]


class Lexeme(NamedTuple):
    r"""A piece of a command.

    Attributes:
        kind: What it is.

            - "text": characters without a meaning for the shell where they stand;
            - "blank": blanks and tabs between words;
            - "quote": a quote that begins or ends quoted text; "unclosed": one that is never closed;
            - "escape": a backslash with the character after it, if there is one;
            - "continuation": a backslash and a line feed, which a shell removes;
            - "expansion": a "$" or a "`", with which an expansion or a command substitution may begin;
            - "control": one of ``; & | ( )`` or a line feed;
            - "redirection": such as ">", "<<" or "2>&" without the number;
            - "substitution": "<(" or ">(".
        text: The characters.
        start: The offset of the first of them in the command.
        quotes: The kind of quotes around it. The quotes themselves are bare.
    """

    kind: LexemeKind
    text: str
    start: int
    quotes: Quotes

    @property
    def end(self) -> int:
        """The offset after its last character."""
        return self.start + len(self.text)

    @property
    def value(self) -> str:
        r"""What it adds to a word after quotes and backslashes are removed; expansions stay as they are.

        Every backslash is removed. A shell keeps one in double quotes unless ``$ ` " \`` or a line feed follows.
        """
        if self.kind in ("quote", "continuation"):
            return ""
        return self.text[1:] if self.kind == "escape" else self.text


_BARE = re.compile(
    r"""(?P<text>[^\\'"$`<>;&|\n() \t]+)|(?P<blank>[ \t]+)|(?P<continuation>\\\n)|(?P<escape>\\.?)|(?P<quote>['"])"""
    r"""|(?P<expansion>[$`])|(?P<substitution>[<>]\()|(?P<redirection>[<>]+[&|]?)|(?P<control>[;&|\n()])""",
    re.DOTALL,
)
_DOUBLE = re.compile(
    r"""(?P<text>[^\\"$`]+)|(?P<continuation>\\\n)|(?P<escape>\\.)|(?P<quote>")|(?P<expansion>[$`])""", re.DOTALL
)
_SINGLE = re.compile(r"""(?P<text>[^']+)|(?P<quote>')""")
_CLOSED = re.compile(r"""'[^']*'|"[^"\\]*+(?:\\.[^"\\]*+)*+\"""", re.DOTALL)


def lex(command: str) -> Iterator[Lexeme]:
    r"""Split a command into lexemes, which together are all of its text.

    What a command substitution contains is split like everything around it, comments and here-documents too: a reader
    that wants to be sure has to stop where one begins. After a quote that is never closed, the text is bare. It takes
    time linear in the length of the command.

    Example:
        >>> [(lexeme.kind, lexeme.text) for lexeme in lex("cat 'a b'>c")]  # doctest: +NORMALIZE_WHITESPACE
        [('text', 'cat'), ('blank', ' '), ('quote', "'"), ('text', 'a b'), ('quote', "'"), ('redirection', '>'),
         ('text', 'c')]
    """
    quotes: Quotes = "bare"
    start = 0
    while start < len(command):
        pattern = {"bare": _BARE, "single": _SINGLE, "double": _DOUBLE}[quotes]
        found = pattern.match(command, start)
        assert found is not None  # noqa: S101 - each pattern matches every character that can stand there
        kind, text, within = cast("LexemeKind", found.lastgroup), found[0], quotes
        if kind == "quote":
            within = "bare"
            if quotes != "bare":
                quotes = "bare"
            elif _CLOSED.match(command, start):
                quotes = "single" if text == "'" else "double"
            else:
                kind = "unclosed"
        yield Lexeme(kind, text, start, within)
        start = found.end()

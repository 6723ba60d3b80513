"""A lexer for POSIX shell commands."""

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
        kind: Its role.

            - "text": characters without a meaning for the shell where they stand;
            - "blank": blanks and tabs between words;
            - "quote": a quote around text; "unclosed": a first quote without a second;
            - "escape": a backslash with the next character, if any;
            - "continuation": a backslash and a line feed, which a shell removes;
            - "expansion": a "$" or a "`", with which an expansion or a command substitution may begin;
            - "control": ``; & | ( )`` or a line feed;
            - "redirection": such as ">", "<<" or "2>&" without the number;
            - "substitution": "<(" or ">(".
        text: The characters.
        start: Offset of the first character in the command.
        quotes: Surrounding quotes. The quotes themselves are bare.
    """

    kind: LexemeKind
    text: str
    start: int
    quotes: Quotes

    @property
    def end(self) -> int:
        """Return the offset after its last character."""
        return self.start + len(self.text)

    @property
    def value(self) -> str:
        r"""Return the text which it adds to a word, without quotes and backslashes.

        Expansions stay as they are. Every backslash is removed, although a shell keeps one in double quotes unless
        ``$ ` " \`` or a line feed follows.
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

    The content of a command substitution is split like everything around it, comments and here-documents too: a
    cautious reader has to stop at its beginning. After an unclosed quote, the text is bare. The time is linear in the
    command's length.

    Example:
        >>> [(lexeme.kind, lexeme.text) for lexeme in lex("cat 'a b'>c")]  # doctest: +NORMALIZE_WHITESPACE
        [('text', 'cat'), ('blank', ' '), ('quote', "'"), ('text', 'a b'), ('quote', "'"), ('redirection', '>'),
         ('text', 'c')]
    """
    quotes: Quotes = "bare"
    start = 0
    while start < len(command):
        pattern = {"bare": _BARE, "single": _SINGLE, "double": _DOUBLE}[quotes]
        match = pattern.match(command, start)
        assert match is not None  # noqa: S101 - each pattern matches every character that can stand there
        kind, text, within = cast("LexemeKind", match.lastgroup), match[0], quotes
        if kind == "quote":
            within = "bare"
            if quotes != "bare":
                quotes = "bare"
            elif _CLOSED.match(command, start):
                quotes = "single" if text == "'" else "double"
            else:
                kind = "unclosed"
        yield Lexeme(kind, text, start, within)
        start = match.end()

"""Marks code by weight, slant and opacity.

The live view, which knows the theme, has colours; `labextension/src/text/highlight.ts` supports the same languages.
"""

from __future__ import annotations

import html
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pygments.lexer import Lexer

MARKED_CHARACTERS = 20_000
"""Longer code is not marked: it would take too long."""

_LINE_CHARACTERS = 300
"""Longest line in marked code.

In one line, most lexers take quadratic time.
"""

_MARKED_OF_LANGUAGE = {"html": 3_000, "java": 3_000}
"""Smaller limits, for lexers which take quadratic time across lines."""

LANGUAGES = {
    **dict.fromkeys(("python", "py", "python3", "ipython", "ipython3", "gyp"), "python"),
    **dict.fromkeys(("bash", "sh", "zsh", "shell", "console"), "bash"),
    **dict.fromkeys(("typescript", "ts", "tsx", "javascript", "js", "jsx"), "typescript"),
    **dict.fromkeys(("sql", "duckdb", "postgresql", "sqlite"), "sql"),
    **dict.fromkeys(("xml", "html", "xhtml", "svg"), "html"),
    **dict.fromkeys(("ini", "toml"), "ini"),
    **dict.fromkeys(("diff", "patch"), "diff"),
    **dict.fromkeys(("yaml", "yml"), "yaml"),
    **dict.fromkeys(("rust", "rs"), "rust"),
    **dict.fromkeys(("go", "golang"), "go"),
    **dict.fromkeys(("json", "jsonc"), "json"),
    "java": "java",
    "r": "r",
}
"""Lexers by language name in lower case."""

_STYLES = (
    ("Comment", "opacity:0.7;font-style:italic"),
    ("Keyword", "font-weight:600"),
    ("Name.Function", "font-weight:600"),
    ("Name.Class", "font-weight:600"),
    ("Name.Tag", "font-weight:600"),
    ("Literal.String", "opacity:0.8"),
    ("Generic.Inserted", "background-color:rgba(56,142,60,0.14)"),
    ("Generic.Deleted", "background-color:rgba(211,47,47,0.12)"),
    ("Generic.Heading", "font-weight:600"),
    ("Generic.Subheading", "opacity:0.7"),
)


@cache
def _lexer(language: str) -> Lexer:
    from pygments.lexers import get_lexer_by_name  # noqa: PLC0415 - only code needs it

    return get_lexer_by_name(language, stripnl=False, ensurenl=False)


def highlighted(code: str, language: str) -> str:
    """Return code as HTML with inline styles.

    The result is empty for unknown languages, very long code and very long lines.

    Args:
        code: The code.
        language: Language name.
    """
    name = LANGUAGES.get(language.lower())
    if name is None or len(code) > _MARKED_OF_LANGUAGE.get(name, MARKED_CHARACTERS):
        return ""
    if max(map(len, code.split("\n"))) > _LINE_CHARACTERS:
        return ""
    parts: list[str] = []
    before, run = "", ""
    for token, text in _lexer(name).get_tokens(code):
        kind = str(token).removeprefix("Token.")
        style = next((style for prefix, style in _STYLES if kind.startswith(prefix)), "")
        if style != before:
            parts.append(_piece(before, run))
            before, run = style, ""
        run += text
    return "".join((*parts, _piece(before, run)))


def _piece(style: str, text: str) -> str:
    markup = html.escape(text)
    return f'<span style="{style}">{markup}</span>' if style and text else markup

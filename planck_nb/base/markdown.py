"""Safe Markdown from models and tools: as HTML, and as Markdown.

Everything here takes time in proportion to the text length. Texts beyond `FORMATTED_CHARACTERS` are not parsed.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

FORMATTED_CHARACTERS = 100_000
"""Longest text to parse.

A longer one is shown as preformatted text, below a sentence about that.
"""

_PARAGRAPH_CHARACTERS = 10_000
"""A copy of `markdown_rules.PARAGRAPH_CHARACTERS`.

Importing it would load the parser.
"""

MONO = "font-family:menlo,consolas,'DejaVu Sans Mono',monospace"
RULE = "1px solid rgba(128,128,128,0.35)"
TINT = "rgba(128,128,128,0.1)"
TEXT_BOX = (
    f"padding:8px 12px;background-color:{TINT};border-radius:4px;"
    f"{MONO};font-size:12px;line-height:20px;white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere"
)
CODE_BOX = TEXT_BOX.replace(
    "pre-wrap;word-break:normal;overflow-wrap:anywhere", "pre;word-break:normal;overflow-x:auto"
)
"""Code scrolls, as in the live view.

Its lines are wrapped by choice.
"""

QUOTE = f"margin:8px 0;padding:0 0 0 12px;border-left:{RULE.replace('1px', '2px')};opacity:0.8"

_CELL = f"padding:4px 16px 4px 0;border-bottom:{RULE};background-color:transparent"
_HEADING = "margin:16px 0 8px 0;font-size:16px;line-height:24px;font-weight:600;text-align:left"
_STYLES = {
    "p": "margin:8px 0;text-align:left",
    "h1": _HEADING,
    "h2": _HEADING,
    **dict.fromkeys(("h3", "h4", "h5", "h6"), _HEADING.replace("16px;line", "14px;line")),
    "ul": "margin:8px 0;padding:0 0 0 20px",
    "ol": "margin:8px 0;padding:0 0 0 20px",
    "li": "margin:4px 0",
    "section": f"margin:16px 0 0 0;padding:4px 0 0 0;border-top:{RULE};font-size:12px;line-height:20px",
    "blockquote": QUOTE,
    "hr": f"margin:12px 0;border:0;border-top:{RULE}",
    "table": "border-collapse:collapse;margin:12px 0;font-size:12px;line-height:20px;width:auto",
    "tr": "background-color:transparent",
    "th": f"{_CELL};font-weight:600",
    "td": _CELL,
    "a": "text-decoration:underline",
    "code": f"{MONO};font-size:0.9em;padding:1px 4px;background-color:rgba(128,128,128,0.1);border-radius:4px",
}
_CODE_IN_BOX = f"{MONO};font-size:12px;line-height:20px;padding:0;background-color:transparent"
_LINKS = re.compile(r"(https?|mailto):", re.IGNORECASE)
_MATH_MARKS = re.compile(r"\$+|\\+[()\[\]]|\\{2,}|\\(?:begin|end|ref|eqref)(?![A-Za-z])")
"""Formula delimiters and their escapes, for pages which typeset formulas later."""


def to_html(text: str) -> str:
    """Render Markdown as HTML with inline styles.

    HTML in it is shown as text, and images become links. Formulas are TeX between the delimiters which notebooks
    typeset; whatever they would mistake for a formula, such as an amount of money, is marked to be left alone.

    Args:
        text: The Markdown.

    Returns:
        HTML which runs and loads nothing.
    """
    if len(text) > FORMATTED_CHARACTERS:
        return f'<p style="{_STYLES["p"]}"><em>{_too_long(text)}</em></p>\n{_preformatted(text)}'
    parser = _html_parser()
    environment: dict[str, object] = {}
    tokens = parser.parse(text, environment)
    _add_styles(tokens)
    return str(parser.renderer.render(tokens, parser.options, environment)).rstrip("\n")


def escaped(text: str) -> str:
    """Return a text as HTML without any formula for a typesetter."""
    return _MATH_MARKS.sub(_left_alone, html.escape(text))


def _left_alone(match: re.Match[str]) -> str:
    return f'<span class="tex2jax_ignore mathjax_ignore">{match[0]}</span>'


def _too_long(text: str) -> str:
    return f"This text of {len(text):,} characters is too long to be formatted."


def _is_link(url: str) -> bool:
    """Return whether a link may be followed.

    It may lead to another site, never to this server, a script or a file.
    """
    return _LINKS.match(url.strip()) is not None


def _commonmark() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415 - needed only after a run

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.validateLink = _is_link  # type: ignore[method-assign]
    return parser


@cache
def _parser() -> MarkdownIt:
    """Return the parser for text which is written back as Markdown.

    It knows only what all renderers agree on.
    """
    from planck_nb.base.markdown_rules import with_inline_limit  # noqa: PLC0415 - loads the parser

    return with_inline_limit(_commonmark())


@cache
def _html_parser() -> MarkdownIt:
    from planck_nb.base.markdown_rules import with_rules  # noqa: PLC0415 - loads the parser

    parser = with_rules(_commonmark())
    for name, rule in _RENDERED.items():
        parser.add_render_rule(name, rule)
    return parser


def _code_block(_renderer: object, tokens: Sequence[Token], index: int, _options: object, _env: object) -> str:
    from planck_nb.base.highlight import highlighted  # noqa: PLC0415 - loads Pygments

    token = tokens[index]
    code = token.content.rstrip()
    language = _LANGUAGE.match(token.info.strip())
    inner = highlighted(code, language[0] if language else "") or html.escape(code)
    name = f'class="language-{language[0]}" ' if language else ""
    return f'<pre style="margin:8px 0 12px 0;{CODE_BOX}"><code {name}style="{_CODE_IN_BOX}">{inner}</code></pre>\n'


def _preformatted(text: str) -> str:
    return f'<pre style="margin:8px 0 12px 0;{TEXT_BOX}">{html.escape(text.rstrip())}</pre>'


def _image_link(_renderer: object, tokens: Sequence[Token], index: int, _options: object, _env: object) -> str:
    token = tokens[index]
    source = str(token.attrGet("src") or "")
    return f'<a href="{html.escape(source)}" rel="noopener noreferrer">{escaped(token.content or source)}</a>'


def _text(_renderer: object, tokens: Sequence[Token], index: int, _options: object, _env: object) -> str:
    return escaped(tokens[index].content)


def _formula(_renderer: object, tokens: Sequence[Token], index: int, _options: object, _env: object) -> str:
    from planck_nb.base.markdown_rules import is_safe_tex  # noqa: PLC0415 - loaded with the parser

    token = tokens[index]
    tex, is_block = html.escape(token.content), token.type == "math_block"
    if not is_safe_tex(token.content):
        code = f'<code style="{_STYLES["code"]}">{tex}</code>'
        return f'<p style="{_STYLES["p"]}">{code}</p>\n' if is_block else code
    if is_block:
        return f'<div style="margin:8px 0">\\[{tex}\\]</div>\n'
    return f"<span>\\[{tex}\\]</span>" if token.markup == "display" else f"<span>\\({tex}\\)</span>"


def _task(_renderer: object, tokens: Sequence[Token], index: int, _options: object, _env: object) -> str:
    is_done = bool(tokens[index].meta.get("done"))
    return f'<span role="img" aria-label="{"done" if is_done else "to do"}">{"☑" if is_done else "☐"}</span> '


def _footnote_mark(_renderer: object, tokens: Sequence[Token], index: int, _options: object, _env: object) -> str:
    return f'<sup style="font-size:0.75em;line-height:0">{html.escape(tokens[index].content)}</sup>'


_RENDERED = {
    "text": _text,
    "fence": _code_block,
    "code_block": _code_block,
    "image": _image_link,
    "math_block": _formula,
    "math_inline": _formula,
    "task": _task,
    "footnote_mark": _footnote_mark,
}


def _add_styles(tokens: Iterable[Token]) -> None:
    for token in tokens:
        style = _STYLES.get(token.tag)
        if token.type == "list_item_open" and token.meta.get("task"):
            style = "margin:4px 0;list-style-type:none"
        if style is not None and token.nesting >= 0:
            align_style = token.attrGet("style")
            align = str(align_style) if align_style else "text-align:left" if token.tag in {"th", "td"} else ""
            token.attrSet("style", f"{style};{align}".rstrip(";"))
        elif token.type == "link_open":
            token.attrSet("rel", "noopener noreferrer")
        _add_styles(token.children or ())


# Every pattern is linear: it has no unbounded repetition that can begin at each of many neighbouring positions.
_BACKTICKS = re.compile(r"`+")
_FENCE_MARKS = re.compile(r"`{3,}|~{3,}")
_TAG = re.compile(r"<(?!https?://[^\s<>\"'`]*>)(?=[A-Za-z/!?])")
_IMAGE = re.compile(r"(?<!!)!+(?=\[)")
_TARGET = re.compile(r"\](?=\()(?!\(\s*<?(?:https?|mailto):)", re.IGNORECASE)
_DEFINITION = re.compile(r"\](?=:)(?!:\s*<?(?:https?|mailto):)", re.IGNORECASE)
_SPAN_BREAK = re.compile(r"\n[ \t>]*")
_MARKUP = re.compile(r"[<>&\[\]!`()\\|*~$]|https?:|www\.|@")
_RISKY_CODE = re.compile(r"<[A-Za-z/!?]|!\[|\](?:\(|:)\s*<?[^)\s:&\\]{0,20}[:&\\]")
_RISKY_DIAGRAM = re.compile(r"[<&]|%%\{|://|url\(|\bclick\b|import", re.IGNORECASE)
_MATH = re.compile(r"(?<!\\)\$\$|\\\\[\[\]()]|\\(?:begin|end)\{[a-z]{0,40}\*?\}")
_MATH_ENDS = {"$$": "$$", "\\\\[": "\\\\]", "\\\\(": "\\\\)"}
_LANGUAGE = re.compile(r"[\w+#.-]{1,30}")


def to_markdown(text: str) -> str:
    """Make Markdown safe.

    HTML is escaped, images become links, unsafe links become text; code is unchanged.

    Renderers disagree about code. If some code would be harmful elsewhere, all code blocks are written in the one way
    on which they agree: not nested, and between two matching fences.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if len(text) > FORMATTED_CHARACTERS:
        return f"*{_too_long(text)}*\n\n{fenced(text)}"
    regions = list(_regions(text))
    strict = any(region.is_risky for region in regions)
    parts: list[str] = []
    for code, group in groupby(regions, lambda region: region.is_code):
        if code:
            parts += (_block(region, strict=strict) for region in group)
        else:
            prose = "\n".join(_prose(region, strict=strict) for region in group)
            parts.append(_without_open_math(prose))
    return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class _Region:
    """Rows in a text.

    `token` is a code block or inline text; None for other rows.
    """

    start: int
    end: int
    source: str
    token: Token | None = None

    @property
    def is_code(self) -> bool:
        """Return whether it is a code block."""
        return self.token is not None and self.token.type != "inline"

    @property
    def is_closed(self) -> bool:
        """Return whether it has a second fence."""
        token, last = cast("Token", self.token), self.source.rpartition("\n")[2].strip(" \t>")
        is_fence = last.startswith(token.markup) and not last.strip(token.markup)
        return token.type == "fence" and self.end - self.start > 1 and is_fence

    @property
    def is_risky(self) -> bool:
        """Return whether its code would be harmful outside a code block."""
        if self.token is None:
            return False
        if not self.is_code:
            return any(_RISKY_CODE.search(self.source, *span) for span in _code_spans(self.source))
        info, code = self.token.info.strip(), self.token.content
        if self.token.type == "fence" and self.token.level > 0 and not self.is_closed:
            return True
        return "{" in info or _RISKY_CODE.search(f"{info}\n{code}") is not None or _is_risky_diagram(info, code)


def _regions(text: str) -> Iterator[_Region]:
    """Yield the rows in order, as regions.

    Regions are code blocks, inline text, which alone can contain code spans, and the rest.
    """
    rows = text.split("\n")

    def region(start: int, end: int, token: Token | None = None) -> _Region:
        return _Region(start, end, "\n".join(rows[start:end]), token)

    row = 0
    in_table = False
    for token in _parser().parse(text):
        in_table = token.type == "table_open" or (in_table and token.type != "table_close")
        relevant = token.type in {"fence", "code_block"} or (
            token.type == "inline" and not in_table and len(token.content) <= _PARAGRAPH_CHARACTERS
        )
        if token.map is None or not relevant or token.map[0] < row:
            continue
        start, end = token.map
        if start > row:
            yield region(row, start)
        yield region(start, end, token)
        row = end
    if row < len(rows):
        yield region(row, len(rows))


def _block(region: _Region, *, strict: bool) -> str:
    """Return a code block as it is, or between new fences.

    It gets new fences if `strict`, or if its fence is not closed.
    """
    token = cast("Token", region.token)
    if not strict and (token.type == "code_block" or region.is_closed):
        return region.source
    return f"\n{fenced(token.content, _language(token))}\n"


def _prose(region: _Region, *, strict: bool) -> str:
    escape = _escape if region.token is None else _escape_around_code
    return escape(region.source, strict=strict)


def _without_open_math(text: str) -> str:
    """Return the text before a code block, without unclosed mathematics.

    An unclosed delimiter would swallow the code block.
    """
    delimiter = ""
    for mark in _MATH.finditer(text):
        if not delimiter:
            delimiter = mark[0]
        elif mark[0] == _MATH_ENDS.get(delimiter) or mark[0] == delimiter.replace("begin", "end", 1) != delimiter:
            delimiter = ""
    return _MATH.sub(_entities, text) if delimiter else text


def _language(token: Token) -> str:
    language = token.info.strip().partition(" ")[0]
    return language if _LANGUAGE.fullmatch(language) and not _is_risky_diagram(language, token.content) else ""


def _is_risky_diagram(info: str, code: str) -> bool:
    """Return whether code is a diagram with HTML or addresses.

    Some renderers insert diagrams into the page as HTML.
    """
    return info.lower().startswith("mermaid") and _RISKY_DIAGRAM.search(code) is not None


def _code_spans(source: str) -> list[tuple[int, int]]:
    """Return where inline code begins and ends.

    It lies between each run of backticks and the next run with the same length.
    """
    runs = [match.span() for match in _BACKTICKS.finditer(source)]
    following: dict[int, int] = {}
    closing = [0] * len(runs)
    for at in range(len(runs) - 1, -1, -1):
        length = runs[at][1] - runs[at][0]
        closing[at] = following.get(length, -1)
        following[length] = at
    spans: list[tuple[int, int]] = []
    at = 0
    while at < len(runs):
        if closing[at] >= 0:
            spans.append((runs[at][0], runs[closing[at]][1]))
            at = closing[at]
        at += 1
    return spans


def _escape_around_code(source: str, *, strict: bool) -> str:
    if "\\`" in source:
        return _escape(source, strict=strict)  # with escaped backticks, pairs of backticks no longer delimit code
    parts: list[str] = []
    position = 0
    for start, end in _code_spans(source):
        parts.append(_escape(source[position:start], strict=strict))
        span = source[start:end]
        if strict:
            span = _SPAN_BREAK.sub(" ", span)
        if span.startswith("```") or (strict and ("|" in span or "$" in span)):
            span = _escape(span, strict=strict)
        if source.startswith("{", end):
            span, end = f"{span}&#123;", end + 1  # noqa: PLW2901 - the brace belongs to the code as its attributes
        parts.append(span)
        position = end
    return "".join((*parts, _escape(source[position:], strict=strict)))


def _escape(text: str, *, strict: bool) -> str:
    """Escape with entities, and with `strict` also code marks.

    A backslash could be undone by one before it.
    """
    text = _IMAGE.sub("", _TAG.sub("&lt;", text))
    text = _DEFINITION.sub("&#93;", _TARGET.sub("&#93;", text))
    if strict:
        text = text.replace("\\`", "`").replace("`", "&#96;")
    return _FENCE_MARKS.sub(_entities, text)


def _entities(match: re.Match[str]) -> str:
    return "".join(f"&#{ord(mark)};" for mark in match[0])


def typed_text(text: str) -> Iterator[str]:
    """Yield the text in each paragraph, heading and table cell.

    Code, quotations and link addresses are left out.
    """
    quotations = 0
    for token in _parser().parse(text):
        if token.type in {"blockquote_open", "blockquote_close"}:
            quotations += token.nesting
        elif token.type == "inline" and not quotations:
            yield "".join(map(_typed, token.children or ()))


def _typed(token: Token) -> str:
    if token.type == "text":
        return token.content
    if token.type in {"softbreak", "hardbreak"}:
        return "\n"
    return " " if token.type in {"code_inline", "image"} else ""


def code_blocks(text: str) -> Iterator[tuple[str, str]]:
    r"""Yield the fenced code blocks in a text, as language and code.

    Args:
        text: Markdown.

    Example:
        >>> list(code_blocks("Like this:\n\n```python\nx = 1\n```"))
        [('python', 'x = 1\n')]
    """
    for token in _parser().parse(text):
        if token.type == "fence":
            yield _language(token), token.content


def fenced(text: str, language: str = "text") -> str:
    """Return a code block whose fence outruns all backticks inside."""
    fence = fence_of(text)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def fence_of(text: str) -> str:
    """Return a fence longer than all backtick runs in the text."""
    return "`" * max(3, _longest_run(text) + 1)


def code_span(text: str) -> str:
    """Return the text as inline code on one line, backticks included."""
    flat = " ".join(text.split())
    longest = _longest_run(flat)
    ticks = "`" * (longest + 1)
    return f"{ticks} {flat} {ticks}" if longest else f"`{flat}`"


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)


def inline(text: str) -> str:
    """Return the text on one Markdown line without markup, for a label."""
    return _MARKUP.sub(_entities, " ".join(text.split()))

"""Markdown of models and tools, made safe: as HTML with inline styles, and as Markdown."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MONO = "font-family:menlo,consolas,'DejaVu Sans Mono',monospace"
RULE = "1px solid rgba(128,128,128,0.35)"
TEXT_BOX = (
    "padding:8px 12px;background-color:rgba(128,128,128,0.1);border-radius:4px;"
    f"{MONO};font-size:12px;line-height:20px;white-space:pre-wrap"
)

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
    "blockquote": QUOTE,
    "hr": f"margin:12px 0;border:0;border-top:{RULE}",
    "table": "border-collapse:collapse;margin:12px 0;font-size:12px;line-height:20px;width:auto",
    "tr": "background-color:transparent",
    "th": f"{_CELL};font-weight:600",
    "td": _CELL,
    "code": f"{MONO};font-size:0.9em;padding:1px 4px;background-color:rgba(128,128,128,0.1);border-radius:4px",
}
_LINKS = re.compile(r"(https?|mailto):", re.IGNORECASE)


def to_html(text: str) -> str:
    """Render Markdown as HTML with inline styles. HTML in it is shown as text; images become links."""
    parser = _parser()
    tokens = parser.parse(text)
    _add_styles(tokens)
    return str(parser.renderer.render(tokens, parser.options, {})).rstrip("\n")


def _is_link(url: str) -> bool:
    """Whether a link may be followed: to another site, never to this server, a script or a file."""
    return _LINKS.match(url.strip()) is not None


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415 - only a run that is over needs it

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.validateLink = _is_link  # type: ignore[method-assign]
    parser.add_render_rule("fence", _code_block)
    parser.add_render_rule("code_block", _code_block)
    parser.add_render_rule("image", _image_link)
    return parser


def _code_block(_renderer: object, tokens: Sequence[Token], index: int, _options: object, _env: object) -> str:
    return f'<pre style="margin:8px 0 12px 0;{TEXT_BOX}">{html.escape(tokens[index].content.rstrip())}</pre>\n'


def _image_link(_renderer: object, tokens: Sequence[Token], index: int, _options: object, _env: object) -> str:
    token = tokens[index]
    source = str(token.attrGet("src") or "")
    return f'<a href="{html.escape(source)}" rel="noopener noreferrer">{html.escape(token.content or source)}</a>'


def _add_styles(tokens: Iterable[Token]) -> None:
    for token in tokens:
        style = _STYLES.get(token.tag)
        if style is not None and token.nesting >= 0:
            own = token.attrGet("style")
            align = str(own) if own else "text-align:left" if token.tag in {"th", "td"} else ""
            token.attrSet("style", f"{style};{align}".rstrip(";"))
        elif token.type == "link_open":
            token.attrSet("rel", "noopener noreferrer")
        _add_styles(token.children or ())


_CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_TAG = re.compile(r"<(?!https?://)(?=[A-Za-z/!?])")
_IMAGE = re.compile(r"!+(?=\[)")
_TARGET = re.compile(r"\](?=\(\s*<?([^)\s>]*))")
_DEFINITION = re.compile(r"\[(?=(?:[^\[\]\\]|\\.)+\]:\s*<?(\S*?)>?(?:\s|$))")


def to_markdown(text: str) -> str:
    """Make Markdown safe: HTML is escaped, images become links, unsafe links become text; code is unchanged."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    rows = text.split("\n")
    escaped: list[str] = []
    for start, end, kind in _regions(text, len(rows)):
        source = "\n".join(rows[start:end])
        escaped.append(source if kind == "code" else _escape(source) if kind == "inline" else _escape_prose(source))
    return "\n".join(escaped)


def _regions(text: str, rows: int) -> Iterator[tuple[int, int, str]]:
    """The rows in order: code blocks, inline text, the only rows that can contain code spans, and the rest."""
    row = 0
    in_table = False
    for token in _parser().parse(text):
        in_table = token.type == "table_open" or (in_table and token.type != "table_close")
        kind = "code" if token.type in {"fence", "code_block"} else token.type
        if token.map is None or kind not in {"code", "inline"} or in_table or token.map[0] < row:
            continue
        start, end = token.map
        if start > row:
            yield row, start, "rest"
        yield start, end, kind
        row = end
    if row < rows:
        yield row, rows, "rest"


def _escape(text: str) -> str:
    if "\\`" in text:
        return _escape_prose(text)  # with escaped backticks, pairs of backticks no longer delimit code
    escaped: list[str] = []
    position = 0
    for span in _CODE_SPAN.finditer(text):
        escaped += (_escape_prose(text[position : span.start()]), span.group())
        position = span.end()
    return "".join((*escaped, _escape_prose(text[position:])))


def _escape_prose(text: str) -> str:
    """Escape with entities: a backslash could be undone by one before it."""
    text = _IMAGE.sub("", _TAG.sub("&lt;", text))
    text = _TARGET.sub(lambda found: "]" if _is_link(html.unescape(found[1])) else "&#93;", text)
    return _DEFINITION.sub(lambda found: "[" if _is_link(html.unescape(found[1])) else "&#91;", text)


def fenced(text: str, language: str = "text") -> str:
    """Return a code block whose fence is longer than any run of backticks in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def code_span(text: str) -> str:
    """Return the text as inline code on one line; it may contain backticks."""
    flat = " ".join(text.split())
    longest = max((len(run) for run in re.findall(r"`+", flat)), default=0)
    ticks = "`" * (longest + 1)
    return f"{ticks} {flat} {ticks}" if longest else f"`{flat}`"

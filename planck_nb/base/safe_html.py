"""Rewrites HTML from unknown sources to harmless HTML.

The text is divided into tokens as browsers do it, and the result is written anew: its tags and attributes come from
lists, and each `<` begins one of these tags, so parsing it again yields the same tags. Everything here takes time in
proportion to the text. `nh3` does not: 39,000 characters with `<p><font class=a1><p><font class=a2>` become 100 million
there, because a browser's tree repeats open elements.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from html import escape, unescape
from typing import TypeAlias

MAX_DEPTH = 100
"""Deepest nesting; elements below are left out, but their text stays."""

_EMPTY = frozenset("area br col embed frame hr img input link meta param source track wbr base".split())
_RAW = frozenset("script style textarea title xmp iframe noembed noframes".split())
"""Elements with text alone, whatever it looks like."""

_WITH_CONTENT = frozenset(
    "script noscript template iframe frameset object applet audio video canvas textarea select title head portal "
    "noembed noframes xmp plaintext fencedframe".split()
)
"""Elements to leave out with everything inside them."""

_STATIC_TAGS = frozenset(
    "table thead tbody tfoot tr th td caption p div span b i em strong u s sub sup small br hr ul ol li dl dt dd pre "
    "code kbd samp h1 h2 h3 h4 h5 h6 details summary blockquote img".split()
)
_FRAMED_TAGS = _STATIC_TAGS | frozenset(
    "a abbr address article aside bdi bdo big button center cite col colgroup data del dfn fieldset figcaption figure "
    "font footer header hgroup input ins label legend main mark menu meter nav nobr optgroup option output progress q "
    "rp rt ruby search section strike time tt var wbr "
    "svg circle clippath defs desc ellipse g line lineargradient marker mask path pattern polygon polyline "
    "radialgradient rect stop switch symbol text textpath tspan "
    "math mfrac mi mn mo mover mpadded mphantom mroot mrow ms mspace msqrt mstyle msub msubsup msup mtable mtd mtext "
    "mtr munder munderover semantics".split()
)
_FRAMED_ATTRIBUTES = frozenset(
    "class id style title colspan rowspan scope align valign width height alt dir lang open type checked for name "
    "value min max start reversed span role d x y x1 x2 y1 y2 cx cy r rx ry dx dy points viewbox transform fill "
    "stroke opacity preserveaspectratio offset xmlns".split()
)
_STYLING_PREFIXES = ("stroke-", "fill-", "font-", "text-")
_FRAMED_PREFIXES = (*_STYLING_PREFIXES, "aria-", "data-")
_STYLING = frozenset({"style", "fill", "stroke"})
"""Attributes with CSS, beside those with its prefixes."""

_STATIC_ATTRIBUTES = frozenset({"colspan", "rowspan", "title", "alt", "open"})
_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/\s]+={0,2}", re.IGNORECASE)
_NUMBER = re.compile(r"\d{1,3}", re.ASCII)
_NAME = re.compile(r"[a-z][a-z0-9-]*")
"""A name to be written; lists may have only its prefix."""

# Each pattern is linear: wherever it begins to match, it consumes what it has looked at. An unclosed quotation is the
# exception, and there is at most one for each kind of quotation mark.
_MARKUP = re.compile(
    r"<(?:!--(?:-?>|.*?(?:--!?>|\Z))"  # a comment
    r"|(?P<end>/?)(?P<name>[A-Za-z][^\s/>]*)"  # a tag, as far as its attributes
    r"|[!?/][^>]*>?)",  # anything else which browsers take for a comment
    re.DOTALL,
)
_ATTRIBUTE = re.compile(
    r"[\s/]*(?:(?P<close>>)"
    r"|(?P<name>[^\s/>][^\s/>=]*)"
    r"""(?:\s*=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s"'>][^\s>]*)?))?)"""
)
_RAW_ENDS = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in _RAW}
_LONG_NUMBER = re.compile(r"&#(?:[xX][0-9a-fA-F]{9,}|[0-9]{9,});?")
"""A character reference which Python may refuse to read."""

_KEPT_STYLES = frozenset({"background-color", "color", "font-weight", "font-style", "text-align"})
_STYLE_CHARACTERS = 60
_STYLE_VALUE = re.compile(r"(?!.*\b(?:url|expression|var)\b)[#\w\s(),.%-]+", re.IGNORECASE | re.DOTALL)
_ID = re.compile(r"#([\w-]+)")
_TABLE_STYLES: Mapping[str, str] = {
    "table": "border-collapse:collapse;margin:0;font-size:12px;line-height:20px",
    "th": "padding:2px 16px 2px 0;text-align:right;font-weight:600;border-bottom:1px solid rgba(128,128,128,0.5)",
    "td": "padding:2px 16px 2px 0;text-align:right;border-bottom:1px solid rgba(128,128,128,0.35)",
    "img": "max-width:100%;height:auto",
}

_CSS_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})(?:\r\n|[ \t\r\n\f])?|(.))", re.DOTALL)
_CSS_LETTERS = re.compile(r"[A-Za-z@(-]")
_CSS_FUNCTION = re.compile(r"(?<![\w-])([\w-]+)\(")
_CSS_LOADS = re.compile(
    r"(?:-[a-z]+-)?(?:url(?:-prefix)?|src|image|image-set|cross-fade|element|paint|expression)", re.IGNORECASE
)
_CSS_LOCAL = re.compile(r"""\s*["']?\s*(?:#|data:image/(?:png|jpeg|gif|webp);base64,)""", re.IGNORECASE)
_CSS_IMPORT = re.compile(r"@(?=import|namespace|charset|document|-moz-document)", re.IGNORECASE)


@lru_cache(maxsize=16)
def framed_html(html: str) -> str:
    """Return HTML for a frame without scripts and origin.

    Its links lead nowhere outside the frame.

    Style sheets, vector graphics and embedded images stay.

    The last results are remembered, because every page of a run shows them.

    Args:
        html: Any text.
    """
    return _rewritten(_tokens(html), _Framed())


def static_html(html: str, *, text: Callable[[str], str] = escape) -> str:
    """Return HTML which can stand in any document.

    It has tables, lists and texts with a few inline styles, and images.

    It has neither style sheets nor classes, ids, links or scripts, and its elements are balanced. The colours which a
    style sheet gives to single cells by their ids, as pandas' does, are kept.

    Args:
        html: Any text.
        text: Writes the texts between the elements as HTML.
    """
    tokens = list(_tokens(html))
    return _rewritten(tokens, _Static(text, styles=_styles_by_id(tokens)))


def text_of_html(html: str) -> str:
    """Return the text in HTML, without style sheets and scripts."""
    return _rewritten(_tokens(html), _Text())


@dataclass(slots=True)
class _Start:
    tag: str
    attributes: dict[str, str]


@dataclass(slots=True)
class _End:
    tag: str


@dataclass(slots=True)
class _StyleSheet:
    text: str


_Token: TypeAlias = str | _Start | _End | _StyleSheet


def _tokens(html: str) -> Iterator[_Token]:
    """Yield texts, tags and style sheets.

    An unclosed tag ends the document, as in browsers.
    """
    at = 0
    while (markup := _MARKUP.search(html, at)) is not None:
        if markup.start() > at:
            yield _unescaped(html[at : markup.start()])
        at, tag = markup.end(), (markup["name"] or "").lower()
        if not tag:
            continue
        attributes, close = _attributes(html, at)
        if close is None:
            return
        at = close.end()
        if markup["end"]:
            yield _End(tag)
            continue
        if tag not in _RAW:
            yield _Start(tag, attributes)
            if "/" in close[0] and tag not in _EMPTY | _WITH_CONTENT:
                yield _End(tag)  # as in vector graphics
            continue
        end = _RAW_ENDS[tag].search(html, at)
        content = html[at : len(html) if end is None else end.start()]
        at += len(content)
        if tag == "style":
            yield _StyleSheet(content)
    if at < len(html):
        yield _unescaped(html[at:])


def _attributes(html: str, at: int) -> tuple[dict[str, str], re.Match[str] | None]:
    """Return a tag's attributes and its end, None for an unclosed one."""
    attributes: dict[str, str] = {}
    while (part := _ATTRIBUTE.match(html, at)) is not None and part["close"] is None:
        at = part.end()
        value = part["double"] or part["single"] or part["bare"] or ""
        attributes.setdefault(part["name"].lower(), _unescaped(value))
    return attributes, part


def _unescaped(text: str) -> str:
    return unescape(_LONG_NUMBER.sub("\ufffd", text)) if "&" in text else text


def _rewritten(tokens: Iterable[_Token], rules: _Kept) -> str:
    parts: list[str] = []
    open_tags: list[str] = []
    for token in _shown(tokens):
        match token:
            case str():
                parts.append(rules.text(token))
            case _StyleSheet(text):
                parts.append(rules.style_sheet(text))
            case _Start(tag, attributes) if tag in rules.tags and len(open_tags) < MAX_DEPTH:
                values = dict(rules.attributes(tag, attributes))
                if tag != "img" or "src" in values:
                    markup = "".join(f' {name}="{escape(value)}"' for name, value in values.items())
                    parts.append(f"<{tag}{markup}>")
                    open_tags += [] if tag in _EMPTY else [tag]
            case _End(tag) if tag in open_tags:
                while (inner := open_tags.pop()) != tag:
                    parts.append(f"</{inner}>")
                parts.append(f"</{tag}>")
    return "".join([*parts, *(f"</{tag}>" for tag in reversed(open_tags))])


def _shown(tokens: Iterable[_Token]) -> Iterator[_Token]:
    """Yield the tokens outside elements which are left out with their content."""
    outermost, depth = "", 0
    for token in tokens:
        if isinstance(token, _Start) and (outermost or token.tag in _WITH_CONTENT):
            outermost = outermost or token.tag
            depth += token.tag == outermost
        elif not outermost:
            yield token
        elif isinstance(token, _End) and token.tag == outermost:
            depth -= 1
            outermost = outermost if depth else ""


@dataclass
class _Kept:
    """Rules for a rewritten document's texts and elements."""

    text: Callable[[str], str] = escape
    tags: frozenset[str] = frozenset()

    def attributes(self, tag: str, values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield the remaining attributes."""
        raise NotImplementedError

    def style_sheet(self, text: str) -> str:
        """Return the replacement for a style sheet."""
        del text
        return ""


@dataclass
class _Text(_Kept):
    text: Callable[[str], str] = str


@dataclass
class _Framed(_Kept):
    tags: frozenset[str] = _FRAMED_TAGS

    def attributes(self, tag: str, values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        for name, value in values.items():
            is_address = _is_image(tag, name, value) or (name == "href" and value.startswith("#"))
            if not _NAME.fullmatch(name):
                continue
            if name in _STYLING or name.startswith(_STYLING_PREFIXES):
                yield name, _css(value)
            elif is_address or name in _FRAMED_ATTRIBUTES or name.startswith(_FRAMED_PREFIXES):
                yield name, value

    def style_sheet(self, text: str) -> str:
        return f"<style>{_css(text)}</style>"


@dataclass
class _Static(_Kept):
    styles: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    tags: frozenset[str] = _STATIC_TAGS

    def attributes(self, tag: str, values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        style = [_TABLE_STYLES.get(tag, "")]
        for name, value in values.items():
            is_valid = name not in {"colspan", "rowspan"} or _NUMBER.fullmatch(value) is not None
            if (name in _STATIC_ATTRIBUTES and is_valid) or _is_image(tag, name, value):
                yield name, value
            elif name == "id":
                style.append(_written(self.styles.get(value, {})))
            elif name == "style":
                style.append(_written(_kept_declarations(value)))
        if any(style):
            yield "style", ";".join(filter(None, style))


def _is_image(tag: str, name: str, value: str) -> bool:
    return tag == "img" and name == "src" and _IMAGE.fullmatch(value.strip()) is not None


def _css(text: str) -> str:
    """Return CSS without addresses and without `<`.

    In a vector graphic's style sheet, this would begin a tag.
    """

    def function(call: re.Match[str]) -> str:
        loads = _CSS_LOADS.fullmatch(call[1]) is not None
        is_local = call[1].lower() == "url" and _CSS_LOCAL.match(call.string, call.end()) is not None
        return f"no-{call[0]}" if loads and not is_local else call[0]

    text = _CSS_ESCAPE.sub(_plain_letter, text).replace("<", "\\3c ")
    return _CSS_IMPORT.sub("@no-", _CSS_FUNCTION.sub(function, text))


def _plain_letter(match: re.Match[str]) -> str:
    """Return a letter without its escape, for comparing names.

    Other escapes stay.
    """
    if match[2] is not None:
        return match[2] if _CSS_LETTERS.fullmatch(match[2]) else match[0]
    code = int(match[1], 16)
    letter = chr(code) if code < 128 else ""  # noqa: PLR2004 - ASCII
    return letter if _CSS_LETTERS.fullmatch(letter) else f"\\{match[1]} "


def _kept_declarations(style: str) -> dict[str, str]:
    declarations: dict[str, str] = {}
    for declaration in style.split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name.lower() in _KEPT_STYLES and len(value) <= _STYLE_CHARACTERS and _STYLE_VALUE.fullmatch(value):
            declarations[name.lower()] = value
    return declarations


def _written(declarations: Mapping[str, str]) -> str:
    return ";".join(f"{name}:{value}" for name, value in declarations.items())


def _styles_by_id(tokens: Iterable[_Token]) -> dict[str, dict[str, str]]:
    """Return styles by element id, from selectors with an id alone."""
    styles: dict[str, dict[str, str]] = {}
    for sheet in tokens:
        if not isinstance(sheet, _StyleSheet):
            continue
        for rule in sheet.text.split("}")[:-1]:
            head, _, declarations = rule.rpartition("{")
            style = _kept_declarations(declarations)
            for selector in head.rpartition("{")[2].split(",") if style else ():
                if single := _ID.fullmatch(selector.strip()):
                    styles.setdefault(single[1], {}).update(style)
    return styles

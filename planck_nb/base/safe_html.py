"""Rewrites HTML from unknown sources to harmless HTML."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from html.parser import HTMLParser

MAX_DEPTH = 100
"""Deepest nesting; elements below are left out, but their text stays."""

_EMPTY = frozenset({"br", "hr", "img", "col", "wbr", "input", "area", "source"})
_WITH_CONTENT = frozenset(
    "script noscript template iframe frame frameset object embed applet audio video canvas textarea select title head "
    "portal noembed noframes xmp plaintext fencedframe".split()
)
"""Elements to leave out with everything inside them."""

_STATIC_TAGS = frozenset(
    "table thead tbody tfoot tr th td caption p div span b i em strong u s sub sup small br hr ul ol li dl dt dd pre "
    "code kbd samp h1 h2 h3 h4 h5 h6 details summary blockquote img".split()
)
_NEVER_FRAMED = frozenset({"base", "meta", "link", "form", "html", "body", "foreignobject", "animate", "set"})
_FRAMED_ATTRIBUTES = frozenset(
    "class id style title colspan rowspan scope align valign width height alt dir lang open type checked for name "
    "value min max start reversed span role d x y x1 x2 y1 y2 cx cy r rx ry dx dy points viewbox transform fill "
    "stroke opacity preserveaspectratio offset xmlns".split()
)
_FRAMED_PREFIXES = ("stroke-", "fill-", "font-", "text-", "aria-", "data-")
_STATIC_ATTRIBUTES = frozenset({"colspan", "rowspan", "title", "alt", "open"})
_CASE = {"viewbox": "viewBox", "preserveaspectratio": "preserveAspectRatio"}
_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/\s]+={0,2}\s*", re.IGNORECASE)
_NUMBER = re.compile(r"\d{1,3}")
_NAME = re.compile(r"[a-z][a-z0-9-]*")

_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_ID = re.compile(r"#([\w-]+)")
_KEPT_STYLES = frozenset({"background-color", "color", "font-weight", "font-style", "text-align"})
_STYLE_VALUE = re.compile(r"(?!.*\b(?:url|expression|var)\b)[#\w\s(),.%-]{1,60}", re.IGNORECASE)
_TABLE_STYLES: Mapping[str, str] = {
    "table": "border-collapse:collapse;margin:0;font-size:12px;line-height:20px",
    "th": "padding:2px 16px 2px 0;text-align:right;font-weight:600;border-bottom:1px solid rgba(128,128,128,0.5)",
    "td": "padding:2px 16px 2px 0;text-align:right;border-bottom:1px solid rgba(128,128,128,0.35)",
    "img": "max-width:100%;height:auto",
}


def framed_html(html: str) -> str:
    """Return HTML for a frame without scripts and origin.

    Its links lead nowhere outside the frame.

    Style sheets, vector graphics and embedded images stay.

    Args:
        html: Any text.
    """
    return _rewritten(html, _Framed())


def static_html(html: str, *, text: Callable[[str], str] = escape) -> str:
    """Return HTML which can stand in any document.

    It has tables, lists and texts with a few inline styles, and images.

    It has neither style sheets nor classes, ids, links or scripts, and its elements are balanced. The colours which a
    style sheet gives to single cells by their ids, as pandas' does, are kept.

    Args:
        html: Any text.
        text: Writes the texts between the elements as HTML.
    """
    return _rewritten(html, _Static(text, _styles_by_id(html)))


def text_of_html(html: str) -> str:
    """Return the text in HTML, without style sheets and scripts."""
    reader = _Rewriter(_Text())
    reader.feed(html)
    reader.close()
    return "".join(reader.written)


def _rewritten(html: str, rules: _Kept) -> str:
    writer = _Rewriter(rules)
    writer.feed(html)
    writer.close()
    return writer.result()


@dataclass
class _Kept:
    """Rules for a rewritten document."""

    text: Callable[[str], str] = escape

    def has(self, tag: str) -> bool:
        """Return whether elements with this name stay; the content always does."""
        raise NotImplementedError

    def attributes(self, tag: str, pairs: list[tuple[str, str | None]]) -> Iterator[tuple[str, str]]:
        """Yield the remaining attributes."""
        raise NotImplementedError

    def style_sheet(self, text: str) -> str:
        """Return the replacement for a style sheet."""
        del text
        return ""


@dataclass
class _Text(_Kept):
    text: Callable[[str], str] = str

    def has(self, tag: str) -> bool:
        del tag
        return False

    def attributes(self, tag: str, pairs: list[tuple[str, str | None]]) -> Iterator[tuple[str, str]]:
        del tag, pairs
        yield from ()


@dataclass
class _Framed(_Kept):
    def has(self, tag: str) -> bool:
        return tag not in _NEVER_FRAMED and _NAME.fullmatch(tag) is not None

    def attributes(self, tag: str, pairs: list[tuple[str, str | None]]) -> Iterator[tuple[str, str]]:
        for name, value in pairs:
            allowed_name = name in _FRAMED_ATTRIBUTES or name.startswith(_FRAMED_PREFIXES)
            local = name == "href" and tag != "use" and (value or "").startswith("#")
            if allowed_name or local or _is_image(tag, name, value):
                yield _CASE.get(name, name), value or ""

    def style_sheet(self, text: str) -> str:
        return f"<style>{text}</style>"


@dataclass
class _Static(_Kept):
    styles: Mapping[str, str] = field(default_factory=dict)

    def has(self, tag: str) -> bool:
        return tag in _STATIC_TAGS

    def attributes(self, tag: str, pairs: list[tuple[str, str | None]]) -> Iterator[tuple[str, str]]:
        style = _TABLE_STYLES.get(tag, "")
        for name, value in pairs:
            is_valid = name not in {"colspan", "rowspan"} or _NUMBER.fullmatch(value or "") is not None
            if (name in _STATIC_ATTRIBUTES and is_valid) or _is_image(tag, name, value):
                yield name, value or ""
            elif name == "id":
                style = ";".join(filter(None, [style, self.styles.get(value or "", "")]))
            elif name == "style":
                style = ";".join(filter(None, [style, _kept_declarations(value or "")]))
        if style:
            yield "style", style


class _Rewriter(HTMLParser):
    def __init__(self, rules: _Kept) -> None:
        super().__init__(convert_charrefs=True)
        self.written: list[str] = []
        self._kept = rules
        self._open: list[str] = []
        self._left_out: list[str] = []
        """The open elements which are left out with everything inside them."""
        self._in_style = False

    def result(self) -> str:
        """Return the new HTML, with all elements closed."""
        return "".join([*self.written, *(f"</{tag}>" for tag in reversed(self._open))])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "style":
            self._in_style = True
        elif tag in _WITH_CONTENT:
            self._left_out.append(tag)
        elif not self._left_out and self._kept.has(tag) and len(self._open) < MAX_DEPTH:
            attributes = dict(self._kept.attributes(tag, attrs))
            if tag == "img" and "src" not in attributes:
                return
            markup = "".join(f' {name}="{escape(value)}"' for name, value in attributes.items())
            self.written.append(f"<{tag}{markup}>")
            if tag not in _EMPTY:
                self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _EMPTY:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == "style":
            self._in_style = False
        elif tag in self._left_out:
            del self._left_out[self._left_out.index(tag) :]
        elif tag in self._open and not self._left_out:
            while (inner := self._open.pop()) != tag:
                self.written.append(f"</{inner}>")
            self.written.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if self._left_out:
            return
        self.written.append(self._kept.style_sheet(data) if self._in_style else self._kept.text(data))


def _is_image(tag: str, name: str, value: str | None) -> bool:
    return tag == "img" and name == "src" and _IMAGE.fullmatch(value or "") is not None


def _kept_declarations(style: str) -> str:
    declarations = []
    for declaration in style.split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name.lower() in _KEPT_STYLES and _STYLE_VALUE.fullmatch(value):
            declarations.append(f"{name.lower()}:{value}")
    return ";".join(declarations)


def _styles_by_id(html: str) -> dict[str, str]:
    """Return styles by element id, from selectors with an id alone."""
    styles: dict[str, str] = {}
    for sheet in re.findall(r"<style[^>]*>(.*?)</style>", html, re.DOTALL | re.IGNORECASE):
        for selectors, declarations in _RULE.findall(sheet):
            style = _kept_declarations(declarations)
            for selector in selectors.split(",") if style else ():
                if single := _ID.fullmatch(selector.strip()):
                    styles[single[1]] = ";".join(filter(None, [styles.get(single[1], ""), style]))
    return styles

"""SVG for charts: elements, fitting text, and a legible document.

Inline in JupyterLab, a chart uses the theme's colours through its style element. In a file or an image the attributes
apply: mid grey text, which is legible on white and on black.
"""

from __future__ import annotations

import unicodedata
from xml.sax.saxutils import escape, quoteattr

from planck_nb.base.text import one_line

WIDTH = 500
"""Chart width in pixels.

Text is still legible at three quarters of this width.
"""

FONT = 12
DATA, HOLD, FAIL = "#1e88e5", "#e65100", "#d32f2f"
STRONG, MEDIUM, LIGHT = 1.0, 0.6, 0.3
"""Opacities for different data in the same colour."""

_STYLE = (
    ".pk-pic{color:var(--pk-fg,var(--jp-content-font-color1,#787878))}"
    ".pk-pic .pk-soft{fill:var(--pk-fg2,var(--jp-content-font-color2,currentColor))}"
    f".pk-pic .pk-data{{fill:var(--jp-brand-color1,{DATA})}}"
    f".pk-pic .pk-hold{{fill:var(--jp-warn-color0,{HOLD})}}"
    f".pk-pic .pk-fail{{fill:var(--jp-error-color1,{FAIL})}}"
)
_COLOURS = {"pk-data": DATA, "pk-hold": HOLD, "pk-fail": FAIL}
_JOINER = "\u200d"
_MAX_CHARACTERS = 500


def element(name: str, *children: str, **attributes: object) -> str:
    """Return an element with markup as children.

    The attribute `stroke_width=2` becomes `stroke-width="2"`.
    """
    markup = "".join(
        f" {key.rstrip('_').replace('_', '-')}={quoteattr(_value(value))}"
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{markup}>{''.join(children)}</{name}>" if children else f"<{name}{markup}/>"


def text(
    x: float, y: float, content: str, *, bold: bool = False, anchor: str | None = None, max_width: float | None = None
) -> str:
    """Return a line of text, cut to `max_width` pixels; muted unless bold.

    Its baseline starts at (x, y).
    """
    fitting = plain(content) if max_width is None else cut(content, max_width)
    weight = {"font_weight": 600} if bold else {"class_": "pk-soft"}
    return element("text", escape(fitting), x=x, y=y, text_anchor=anchor, fill="currentColor", **weight)


def rect(x: float, y: float, width: float, height: float, kind: str, *, opacity: float = STRONG) -> str:
    """Return a filled rectangle; `kind` is "pk-data", "pk-hold" or "pk-fail"."""
    return element("rect", x=x, y=y, width=width, height=height, **filling(kind, opacity))


def filling(kind: str, opacity: float = STRONG) -> dict[str, object]:
    """Return the attributes for filling an element.

    `kind` is as in `rect`, or empty for the text colour.
    """
    opacity_value = None if opacity == STRONG else opacity
    return {"class_": kind or None, "fill": _COLOURS.get(kind, "currentColor"), "fill_opacity": opacity_value}


def rule(path: str, opacity: float = 0.3, dashes: str | None = None) -> str:
    """Return a thin line along the path."""
    return element("path", d=path, fill="none", stroke="currentColor", stroke_opacity=opacity, stroke_dasharray=dashes)


def document(height: float, title: str, description: str, body: str) -> str:
    """Return the whole chart; `title` and `description` are for screen readers."""
    return element(
        "svg",
        element("title", escape(plain(title))),
        element("desc", escape(plain(description))),
        element("style", _STYLE),
        body,
        xmlns="http://www.w3.org/2000/svg",
        class_="pk-pic",
        viewBox=f"0 0 {WIDTH} {_value(height)}",
        width=WIDTH,
        height=height,
        color="#787878",
        font_family="system-ui, sans-serif",
        font_size=FONT,
        role="img",
    )


def plain(content: str) -> str:
    """Return the text on one line, without forbidden characters.

    XML forbids some, and others change the text direction.
    """
    flat = one_line(content, _MAX_CHARACTERS)
    return "".join(c if c == _JOINER or unicodedata.category(c)[0] != "C" else "\ufffd" for c in flat)


def cut(content: str, max_width: float, *, bold: bool = True) -> str:
    """Return the text, cut with an ellipsis beyond `max_width` pixels."""
    content = plain(content)
    if width_of(content, bold=bold) <= max_width:
        return content
    max_width -= width_of("…", bold=bold)
    count = 0
    while count < len(content) and (max_width := max_width - width_of(content[count], bold=bold)) >= 0:
        count += 1
    return content[:count].rstrip() + "…"


def width_of(content: str, *, bold: bool = True) -> float:
    """Estimate the text width in pixels, rather too wide than too narrow."""
    return sum(map(_em, content)) * FONT * (1.12 if bold else 1.0)


def _em(character: str) -> float:
    if unicodedata.combining(character) or character == _JOINER:
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    if character in "iljtfrI.,:;|!' ()[]":
        return 0.38
    if character in "mwMW@%…—":
        return 0.95
    return 0.7 if character.isupper() else 0.62


def _value(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)

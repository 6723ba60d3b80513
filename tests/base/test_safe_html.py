"""HTML of unknown origin: what is written for saved notebooks, and for frames, runs nothing and loads nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from support.payloads import payloads

from planck_nb.base.safe_html import MAX_DEPTH, framed_html, static_html, text_of_html

HOSTILE = {
    "script": "<script>hurt()</script>",
    "script in svg": "<svg><script>hurt()</script><style><img src=x onerror=hurt()></style></svg>",
    "handler": '<img src="x" onerror="hurt()"><td onclick=hurt()>x</td><details open ontoggle=hurt()>x</details>',
    "link": '<a href="javascript:hurt()">x</a><a href="https://evil.invalid/">y</a><a href="//evil.invalid">z</a>',
    "image": '<img src="https://evil.invalid/p.png"><img src="//evil.invalid/p"><img srcset="//evil.invalid/p 2x">',
    "image of svg": '<img src="data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+">',
    "frame": '<iframe src="//evil.invalid"></iframe><iframe srcdoc="<script>hurt()</script>"></iframe>',
    "object": '<object data="https://evil.invalid"></object><embed src="https://evil.invalid">',
    "refresh": '<meta http-equiv="refresh" content="0;url=https://evil.invalid"><base href="https://evil.invalid/">',
    "sheet": '<link rel="stylesheet" href="https://evil.invalid/a"><style>@import "https://evil.invalid/b"</style>',
    "background": '<td background="https://evil.invalid/p" style="background:url(https://evil.invalid/q)">x</td>',
    "color": '<td style="color:expression(hurt());background-color:url(https://evil.invalid/q)">x</td>',
    "form": '<form action="https://evil.invalid"><button formaction="https://evil.invalid">x</button></form>',
    "entities": '<a href="&#106;avascript:hurt()">x</a><img src=x one&#114;ror=hurt()>',
    "unclosed": "</div></td></table></body><table><tr><td><b><i>x",
    "comment": "<!--><img src=x onerror=hurt()>--><![CDATA[<img src=x onerror=hurt()>]]>",
    "mutation": '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=hurt()&gt;">',
    "noscript": '<noscript><p title="</noscript><img src=x onerror=hurt()>"></noscript>',
    "title": '<td title="&quot; onclick=hurt() x=&quot;">x</td>',
    "use": '<svg><use href="https://evil.invalid/s.svg#x"/><a xlink:href="javascript:hurt()">x</a></svg>',
    "image in svg": '<svg><image href="https://evil.invalid/i"/><a href="javascript:hurt()">x</a></svg>',
    "media": '<video src="https://evil.invalid/v" poster="https://evil.invalid/p"></video><audio src="//e.invalid">',
    "name": "<x onclick=hurt()><-bad><a:b href=javascript:hurt()>",
    "null": "<scr\x00ipt>hurt()</scr\x00ipt><img src=x on\x00error=hurt()>",
}
"""Harmful HTML by what it attempts."""


LOADING = re.compile(
    r"@(?=import)|(?<![\w-])(?:url\((?!\s*[\"']?(?:#|data:image/))|(?:-webkit-)?image-set\()", re.IGNORECASE
)
ATTACKS = {**HOSTILE, **{text: text for text in payloads("https://evil.invalid")}}


class Elements(HTMLParser):
    """The elements and attributes of HTML, and whether each element is closed in its turn."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.sheets: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in {"br", "hr", "img", "input", "col", "wbr", "area", "source"}:
            self.open.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["style"]:
            self.sheets.append(data)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("attack", ATTACKS)
def test_static_html_has_nothing_that_runs_or_loads(attack: str) -> None:
    elements = Elements(static_html(ATTACKS[attack]))
    assert elements.open == []
    for tag, attributes in elements.found:
        assert tag not in {"a", "script", "style", "svg", "iframe", "form", "meta", "base", "link", "object", "embed"}
        assert set(attributes) <= {"colspan", "rowspan", "title", "alt", "open", "src", "style"}
        assert (attributes.get("src") or "data:image/png").startswith("data:image/")
        assert "svg" not in (attributes.get("src") or "")
        assert not {"url", "expression", "evil"} & set((attributes.get("style") or "").replace("(", " ").split())


@pytest.mark.parametrize("attack", ATTACKS)
def test_framed_html_does_not_lead_out_of_its_frame(attack: str) -> None:
    elements = Elements(framed_html(ATTACKS[attack]))
    assert elements.open == []
    for tag, attributes in elements.found:
        assert tag not in {"script", "iframe", "form", "meta", "base", "link", "object", "embed", "video", "audio"}
        assert not [name for name in attributes if name.startswith(("on", "xlink")) or name in {"srcdoc", "action"}]
        for name in ("src", "href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:image/"))
        assert not LOADING.search(" ".join(str(attributes.get(name)) for name in ("style", "fill", "stroke", "mask")))
    for sheet in elements.sheets:
        assert "<" not in sheet
        assert not LOADING.search(sheet)


def test_a_styled_table_keeps_its_texts_and_the_colours_of_its_cells() -> None:
    html = (
        "<style>#T_1_c0, #T_1_c1 { background-color: #f00; color: white; position: fixed } #T_1 td { color: blue }"
        "</style>"
        '<table id="T_1"><tr><td id="T_1_c0" class="x" colspan="2">a &lt; b</td><td id="T_1_c2">$5</td></tr></table>'
    )
    written = static_html(html, text=lambda text: text.upper().replace("<", "&lt;"))
    assert "background-color:#f00;color:white" in written
    assert "fixed" not in written
    assert "blue" not in written
    assert 'colspan="2"' in written
    assert "A &lt; B" in written
    assert framed_html(html).startswith("<style>#T_1_c0")


def test_an_image_that_is_part_of_the_document_stays() -> None:
    html = '<p><img src="data:image/png;base64,iVBORw0KGgo=" alt="a plot"></p>'
    assert 'src="data:image/png;base64,iVBORw0KGgo="' in static_html(html)
    assert 'src="data:image/png;base64,iVBORw0KGgo="' in framed_html(html)


def test_deep_nesting_ends() -> None:
    written = static_html("<div>" * 10_000 + "x")
    assert written.count("<div>") == written.count("</div>") == MAX_DEPTH


def test_the_text_of_a_document() -> None:
    assert text_of_html("<style>a{}</style><p>sk-<b>abc</b>&amp;</p><script>x</script>") == "sk-abc&"


def test_style_sheets_of_frames_load_nothing_and_keep_the_rest() -> None:
    html = (
        '<style>p::before { content: "\\2714 a" } p { background: u\\72l(//evil.invalid), url(#x), '
        "url(data:image/png;base64,AA) } @\\69mport '//evil.invalid';"
        "@media (width > 1px) { p { color: rgb(1, 2, 3) } } a { b: c < d }</style>"
    )
    sheet = framed_html(html).removeprefix("<style>").removesuffix("</style>")
    assert "no-url(//evil.invalid), url(#x), url(data:image/png;base64,AA)" in sheet
    assert "@no-import" in sheet
    assert 'content: "\\2714 a"' in sheet
    assert "@media (width > 1px) { p { color: rgb(1, 2, 3) } } a { b: c \\3c  d }" in sheet


def test_a_style_sheet_ends_where_browsers_end_it() -> None:
    assert framed_html("<style>a{}</style/><b>x</b>") == "<style>a{}</style><b>x</b>"
    assert framed_html("<svg><style><a href='x'>y</a></style>z</svg>").count("<a") == 0


def test_closed_elements_of_vector_graphics_are_siblings() -> None:
    paths = "<path d='M0 0'/>" * 300
    svg = f"<svg viewBox='0 0 9 9'><g>{paths}</g><a href=x/>b</a></svg>"
    written = framed_html(svg)
    assert written.count('<path d="M0 0"></path>') == 300
    assert 'viewbox="0 0 9 9"' in written


def test_what_browsers_take_for_comments_is_left_out() -> None:
    assert static_html("a<!--b-->c<!-->d<!---->e</ f>g<?h?>i<!j>k</>l<!--m--!>n<!--o") == "acdegikln"
    assert static_html("a < b <3 &lt; &#99999999999; &amp") == "a &lt; b &lt;3 &lt; \ufffd &amp;"


def test_elements_left_out_with_their_content_end() -> None:
    assert static_html("<object>a<object>b</object>c</video>d</object>e<embed>f<template>g") == "ef"


def test_many_styles_of_one_cell_are_one_style() -> None:
    sheet = "".join(f"#a {{ color: #{number % 1000:03} }}" for number in range(5_000))
    written = static_html(f"<style>{sheet}</style><table>{'<tr><td id=a>x</td></tr>' * 5_000}</table>")
    assert "color:#999" in written
    assert len(written) < 2_000_000

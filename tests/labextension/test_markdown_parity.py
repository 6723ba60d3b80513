"""The live and the saved view render the same Markdown to the same elements, texts and formulas."""

from __future__ import annotations

import json
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.node import run_typescript
from support.payloads import payloads

from planck_nb.base.markdown import to_html

pytestmark = pytest.mark.process

TEXTS = json.loads((Path(__file__).parents[1] / "fixtures/markdown/texts.json").read_text(encoding="utf-8"))
CASES = {**TEXTS, **{f"payload {number}": text for number, text in enumerate(payloads())}}
KEPT = {"a": ("href",), "ol": ("start",), "th": ("align",), "td": ("align",), "span": ("aria-label",)}
SAVED_FORMULA = re.compile(r"\\\((.*)\\\)|\\\[(.*)\\\]", re.DOTALL)


class Outline(HTMLParser):
    """The elements and texts of HTML without what only one of the views has: styles, buttons and colours of code."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self._open: list[tuple[str, str]] = []
        self._left_out = 0
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        classes = attributes.get("class", "")
        if self._left_out or classes == "pk-tools":
            self._left_out += tag not in {"br", "hr"}
            return
        if classes == "pk-math":
            kind = "math display" if "data-display" in attributes else "math"
        elif self._has_no_meaning(tag, attributes):
            kind = ""
        elif tag == "div":
            kind = "math"
        else:
            align = re.search(r"text-align:\s*(center|right)", attributes.get("style", ""))
            attributes["align"] = align[1] if align and tag in {"th", "td"} else ""
            kept = "".join(f" {name}={attributes[name]}" for name in KEPT.get(tag, ()) if attributes.get(name))
            kind = f"{tag}{kept}"
        if kind and not kind.startswith("math"):
            self.found.append(f"<{kind}>")
        if tag not in {"br", "hr"}:
            self._open.append((tag, kind))

    def _has_no_meaning(self, tag: str, attributes: dict[str, str]) -> bool:
        """Whether an element is there for its style only."""
        inside = self._open[-1][1] if self._open else ""
        return (
            attributes.get("class") in {"pk-code", "pk-scroll"}
            or (tag == "span" and "aria-label" not in attributes)
            or (tag == "code" and inside in {"pre", "math", "math display"})
        )

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if self._left_out:
            self._left_out -= 1
            return
        _, kind = self._open.pop()
        if kind and not kind.startswith("math"):
            self.found.append(f"</{kind.split()[0]}>")

    def handle_data(self, data: str) -> None:
        if self._left_out:
            return
        kinds = [kind for _, kind in self._open]
        formula = next((kind for kind in kinds if kind.startswith("math")), "")
        saved = None if any(tag in {"code", "pre"} for tag, _ in self._open) else SAVED_FORMULA.fullmatch(data)
        if saved is not None and self._open[-1][0] in {"span", "div"}:
            self.found.append(f"[{'math' if saved[1] is not None else 'math display'}: {saved[1] or saved[2]}]")
        elif formula:
            self.found.append(f"[{formula}: {data}]")
        elif self.found and not self.found[-1].startswith(("<", "[math")):
            self.found[-1] += data
        else:
            self.found.append(data)

    @property
    def text(self) -> list[str]:
        in_pre = False
        parts = []
        for part in self.found:
            in_pre = part == "<pre>" or (in_pre and part != "</pre>")
            parts.append(part.rstrip() if in_pre else re.sub(r"\s+", " ", part).strip())
        return [part for part in parts if part]


@cache
def live() -> dict[str, str]:
    rendered = run_typescript("test/render-markdown.ts", list(CASES.values()))
    assert isinstance(rendered, list)
    return dict(zip(CASES, rendered, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_text_is_rendered_the_same_live_and_saved(name: str) -> None:
    assert Outline(live()[name]).text == Outline(to_html(CASES[name])).text


def test_money_is_marked_and_formulas_are_tex_in_the_saved_output() -> None:
    saved = to_html(TEXTS["money beside mathematics"])
    dollar = '<span class="tex2jax_ignore mathjax_ignore">$</span>'
    assert re.sub(r"</?p[^>]*>", "", saved) == (
        rf"At {dollar}5 each, <span>\(n\)</span> cost <span>\(5n\)</span> dollars, "
        rf"or {dollar}10 for <span>\(n=2\)</span>."
    )


def test_code_is_marked_without_colours_in_the_saved_output() -> None:
    saved = to_html(TEXTS["code"])
    assert '<span style="font-weight:600">def</span>' in saved
    assert '<span style="opacity:0.7;font-style:italic"># comment</span>' in saved
    assert not re.search(r"(?<!-)\bcolor:", saved)


def test_code_is_coloured_in_the_live_view() -> None:
    assert '<span class="hl-keyword">def</span>' in live()["code"]
    assert '<span class="hl-keyword">SELECT</span>' in live()["code"]

"""Rendering takes time in proportion to the text, whatever the text is: measured as CPU time, generously."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from support.growth import BUILT, REPEATED, check_growth

from planck_nb.base.markdown import FORMATTED_CHARACTERS, to_html, to_markdown
from planck_nb.base.text import head_and_tail


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("name", [*REPEATED, *BUILT], ids=repr)
@pytest.mark.parametrize("function", [to_html, to_markdown])
def test_time_is_linear(function: Callable[[str], str], name: str) -> None:
    check_growth(function, name, 10_000)


@pytest.mark.parametrize("function", [to_html, to_markdown])
def test_a_very_long_text_is_not_formatted_and_says_so(function: Callable[[str], str]) -> None:
    text = "](<" * 4_000_000
    before = time.thread_time()
    rendered = function(text)
    assert time.thread_time() - before < 10
    assert "This text of 12,000,000 characters is too long to be formatted." in rendered
    assert rendered.count("](<") + rendered.count("](&lt;") == 4_000_000
    assert "**" in function("**" + "x" * FORMATTED_CHARACTERS)


def test_a_long_paragraph_is_text_and_the_others_are_formatted() -> None:
    html = to_html("**first**\n\n" + "**long** " * 2_000 + "\n\n**last**")
    assert html.count("<strong>") == 2
    assert html.count("**long**") == 2_000


def test_deep_brackets_are_text() -> None:
    html = to_html("[" * 40_000 + "]" * 40_000)
    assert "<a" not in html


@pytest.mark.parametrize("name", ["a", "\n", "\r\n"])
def test_shortening_is_linear(name: str) -> None:
    check_growth(lambda text: head_and_tail(text, characters=1_000, lines=100), name, 500_000)

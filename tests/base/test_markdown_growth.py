"""Rendering takes time in proportion to the text, whatever the text is: measured as CPU time, generously."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from planck_nb.agent.output import OutputMismatch, output_spec
from planck_nb.ai.status_errors import plain_words
from planck_nb.base.markdown import FORMATTED_CHARACTERS, to_html, to_markdown
from planck_nb.base.text import head_and_tail
from planck_nb.jupyter.terminal import plain

REPEATED = (
    *("](<", "`", "` ", "``a` ", "*_", "*a ", "**a _", "**x** ", "a**b", "[", "![", "!", "[[]", "[]("),
    *("[a](", "[a]", "[a][", "[\\[", "]", "](", "[x](<a", '[x](a "', "[a]: b\n", "[x]: <\n", "]: ", "](  "),
    *("<", "<a ", "<a", "<!--", "<http://", "$", "$$", "\\\\[", "\\begin{a}", "\\", "\\\n", "|", "| a\n", "&#", "&a"),
    *(
        "- ",
        "- a\n",
        "1. ",
        "> ",
        "> a\n",
        "# ",
        "---\n",
        "a\n=\n",
        "~~",
        "~~a ",
        "```",
        "```\n",
        "```a\n\n",
        "    <b>\n\n",
    ),
    *("\n", " ", "\t", "a", "a ", "\x1b]", "\x1b[", "\r", "`<b>`\n", "`\n"),
)


def _runs(size: int) -> str:
    """Runs of backticks, each longer than the one before."""
    text, length = "", 1
    while len(text) < size:
        text += "`" * length + "a"
        length += 1
    return text


def _nested_list(size: int) -> str:
    text, depth = "", 0
    while len(text) < size:
        text += "  " * depth + "- a\n"
        depth += 1
    return text


BUILT: dict[str, Callable[[int], str]] = {
    "runs of backticks": _runs,
    "nested lists": _nested_list,
    "nested brackets": lambda size: "[" * (size // 2) + "a" + "]" * (size // 2),
    "nested emphasis": lambda size: "*" * (size // 2) + "a" + "*" * (size // 2),
    "nested quotes": lambda size: "".join("> " * depth + "a\n" for depth in range(1, int(size**0.5))),
    "a table": lambda size: "|a|b|\n|-|-|\n" + "|x|y|\n" * (size // 6),
    "a code block and marks": lambda size: "```\n<b>\n```\n" + "$$\\begin{a}`" * (size // 12),
}


def _text(name: str, size: int) -> str:
    return BUILT[name](size) if name in BUILT else name * (size // len(name))


def _seconds(function: Callable[[str], object], text: str) -> float:
    before = time.thread_time()
    function(text)
    return time.thread_time() - before


def _check_growth(function: Callable[[str], object], name: str, size: int) -> None:
    """Fail if four times the text takes much more than four times as long; sixteen times as long is quadratic."""
    for _ in range(3):
        large = _seconds(function, _text(name, 4 * size))
        if large < 0.1 or large < 9 * _seconds(function, _text(name, size)):
            return
    pytest.fail(f"{function.__name__} takes {large:.2f} s for {4 * size:,} characters of {name!r}")


@pytest.mark.parametrize("name", [*REPEATED, *BUILT], ids=repr)
@pytest.mark.parametrize("function", [to_html, to_markdown, plain])
def test_time_is_linear(function: Callable[[str], str], name: str) -> None:
    _check_growth(function, name, 15_000)


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


def _read(text: str) -> None:
    with pytest.raises(OutputMismatch):
        output_spec(int).read(text)


@pytest.mark.parametrize("name", ["```json\n", "```\n\n", "\n", "```", "{", "["])
def test_reading_an_answer_is_linear(name: str) -> None:
    _check_growth(_read, name, 100_000)


def test_a_fenced_answer_with_blank_lines_is_read_at_once() -> None:
    _check_growth(lambda text: _read(f"```json\n{text}x"), "\n", 15_000)


@pytest.mark.parametrize("name", ["<title>", "<title", "<title><", "<"])
def test_reading_an_error_page_is_linear(name: str) -> None:
    _check_growth(lambda text: plain_words(text.encode()), name, 16_000)


@pytest.mark.parametrize("name", ["a", "\n", "\r\n"])
def test_shortening_is_linear(name: str) -> None:
    _check_growth(lambda text: head_and_tail(text, characters=1_000, lines=100), name, 500_000)

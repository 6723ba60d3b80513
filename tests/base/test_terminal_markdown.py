"""Markdown in a terminal: what it looks like, and that pieces make no difference."""

from __future__ import annotations

import io
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planck_nb.base.terminal_markdown import TerminalMarkdown, supports_styles, to_terminal

STYLES = {"0": "</>", "1": "<b>", "3": "<i>", "4": "<u>", "9": "<s>", "36": "<c>"}

CASES = [
    ("Plain text.", "Plain text."),
    ("**b** and *i* and _i_ and `c` and ~~s~~", "<b>b</> and <i>i</> and <i>i</> and <c>c</> and <s>s</>"),
    ("**b with *i* inside**", "<b>b with <i>i</><b> inside</>"),
    ("`**c**` and ``a `b` c``", "<c>**c**</> and <c>a `b` c</>"),
    ("2 * 3 * 4, snake_case_name, **open", "2 * 3 * 4, snake_case_name, **open"),
    (r"\*no\* and \_no\_", "*no* and _no_"),
    ("# One", "<b><u>One</>"),
    ("### Three with `code`", "<b>Three with <c>code</><b></>"),
    ("#hashtag", "#hashtag"),
    ("- a\n  * b\n+ c", "• a\n  • b\n• c"),
    ("- [ ] to do\n- [x] done", "☐ to do\n☑ done"),
    ("1. a\n12) b\n2026 was", "1. a\n12) b\n2026 was"),
    ("> said\n> > twice", "│ said\n│ │ twice"),
    ("---\n***", "─" * 40 + "\n" + "─" * 40),
    ("```python\nx = '**'\n\n```\nafter", "<c>x = '**'</>\n\nafter"),
    ("~~~\n```\n~~~\n", "<c>```</>\n"),
    ("```\nnever closed", "<c>never closed</>"),
    ("- text\n  ```py\n  x\n  ```\n- more", "• text\n<c>  x</>\n• more"),
    ("see [the page](https://a.b/c_d) now", "see <u>the page</> (https://a.b/c_d) now"),
    ("<https://a.b> [https://a.b](https://a.b)", "https://a.b https://a.b"),
    ("![a plot](plot.png)", "[image: a plot]"),
    ("[convert 250]\n[note] and [x][y]", "[convert 250]\n[note] and [x][y]"),
    ("| a | bb |\n|---|:-:|\n| 1 | `2` |\nend", "<b>a  bb</>\n─  ──\n1  <c>2</>\nend"),
    ("| a\n| not a table", "| a\n| not a table"),
    ("|名|b|\n|-|-|\n|x|y|", "<b>名  b</>\n──  ─\nx   y"),
    ("x < y and a<b> and <notalink>", "x < y and a<b> and <notalink>"),
    ("$x_1 + x_2$", "$x_1 + x_2$"),
    ("a\n\n\nb\n", "a\n\n\nb\n"),
]


def shown(text: str) -> str:
    return re.sub(r"\x1b\[(\d+)m", lambda code: STYLES[code[1]], text)


@pytest.mark.parametrize(("markdown", "expected"), CASES)
def test_what_a_terminal_shows(markdown: str, expected: str) -> None:
    assert shown(to_terminal(markdown)) == expected


PIECES = [
    *("**", "*", "_", "__", "***", "* * *", "`", "``", "```", "~~", "[", "](", "]", "(", ")", "!", "<", ">", "> ", "|"),
    *("\n", "# ", "- ", "1. ", "+", "12", "---", "\\", "a", "b c", "word ", " ", "snake_case", "2 * 3", "https://x.y"),
    *("![x](y)", "[l](u)", "**b**", "`c`", "_i_", "中", "- [x] ", "| a | b |\n|-|-|\n| c | d |\n", "```py\nx\n```\n"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join), st.randoms(use_true_random=False))
def test_pieces_make_no_difference(markdown: str, random: object) -> None:
    stream, position, text = TerminalMarkdown(), 0, ""
    while position < len(markdown):
        end = position + random.randint(1, 5)  # type: ignore[attr-defined]
        text += stream.feed(markdown[position:end])
        position = end
    assert text + stream.end() == to_terminal(markdown)


def test_words_come_before_their_line_ends() -> None:
    stream = TerminalMarkdown()
    assert stream.feed("The **answer** is ") == "The \x1b[1manswer\x1b[0m is "
    assert stream.feed("**for") == ""
    assert stream.feed("ty** two") == "\x1b[1mforty\x1b[0m two"


@pytest.mark.parametrize("unit", ["*", "**a", "[a](", "_a ", "`", "|a", "| a | b |\n", "# ", "<https://a", "- [", "* "])
def test_the_time_grows_with_the_text(unit: str) -> None:
    stream, text = TerminalMarkdown(), unit * (100_000 // len(unit))
    began = time.process_time()
    for position in range(0, len(text), 100):
        stream.feed(text[position : position + 100])
    stream.end()
    assert time.process_time() - began < 10


class Output(io.StringIO):
    def __init__(self, *, terminal: bool, encoding: str = "utf-8") -> None:
        super().__init__()
        self._terminal, self._encoding = terminal, encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("output", "environment", "expected"),
    [
        (Output(terminal=True), {"TERM": "xterm"}, True),
        (Output(terminal=True), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Output(terminal=True), {"TERM": "dumb"}, False),
        (Output(terminal=True, encoding="ascii"), {}, False),
        (Output(terminal=False), {"TERM": "xterm"}, False),
    ],
)
def test_styles_are_for_terminals(output: Output, environment: dict[str, str], expected: bool) -> None:
    assert supports_styles(output, environment) is expected

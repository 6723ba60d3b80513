from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.growth import BUILT, REPEATED, check_growth

from planck_nb.jupyter.charts.chart import Chart
from planck_nb.jupyter.verbs.declaration import Text
from planck_nb.rendering.plain_output import LINE_CHARACTERS, MAX_EXAMINED, TAIL_LINES, Tail, for_terminal, plain


def shown(*pieces: str, max_examined: int = MAX_EXAMINED) -> tuple[str, int]:
    tail = Tail(max_examined=max_examined)
    for piece in pieces:
        tail.feed(piece)
    return tail.shown()


def test_the_last_lines_show_and_the_others_are_counted() -> None:
    lines = [f"line {at}" for at in range(48)]
    assert shown("\n".join(lines)) == ("\n".join(lines[38:]), 38)
    assert shown("\n".join(lines) + "\n") == ("\n".join(lines[38:]), 38)
    assert shown("a\nb\n") == ("a\nb", 0)
    assert shown("") == ("", 0)


def test_a_line_is_cut_and_costs_no_more_however_long_it_grows() -> None:
    text, _ = shown(*["x" * 1_000] * 5)
    assert text == "x" * LINE_CHARACTERS


def test_a_progress_bar_is_one_line() -> None:
    assert shown("10 %\r", "20 %\r", "30 %") == ("30 %", 0)
    assert shown("10 %\r100 %\r\ndone") == ("100 %\ndone", 0)
    assert shown("kept\r", "\r", "\nnext") == ("kept\nnext", 0)


@pytest.mark.parametrize(
    "command",
    ["\x1b[31m", "\x1b[0;1;38;5;196m", "\x1b]0;a title\x07", "\x1b]8;;http://x\x1b\\", "\x1b(B", "\x1b[2K", "\x08"],
)
def test_commands_to_a_terminal_are_left_out_wherever_they_are_cut(command: str) -> None:
    text = f"a{command}b"
    assert plain(text) == "ab"
    for at in range(len(text)):
        assert shown(text[:at], text[at:])[0] == "ab"


PIECES = st.lists(st.sampled_from(["a", "bc", "\n", "\r", "\r\n", "\x1b[1m", "\x1b[", "é"]), max_size=40).map("".join)


@pytest.mark.slow
@given(PIECES, st.lists(st.integers(0, 60)))
def test_however_it_is_cut_it_shows_the_same(text: str, cuts: list[int]) -> None:
    edges = sorted({0, *(cut for cut in cuts if cut < len(text)), len(text)})
    assert shown(*(text[start:end] for start, end in pairwise(edges))) == shown(text)


LINES = st.lists(st.text("ab\r\n", max_size=6), max_size=40).map("\n".join)


@pytest.mark.slow
@given(LINES, LINES)
def test_what_is_not_looked_at_is_counted(before: str, text: str) -> None:
    assert shown(before, text, max_examined=20) == shown(before, text)


@given(PIECES)
def test_it_stays_within_bounds(text: str) -> None:
    visible, earlier = shown(text)
    assert visible.count("\n") < TAIL_LINES
    assert earlier <= text.count("\n") + 1
    assert "\x1b" not in visible


CONTROLS = [
    "\x1b]52;c;aGVsbG8=\x07",
    "\x1b]52;c;aGVsbG8=\x1b\\",
    "\x1b]52;c;aGVsbG8=\x9c",
    "\x9d52;c;aGVsbG8=\x07",
    "\x1b]0;a title\x07",
    "\x1b]8;;http://evil\x1b\\",
    "\x1bP+q544e\x1b\\",
    "\x90+q544e\x9c",
    "\x1b_payload\x1b\\",
    "\x1b^payload\x1b\\",
    "\x1bXpayload\x1b\\",
    "\x1b[2J",
    "\x1b[1;1H",
    "\x1b[31m",
    "\x1b[?1049h",
    "\x9b2J",
    "\x9b31m",
    "\x1bc",
    "\x1b7",
    "\x1b(0",
    "\x08\x08",
    "\x07",
    "\x7f",
    "\x85",
    "\u202e",
    "\u2066",
    "\u202a",
]


@pytest.mark.parametrize("control", CONTROLS)
def test_nothing_controls_the_terminal(control: str) -> None:
    assert for_terminal(f"a{control}b\nc") == "ab\nc"


@pytest.mark.parametrize("control", CONTROLS)
def test_nor_does_what_is_left_of_it(control: str) -> None:
    for end in range(len(control)):
        left = for_terminal(f"a{control[:end]}")
        assert not any(char < " " or "\x7f" <= char < "\xa0" or char in "\u202a\u202e\u2066" for char in left)


def test_lines_of_a_terminal_are_kept() -> None:
    assert for_terminal("10 %\r100 %\r\nüber\tعربي 日本\n") == "100 %\nüber\tعربي 日本\n"
    assert for_terminal("kept\r") == "kept"


@pytest.mark.parametrize("shown", [Text, lambda text: Chart("", None, summary=text, description="")])  # type: ignore[arg-type]
def test_results_do_not_control_a_terminal(shown: Callable[[str], object]) -> None:
    assert repr(shown(f"a{''.join(CONTROLS)}b")) == "ab"


@pytest.mark.no_cover
@pytest.mark.parametrize("name", [*REPEATED, *BUILT], ids=repr)
def test_leaving_commands_out_takes_time_in_proportion_to_the_text(name: str) -> None:
    check_growth(plain, name, 15_000)


@pytest.mark.parametrize("text", ["“a”, and “b”; it\u2019s \u2018c\u2019", "groß und Übel", "Ýes Ûn"])
def test_text_that_was_read_in_another_encoding_keeps_its_words(text: str) -> None:
    misread = text.encode().decode("latin-1")
    assert plain(misread) == "".join(char for char in misread if not "\x7f" <= char <= "\x9f")


@pytest.mark.parametrize("text", ["\x9dtitle\nthe output\x07", "\x1b]title\nthe output\x07"])
def test_a_command_ends_with_its_line(text: str) -> None:
    assert plain(text).endswith("\nthe output")
    assert plain(text.replace("\n", " ")) == ""

"""One exact replacement, and diffs that say what it did."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planck_nb import ToolError
from planck_nb.tools.files import TextDiff, replace_once, text_diff

TEXT = st.text(st.sampled_from("ab\n é🎉"), max_size=30)


@pytest.mark.slow
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@given(before=TEXT, old=TEXT, new=TEXT, after=TEXT)
def test_an_edit_and_its_reverse_give_the_bytes_from_before(
    newline: str, before: str, old: str, new: str, after: str
) -> None:
    data = (before + old + after).replace("\n", newline).encode()
    try:
        edited = replace_once(data, old, new, "f")
        assume(newline == "\n" or (b"\r\n" in edited) == (b"\r\n" in data))  # else nothing says how its lines end
        restored = replace_once(edited, new, old, "f")
    except ToolError:
        assume(False)
    assert restored == data


@pytest.mark.parametrize(
    ("data", "old", "said"),
    [
        (b"abc", "x", "old_string not found in f"),
        (b"abab", "ab", "appears more than once in f"),
        (b"aaa", "aa", "appears more than once in f"),
        (b"abc", "", "old_string is empty"),
        (b"abc", "new", "are the same"),
        (b"abc", "\ud800", "half of a surrogate pair"),
    ],
)
def test_what_is_not_one_exact_match_is_refused(data: bytes, old: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        replace_once(data, old, "new", "f")


def test_line_ends_and_foreign_bytes_stay() -> None:
    assert replace_once(b"one\r\ntwo\r\nthree\r\n", "one\ntwo", "1\n2\n2b", "f") == b"1\r\n2\r\n2b\r\nthree\r\n"
    assert replace_once(b"one\r\ntwo\nthree\n", "two\n", "2\n", "f") == b"one\r\n2\nthree\n"
    assert replace_once(b"\xe9\xff one \xe9", "one", "é", "f") == b"\xe9\xff \xc3\xa9 \xe9"


@pytest.mark.process
@settings(max_examples=60, deadline=None)
@given(old=st.lists(st.sampled_from("abc"), max_size=12), new=st.lists(st.sampled_from("abc"), max_size=12))
@pytest.mark.parametrize("many", [0, 2_500])
def test_patch_understands_the_diff(
    tmp_path_factory: pytest.TempPathFactory, many: int, old: list[str], new: list[str]
) -> None:
    common = [f"line {number}" for number in range(many)]
    before, after = ("".join(f"{line}\n" for line in common + lines + common) for lines in (old, new))
    assume(before != after)
    folder = Path(tmp_path_factory.mktemp("patch"))
    (folder / "f").write_text(before)
    changed = text_diff(before.encode(), after.encode(), "f")
    subprocess.run(["git", "apply", "--unidiff-zero", "-"], cwd=folder, input=changed.text.encode(), check=True)
    assert (folder / "f").read_text() == after
    assert len(old) - changed.removed == len(new) - changed.added
    assert changed.text.count("\n+") - 1 == changed.added


def test_diffs_are_bounded_and_linear() -> None:
    before, after = b"a\n" * 200_000, b"b\n" * 200_000
    changed = text_diff(before, after, "f")
    assert len(changed.text) < 15_000
    assert "left out" in changed.text
    assert (changed.added, changed.removed) == (200_000, 200_000)
    assert text_diff(b"\0", b"ab", "f") == TextDiff("[binary: 1 bytes became 2]", 0, 0)
    changed = text_diff(b"a", b"b\n", "f")
    assert changed.text.endswith("-a\n\\ No newline at end of file\n+b\n")
    assert (changed.added, changed.removed) == (1, 1)
    assert text_diff(b"a\n", b"++ b\n-- c\na\n", "f").added == 2

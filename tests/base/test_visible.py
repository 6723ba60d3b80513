"""Characters that cannot be seen are spelled out."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planck_nb.base.visible import LOOKALIKES, literal, visible

CODES = range(sys.maxunicode + 1)
HIDDEN = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"}
IGNORABLE = [0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180F, 0x3164, 0xFE0F, 0xFFA0, 0xE0001, 0xE01EF, 0xE0FFF]


@pytest.mark.slow
def test_every_character_without_a_glyph_is_spelled_out() -> None:
    texts = [f"a{chr(code)}b" for code in CODES]
    texts[ord("\n")] = "a b"
    shown = visible("\n".join(texts)).split("\n")
    kept = [code for code, text, seen in zip(CODES, texts, shown, strict=True) if seen == text]
    blank = [chr(code) for code in kept if unicodedata.category(chr(code)) in HIDDEN]
    assert blank == ["\t", "\n", " "]
    assert not set(kept) & {*IGNORABLE, 0x2800, 0x1D159}
    assert len(kept) > 100_000


@pytest.mark.parametrize("code", [0x061C, 0x202E, 0x2066, 0x200D, 0xFEFF, 0x00AD, 0x00A0, 0x3000, 0x2028, 0xD800, 0x1F])
def test_the_code_is_shown(code: int) -> None:
    assert visible(f"ls {chr(code)}x") == f"ls ⟨U+{code:04X}⟩x"


def test_what_can_be_seen_stays_as_it_is() -> None:
    for text in ("ls -la\n\tx", "naïve Müller Ωμέγα", "日本語", "⟨a|b⟩", "x² ≤ ½ π", "🙂"):
        assert visible(text) == text


def test_no_text_can_pretend_to_be_spelled_out() -> None:
    assert visible("⟨U+202E⟩") == "⟨U+27E8⟩U+202E⟩"
    assert literal("⟨U+202E⟩") == "\u202e"
    assert literal("⟨U+FFFFFF⟩") == "⟨U+FFFFFF⟩"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("c\u0430t x", "c⟨U+0430⟩t x"),
        ("\u03bfpen", "⟨U+03BF⟩pen"),
        ("кот и cat", "кот и cat"),
        ("ls\uff1b rm", "ls⟨U+FF1B⟩ rm"),
        ("ls\u037e rm", "ls⟨U+037E⟩ rm"),
        ("\U0001d42bm", "⟨U+1D42B⟩m"),
        ("naïve Müller_2", "naïve Müller_2"),
        ("日本語test", "日本語test"),
        ("\u30ce\u30fc\u30c81 10 \u00b5m", "\u30ce\u30fc\u30c81 10 \u00b5m"),
        ("https://good.com\u2215x.evil.example", "https://good.com⟨U+2215⟩x.evil.example"),
        ("https://good.com\u30ceevil.example", "https://good.com⟨U+30CE⟩evil.example"),
        ("\u0430\u0440\u0440\u04cf\u0435.com", "⟨U+0430⟩⟨U+0440⟩⟨U+0440⟩⟨U+04CF⟩⟨U+0435⟩.com"),
        ("пример.com", "пример.com"),
        ("rm \u2013rf \u201cx; y\u201d", "rm ⟨U+2013⟩rf ⟨U+201C⟩x; y⟨U+201D⟩"),
        ("b\u0131n/g\u0251\u0251gle", "b⟨U+0131⟩n/g⟨U+0251⟩⟨U+0251⟩gle"),
        ("a\u0660b \u05d0c \U0001d6fcd", "a⟨U+0660⟩b ⟨U+05D0⟩c ⟨U+1D6FC⟩d"),
    ],
)
def test_lookalikes_of_ascii_are_spelled_out_on_request(text: str, shown: str) -> None:
    assert visible(text, lookalikes=True) == shown


CODES_OF_LOOKALIKES = [code for codes in LOOKALIKES.values() for code in codes.split()]


@pytest.mark.parametrize("code", CODES_OF_LOOKALIKES)
def test_every_lookalike_in_the_list_is_spelled_out(code: str) -> None:
    assert visible(f"https://good.com{chr(int(code, 16))}x", lookalikes=True) == f"https://good.com⟨U+{code}⟩x"


@given(st.text(st.one_of(st.characters(exclude_categories=()), st.sampled_from("⟨U+27E8⟩\ud800")), max_size=20))
def test_what_is_spelled_out_can_be_read_back(text: str) -> None:
    for lookalikes in (False, True):
        shown = visible(text, lookalikes=lookalikes)
        assert literal(shown) == text
        assert shown.encode().decode() == shown

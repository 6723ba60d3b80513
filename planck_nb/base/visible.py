"""Spells out invisible and ambiguous characters: `⟨U+202E⟩`."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence

_KEPT = frozenset(" \n\t")
_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
"""Controls, formats, unassigned, private, surrogates, and every kind of blank."""

_BLANK = frozenset(
    map(
        chr,
        (
            0x034F,  # default ignorable, although its category is usually visible, like the following ones
            0x115F,
            0x1160,
            0x17B4,
            0x17B5,
            0x3164,
            0xFFA0,
            *range(0x180B, 0x1810),
            *range(0xFE00, 0xFE10),
            *range(0xE0000, 0xE1000),
            0x2800,  # blank, but not ignorable
            0x16FE4,
            0x1D159,
            0x13441,
            0x13442,
        ),
    )
)

_LOOKALIKE_SCRIPTS = frozenset("ARMENIAN CHEROKEE COPTIC CYRILLIC DESERET GEORGIAN GREEK LISU OSAGE WARANG".split())
"""First words in letter names whose scripts resemble A to Z."""

_WORD = re.compile(r"\w+")
_SPELLED = re.compile(r"⟨U\+([0-9A-F]{4,6})⟩")
_OPENING = re.compile(r"⟨(?=U\+)")


def visible(text: str, *, lookalikes: bool = False) -> str:
    r"""Return the text with every invisible character spelled out.

    `literal` reverses this.

    Spelled out are control characters other than tabs and line feeds, characters which reorder or format text, all
    blanks but the space, variation selectors, lone surrogates, and unassigned code points. Text which looks like a
    spelled-out character is spelled out itself, so it cannot pass for one.

    Args:
        text: Any text.
        lookalikes: Whether to spell out characters which resemble ASCII, too: those which compatibility normalisation
            turns into ASCII, and letters from other alphabets in a word with letters from A to Z.

    Returns:
        The text, whose characters are all visible and encodable.

    Example:
        >>> visible("ls \u202e")
        'ls ⟨U+202E⟩'
        >>> visible("c\u0430t", lookalikes=True), visible("кот", lookalikes=True)
        ('c⟨U+0430⟩t', 'кот')
    """
    text = _OPENING.sub(_spell_out("⟨"), text)
    if text.isascii() and text.isprintable():
        return text
    if lookalikes:
        if any(map(_of_other_alphabet, set(text))):
            text = _WORD.sub(_without_lookalikes, text)
        text = text.translate({ord(char): _spell_out(char) for char in set(text) if _normalises_to_ascii(char)})
    return text.translate({ord(char): _spell_out(char) for char in set(text) if is_hidden(char)})


def noun_with_names(noun: str, names: Sequence[str]) -> str:
    """Return a noun with its visible names.

    Example:
        >>> noun_with_names("tool", ["a", "b"])
        'the tools a, b'
    """
    texts = ", ".join(visible(name, lookalikes=True) for name in names)
    return f"the {noun}{'' if len(names) == 1 else 's'} {texts}"


def series(parts: Iterable[str]) -> str:
    """Join at least one text, with "and" before the last.

    Example:
        >>> series(["a", "b", "c"])
        'a, b and c'
    """
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def literal(text: str) -> str:
    """Return the original text, as the inverse of `visible`."""
    return _SPELLED.sub(_character, text)


def is_hidden(char: str) -> bool:
    """Return whether a character is invisible, and so is spelled out."""
    return char not in _KEPT and (unicodedata.category(char) in _CATEGORIES or char in _BLANK)


def _spell_out(char: str) -> str:
    return f"⟨U+{ord(char):04X}⟩"


def _character(match: re.Match[str]) -> str:
    code = int(match[1], 16)
    return chr(code) if code <= sys.maxunicode else match[0]


def _without_lookalikes(match: re.Match[str]) -> str:
    word = match[0]
    if word.isascii() or not re.search("[A-Za-z]", word):
        return word
    return "".join(_spell_out(char) if _of_other_alphabet(char) else char for char in word)


def _of_other_alphabet(char: str) -> bool:
    return not char.isascii() and unicodedata.name(char, "").partition(" ")[0] in _LOOKALIKE_SCRIPTS


def _normalises_to_ascii(char: str) -> bool:
    return not char.isascii() and not is_hidden(char) and unicodedata.normalize("NFKC", char).isascii()

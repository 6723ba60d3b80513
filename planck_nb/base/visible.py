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

_LOOKALIKE_SCRIPTS = frozenset(
    "AHOM ARABIC ARMENIAN BAMUM BENGALI CANADIAN CARIAN CHEROKEE COPTIC CYRILLIC DESERET DEVANAGARI ELBASAN ETHIOPIC "
    "EXTENDED GEORGIAN GREEK GUJARATI GURMUKHI HEBREW KANNADA LAO LISU LYCIAN MALAYALAM MIAO MYANMAR NKO OLD ORIYA "
    "OSAGE RUNIC TAMIL TELUGU THAI TIFINAGH TIRHUTA VAI WARANG".split()
)
"""First words in names, for scripts which resemble ASCII."""

_WHOLE_WORDS = frozenset(
    map(
        chr,
        (
            *(0x430, 0x435, 0x43A, 0x43C, 0x43E, 0x440, 0x441, 0x443, 0x445, 0x455, 0x456, 0x458, 0x475, 0x4AF, 0x4BB),
            *(0x4CF, 0x501, 0x50D, 0x51B, 0x51D, 0x405, 0x406, 0x408, 0x410, 0x412, 0x415, 0x41A, 0x41C, 0x41D, 0x41E),
            *(0x420, 0x421, 0x422, 0x423, 0x425, 0x391, 0x392, 0x395, 0x396, 0x397, 0x399, 0x39A, 0x39C, 0x39D, 0x39F),
            *(0x3A1, 0x3A4, 0x3A5, 0x3A7, 0x3B1, 0x3B3, 0x3B9, 0x3BD, 0x3BF, 0x3C1, 0x3C3, 0x3C5, 0x3F2, 0x3F3),
        ),
    )
)
"""Cyrillic and Greek letters in words which resemble ASCII as a whole."""

LOOKALIKES = {
    "!": "01C3",
    "&": "A778",
    "'": "00B4 02B9 02BA 02BB 02BC 02BD 02BE 02C8 02CA 02CB 02DD 02EE 02F4 02F6 0384 055A 055D 05F3 05F4 07F4 07F5 "
    "1CD3 1FBD 1FBF 1FFD 1FFE 2018 2019 201B 201C 201D 201F 2032 2033 2034 2035 2036 2037 2057 3003 A78C 16F51 16F52",
    "(": "2768 2772 2E28 3014 FD3E",
    ")": "2769 2773 2E29 3015 FD3F",
    "*": "204E 2217",
    "+": "16ED 2795",
    ",": "00B8 201A",
    "-": "02D7 06D4 2010 2011 2012 2013 2043 2212 2796 A4FE FE58",
    ".": "0660 06F0 0701 0702 3002 A60E FF61",
    "/": "1735 2041 2044 2215 2571 27CB 29F8 2AFB 2AFD 2F03 3033 30CE 31D3 4E3F",
    ":": "02D0 02F8 0589 05C3 0703 0704 0903 0A83 16EC 1803 1809 205A 2236 A789",
    "<": "02C2 2039 22D8 276E",
    "=": "1400 2E40 30A0 A4FF",
    ">": "02C3 203A 22D9 276F 2A20 2AA5",
    "?": "0241 0294",
    "\\": "2216 244A 27CD 29F5 29F9 2CF9 2F02 31D4 4E36",
    "^": "02C4 02C6",
    "{": "2774",
    "}": "2775",
    "|": "01C0 01C1 2223 2758 23FD FFE8",
    "~": "02DC 1FC0 2053 223C",
    "0-9": "01A7 A75A 01B7 021C A76A A7AB 01BC 0222 0223 3007 A76E",
    "A-Z": "01A6 A798 A7B2 A7B3 A7B4",
    "a-z": "0131 0184 018D 0196 01BD 0251 0261 0263 0269 026A 026F 028B 028F 1D04 1D0F 1D11 1D1C 1D20 1D21 1D22 1D83 "
    "1D8C 1E9D 1EFF A731 A799 A79F AB32 AB35 AB3D AB47 AB48 AB4E AB52 AB5A",
}
"""Codes by the characters which they resemble.

Letters and digits are spelled out beside ASCII ones, all others everywhere. The facts are Unicode's:
https://www.unicode.org/reports/tr39/#Confusable_Detection.
"""

_LOOKALIKES = frozenset(chr(int(code, 16)) for codes in LOOKALIKES.values() for code in codes.split())
_SYMBOLS = frozenset(char for char in _LOOKALIKES if not char.isalnum())
_LETTERS = "".join(sorted(_LOOKALIKES - _SYMBOLS))
_LETTER = re.compile(f"(?<=[A-Za-z0-9])[{_LETTERS}]|[{_LETTERS}](?=[A-Za-z0-9])")

_NAME = re.compile(r"[\w.-]+")
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
            turns into ASCII, those in `LOOKALIKES`, letters from other alphabets in a word with letters from A to Z,
            and words which resemble ASCII as a whole, in a name with such letters.

    Returns:
        The text, whose characters are all visible and encodable.

    Example:
        >>> visible("ls \u202e")
        'ls ⟨U+202E⟩'
        >>> visible("c\u0430t", lookalikes=True), visible("кот", lookalikes=True)
        ('c⟨U+0430⟩t', 'кот')
        >>> visible("good.com\u2215x.org", lookalikes=True)
        'good.com⟨U+2215⟩x.org'
    """
    text = _OPENING.sub(_spell_out("⟨"), text)
    if text.isascii() and text.isprintable():
        return text
    if lookalikes:
        if any(map(_of_other_alphabet, set(text))):
            text = _NAME.sub(_without_lookalikes, text)
        text = _LETTER.sub(lambda match: _spell_out(match[0]), text)
        text = text.translate({ord(char): _spell_out(char) for char in set(text) if _resembles_ascii(char)})
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
    name = match[0]
    if name.isascii() or not re.search("[A-Za-z]", name):
        return name
    return _WORD.sub(_spelled_word, name)


def _spelled_word(match: re.Match[str]) -> str:
    """Spell out a word's foreign letters if it resembles ASCII."""
    word = match[0]
    if word.isascii() or not (re.search("[A-Za-z]", word) or _WHOLE_WORDS.issuperset(word)):
        return word
    return "".join(_spell_out(char) if _of_other_alphabet(char) else char for char in word)


def _of_other_alphabet(char: str) -> bool:
    script = _script(char)
    if script == "MATHEMATICAL":
        script = _script(unicodedata.normalize("NFKC", char)[:1])
    return script in _LOOKALIKE_SCRIPTS


def _script(char: str) -> str:
    return "" if char.isascii() else unicodedata.name(char, "").partition(" ")[0]


def _resembles_ascii(char: str) -> bool:
    return char in _SYMBOLS or (
        not char.isascii() and not is_hidden(char) and unicodedata.normalize("NFKC", char).isascii()
    )

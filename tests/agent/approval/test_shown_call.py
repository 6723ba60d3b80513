"""A call's text and size for the person who decides about it."""

from __future__ import annotations

import pytest

from planck_nb.agent.approval.shown_call import CallSize, argument_text, call_size, value_text
from planck_nb.agent.effect import Effect, EffectKind

CYRILLIC = "c\u0430t"
"""A word with a letter from another alphabet."""


@pytest.mark.parametrize(
    ("characters", "lines", "fits"),
    [(200_000, 20_000, True), (200_001, 1, False), (1, 20_001, False), (200_001, 20_001, False)],
)
def test_a_person_is_asked_about_a_call_up_to_its_limits(characters: int, lines: int, *, fits: bool) -> None:
    assert CallSize(characters, lines).can_be_shown is fits


def test_names_values_and_other_targets_count() -> None:
    assert call_size({}, ()) == (0, 1)
    assert call_size({"command": "ls\npwd"}, [Effect("execute", "ls\npwd")]) == (13, 2)
    assert call_size({"a": "x\ny"}, [Effect("write", "/p\n\n")]) == (8, 4)
    assert call_size({"a": [1, "\u00e4"]}, ()) == (9, 1)


def test_hidden_characters_count_as_they_are_spelled_out() -> None:
    hidden, spelled = "\u202e" * 30_000, 8 * 30_000
    assert call_size({"c": hidden}, [Effect("write", "/p")]) == (1 + spelled + 2, 1)
    assert call_size({"c": "x" * 30_000, "\u202e": ""}, [Effect("write", "\u202e")]) == (30_017, 1)
    assert call_size({"c": "\u202e" * 24_000}, ()).characters == 1 + 8 * 24_000
    assert not call_size({"c": "\u202e" * 25_000}, ()).can_be_shown
    # Far too long as it is: nothing is spelled out.
    assert call_size({"c": "\u202e" * 200_000}, ()) == (200_001, 1)


@pytest.mark.parametrize("kind", ["read", "write", "execute", "network"])
def test_lookalikes_are_spelled_out_except_in_contents_of_files(kind: EffectKind) -> None:
    shown = argument_text("content", CYRILLIC, [Effect(kind, "x")])
    assert shown == (CYRILLIC if kind in {"read", "write"} else "c⟨U+0430⟩t")
    assert argument_text("path", CYRILLIC, [Effect(kind, "x")]) == "c⟨U+0430⟩t"
    assert argument_text("content", "a\u202e", [Effect(kind, "x")]) == "a⟨U+202E⟩"


def test_lookalikes_are_spelled_out_if_nothing_is_known_about_a_call() -> None:
    assert argument_text("content", CYRILLIC, ()) == "c⟨U+0430⟩t"


def test_values_as_text() -> None:
    assert value_text('a "word"') == 'a "word"'
    assert value_text({"\u00e4": [1, None]}) == '{"\u00e4": [1, null]}'
    assert value_text({1}) == '"{1}"'
